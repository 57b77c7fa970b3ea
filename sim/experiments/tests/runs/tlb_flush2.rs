//! Runs of `tlb-flush2`: loads are right, errors have reasons, and the figures have the shape of the paper's tables.

use ceasefire_experiments::{compare, published, Experiment, LruDrain, Mechanism, Plan, Report};

fn plan(machine: &str, mechanism: Mechanism) -> Plan {
    Plan { mechanism, scale: 1.0 / 4096.0, ..crate::plan("tlb-flush2", machine) }
}

fn run(plan: &Plan) -> Report {
    plan.run(|_| ()).expect("a run")
}

#[test]
fn no_load_finds_a_page_that_was_given_back_and_the_oracle_changes_no_figure() {
    for mechanism in Mechanism::ALL {
        for (threads, lru_drain) in [(5, LruDrain::Eager), (9, LruDrain::Batched)] {
            let plan =
                Plan { threads: Some(threads), lru_drain: Some(lru_drain), ..plan("milan-36", mechanism) };
            let watched = run(&Plan { oracle: true, shadow: true, ..plan.clone() });
            assert_eq!((watched.violations, watched.loads_wrong), (0, Some(0)), "{:?}", watched.broken);
            assert!(watched.loads_compared > Some(watched.operations) && watched.operations > 100);
            let alone = run(&plan);
            let figures = |report: &Report| {
                (
                    [report.operations, report.interrupts, report.broadcasts, report.flushes_full],
                    [report.tlb_misses_load, report.tlb_misses_store, report.faults],
                    report.lock_wait_s.to_bits(),
                )
            };
            assert_eq!(figures(&watched), figures(&alone), "{mechanism} with {threads} threads");
        }
    }
}

#[test]
fn broadcasts_take_the_place_of_interrupts_where_the_mechanism_turns_them_on() {
    for (mechanism, broadcasts) in
        [(Mechanism::Batched, false), (Mechanism::Broadcast, true), (Mechanism::All, true)]
    {
        let report = run(&Plan { threads: Some(16), ..plan("milan-36", mechanism) });
        assert_eq!(report.broadcasts > report.operations / 2, broadcasts, "{mechanism}");
        assert_eq!(report.interrupts < report.operations / 4, broadcasts, "{mechanism}");
    }
    // A machine whose hardware does not broadcast in reality may be simulated as if it did.
    let report = run(&Plan { threads: Some(8), ..plan("1-socket", Mechanism::Broadcast) });
    assert!(report.broadcasts > 0 && report.published.is_empty());
}

#[test]
fn a_plan_that_cannot_run_is_refused_with_the_reason() {
    let mut no_asids = plan("1-socket", Mechanism::Broadcast);
    no_asids.machine.processor.asids = false;
    let mut few_asids = plan("1-socket", Mechanism::All);
    few_asids.machine.processor.asid_space = 8;
    let crowded = Plan { threads: Some(37), ..plan("milan-36", Mechanism::Batched) };
    let no_threads = Plan { threads: Some(0), ..crowded.clone() };
    let migrate = Experiment::find("migrate").expect("an experiment");
    let fixed = Plan { experiment: migrate, threads: Some(2), ..plan("2-socket-intel", Mechanism::Batched) };
    for (plan, reason) in [
        (no_asids, "'broadcast' needs TLB entries with ASIDs, but this machine has none (processor.asids)"),
        (few_asids, "processor.asid_space, less the 2 that x86 does not use: 6 ASIDs are too few"),
        (crowded, "37 threads, each on its own CPU: must be 1 to 36"),
        (no_threads, "0 threads, each on its own CPU: must be 1 to 36"),
        (fixed, "the number of threads cannot be chosen for this experiment"),
    ] {
        let Err(error) = plan.run(|_| ()) else { panic!("must be refused: {reason}") };
        assert!(error.to_string().starts_with(reason), "{error}");
    }
}

#[test]
fn a_run_has_no_result_if_threads_fail_or_nothing_is_measured() {
    let experiment = Experiment::find("tlb-flush2-processes").expect("an experiment");
    // The two CPUs have 4 MiB here, and each of the 400 processes needs at least five frames.
    let crowd = Plan { experiment, threads: Some(1600), scale: 0.1, ..plan("small-vm", Mechanism::Batched) };
    let error = crowd.run(|_| ()).expect_err("memory runs out").to_string();
    assert!(error.contains(" of 1600 threads failed: "), "{error}");
    // All threads map their memory first, one after the other under one lock. For 2048 threads this takes more than 0.5
    // ms.
    let mut short = Plan { threads: Some(36), ..plan("milan-36", Mechanism::Batched) };
    short.scale = 0.0001;
    short.machine = short.machine.with_cpus(2048).expect("allowed");
    short.threads = Some(2048);
    let error = short.run(|_| ()).expect_err("too short").to_string();
    assert_eq!(error, "at scale 0.0001 no operation ended within the measured time: choose a larger scale");
}

