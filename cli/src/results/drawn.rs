//! What runs on machines drawn from the ranges of a machine file say: the intervals of the predicted ratios, and the
//! numbers of the machine on which these depend.

use ceasefire_experiments::Basis;
#[cfg(test)]
use ceasefire_experiments::Report;
use ceasefire_studies::{Index, Spread};
use serde::Serialize;

use super::case::place;

/// What runs on drawn machines say, where they were asked for.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Sure {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uncertainty: Option<Intervals>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sensitivity: Option<Sensitivity>,
}

/// A predicted ratio: that of a mechanism's figure to the figure of the baseline.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Prediction {
    pub(crate) experiment: &'static str,
    pub(crate) machine: String,
    /// The number of threads and the value of `lru_drain`, where the experiment was run with several.
    pub(crate) case: Option<String>,
    pub(crate) mechanism: &'static str,
    pub(crate) metric: &'static str,
    /// The places of the two runs among those of the experiment on the machine.
    #[serde(skip)]
    pub(crate) before: usize,
    #[serde(skip)]
    pub(crate) after: usize,
}

impl Prediction {
    /// One without a case, for tests.
    #[cfg(test)]
    pub(crate) fn of(report: &Report, metric: &'static str) -> Self {
        let Report { experiment, ref machine, mechanism, .. } = *report;
        Self { experiment, machine: machine.clone(), case: None, mechanism, metric, before: 0, after: 0 }
    }

    /// The machine, and the case if there are several.
    pub(crate) fn place(&self) -> String {
        place(&self.machine, self.case.as_deref())
    }
}

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

/// The indices of all predictions.
#[derive(Debug, Serialize)]
pub(crate) struct Sensitivity {
    /// The number of pairs of machines that were drawn for each experiment and machine.
    pub(crate) pairs: u64,
    /// The draws without a result, over all experiments and machines.
    pub(crate) failed: usize,
    pub(crate) rows: Vec<Influence>,
}

/// The numbers on which one prediction depends.
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
