//! Runs of `tiered-inference`: every page of weights comes from the device, for every token.

use ceasefire_experiments::{Plan, Report};
use ceasefire_memory::PAGE_BYTES;

use crate::plan_on;

fn run(cpus: u32) -> Report {
    let plan = plan_on("tiered-inference", "xeon-6430-cxl", cpus);
    let plan = Plan { scale: 1.0 / 1000.0, oracle: true, shadow: true, ..plan };
    plan.run(|_| ()).expect("it runs to its end")
}

#[test]
fn every_page_comes_from_the_device_for_every_token_and_replaces_another() {
    let report = run(64);
    assert_eq!((report.threads, report.operations), (45, 9));
    assert_eq!((report.violations, report.loads_wrong), (0, None), "{:?}", report.broken);
    let read = report.operations * ((70 << 30) / 1000 / PAGE_BYTES);
    // At least nine tenths: the CPUs of a small machine keep some of its memory.
    assert!(report.pages_reclaimed * 10 > read * 9, "{} of {read}", report.pages_reclaimed);
    assert!(report.pages_migrated > 0 && report.interrupts > 0);
    assert!(report.tlb_misses_load > read && report.tlb_misses_fetch > 0 && report.tlb_misses_store > 0);
}

#[test]
fn a_machine_with_few_cpus_runs_few_threads() {
    let report = run(2);
    assert_eq!((report.threads, report.operations, report.loads_wrong), (3, 9, None));
}
