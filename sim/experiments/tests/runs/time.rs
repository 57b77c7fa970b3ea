//! The fields `time` and `series` of a report account for a whole run.

use ceasefire_experiments::{Mechanism, Plan, Report};

use crate::plan_on;

fn run(experiment: &'static str, machine: &str, scale: f64) -> Report {
    let plan = Plan { mechanism: Mechanism::PerPage, scale, ..plan_on(experiment, machine, 4) };
    plan.run(|_| ()).expect("a run")
}

/// Whether two times differ by at most a thousandth.
fn near(one: f64, other: f64) -> bool {
    (one - other).abs() <= other / 1e3
}

#[test]
fn the_parts_of_the_time_add_up_to_all_of_it() {
    for (experiment, machine, scale) in
        [("mmap-read", "1-socket", 0.003), ("migrate", "2-socket-intel", 0.0005)]
    {
        let report = run(experiment, machine, scale);
        let time = report.time;
        let busy = time.user_s
            + time.walks_s
            + time.faults_s
            + time.flushes_s
            + time.answers_s
            + time.locks_s
            + time.kernel_s;
        assert!(near(busy + time.idle_s, report.elapsed_s * 4.0), "{experiment}: {time:?}");
        assert!(time.flushes_s > 0.0 && time.answers_s > 0.0, "{experiment}: {time:?}");
        assert!(time.answers_s <= report.answer_wait_s && time.locks_s > 0.0);
        if report.series.measured_s.is_none() {
            assert!(near(time.user_s, report.user_s), "{experiment}: {time:?}");
        }
    }
}

#[test]
fn the_series_has_all_interrupts_except_those_after_its_last_step() {
    let report = run("mmap-read", "1-socket", 0.003);
    let series = &report.series;
    assert_eq!(series.measured_s, None);
    assert_eq!(series.interrupts.len(), series.broadcasts.len());
    let (sum, steps) = (series.interrupts.iter().sum::<u64>(), series.interrupts.len());
    assert!(sum <= report.interrupts && sum as f64 > 0.9 * report.interrupts as f64, "{sum}");
    let end = steps as f64 * series.step_s;
    assert!(end <= report.elapsed_s && end + series.step_s > report.elapsed_s, "{end}");
}

#[test]
fn the_series_gives_the_part_of_it_that_was_measured() {
    let report = run("migrate", "2-socket-intel", 0.0005);
    let (from, to) = report.series.measured_s.expect("it measures in the middle");
    assert!(near(to - from, report.elapsed_s), "{from} to {to}");
    // Steps that begin or end outside the measured time count as a whole. The machine's last step is left out.
    let step = report.series.step_s;
    let inside = report.series.interrupts.iter().zip(0u32..).filter(|(_, number)| {
        let start = f64::from(*number) * step;
        start + step > from && start < to
    });
    let sum: u64 = inside.map(|(count, _)| count).sum();
    let share = 3.0 * step / report.elapsed_s;
    let part = sum as f64 / report.interrupts as f64;
    assert!(share < 0.1 && (part - 1.0).abs() < share, "{part} with steps of {step} s");
}
