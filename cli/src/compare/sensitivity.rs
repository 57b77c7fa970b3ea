//! `compare --sensitivity`: the numbers of the machine on which each predicted ratio depends.

use ceasefire_experiments::{Plan, Report};
use ceasefire_studies::{indices, Draws, Index, Indices};
use serde::Serialize;

use super::drawn::{draw, Prediction};
use crate::args::CompareArguments;
use crate::failure::Failure;

/// The indices of all predictions.
#[derive(Debug, Serialize)]
pub(crate) struct Sensitivity {
    /// The number of pairs of machines that were drawn for each experiment and machine.
    pub(crate) pairs: u64,
    /// The draws without a result, over all experiments and machines.
    pub(crate) failed: usize,
    pub(crate) rows: Vec<Influence>,
}

/// What one prediction depends on.
#[derive(Debug, Serialize)]
pub(crate) struct Influence {
    #[serde(flatten)]
    pub(crate) prediction: Prediction,
    /// The number of pairs all whose machines have a result.
    pub(crate) pairs: usize,
    /// The numbers, that with the greatest total index first. Empty if the ratio is the same on all machines.
    pub(crate) numbers: Vec<Number>,
}

/// The indices of one number of the machine.
#[derive(Debug, Serialize)]
pub(crate) struct Number {
    pub(crate) key: String,
    #[serde(flatten)]
    pub(crate) index: Index,
}

/// Draws `pairs` pairs of machines for each experiment and machine of the plans, with all that lie between them, and
/// computes the indices of every number.
pub(super) fn sensitivity(
    arguments: &CompareArguments,
    pairs: u16,
    plans: &[Plan],
    reports: &[Report],
) -> Result<Sensitivity, Failure> {
    let (groups, failed) = draw(arguments, Draws::Crossed(pairs.into()), plans, reports)?;
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

impl Sensitivity {
    /// The number of pairs with a result, for each experiment and machine.
    pub(crate) fn ended(&self) -> usize {
        self.rows.iter().map(|row| row.pairs).min().unwrap_or(0)
    }
}

impl Influence {
    /// The most numbers that are shown.
    pub(crate) const SHOWN: usize = 6;

    /// The numbers that matter: those whose total index is at least a twentieth, at most `most`; and the others.
    pub(crate) fn split(&self, most: usize) -> (&[Number], &[Number]) {
        let few = self.numbers.iter().take(most).take_while(|number| number.index.total >= 0.05).count();
        self.numbers.split_at(few)
    }
}
