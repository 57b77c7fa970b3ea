//! The one memory manager of this kernel, and what the kernel itself asks of it: which space a CPU runs in, and the answer to
//! an interrupt of another CPU.

use core::sync::atomic::Ordering;

use ceasefire::Platform;
use ceasefire_memory::{Memory, SpaceHandle};
use spin::Once;

use crate::arch::{this_cpu, tlb};

/// The machine.
#[derive(Debug)]
pub(crate) struct Kernel;

pub(super) static MEMORY: Once<Memory<Kernel>> = Once::new();
/// The memory manager.
///
/// # Panics
/// Before [`set_memory`].
pub(crate) fn memory() -> &'static Memory<Kernel> {
    MEMORY.get().expect("memory is managed from the start")
}

/// This CPU runs in that space from now on, or in none. With interrupts off.
pub(crate) fn run(space: Option<&SpaceHandle<Kernel>>) {
    let Some(memory) = MEMORY.get() else { return };
    match space {
        // What it gives up is a reference: what it may free is on the heap alone, since page tables go when a process ends.
        Some(space) => drop(memory.engine().switch_to(space)),
        None => memory.engine().enter_lazy(),
    }
    if memory.engine().platform().capabilities().broadcast.is_some() {
        tlb::broadcast_wait();
    }
}

/// Answers what other CPUs ask this one for.
pub(crate) fn answer() {
    let here = this_cpu::get();
    here.answering.store(true, Ordering::Relaxed);
    memory().engine().handle_interrupt();
    here.answering.store(false, Ordering::Relaxed);
}
