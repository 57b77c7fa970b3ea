//! Guards that tests remove, in a build with `--cfg ceasefire_sabotage`. Other builds have none to name.

use ceasefire::{Engine, Platform};

#[cfg(ceasefire_sabotage)]
pub(crate) use ceasefire::sabotage::Guard;

/// A guard of the engine: no value exists.
#[cfg(not(ceasefire_sabotage))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {}

/// Removes guards for the rest of the engine's life.
pub(crate) fn remove<P: Platform>(engine: &Engine<P>, guards: impl IntoIterator<Item = Guard>) {
    guards.into_iter().for_each(|guard| take_away(engine, guard));
}

#[cfg(ceasefire_sabotage)]
fn take_away<P: Platform>(engine: &Engine<P>, guard: Guard) {
    engine.remove_guard(guard);
}

#[cfg(not(ceasefire_sabotage))]
fn take_away<P: Platform>(_: &Engine<P>, guard: Guard) {
    match guard {}
}
