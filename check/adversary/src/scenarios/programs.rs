//! Spaces and programs that many scenarios share, and short names for the things that they take away.

use ceasefire::sabotage::Guard;

use crate::model::promise::Promise;
use crate::model::removed::Removed;
use crate::subject::kernel::Kernel;

/// Without a guard of the engine.
pub(super) const fn without(guard: Guard) -> Removed {
    Removed::Guard(guard)
}

/// On hardware that does not keep a promise.
pub(super) const fn breaking(promise: Promise) -> Removed {
    Removed::Promise(promise)
}

/// One space with page 1 mapped for stores.
pub(super) fn one_page(kernel: &Kernel) {
    let p = kernel.add_space();
    kernel.map(&p, 1, true);
}

/// One space with pages 1 and 2 mapped for stores.
pub(super) fn two_pages(kernel: &Kernel) {
    one_page(kernel);
    kernel.map(&kernel.space(0), 2, true);
}

/// One space with page 1 mapped for loads.
pub(super) fn read_only_page(kernel: &Kernel) {
    let p = kernel.add_space();
    kernel.map(&p, 1, false);
}

/// One space with a huge page at page 4.
pub(super) fn one_huge_page(kernel: &Kernel) {
    let p = kernel.add_space();
    kernel.map_huge(&p, 4, true);
}

/// Runs the first space and uses page 1 again and again. An entry that a load has filled serves no store.
pub(super) fn stores(kernel: &Kernel) {
    stores_to(kernel, 1);
}

pub(super) fn stores_to(kernel: &Kernel, page: u64) {
    kernel.run(&kernel.space(0));
    for _ in 0..4 {
        kernel.store(page);
        kernel.load(page);
    }
}

/// Runs the first space and loads page 1 again and again.
pub(super) fn loads(kernel: &Kernel) {
    kernel.run(&kernel.space(0));
    for _ in 0..6 {
        kernel.load(1);
    }
}

/// Runs the first space for one store, then rests in it, and comes back.
pub(super) fn rests(kernel: &Kernel) {
    kernel.run(&kernel.space(0));
    kernel.store(1);
    kernel.rest();
    pause(kernel, 4);
    kernel.run(&kernel.space(0));
    kernel.store(1);
    kernel.store(1);
}

/// Lets some steps pass. The CPU answers interrupts.
pub(super) fn pause(kernel: &Kernel, steps: u32) {
    for _ in 0..steps {
        kernel.hardware().step();
    }
}

pub(super) fn unmaps(kernel: &Kernel) {
    kernel.unmap(&kernel.space(0), 1..2);
}

/// Page 1 of the kernel's ranges.
pub(super) fn kernel_page(kernel: &Kernel) {
    kernel.map_kernel(1);
}

pub(super) fn unmaps_kernel_page(kernel: &Kernel) {
    kernel.unmap_kernel(1, false);
}

/// Loads page 1 of the kernel's ranges again and again.
pub(super) fn loads_kernel_page(kernel: &Kernel) {
    for _ in 0..8 {
        kernel.load_kernel(1);
    }
}

/// A device stores to page 1 again and again.
pub(super) fn device_stores(kernel: &Kernel) {
    device_stores_to(kernel, 1);
}

pub(super) fn device_stores_to(kernel: &Kernel, page: u64) {
    for _ in 0..8 {
        kernel.device_store(page);
    }
}

pub(super) fn unmaps_table(kernel: &Kernel) {
    kernel.unmap_with_table(&kernel.space(0), 0);
}

/// The kernel's code walks to page 1 of the first space, again and again.
pub(super) fn walks(kernel: &Kernel) {
    (0..6).for_each(|_| kernel.walk(&kernel.space(0), 1));
}

/// A second CPU runs the space: the walker's CPU.
pub(super) fn runs_and_walks(kernel: &Kernel) {
    kernel.run(&kernel.space(0));
    walks(kernel);
}
