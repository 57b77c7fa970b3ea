//! The rows of a replay: each mechanism's requests and interrupts beside those that were observed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use ceasefire_linux::recording::Count;
use ceasefire_linux::replay::{Asked, Predicted, Replay};
use ceasefire_linux::shootdowns::Cause;
use ceasefire_linux::spread::{of_ratio, Spread};

use crate::args::By;
use crate::number::ratio;

/// What a mechanism asks.
pub(crate) struct Prediction<'a> {
    pub(crate) name: String,
    pub(crate) predicted: &'a Predicted,
    /// Its requests in relation to those that were observed; none if there were none.
    pub(crate) ratio: Option<f64>,
    /// The same of interrupts; none either if the recording does not tell them.
    pub(crate) interrupts_ratio: Option<f64>,
    /// The spread of the ratio.
    pub(crate) spread: Option<Spread>,
}

impl<'a> Prediction<'a> {
    pub(crate) fn new(name: String, predicted: &'a Predicted, replayed: &Replay) -> Self {
        let observed = &replayed.observed;
        let spread = of_ratio(&requests(&predicted.parts), &requests(&observed.parts));
        // Events may tell a part of the requests.
        let told = relation(observed.asked.requests, replayed.observed_requests()).unwrap_or(1.0);
        Self {
            name,
            predicted,
            ratio: relation(predicted.asked.requests, replayed.observed_requests()),
            interrupts_ratio: relation(predicted.asked.interrupts, observed.asked.interrupts)
                .filter(|_| replayed.facts.counted == Count::Sent),
            spread: spread.map(|Spread { low, high }| Spread { low: low * told, high: high * told }),
        }
    }
}

/// One number in relation to another.
fn relation(above: u64, below: u64) -> Option<f64> {
    (below > 0).then(|| above as f64 / below as f64)
}

fn requests(parts: &[Asked]) -> Vec<u64> {
    parts.iter().map(|asked| asked.requests).collect()
}

/// A spread as text; empty without one.
pub(crate) fn range(spread: Option<Spread>) -> String {
    let range = |spread: Spread| format!("{}-{}", ratio(Some(spread.low)), ratio(Some(spread.high)));
    spread.map_or_else(String::new, range)
}

/// The requests of a cause from which on its replay is judged.
const ENOUGH: u64 = 100;

/// Whether a row of [`parts`] is of a cause of which the replay of the recorded kernel has less than half: what other
/// mechanisms leave of it is not known.
pub(crate) fn is_unknown(part: Part, counts: &[u64]) -> bool {
    let [observed, own, ..] = *counts else { return false };
    matches!(part, Part::Cause(_)) && observed >= ENOUGH && own < observed / 2
}

/// A part of the requests: a cause's, a process's or a CPU's.
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

/// The observed requests in parts.
fn observed(replayed: &Replay, by: By) -> BTreeMap<Part, u64> {
    let totals = &replayed.observed.totals;
    match by {
        By::Cause => totals.causes.iter().map(|(cause, sum)| (Part::Cause(*cause), sum.requests)).collect(),
        By::Process => {
            let senders = totals.senders();
            senders.iter().map(|(process, sum)| (Part::Process(process.id), sum.requests)).collect()
        }
        By::Sender => totals.cpus.iter().map(|(cpu, sum)| (Part::Cpu(*cpu), sum.sent.requests)).collect(),
        By::Victim => totals.cpus.iter().map(|(cpu, sum)| (Part::Cpu(*cpu), sum.received)).collect(),
    }
}

/// The predicted requests in parts.
fn predicted(predicted: &Predicted, by: By) -> BTreeMap<Part, u64> {
    let of_cpus = |counts: &[u64]| (0..).map(Part::Cpu).zip(counts.iter().copied()).collect();
    match by {
        By::Cause => {
            predicted.causes.iter().map(|(cause, asked)| (Part::Cause(*cause), asked.requests)).collect()
        }
        By::Process => predicted.processes.iter().map(|(id, count)| (Part::Process(*id), *count)).collect(),
        By::Sender => of_cpus(&predicted.sent),
        By::Victim => of_cpus(&predicted.received),
    }
}

/// The parts that are not empty, those with the most observed requests first, each with the observed requests and
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
