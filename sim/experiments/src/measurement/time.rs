//! A run's CPU time by use, and its interrupts over time: the fields `time` and `series` of a report.
//!
//! Both are in simulated seconds. If an experiment measures between two moments, `time` covers the time between them,
//! as all counts do. `series` covers the whole run from the machine's start, and gives the part that was measured.

use ceasefire_machine::config::Picoseconds;
use ceasefire_machine::{self as machine, Reading};
use serde::Serialize;

fn seconds(picoseconds: Picoseconds) -> f64 {
    picoseconds as f64 / 1e12
}

/// CPU time by use. The parts do not overlap. Their sum, including `idle_s`, is elapsed time times the number of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Time {
    /// Running programs.
    pub user_s: f64,
    /// Look-ups in the second level of the TLB, and page walks.
    pub walks_s: f64,
    /// Page faults, including the reclaim that a fault does itself.
    pub faults_s: f64,
    /// Flushes: invalidating, starting broadcasts, sending interrupts for either, and handling these interrupts.
    pub flushes_s: f64,
    /// Waiting for other CPUs to answer a flush, or for broadcasts to complete. Interrupt handlers that ran meanwhile
    /// are not counted.
    pub answers_s: f64,
    /// Taking locks: waiting for a lock's cache line, and for another CPU to release the lock. Interrupt handlers that
    /// ran meanwhile are not counted.
    pub locks_s: f64,
    /// Other work of the kernel: system calls, background reclaim, switching.
    pub kernel_s: f64,
    /// Idle CPUs, including those whose threads sleep until a device is done.
    pub idle_s: f64,
}

impl Time {
    /// The CPU time of a measurement on a machine with that number of CPUs.
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
            // A CPU that ran ahead may be charged for slightly more than the measured time.
            idle_s: seconds((measured.time * Picoseconds::from(cpus)).saturating_sub(spent.sum())),
        }
    }
}

/// Counts for equal steps of time, from the machine's start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// The length of a step. Events after the last whole step are left out.
    pub step_s: f64,
    /// Interrupts received for TLB work in each step.
    pub interrupts: Vec<u64>,
    /// Broadcast invalidations in each step.
    pub broadcasts: Vec<u64>,
    /// The start and end of the measured time. `None`, in JSON `null`, if the whole run is measured.
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
