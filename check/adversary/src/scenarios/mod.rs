//! The scenarios, in the order of the record of bugs: one file for each of its chapters.
//!
//! A scenario's name begins with the letter and the number of its entry in the record. Chapter O is about orderings, and
//! has no entries there.

mod cores;
mod deferred;
mod devices;
mod errata;
mod fills;
mod frames;
mod holes;
mod memory;
mod memory_random;
mod random;
mod ranges;
mod rights;
mod tables;
mod tags;
mod targets;

use ceasefire::sabotage::Guard;

use crate::kernel::Kernel;
use crate::promise::Promise;
use crate::scenario::{Removed, Scenario};

/// All scenarios.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    let chapters = [
        frames::SCENARIOS,
        deferred::SCENARIOS,
        tables::SCENARIOS,
        targets::SCENARIOS,
        tags::SCENARIOS,
        ranges::SCENARIOS,
        rights::SCENARIOS,
        fills::SCENARIOS,
        devices::SCENARIOS,
        errata::SCENARIOS,
        holes::SCENARIOS,
        memory::SCENARIOS,
        cores::SCENARIOS,
    ];
    chapters.into_iter().flatten()
}

/// Programs of random operations, each on another machine.
pub fn random() -> &'static [Scenario] {
    random::SCENARIOS
}

/// Without a guard of the engine.
const fn without(guard: Guard) -> Removed {
    Removed::Guard(guard)
}

/// On hardware that does not keep a promise.
const fn breaking(promise: Promise) -> Removed {
    Removed::Promise(promise)
}

/// One space with page 1 mapped for stores.
fn one_page(kernel: &Kernel) {
    let p = kernel.add_space();
    kernel.map(&p, 1, true);
}

/// One space with pages 1 and 2 mapped for stores.
fn two_pages(kernel: &Kernel) {
    one_page(kernel);
    kernel.map(&kernel.space(0), 2, true);
}

/// One space with page 1 mapped for loads.
fn read_only_page(kernel: &Kernel) {
    let p = kernel.add_space();
    kernel.map(&p, 1, false);
}

/// One space with a huge page at page 4.
fn one_huge_page(kernel: &Kernel) {
    let p = kernel.add_space();
    kernel.map_huge(&p, 4, true);
}

/// Runs the first space and uses page 1 again and again. An entry that a load has filled serves no store.
fn stores(kernel: &Kernel) {
    stores_to(kernel, 1);
}

fn stores_to(kernel: &Kernel, page: u64) {
    kernel.run(&kernel.space(0));
    for _ in 0..4 {
        kernel.store(page);
        kernel.load(page);
    }
}

/// Runs the first space and loads page 1 again and again.
fn loads(kernel: &Kernel) {
    kernel.run(&kernel.space(0));
    for _ in 0..6 {
        kernel.load(1);
    }
}

/// Runs the first space for one store, then rests in it, and comes back.
fn rests(kernel: &Kernel) {
    kernel.run(&kernel.space(0));
    kernel.store(1);
    kernel.rest();
    pause(kernel, 4);
    kernel.run(&kernel.space(0));
    kernel.store(1);
    kernel.store(1);
}

/// Lets some steps pass. The CPU answers interrupts.
fn pause(kernel: &Kernel, steps: u32) {
    for _ in 0..steps {
        kernel.hardware().step();
    }
}

fn unmaps(kernel: &Kernel) {
    kernel.unmap(&kernel.space(0), 1..2);
}
