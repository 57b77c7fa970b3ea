//! `compare --uncertainty`: the interval in which each predicted ratio lies.

use ceasefire_experiments::{Basis, Plan, Report};
use ceasefire_studies::{Draws, Spread};
use serde::Serialize;

use super::drawn::{draw, Prediction};
use crate::args::CompareArguments;
use crate::failure::Failure;

/// The intervals of all predictions.
#[derive(Debug, Serialize)]
pub(crate) struct Intervals {
    /// The number of machines that were drawn for each experiment and machine.
    pub(crate) draws: u64,
    /// The draws without a result, over all experiments and machines.
    pub(crate) failed: usize,
    pub(crate) rows: Vec<Interval>,
}

/// The interval of one prediction.
#[derive(Debug, Serialize)]
pub(crate) struct Interval {
    #[serde(flatten)]
    pub(crate) prediction: Prediction,
    /// The paper's ratio, if the paper measured this mechanism.
    pub(crate) published: Option<f64>,
    /// Ours, on the machine as it is.
    pub(crate) ours: f64,
    /// Ours on the drawn machines.
    #[serde(flatten)]
    pub(crate) spread: Spread,
    /// The number of machines.
    pub(crate) draws: usize,
    /// The basis of our ratio, by name.
    pub(crate) label: Option<&'static str>,
    /// The same.
    #[serde(skip)]
    pub(crate) basis: Option<Basis>,
}

impl Interval {
    /// Where the paper's ratio lies.
    pub(crate) fn place(&self) -> &'static str {
        match self.published {
            None => "",
            Some(paper) if self.spread.holds(paper) => "in it",
            Some(paper) if paper < self.spread.low => "below",
            Some(_) => "above",
        }
    }
}

/// Draws `count` machines for each experiment and machine of the plans, and compares the spread of the ratios with ours
/// and the paper's.
pub(super) fn intervals(
    arguments: &CompareArguments,
    count: u16,
    plans: &[Plan],
    reports: &[Report],
) -> Result<Intervals, Failure> {
    let (groups, failed) = draw(arguments, Draws::Independent(count.into()), plans, reports)?;
    let mut rows = Vec::new();
    for group in &groups {
        for prediction in group.predictions() {
            let ratios: Vec<f64> = group.drawn(&prediction).into_iter().flatten().collect();
            let draws = ratios.len();
            let (Some(ours), Some(spread)) = (group.ours(&prediction), Spread::of(ratios)) else { continue };
            let (published, basis) = group.published(&prediction).unzip();
            let label = basis.map(Basis::name);
            rows.push(Interval { prediction, published, ours, spread, draws, label, basis });
        }
    }
    Ok(Intervals { draws: count.into(), failed, rows })
}
