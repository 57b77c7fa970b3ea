//! The reasons for which nothing is fitted.

use std::fmt;

use ceasefire_experiments::{Figure, RunError};
use ceasefire_machine::config::MachineError;

/// The reason for which nothing is fitted.
#[derive(Debug)]
pub enum FitError {
    /// No number of the machine is fitted.
    NothingFitted(String),
    /// No number of the machine is fitted to a figure, and none was named for it.
    NoParameter {
        /// The machine's name.
        machine: String,
        /// The figure.
        figure: Figure,
    },
    /// More numbers were named than there are figures without one.
    NoFigure(String),
    /// Two numbers are fitted to one figure.
    Twice {
        /// The figure.
        figure: Figure,
        /// Their keys.
        keys: [String; 2],
    },
    /// The paper gives only the ratio of the figure's two sides.
    Relative(Figure),
    /// The target is not above 0.
    Target {
        /// The figure.
        figure: Figure,
        /// The target.
        value: f64,
    },
    /// The number is 0, so no multiple of it is another number.
    Zero(String),
    /// The machine refuses a number, or a mark names no published figure.
    Machine(Box<MachineError>),
    /// A run failed.
    Run {
        /// The figure.
        figure: Figure,
        /// The machine that it ran on.
        machine: String,
        /// The error.
        error: Box<RunError>,
    },
    /// A run gives a figure that is not above 0.
    NoValue(Figure),
    /// The figures determine the numbers alike.
    Alike(Vec<String>),
    /// A number stands at the end of its range, and its figure is still far from the target.
    Bound {
        /// The number, as a change of the machine.
        value: String,
        /// Its figure.
        figure: Figure,
        /// The figure that it gives.
        ours: f64,
        /// The target.
        target: f64,
    },
    /// The search got no nearer to a target.
    Far {
        /// The number's key.
        key: String,
        /// Its figure.
        figure: Figure,
        /// The nearest figure.
        ours: f64,
        /// The target.
        target: f64,
    },
    /// It was stopped.
    Stopped,
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingFitted(machine) => {
                write!(f, "no number of '{machine}' is fitted: name a published figure, and a number to vary")
            }
            Self::NoParameter { machine, figure } => {
                write!(f, "no number of '{machine}' is fitted to \"{figure}\": name a number to vary")
            }
            Self::NoFigure(key) => write!(f, "{key}: must be fitted to a published figure: name one more"),
            Self::Twice { figure, keys: [one, other] } => {
                write!(f, "\"{figure}\" for {one} and for {other}: must be a figure for each number")
            }
            Self::Relative(figure) => {
                write!(f, "\"{figure}\": must be a published number, but the paper gives only the ratio")
            }
            Self::Target { figure, value } => write!(f, "\"{figure}\": {value}: must be above 0"),
            Self::Zero(key) => write!(f, "{key}: 0: must be above 0 to be fitted"),
            Self::Machine(error) => error.fmt(f),
            Self::Run { figure, machine, error } => write!(f, "\"{figure}\" on {machine}: {error}"),
            Self::NoValue(figure) => {
                write!(f, "\"{figure}\": the run gives 0: must be above 0, as at a larger scale")
            }
            Self::Alike(keys) => {
                write!(f, "the figures do not tell {} apart: must be fewer numbers", keys.join(" and "))
            }
            Self::Bound { value, figure, ours, target } => {
                write!(f, "\"{figure}\" out of reach: {ours:.5} at the bound {value}: must be {target}")
            }
            Self::Far { key, figure, ours, target } => {
                write!(f, "\"{figure}\" not met by {key}: the nearest is {ours:.5}: must be {target}")
            }
            Self::Stopped => f.write_str("stopped before anything was fitted"),
        }
    }
}

impl std::error::Error for FitError {}

impl From<MachineError> for FitError {
    fn from(error: MachineError) -> Self {
        Self::Machine(Box::new(error))
    }
}
