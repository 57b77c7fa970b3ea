//! The same runs on machines that are drawn from the ranges in the machine files, and the ratios that they predict.

use ceasefire_experiments::{Basis, Plan, Report};
use ceasefire_machine::config::{Machine, MachineError};
use ceasefire_studies::{uncertain, Around, Drawn, Draws, Progress, Ranges, Uncertain, Watch};

use super::selection::changed_file;
use crate::args::{CompareArguments, Settings};
use crate::failure::{complain, Failure};
use crate::results::{distinction, Prediction};
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

/// Draws machines for each experiment and machine of the plans, and runs the plans of the first seed on them. The number
/// says how many draws had no result.
pub(super) fn draw<'a>(
    arguments: &CompareArguments,
    settings: &Settings,
    draws: Draws,
    plans: &[Plan],
    reports: &'a [Report],
) -> Result<(Vec<Group<'a>>, usize), Failure> {
    let mut groups: Vec<(Uncertain<'_>, Vec<&Report>)> = Vec::new();
    for (plan, report) in plans.iter().zip(reports).filter(|(plan, _)| plan.seed == arguments.manner.seed) {
        let is_same = |first: &Plan| {
            (first.experiment.name, &first.machine.name) == (plan.experiment.name, &plan.machine.name)
        };
        if let Some((group, reports)) = groups.iter_mut().find(|(group, _)| is_same(group.plans[0])) {
            group.plans.push(plan);
            reports.push(report);
        } else {
            let name = arguments.choice.machine.as_deref().unwrap_or(&plan.machine.name);
            let file = changed_file(name, &settings.changes)?;
            let ranges = Ranges::of(&file);
            groups.push((Uncertain { file, ranges, plans: vec![plan] }, vec![report]));
        }
    }
    let (groups, reports): (Vec<_>, Vec<_>) = groups.into_iter().unzip();
    let around =
        Arranged { cpus: arguments.choice.cpus, settings, shown: Shown::new(arguments.manner.quiet) };
    let results = uncertain(&groups, (draws, SEED), arguments.manner.jobs, &around);
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

fn ratio(metric: &str, before: &Report, after: &Report) -> Option<f64> {
    let ratio = after.measured(metric)? / before.measured(metric)?;
    ratio.is_finite().then_some(ratio)
}

/// The drawn machine as the command line wants it, and the progress.
struct Arranged<'a> {
    cpus: Option<u32>,
    settings: &'a Settings,
    shown: Shown,
}

impl Around for Arranged<'_> {
    fn finish(&self, machine: &Machine) -> Result<Machine, MachineError> {
        let machine = match self.cpus {
            Some(cpus) => machine.with_cpus(cpus)?,
            None => machine.clone(),
        };
        let machine = match self.settings.speculate {
            Some(rate) => machine.speculating(rate)?,
            None => machine,
        };
        Ok(machine.without(&self.settings.without))
    }

    fn goes_on(&self) -> bool {
        Watch::goes_on(&self.shown)
    }

    fn ended(&self, done: u64, all: u64) {
        self.shown.progress(&Progress { all, done, ..Progress::default() });
    }
}
