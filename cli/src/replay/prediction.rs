//! The rows of a replay: each mechanism's interrupts beside those that were observed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ceasefire_linux::replay::{Predicted, Replay};
use ceasefire_linux::shootdowns::Cause;
use ceasefire_linux::spread::{of_ratio, Spread};

use crate::args::By;
use crate::number::ratio;

/// A mechanism's interrupts.
pub(crate) struct Prediction<'a> {
    pub(crate) name: String,
    pub(crate) predicted: &'a Predicted,
    /// In relation to those that were observed; none if there were none.
    pub(crate) ratio: Option<f64>,
    /// The spread of the ratio.
    pub(crate) spread: Option<Spread>,
}

impl<'a> Prediction<'a> {
    pub(crate) fn new(name: String, predicted: &'a Predicted, replayed: &Replay) -> Self {
        let observed = &replayed.observed;
        Self {
            name,
            predicted,
            ratio: (observed.interrupts > 0)
                .then(|| predicted.interrupts as f64 / observed.interrupts as f64),
            spread: of_ratio(&predicted.parts, &observed.parts),
        }
    }
}

/// A spread as text; empty without one.
pub(crate) fn range(spread: Option<Spread>) -> String {
    let range = |spread: Spread| format!("{}-{}", ratio(Some(spread.low)), ratio(Some(spread.high)));
    spread.map_or_else(String::new, range)
}

/// A part of the interrupts: a cause's, a process's or a CPU's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Cause(Cause),
    Process(u32),
    Cpu(u32),
}

impl Part {
    pub(crate) fn name(self, replayed: &Replay) -> String {
        match self {
            Self::Cause(cause) => cause.name().to_owned(),
            Self::Process(0) => "kernel".to_owned(),
            Self::Process(id) => {
                format!("{} ({id})", replayed.program(id).unwrap_or_default())
            }
            Self::Cpu(cpu) => format!("CPU {cpu}"),
        }
    }
}

/// The observed interrupts in parts.
fn observed(replayed: &Replay, by: By) -> BTreeMap<Part, u64> {
    let totals = &replayed.observed.totals;
    match by {
        By::Cause => totals.causes.iter().map(|(cause, sum)| (Part::Cause(*cause), sum.interrupts)).collect(),
        By::Process => {
            let senders = totals.senders();
            senders.iter().map(|(process, sum)| (Part::Process(process.id), sum.interrupts)).collect()
        }
        By::Sender => totals.cpus.iter().map(|(cpu, sum)| (Part::Cpu(*cpu), sum.sent.interrupts)).collect(),
        By::Victim => totals.cpus.iter().map(|(cpu, sum)| (Part::Cpu(*cpu), sum.received)).collect(),
    }
}

/// The predicted interrupts in parts.
fn predicted(predicted: &Predicted, by: By) -> BTreeMap<Part, u64> {
    let of_cpus = |counts: &[u64]| (0..).map(Part::Cpu).zip(counts.iter().copied()).collect();
    match by {
        By::Cause => predicted.causes.iter().map(|(cause, count)| (Part::Cause(*cause), *count)).collect(),
        By::Process => predicted.processes.iter().map(|(id, count)| (Part::Process(*id), *count)).collect(),
        By::Sender => of_cpus(&predicted.sent),
        By::Victim => of_cpus(&predicted.received),
    }
}

/// The parts that are not empty, those with the most observed interrupts first, each with the observed interrupts and
/// those of each prediction.
pub(crate) fn parts(replayed: &Replay, predictions: &[Prediction], by: By) -> Vec<(Part, Vec<u64>)> {
    let mut columns = vec![observed(replayed, by)];
    columns.extend(predictions.iter().map(|prediction| predicted(prediction.predicted, by)));
    let all: BTreeSet<Part> = columns.iter().flat_map(BTreeMap::keys).copied().collect();
    let row = |part: Part| {
        let counts = columns.iter().map(|column| column.get(&part).copied().unwrap_or(0));
        (part, counts.collect::<Vec<_>>())
    };
    let mut rows: Vec<(Part, Vec<u64>)> = all.into_iter().map(row).collect();
    rows.retain(|(_, counts)| counts.iter().any(|count| *count > 0));
    rows.sort_by_key(|(_, counts)| Reverse((counts[0], counts.iter().copied().max())));
    rows
}
