//! The comparison of a published figure with a measured one.

use serde::Serialize;

use super::figures::RELATIVE;
use super::name::Side;

/// A published figure beside the measured one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// The paper's unit. It is `relative` if the paper gives only the ratio; its baseline is then 1.
    pub unit: &'static str,
    /// The paper's figure for its baseline, in the paper's unit.
    pub before: f64,
    /// The paper's figure for its own mechanism.
    pub after: f64,
    /// `after` divided by `before`.
    pub ratio: f64,
    /// The measured ratio: this run's figure divided by the baseline's. `None` if the baseline was not run, or if its
    /// figure is 0.
    pub ours: Option<f64>,
    /// This run's own figure, at the run's scale.
    pub measured: f64,
}

impl Comparison {
    /// Whether the paper gives only the ratio.
    pub fn is_relative(&self) -> bool {
        self.unit == RELATIVE
    }

    /// The paper's figure of that side. `None`: the paper gives only the ratio.
    pub fn figure(&self, side: Side) -> Option<f64> {
        let figure = match side {
            Side::Before => self.before,
            Side::After => self.after,
        };
        (!self.is_relative()).then_some(figure)
    }
}
