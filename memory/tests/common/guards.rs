//! Guards that tests remove, in a build with `--cfg ceasefire_sabotage`. Other builds have none to name.

use ceasefire_memory::{Machine, Memory};

#[cfg(ceasefire_sabotage)]
pub(crate) use ceasefire::sabotage::Guard as Engine;
#[cfg(ceasefire_sabotage)]
pub(crate) use ceasefire_memory::sabotage::Guard as Own;

/// A guard of the engine or one of the memory manager's own. In a build without the cfg no value exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    #[cfg(ceasefire_sabotage)]
    Engine(Engine),
    #[cfg(ceasefire_sabotage)]
    Own(Own),
}

#[cfg(ceasefire_sabotage)]
impl From<Engine> for Guard {
    fn from(guard: Engine) -> Self {
        Self::Engine(guard)
    }
}

#[cfg(ceasefire_sabotage)]
impl From<Own> for Guard {
    fn from(guard: Own) -> Self {
        Self::Own(guard)
    }
}

/// Removes guards for the rest of the memory manager's life.
pub(crate) fn remove<P: Machine>(memory: &Memory<P>, guards: impl IntoIterator<Item = impl Into<Guard>>) {
    guards.into_iter().for_each(|guard| take_away(memory, guard.into()));
}

#[cfg(ceasefire_sabotage)]
fn take_away<P: Machine>(memory: &Memory<P>, guard: Guard) {
    match guard {
        Guard::Engine(guard) => memory.engine().remove_guard(guard),
        Guard::Own(guard) => memory.remove_guard(guard),
    }
}

#[cfg(not(ceasefire_sabotage))]
fn take_away<P: Machine>(_: &Memory<P>, guard: Guard) {
    match guard {}
}
