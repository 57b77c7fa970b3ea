//! A published figure beside ours.

use serde::Serialize;

use super::figures::RELATIVE;

/// A published figure beside ours.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Comparison {
    /// The paper's unit; `relative` if it gives no more than the ratio, its baseline being 1.
    pub unit: &'static str,
    /// The paper's baseline, in the paper's unit.
    pub before: f64,
    /// With the paper's mechanism.
    pub after: f64,
    /// After divided by before.
    pub ratio: f64,
    /// Our ratio: this run's figure divided by the baseline's. `None` if the baseline was not run, or has 0.
    pub ours: Option<f64>,
    /// This run's figure itself, at its scale.
    pub measured: f64,
}

impl Comparison {
    /// Whether the paper gives no more than the ratio.
    pub fn is_relative(&self) -> bool {
        self.unit == RELATIVE
    }
}
