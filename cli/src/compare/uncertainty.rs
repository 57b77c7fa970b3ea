//! `compare --uncertainty`: the same runs on machines that are drawn from the ranges in the machine files.

use ceasefire_experiments::{Basis, Plan, Report};
use ceasefire_machine::config::{Effect, Machine, MachineError};
use ceasefire_studies::{uncertain, Around, Drawn, Progress, Spread, Uncertain, Watch};
use serde::Serialize;

use super::selection::{changed_file, effects};
use crate::args::CompareArguments;
use crate::failure::{complain, Failure};
use crate::sweep::progress::Shown;

/// The intervals of all predictions.
#[derive(Debug, Serialize)]
pub(crate) struct Intervals {
    /// The number of machines that were drawn for each experiment and machine.
    pub(crate) draws: u64,
    /// The draws without a result, over all experiments and machines.
    pub(crate) failed: usize,
    pub(crate) rows: Vec<Interval>,
}

/// The interval of one prediction: of the ratio of a mechanism's figure to that of the baseline.
#[derive(Debug, Serialize)]
pub(crate) struct Interval {
    pub(crate) experiment: &'static str,
    pub(crate) machine: String,
    /// The number of threads and the value of `lru_drain`, where the experiment was run with several.
    pub(crate) case: Option<String>,
    pub(crate) mechanism: &'static str,
    pub(crate) metric: &'static str,
    /// The paper's ratio, if the paper measured this mechanism.
    pub(crate) published: Option<f64>,
    /// Ours, on the machine as it is.
    pub(crate) ours: f64,
    /// Nine of ten ratios lie between `low` and `high`.
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
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
            Some(paper) if paper < self.low => "below",
            Some(paper) if paper > self.high => "above",
            Some(_) => "in it",
        }
    }
}

/// Draws `count` machines for each experiment and machine of the plans, runs the plans of the first seed on them, and
/// compares the spread with our figures and the paper's.
pub(super) fn intervals(
    arguments: &CompareArguments,
    count: u16,
    plans: &[Plan],
    reports: &[Report],
) -> Result<Intervals, Failure> {
    let mut groups: Vec<(Uncertain<'_>, Vec<&Report>)> = Vec::new();
    for (plan, report) in plans.iter().zip(reports).filter(|(plan, _)| plan.seed == arguments.seed) {
        let is_same = |first: &Plan| {
            (first.experiment.name, &first.machine.name) == (plan.experiment.name, &plan.machine.name)
        };
        if let Some((group, reports)) = groups.iter_mut().find(|(group, _)| is_same(group.plans[0])) {
            group.plans.push(plan);
            reports.push(report);
        } else {
            let name = arguments.machine.as_deref().unwrap_or(&plan.machine.name);
            let file = changed_file(name, &arguments.set)?;
            groups.push((Uncertain { file, plans: vec![plan] }, vec![report]));
        }
    }
    let (groups, nominal): (Vec<_>, Vec<_>) = groups.into_iter().unzip();
    let around =
        Arranged { cpus: arguments.cpus, without: effects(arguments)?, shown: Shown::new(arguments.quiet) };
    let drawn = uncertain(&groups, (count.into(), 1), arguments.jobs, &around);
    around.shown.end();
    let drawn = drawn.map_err(Failure::input)?;
    let lost: Vec<&String> = drawn.iter().flatten().filter_map(|draw| draw.as_ref().err()).collect();
    if let Some(first) = lost.first() {
        complain(&format!(
            "{} of {} draws failed; the first: {first}",
            lost.len(),
            drawn.iter().flatten().count()
        ));
    }
    let rows = nominal.iter().zip(&drawn).flat_map(|(reports, drawn)| rows(reports, drawn)).collect();
    Ok(Intervals { draws: count.into(), failed: lost.len(), rows })
}

/// The rows of one experiment on one machine.
fn rows(reports: &[&Report], drawn: &[Drawn]) -> Vec<Interval> {
    let several = |is: &dyn Fn(&Report) -> bool| reports.iter().any(|report| is(report));
    let threads = several(&|report| report.threads != reports[0].threads);
    let drains = several(&|report| report.lru_drain != reports[0].lru_drain);
    let mut rows = Vec::new();
    for (after, report) in reports.iter().enumerate().filter(|(_, report)| !report.is_baseline()) {
        let is_before = |other: &&Report| other.is_baseline() && other.case() == report.case();
        let Some(before) = reports.iter().position(is_before) else { continue };
        let words = [
            threads.then(|| format!("x{}", report.threads)),
            report.lru_drain.filter(|_| drains).map(str::to_owned),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        let metrics: Vec<&'static str> = report.published.keys().copied().collect();
        // An experiment without published figures has one that every experiment has.
        let metrics = if metrics.is_empty() { vec!["loops_per_second"] } else { metrics };
        for metric in metrics {
            let ratio = |before: &Report, after: &Report| {
                let ratio = after.measured(metric)? / before.measured(metric)?;
                ratio.is_finite().then_some(ratio)
            };
            let ratios: Vec<f64> = drawn
                .iter()
                .flatten()
                .filter_map(|reports| ratio(&reports[before], &reports[after]))
                .collect();
            let count = ratios.len();
            let (Some(ours), Some(spread)) = (ratio(reports[before], report), Spread::of(ratios)) else {
                continue;
            };
            let basis = report.basis(metric, Some(reports[before]));
            let paper = report.published.get(metric).filter(|_| report.is_proposal());
            rows.push(Interval {
                experiment: report.experiment,
                machine: report.machine.clone(),
                case: (!words.is_empty()).then(|| words.join(" ")),
                mechanism: report.mechanism,
                metric,
                published: paper.map(|paper| paper.ratio),
                ours,
                low: spread.low,
                median: spread.median,
                high: spread.high,
                draws: count,
                label: paper.map(|_| basis.name()),
                basis: paper.map(|_| basis),
            });
        }
    }
    rows
}

/// The drawn machine as the command line wants it, and the progress.
struct Arranged {
    cpus: Option<u32>,
    without: Vec<Effect>,
    shown: Shown,
}

impl Around for Arranged {
    fn finish(&self, machine: &Machine) -> Result<Machine, MachineError> {
        let machine = match self.cpus {
            Some(cpus) => machine.with_cpus(cpus)?,
            None => machine.clone(),
        };
        Ok(machine.without(&self.without))
    }

    fn goes_on(&self) -> bool {
        Watch::goes_on(&self.shown)
    }

    fn ended(&self, done: u64, all: u64) {
        self.shown.progress(&Progress { all, done, ..Progress::default() });
    }
}
