//! The kernel's one memory manager, with the calls that the kernel itself makes to the engine: a CPU changes its
//! space, and enters the kernel or leaves it. `memory` implements what the memory manager asks for.

use ceasefire::Platform;
use ceasefire_memory::{Memory, SpaceHandle};
use spin::Once;

use crate::arch::tlb;

/// The machine, as the engine and the memory manager see it.
#[derive(Debug)]
pub(crate) struct Kernel;

static MEMORY: Once<Memory<Kernel>> = Once::new();

/// Sets the memory manager, once.
pub(crate) fn set(make: impl FnOnce() -> Memory<Kernel>) {
    MEMORY.call_once(make);
}

/// The memory manager.
///
/// # Panics
/// If [`set`] was not called before.
pub(crate) fn memory() -> &'static Memory<Kernel> {
    MEMORY.get().expect("the memory manager is made at the start")
}

/// Makes this CPU run in `space` from now on, or in none. Interrupts must be off.
pub(crate) fn run(space: Option<&SpaceHandle<Kernel>>) {
    let Some(memory) = MEMORY.get() else { return };
    match space {
        // This drops a reference. The last one gives back heap memory only, since page tables go when a process ends.
        Some(space) => drop(memory.engine().switch_to(space)),
        None => memory.engine().enter_lazy(),
    }
    if memory.engine().platform().capabilities().broadcast.is_some() {
        tlb::broadcast_wait();
    }
}

/// This CPU enters the kernel from a program, with interrupts off. No kernel range is used before.
pub(crate) fn enter() {
    memory().engine().enter_kernel();
}

/// This CPU leaves the kernel for a program, with interrupts off. No kernel range is used after it.
pub(crate) fn leave() {
    memory().engine().enter_user();
}
