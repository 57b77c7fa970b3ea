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
