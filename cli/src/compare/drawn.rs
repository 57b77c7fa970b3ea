//! The same runs on machines that are drawn from the ranges in the machine files, and the ratios that they predict.

use ceasefire_experiments::{Basis, Plan, Report};
use ceasefire_machine::config::{Effect, Machine, MachineError};
use ceasefire_studies::{uncertain, Around, Drawn, Draws, Progress, Ranges, Uncertain, Watch};
use serde::Serialize;

use super::selection::{changed_file, effects};
use crate::args::CompareArguments;
use crate::failure::{complain, Failure};
use crate::results::{distinction, place};
use crate::sweep::progress::Shown;

/// The seed of the draws.
const SEED: u64 = 1;

/// The draws of one experiment on one machine.
pub(super) struct Group<'a> {
    /// The reports on the machine as it is.
    reports: Vec<&'a Report>,
    /// The keys of the numbers that are drawn.
    pub(super) keys: Vec<String>,
    /// Those of each drawn machine; none if the draws were stopped before.
    drawn: Vec<Option<Drawn>>,
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
    /// The places of the two runs.
    #[serde(skip)]
    before: usize,
    #[serde(skip)]
    after: usize,
}

/// Draws machines for each experiment and machine of the plans, and runs the plans of the first seed on them. The number
/// says how many draws had no result.
pub(super) fn draw<'a>(
    arguments: &CompareArguments,
    draws: Draws,
    plans: &[Plan],
    reports: &'a [Report],
) -> Result<(Vec<Group<'a>>, usize), Failure> {
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
            let ranges = Ranges::of(&file);
            groups.push((Uncertain { file, ranges, plans: vec![plan] }, vec![report]));
        }
    }
    let (groups, reports): (Vec<_>, Vec<_>) = groups.into_iter().unzip();
    let around = Arranged {
        cpus: arguments.cpus,
        speculate: arguments.speculate,
        without: effects(arguments)?,
        shown: Shown::new(arguments.quiet),
    };
    let results = uncertain(&groups, (draws, SEED), arguments.jobs, &around);
    around.shown.end();
    let results = results.map_err(Failure::input)?;
    let ended = || results.iter().flatten().flatten();
    let lost: Vec<&String> = ended().filter_map(|draw| draw.as_ref().err()).collect();
    if let Some(first) = lost.first() {
        complain(&format!("{} of {} draws failed; the first: {first}", lost.len(), ended().count()));
    }
    let lost = lost.len();
    let group = |((of, reports), drawn): ((&Uncertain<'_>, _), _)| Group {
        reports,
        keys: of.ranges.keys().map(str::to_owned).collect(),
        drawn,
    };
    Ok((groups.iter().zip(reports).zip(results).map(group).collect(), lost))
}

impl Group<'_> {
    /// Every prediction.
    pub(super) fn predictions(&self) -> Vec<Prediction> {
        let reports = &self.reports;
        let mut predictions = Vec::new();
        for (after, report) in reports.iter().enumerate().filter(|(_, report)| !report.is_baseline()) {
            let is_before = |other: &&Report| other.is_baseline() && other.case() == report.case();
            let Some(before) = reports.iter().position(is_before) else { continue };
            let metrics: Vec<&'static str> = report.published.keys().copied().collect();
            // An experiment without published figures has one that every experiment has.
            let metrics = if metrics.is_empty() { vec!["loops_per_second"] } else { metrics };
            predictions.extend(metrics.into_iter().map(|metric| Prediction {
                experiment: report.experiment,
                machine: report.machine.clone(),
                case: distinction(report, reports),
                mechanism: report.mechanism,
                metric,
                before,
                after,
            }));
        }
        predictions
    }

    /// The ratio on the machine as it is.
    pub(super) fn ours(&self, prediction: &Prediction) -> Option<f64> {
        ratio(prediction.metric, self.reports[prediction.before], self.reports[prediction.after])
    }

    /// The ratio on each drawn machine.
    pub(super) fn drawn(&self, prediction: &Prediction) -> Vec<Option<f64>> {
        let of = |drawn: &Option<Drawn>| {
            let reports = drawn.as_ref()?.as_ref().ok()?;
            ratio(prediction.metric, &reports[prediction.before], &reports[prediction.after])
        };
        self.drawn.iter().map(of).collect()
    }

    /// The paper's ratio, and the basis of ours, if the paper measured this mechanism.
    pub(super) fn published(&self, prediction: &Prediction) -> Option<(f64, Basis)> {
        let report = self.reports[prediction.after];
        let paper = report.published.get(prediction.metric).filter(|_| report.is_proposal())?;
        Some((paper.ratio, report.basis(prediction.metric, Some(self.reports[prediction.before]))))
    }
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

fn ratio(metric: &str, before: &Report, after: &Report) -> Option<f64> {
    let ratio = after.measured(metric)? / before.measured(metric)?;
    ratio.is_finite().then_some(ratio)
}

/// The drawn machine as the command line wants it, and the progress.
struct Arranged {
    cpus: Option<u32>,
    speculate: Option<f64>,
    without: Vec<Effect>,
    shown: Shown,
}

impl Around for Arranged {
    fn finish(&self, machine: &Machine) -> Result<Machine, MachineError> {
        let machine = match self.cpus {
            Some(cpus) => machine.with_cpus(cpus)?,
            None => machine.clone(),
        };
        let machine = match self.speculate {
            Some(rate) => machine.speculating(rate)?,
            None => machine,
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
