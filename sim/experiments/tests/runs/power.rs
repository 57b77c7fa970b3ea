//! Every experiment that compares loads finds a missing flush by them: without the guard, loads are wrong.
//!
//! Each test removes the flush on which the experiment depends most.

use ceasefire::sabotage::Guard;
use ceasefire_experiments::Plan;

use crate::plan_on;

/// Runs an experiment on a few CPUs without some guards, and asserts that some loads were wrong.
fn finds(guards: &[Guard], name: &str, (machine, cpus): (&str, u32), scale: f64) {
    let plan = Plan { scale, oracle: true, ..plan_on(name, machine, cpus) };
    let report = plan.run_without(guards).expect("a run");
    assert!(report.loads_wrong > Some(0), "{:?} compared", report.loads_compared);
}

#[test]
fn mmap_read_finds_the_missing_flush_of_a_batch() {
    finds(&[Guard::BatchFlush], "mmap-read", ("1-socket", 6), 0.0015);
}

#[test]
fn small_machine_finds_the_missing_flush_of_a_batch() {
    finds(&[Guard::BatchFlush], "small-machine", ("small-vm", 4), 0.05);
}

#[test]
fn migrate_finds_the_missing_flush_of_a_batch() {
    finds(&[Guard::BatchFlush], "migrate", ("2-socket-intel", 4), 0.0005);
}

/// The readers' batches hardly reach the parents and children, which flush at once.
#[test]
fn fork_heavy_finds_the_missing_flush_of_a_fork() {
    finds(&[Guard::GatherFlush], "fork-heavy", ("1-socket", 4), 0.002);
}

#[test]
fn allocation_latency_finds_the_missing_flush_of_a_batch() {
    finds(&[Guard::BatchFlush], "allocation-latency", ("1-socket", 6), 0.0015);
}

/// Nearly every batch has a page that was stored to, so it flushes before write-out, and that flush stands in for the
/// one at its end.
#[test]
fn write_heavy_finds_the_missing_flushes_of_a_batch() {
    finds(&[Guard::BatchFlush, Guard::WritableFlush], "write-heavy", ("1-socket", 4), 0.002);
}

/// These experiments have no batches.
#[test]
fn experiments_that_unmap_find_the_missing_flush_of_an_unmap() {
    for name in ["tlb-flush2", "tlb-flush2-processes"] {
        finds(&[Guard::GatherFlush], name, ("milan-36", 4), 0.0001);
    }
    for name in ["switching-unmap", "switching-left"] {
        finds(&[Guard::GatherFlush], name, ("2-socket-intel", 4), 0.1);
    }
}
