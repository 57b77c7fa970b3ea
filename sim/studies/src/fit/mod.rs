//! Fitting numbers of machines to published figures.
//!
//! A [`Fit`] has as many numbers of a machine as figures, each with a target: the published number, or any other. It
//! [solves](Fit::solve) for the values with which the simulation gives the targets, and says how well they determine
//! the values: see [`Sensitivity`]. A figure is measured on the machine that it names. If that is another built-in
//! machine, this one gets the same values: `milan-36` and `milan-72` have one fit for both.
//!
//! A draw of an uncertain machine repeats a fit at the price of about two runs of each figure:
//!
//! ```no_run
//! # use ceasefire_machine::config::{Change, MachineFile};
//! # use ceasefire_studies::fit::{Fit, FitError, Runner};
//! # fn draw(file: &MachineFile, changes: &[Change], runner: &Runner<'_>) -> Result<(), FitError> {
//! let fit = Fit::of(file)?.with_scale(1.0 / 1024.0);
//! // Once: the figures of the machine as it is, at this scale, and the way in which they move.
//! let nominal = fit.measure(runner)?;
//! // For each draw: the values that give these figures again.
//! let drawn = fit.changed(changes)?.with_targets(&nominal.figures)?.with_aim(0.01);
//! let solution = drawn.solve(runner, Some(&nominal.sensitivity))?;
//! let machine = drawn.machine(&solution.values)?;
//! # Ok(())
//! # }
//! ```

mod error;
mod problem;
mod runs;
mod sensitivity;
mod solve;

pub use error::FitError;
pub use problem::{Fit, Fitted, Measured, Solution, Target};
pub use runs::Runner;
pub use sensitivity::{Sensitivity, GREATEST_CONDITION, LEAST_ELASTICITY};
