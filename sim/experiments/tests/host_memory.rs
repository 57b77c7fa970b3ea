//! The estimate of the host's memory for a run, against what a run takes.
//!
//! This file has a single test, so that the process has no other runs.

#![cfg(target_os = "linux")]

use std::fs;

use ceasefire_experiments::{Experiment, Plan};
use ceasefire_machine::config::builtin;

/// The most memory that this process has had so far, in bytes.
fn most_so_far() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().expect("a number") * 1024
}

#[test]
fn a_run_takes_at_most_what_was_estimated() {
    // From the smallest to the largest, since the most so far never falls.
    for (experiment, machine, scale, oracle) in [
        ("tlb-flush2", "milan-36", 0.0002, false),
        ("mmap-read", "1-socket", 1.0 / 64.0, false),
        ("mmap-read", "1-socket", 1.0 / 256.0, true),
        ("migrate", "2-socket-intel", 1.0 / 128.0, true),
    ] {
        let machine = builtin(machine).expect("a listed name").expect("a valid file");
        let plan = Plan::new(Experiment::find(experiment).expect("an experiment"), machine);
        let plan = Plan { scale, oracle, shadow: oracle, ..plan };
        let before = most_so_far();
        let _ = plan.run(|_| ()).expect("a run");
        let (taken, estimate) = (most_so_far() - before, plan.host_bytes());
        assert!(taken <= estimate, "{experiment}: {taken} bytes, estimated {estimate}");
        // Part of the memory of earlier runs is used again, so only the largest shows that the bound is near.
        if experiment == "migrate" {
            assert!(taken * 4 > estimate, "{experiment}: {taken} bytes, estimated {estimate}");
        }
    }
}
