//! `compare --draw uncertainty`: the interval in which each predicted ratio lies.

use ceasefire_experiments::{Basis, Plan, Report};
use ceasefire_studies::{Draws, Spread};

use super::drawn::draw;
use crate::args::{CompareArguments, Settings};
use crate::failure::Failure;
use crate::results::{Interval, Intervals};

/// Draws `count` machines for each experiment and machine of the plans, and compares the spread of the ratios with ours
/// and the paper's.
pub(super) fn intervals(
    arguments: &CompareArguments,
    settings: &Settings,
    count: u16,
    plans: &[Plan],
    reports: &[Report],
) -> Result<Intervals, Failure> {
    let (groups, failed) = draw(arguments, settings, Draws::Independent(count.into()), plans, reports)?;
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