#[test]
fn every_case_is_compared_with_its_own_published_figure_and_baseline() {
    let mut reports = Vec::new();
    for (threads, lru_drain) in [(2, LruDrain::Batched), (8, LruDrain::Batched), (8, LruDrain::Eager)] {
        for mechanism in [Mechanism::Batched, Mechanism::Broadcast] {
            let (threads, lru_drain) = (Some(threads), Some(lru_drain));
            reports.push(run(&Plan { threads, lru_drain, ..plan("milan-72", mechanism) }));
        }
    }
    compare(&mut reports);
    let figures: Vec<_> = reports
        .iter()
        .map(|report| report.published.get("loops_per_second").map(|row| (row.before, row.after)))
        .collect();
    let (two, eight) = (Some((423e3, 424e3)), Some((652e3, 1267e3)));
    assert_eq!(figures, [two, two, eight, eight, None, None]);
    let ours = reports[3].published["loops_per_second"].ours.expect("a baseline");
    let ratio = reports[3].operations_per_s / reports[2].operations_per_s;
    assert!((ours - ratio).abs() < 1e-9);
}

/// The paper's two tables. Each figure is within 22% of the paper's, with 64 and 72 threads within 45%. The faster
/// mechanism, the crossing of the lines and the peak of broadcasts agree with the paper. Most gains are smaller than the
/// paper's (docs/src/results/results.md).
#[test]
fn the_tables_have_the_papers_shape() {
    let mut peak = (0.0, 0);
    let rows = ["milan-36", "milan-72"].map(|machine| published("tlb-flush2", machine));
    for row in rows.into_iter().flatten() {
        let case = row.case.expect("a case");
        let lru_drain = if case.lru_drain == "eager" { LruDrain::Eager } else { LruDrain::Batched };
        let ours = [Mechanism::Batched, Mechanism::Broadcast].map(|mechanism| {
            let (threads, lru_drain) = (Some(case.threads), Some(lru_drain));
            let scale = 1.0 / 256.0;
            run(&Plan { threads, lru_drain, scale, ..plan(row.machine, mechanism) }).operations_per_s
        });
        let most = if case.threads < 64 { 0.22 } else { 0.45 };
        for (ours, published) in ours.iter().zip([row.before, row.after]) {
            assert!((ours / published - 1.0).abs() < most, "{row:?}: {ours}");
        }
        let gain = ours[1] / ours[0];
        if row.machine == "milan-72" {
            assert!(if case.threads <= 2 { gain < 1.05 } else { gain > 1.2 }, "{row:?}: {gain}");
            if ours[1] > peak.0 {
                peak = (ours[1], case.threads);
            }
        } else {
            assert!(if case.lru_drain == "eager" { gain < 1.1 } else { gain > 1.2 }, "{row:?}: {gain}");
        }
    }
    assert!((8..=32).contains(&peak.1), "{peak:?}");
}

#[test]
fn no_process_starves_where_there_are_more_than_cpus_and_asids() {
    let experiment = Experiment::find("tlb-flush2-processes").expect("an experiment");
    let (threads, scale) = (Some(80), 1.0 / 64.0);
    let mut plan = Plan { experiment, threads, scale, ..plan("milan-36", Mechanism::Broadcast) };
    // Four global ASIDs for two dozen processes.
    plan.machine.processor.asid_space = 12;
    plan.machine = plan.machine.with_cpus(32).expect("fewer than it has");
    for mechanism in [Mechanism::Broadcast, Mechanism::All] {
        let report = run(&Plan { mechanism, oracle: true, shadow: true, ..plan.clone() });
        let all = report.per_process.expect("many processes");
        assert_eq!((all.processes, report.threads), (20, 80));
        assert!(all.least > 0 && all.least * 20 > all.most, "{all:?}");
        assert!(report.broadcasts > 0 && report.interrupts > 0);
        assert_eq!((report.violations, report.loads_wrong), (0, Some(0)), "{:?}", report.broken);
    }
}
