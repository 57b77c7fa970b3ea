//! How sure a prediction is: the same runs on many machines, drawn from the ranges of the machine file.
//!
//! A number of the machine that was fitted to a published figure has no range. It is fitted anew on each drawn machine,
//! so that the figure stays as it was.

use std::sync::atomic::{AtomicU64, Ordering};

use ceasefire_experiments::{pool, Plan, Report};
use ceasefire_machine::config::{Machine, MachineError, MachineFile};
use serde::Serialize;

use crate::draws::{Draws, Places};
use crate::fit::{Fit, FitError, Measured, Runner};
use crate::study::Ranges;

/// The difference at which a number counts as fitted anew.
const AIM: f64 = 0.01;

/// Runs that are repeated on drawn machines: those of one experiment on one machine.
#[derive(Debug)]
pub struct Uncertain<'a> {
    /// The machine's file.
    pub file: MachineFile,
    /// The ranges of its numbers.
    pub ranges: Ranges,
    /// The runs, on the machine as it is; at least one.
    pub plans: Vec<&'a Plan>,
}

/// What happens around the draws.
pub trait Around: Sync {
    /// Leaves out effects and sets the number of CPUs of a drawn machine, as the command line asks for.
    ///
    /// # Errors
    /// The machine cannot be so.
    fn finish(&self, machine: &Machine) -> Result<Machine, MachineError>;
    /// Whether the draws go on.
    fn goes_on(&self) -> bool;
    /// Called when a draw has ended.
    fn ended(&self, done: u64, all: u64);
}

/// The reports of the runs on one drawn machine, in the order of the plans; or the error of the draw.
pub type Drawn = Result<Vec<Report>, String>;

/// An experiment on a machine, with what all its draws have in common.
struct Group<'a> {
    of: &'a Uncertain<'a>,
    places: Places,
    /// The fit of the numbers that were fitted, if there are any, with the figures that it keeps.
    fit: Option<(Fit, Measured)>,
}

/// Runs every group on drawn machines, on `jobs` threads; by default, one for each processor. The result has the draws
/// of each group in their order, in the order of the groups; it has none for a draw that had not ended when all were to
/// end.
///
/// # Errors
/// The numbers that were fitted cannot be measured on the machine as it is.
pub fn uncertain(
    groups: &[Uncertain<'_>],
    (draws, seed): (Draws, u64),
    jobs: Option<u16>,
    around: &dyn Around,
) -> Result<Vec<Vec<Option<Drawn>>>, FitError> {
    let goes_on = || around.goes_on();
    let measuring = Runner::new(jobs).watched(&goes_on, &|_| ());
    let groups: Vec<Group<'_>> =
        groups.iter().map(|of| Group::new(of, (draws, seed), &measuring)).collect::<Result<_, _>>()?;
    // Each thread has one run at a time.
    let runner = Runner::new(Some(1)).watched(&goes_on, &|_| ());
    let mut of_all: Vec<(usize, u64)> = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        of_all.extend((0..group.places.count()).map(|draw| (number, draw)));
    }
    let (all, done) = (of_all.len() as u64, AtomicU64::new(0));
    let results = pool::collect(all, jobs, |number| {
        if !around.goes_on() {
            return None;
        }
        let (group, draw) = of_all[number as usize];
        let reports = groups[group].reports(draw, &runner, around);
        // A run that was stopped is no result.
        if !around.goes_on() {
            return None;
        }
        around.ended(done.fetch_add(1, Ordering::Relaxed) + 1, all);
        Some((group, draw, reports))
    });
    let none = |group: &Group<'_>| (0..group.places.count()).map(|_| None).collect();
    let mut of_groups: Vec<Vec<Option<Drawn>>> = groups.iter().map(none).collect();
    for (group, draw, reports) in results {
        of_groups[group][draw as usize] = Some(reports);
    }
    Ok(of_groups)
}

impl<'a> Group<'a> {
    fn new(
        of: &'a Uncertain<'a>,
        (draws, seed): (Draws, u64),
        runner: &Runner<'_>,
    ) -> Result<Self, FitError> {
        let plan = of.plans[0];
        let fit = match Fit::of(&of.file) {
            Ok(fit) => {
                // A figure of another experiment is measured at that one's own size.
                let is_own = |experiment: &str| experiment == plan.experiment.name;
                let all_own = fit.targets().iter().all(|target| is_own(target.figure.row.experiment));
                let fit =
                    if all_own { fit.with_scale(plan.scale) } else { fit }.with_seed(plan.seed).with_aim(AIM);
                let nominal = fit.measure(runner)?;
                Some((fit, nominal))
            }
            Err(FitError::NothingFitted(_)) => None,
            Err(error) => return Err(error),
        };
        let places = Places::new(draws, of.ranges.len(), seed);
        Ok(Self { of, places, fit })
    }

    fn reports(&self, draw: u64, runner: &Runner<'_>, around: &dyn Around) -> Drawn {
        let machine = self.machine(draw, runner).map_err(|error| error.to_string())?;
        let machine = around.finish(machine.machine()).map_err(|error| error.to_string())?;
        // The checkers change no figure.
        let plan = |plan: &&Plan| Plan {
            machine: machine.clone(),
            oracle: false,
            shadow: false,
            trace: None,
            ..(*plan).clone()
        };
        let plans: Vec<Plan> = self.of.plans.iter().map(plan).collect();
        plans.iter().try_for_each(Plan::check).map_err(|error| error.to_string())?;
        runner.run(&plans, |_, report| report.clone()).map_err(|(_, error)| error.to_string())
    }

    /// The machine of a draw. The figures to which numbers were fitted are those of the machine as it is.
    fn machine(&self, draw: u64, runner: &Runner<'_>) -> Result<MachineFile, FitError> {
        let changes = self.of.ranges.changes(&self.places.of(draw));
        match &self.fit {
            None => {
                let mut machine = self.of.file.clone();
                machine.set_all(&changes)?;
                Ok(machine)
            }
            Some((fit, nominal)) => {
                let drawn = fit.changed(&changes)?.with_targets(&nominal.figures)?;
                let solution = drawn.solve(runner, Some(&nominal.sensitivity))?;
                drawn.machine(&solution.values)
            }
        }
    }
}

/// The values between which nine of ten draws lie, and their median.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
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
