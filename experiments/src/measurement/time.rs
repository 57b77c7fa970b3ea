//! Where the time of a run went, and how its interrupts came over time: the fields `time` and `series` of a report.
//!
//! Both are in simulated seconds. Where an experiment measures between two moments, `time` is of the time between them, as
//! all counts are. `series` is of the whole run, from the machine's start on, and says which part of it was measured.

use ceasefire_machine::config::Picoseconds;
use ceasefire_machine::{self as machine, Reading};
use serde::Serialize;

fn seconds(picoseconds: Picoseconds) -> f64 {
    picoseconds as f64 / 1e12
}

/// CPU time by what it was spent on. The parts do not overlap; with `idle_s` they are elapsed time times CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Time {
    /// Programs.
    pub user_s: f64,
    /// The second level of the TLB, and page walks.
    pub walks_s: f64,
    /// Page faults, with the reclaim that they do themselves.
    pub faults_s: f64,
    /// Flushes: invalidating, starting broadcasts, sending interrupts for either, and handling these.
    pub flushes_s: f64,
    /// Waiting for others to answer a flush, or for broadcasts to be done, handlers that ran meanwhile left out.
    pub answers_s: f64,
    /// Taking locks: until their lines have come, and while others hold them. Likewise.
    pub locks_s: f64,
    /// The kernel's other work: system calls, background reclaim, switching.
    pub kernel_s: f64,
    /// CPUs without anything to do, those included whose threads sleep until a device is done.
    pub idle_s: f64,
}

impl Time {
    /// Of what was measured on a machine of so many CPUs.
    pub(crate) fn new(measured: &Reading, cpus: u16) -> Self {
        let spent = &measured.spent;
        Self {
            user_s: seconds(spent.user),
            walks_s: seconds(spent.walks),
            faults_s: seconds(spent.faults),
            flushes_s: seconds(spent.flushes),
            answers_s: seconds(spent.answers),
            locks_s: seconds(spent.locks),
            kernel_s: seconds(spent.kernel),
            // A CPU may be charged for a little more than the measured time, where it ran ahead.
            idle_s: seconds((measured.time * Picoseconds::from(cpus)).saturating_sub(spent.sum())),
        }
    }
}

/// What was counted in each of equal steps of time, from the machine's start on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// The length of a step. What came after the last whole step is left out.
    pub step_s: f64,
    /// Interrupts received for TLB work in each.
    pub interrupts: Vec<u64>,
    /// Broadcast invalidations in each.
    pub broadcasts: Vec<u64>,
    /// From when to when the experiment measured. `None`, in JSON `null`, if all of the run is measured.
    pub measured_s: Option<(f64, f64)>,
}

impl Series {
    pub(crate) fn new(series: &machine::Series, window: Option<&(Reading, Reading)>) -> Self {
        let readings = series.readings();
        let each = |count: fn(&Reading) -> u64| {
            let earlier = std::iter::once(0).chain(readings.iter().map(count));
            readings.iter().map(count).zip(earlier).map(|(now, before)| now - before).collect()
        };
        Self {
            step_s: seconds(series.step()),
            interrupts: each(|reading| reading.counters.interrupts),
            broadcasts: each(|reading| reading.counters.broadcasts),
            measured_s: window.map(|(from, to)| (seconds(from.time), seconds(to.time))),
        }
    }
}

#[cfg(test)]
mod tests {
    use ceasefire::Settle;
    use ceasefire_machine::config::builtin;

    use crate::{Experiment, Mechanism, Plan, Report};

    fn run(experiment: &'static str, machine: &str, scale: f64) -> Report {
        let machine = builtin(machine).expect("a listed name").expect("a valid file");
        let plan = Plan {
            threads: None,
            lru_drain: None,
            experiment: Experiment::find(experiment).expect("an experiment"),
            machine: machine.with_cpus(4).expect("allowed"),
            mechanism: Mechanism::PerPage,
            settle: Settle::Free,
            scale,
            seed: 1,
            oracle: false,
            trace: None,
        };
        plan.run(|_| ()).expect("a run")
    }

    /// Whether two times are the same but for a thousandth.
    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() <= other / 1e3
    }

    #[test]
    fn the_parts_of_the_time_are_all_of_it() {
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
    fn the_series_has_all_interrupts_but_those_after_its_last_step() {
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
    fn the_series_says_which_part_of_it_was_measured() {
        let report = run("migrate", "2-socket-intel", 0.0005);
        let (from, to) = report.series.measured_s.expect("it measures in the middle");
        assert!(near(to - from, report.elapsed_s), "{from} to {to}");
        // Steps that begin or end outside count as a whole, and the machine's last is left out.
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
}
