//! How sure a prediction is: the same runs on many machines, drawn from the ranges of the machine file.
//!
//! A number of the machine that was fitted to a published figure has no range. It is fitted anew on each drawn machine,
//! so that the figure stays as it was.

use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;

use ceasefire_experiments::{available_memory, Host, Plan, Report, RunError};
use ceasefire_machine::config::{Machine, MachineError, MachineFile};

use crate::study::Ranges;

/// Runs that are repeated on drawn machines: those of one experiment on one machine.
#[derive(Debug)]
pub struct Uncertain<'a> {
    /// The machine's file.
    pub file: MachineFile,
    /// The runs, on the machine as it is.
    pub plans: Vec<&'a Plan>,
}

/// What happens to a drawn machine before the runs.
pub trait Prepare: Sync {
    /// Fits anew what was fitted.
    ///
    /// # Errors
    /// The drawn machine cannot give the figures, in one line.
    fn fit(&self, group: &Uncertain<'_>, drawn: MachineFile) -> Result<MachineFile, String>;
    /// Leaves out effects and sets the number of CPUs, as the command line asks for.
    ///
    /// # Errors
    /// The machine cannot be so.
    fn finish(&self, machine: &Machine) -> Result<Machine, MachineError>;
    /// Called when a draw has ended. Returns whether the others are still wanted.
    fn ended(&self, done: u64, all: u64) -> bool;
}

/// The reports of the runs on one drawn machine, in the order of the plans; or the error of the draw.
pub type Drawn = Result<Vec<Report>, String>;

/// Runs every group on `count` machines, on `jobs` threads; by default, one for each processor. The result has the
/// draws of each group, in the order of the groups; draws that were not wanted any more are left out.
pub fn uncertain(
    groups: &[Uncertain<'_>],
    (count, seed): (u64, u64),
    jobs: Option<u16>,
    prepare: &dyn Prepare,
) -> Vec<Vec<Drawn>> {
    let jobs = jobs.map_or_else(|| thread::available_parallelism().map_or(1, NonZero::get), usize::from);
    let (host, next, done) = (Host::new(), AtomicU64::new(0), AtomicU64::new(0));
    let ranges: Vec<Ranges> = groups.iter().map(|group| Ranges::of(&group.file)).collect();
    let all = groups.len() as u64 * count;
    let results: Mutex<Vec<(usize, u64, Drawn)>> = Mutex::new(Vec::new());
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= all {
            break;
        }
        let (group, draw) = ((number / count) as usize, number % count);
        let drawn = ranges[group].machine(&groups[group].file, seed, draw).map_err(|error| error.to_string());
        let reports = drawn
            .and_then(|machine| prepare.fit(&groups[group], machine))
            .and_then(|machine| prepare.finish(machine.machine()).map_err(|error| error.to_string()))
            .and_then(|machine| {
                run(&groups[group].plans, &machine, &host).map_err(|error| error.to_string())
            });
        // No one panics while holding the lock.
        if let Ok(mut results) = results.lock() {
            results.push((group, draw, reports));
        }
        if !prepare.ended(done.fetch_add(1, Ordering::Relaxed) + 1, all) {
            next.store(all, Ordering::Relaxed);
        }
    };
    thread::scope(|scope| {
        (0..jobs).for_each(|_| {
            scope.spawn(work);
        });
    });
    let mut results = results.into_inner().unwrap_or_default();
    results.sort_unstable_by_key(|(group, draw, _)| (*group, *draw));
    let mut drawn: Vec<Vec<Drawn>> = groups.iter().map(|_| Vec::new()).collect();
    for (group, _, reports) in results {
        drawn[group].push(reports);
    }
    drawn
}

/// Runs the plans on another machine, without the checkers, which change no figure.
fn run(plans: &[&Plan], machine: &Machine, host: &Host) -> Result<Vec<Report>, RunError> {
    let report = |plan: &&Plan| {
        let plan =
            Plan { machine: machine.clone(), oracle: false, shadow: false, trace: None, ..(*plan).clone() };
        plan.check().and_then(|()| plan.check_host(available_memory()))?;
        let _admitted = host.admit(&plan);
        plan.run(|_| ())
    };
    plans.iter().map(report).collect()
}

/// The values between which nine of ten draws lie, and their median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// A twentieth is below.
    pub low: f64,
    /// Half is below.
    pub median: f64,
    /// A twentieth is above.
    pub high: f64,
}

impl Spread {
    /// That of some values; none if there is no value, or one is not a number.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        if values.is_empty() || values.iter().any(|value| value.is_nan()) {
            return None;
        }
        values.sort_unstable_by(f64::total_cmp);
        // Between two values, the part of the way.
        let quantile = |part: f64| {
            let place = part * (values.len() - 1) as f64;
            let (below, above) = (values[place.floor() as usize], values[place.ceil() as usize]);
            below + (above - below) * place.fract()
        };
        Some(Self { low: quantile(0.05), median: quantile(0.5), high: quantile(0.95) })
    }

    /// Whether a value lies in it.
    pub fn holds(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_of_ten_values_lie_in_the_spread() {
        let spread = Spread::of((0..=100).rev().map(f64::from).collect()).expect("values");
        assert_eq!(
            [spread.low, spread.median, spread.high].map(f64::to_bits),
            [5.0, 50.0, 95.0].map(f64::to_bits)
        );
        assert!(spread.holds(5.0) && spread.holds(95.0) && !spread.holds(4.9) && !spread.holds(95.1));
        let two = Spread::of(vec![2.0, 1.0]).expect("values");
        assert!((two.median - 1.5).abs() < 1e-12 && (two.low - 1.05).abs() < 1e-12);
        assert_eq!((Spread::of(vec![]), Spread::of(vec![1.0, f64::NAN])), (None, None));
    }
}
