//! `compare --draw sensitivity`: the numbers of the machine on which each predicted ratio depends.

use ceasefire_experiments::{Plan, Report};
use ceasefire_studies::{indices, Draws, Index, Indices};

use super::drawn::draw;
use crate::args::{CompareArguments, Settings};
use crate::failure::Failure;
use crate::results::{Influence, Number, Sensitivity};

/// Draws `pairs` pairs of machines for each experiment and machine of the plans, with all that lie between them, and
/// computes the indices of every number.
pub(super) fn sensitivity(
    arguments: &CompareArguments,
    settings: &Settings,
    pairs: u16,
    plans: &[Plan],
    reports: &[Report],
) -> Result<Sensitivity, Failure> {
    let (groups, failed) = draw(arguments, settings, Draws::Crossed(pairs.into()), plans, reports)?;
    let mut rows = Vec::new();
    for group in &groups {
        for prediction in group.predictions().into_iter().filter(|one| group.ours(one).is_some()) {
            let Indices { pairs, of } = indices(&group.drawn(&prediction), group.keys.len());
            let number = |(key, index): (&String, Index)| Number { key: key.clone(), index };
            let mut numbers: Vec<Number> = group.keys.iter().zip(of).map(number).collect();
            numbers.sort_by(|one, other| other.index.total.total_cmp(&one.index.total));
            rows.push(Influence { prediction, pairs, numbers });
        }
    }
    Ok(Sensitivity { pairs: pairs.into(), failed, rows })
}
