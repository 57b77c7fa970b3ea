//! Runs of `switching` and the experiments beside it: every load is right, and the figures have the expected order.

use ceasefire_experiments::{Plan, Report};

use crate::plan_on;

fn run(experiment: &str, cpus: u32) -> Report {
    let plan =
        Plan { scale: 0.25, oracle: true, shadow: true, ..plan_on(experiment, "2-socket-intel", cpus) };
    let report = plan.run(|_| ()).expect("a run");
    let unmaps = experiment != "switching";
    assert_eq!((report.violations, report.loads_wrong), (0, unmaps.then_some(0)), "{:?}", report.broken);
    assert!(report.loads_compared.is_some() == unmaps && report.operations > 10, "{report:?}");
    report
}

#[test]
fn cpus_take_turns_without_interrupts() {
    let (few, many) = (run("switching", 2), run("switching", 8));
    assert_eq!((few.threads, many.threads), (4, 16));
    assert_eq!((many.interrupts, many.shootdowns), (0, 0), "no CPU unmaps anything");
    assert!(many.operations > 2 * few.operations, "each CPU takes turns of its own");
    assert!(few.latency.is_none());
}

#[test]
fn an_unmap_waits_for_cpus_that_run_its_process_and_for_no_others() {
    let (running, left) = (run("switching-unmap", 8), run("switching-left", 8));
    for report in [&running, &left] {
        assert_eq!(report.threads, 15);
        assert_eq!(report.latency.map(|latency| latency.count), Some(report.operations));
    }
    assert!(running.interrupts > running.operations, "more than one CPU for each unmap");
    assert_eq!(left.interrupts, 0);
    let median = |report: &Report| report.latency.map_or(0.0, |latency| latency.p50_s);
    assert!(median(&running) > median(&left));
}
