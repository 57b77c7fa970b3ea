//! The summary: a row for each experiment, machine and number of threads, with the paper's figure, ours, and the
//! difference.
//!
//! The row shows the paper's headline figure before and after its change, and the ratio of the two. Only the ratios are
//! comparable, because our run may be smaller. Ours are medians over the runs of a case. The last column gives the basis
//! of our ratio, and the reasons to doubt it.

use std::collections::BTreeSet;

use ceasefire_experiments::{Basis, Caveat, Comparison, Interval, Repeats, Report};

use super::case::{distinction, place, Case};
use super::own::Own;
use crate::number::{compact, difference, range, ratio};

/// The papers' headline figures. The first that an experiment has is shown.
const HEADLINES: [&str; 4] = ["elapsed", "runtime", "loops_per_second", "pages_migrated_per_second"];

/// The name of a published metric in full, and in at most seven characters.
pub(crate) fn metric_name(metric: &str) -> (String, String) {
    let (long, short) = match metric {
        "elapsed" => ("elapsed time", "elapsed"),
        "runtime" => ("run time", "runtime"),
        "user" => ("user time", "user"),
        "system" => ("system time", "system"),
        "time_range" => ("range of finishing times", "range"),
        "time_stddv" => ("deviation of finishing times", "stddev"),
        "interrupts_per_second" | "tlb_interrupts" => ("TLB interrupts per second", "IPIs/s"),
        "tlb_shootdowns" => ("TLB interrupts", "IPIs"),
        "tlb_flush_events" => ("flushes of everything", "flushes"),
        "dtlb_load_misses" => ("TLB misses of loads", "loads"),
        "dtlb_store_misses" => ("TLB misses of stores", "stores"),
        "itlb_load_misses" => ("TLB misses of fetches", "fetches"),
        "pages_migrated_per_second" => ("pages migrated per second", "pages/s"),
        "loops_per_second" => ("loops per second", "loops/s"),
        other => return (other.replace('_', " "), other.chars().take(7).collect()),
    };
    (long.into(), short.into())
}

/// A published figure and ours, in one row.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) experiment: &'static str,
    pub(crate) machine: String,
    /// The number of threads and the value of `lru_drain`, if the experiment was run with several.
    pub(crate) case: Option<String>,
    /// The metric's name in full, and its short name.
    pub(crate) metric: (String, String),
    pub(crate) published: Option<Comparison>,
    /// The figures of every mechanism, if nothing was published.
    pub(crate) own: Option<Own>,
    /// Our figures before and after.
    pub(crate) ours: [Option<Interval>; 2],
    /// Our figure after divided by that before.
    pub(crate) ratio: Option<Interval>,
    /// The mechanism of our figure after, if it is not the one that the paper proposes.
    pub(crate) other: Option<&'static str>,
    pub(crate) basis: Basis,
    pub(crate) caveats: Vec<Caveat>,
    /// The number of broken rules and wrong loads.
    pub(crate) wrong: u64,
}

impl Row {
    /// The basis of our ratio, or `-` if there is nothing to compare it with. A mechanism without published figures is
    /// no prediction of the paper's figure, so its name stands here instead. The reasons to doubt the ratio follow.
    pub(crate) fn verdict(&self) -> String {
        let verdict = match self.published {
            _ if self.wrong > 0 => return "BROKEN".into(),
            Some(_) if self.ratio.is_some() => self.other.unwrap_or(self.basis.word()),
            _ => "-",
        };
        let caveats = self.caveats.iter().map(|caveat| caveat.word());
        std::iter::once(verdict).chain(caveats).collect::<Vec<_>>().join(", ")
    }

    /// The word of the JSON for the basis of our ratio, without the reasons to doubt it; empty if nothing was published.
    pub(crate) fn label(&self) -> &'static str {
        match self.published {
            Some(_) if self.ratio.is_some() => self.other.unwrap_or(self.basis.name()),
            _ => "",
        }
    }

    /// The machine, and the case if there are several.
    pub(crate) fn place(&self) -> String {
        place(&self.machine, self.case.as_deref())
    }

    /// The range of our ratio.
    pub(crate) fn range(&self) -> String {
        self.ratio.map_or(String::new(), |interval| range(interval, |value| ratio(Some(value))))
    }

    /// The difference of our ratio from the paper's, in percent of the latter.
    pub(crate) fn difference(&self) -> String {
        self.published.map_or("-".into(), |paper| difference(self.median(), paper.ratio))
    }

    /// The median of our ratio.
    pub(crate) fn median(&self) -> Option<f64> {
        self.ratio.map(|interval| interval.median)
    }

    /// Figures in short: the paper's before and after, and ours.
    pub(crate) fn figures(&self) -> [String; 4] {
        let paper = |value: fn(&Comparison) -> f64| {
            self.published.as_ref().map_or("-".into(), |paper| compact(value(paper)))
        };
        let ours = self.ours.map(|interval| interval.map_or("-".into(), |interval| compact(interval.median)));
        let [before, after] = ours;
        [paper(|paper| paper.before), paper(|paper| paper.after), before, after]
    }
}

/// The rows of all results, in the results' order.
pub(crate) fn rows(cases: &[Case]) -> Vec<Row> {
    let runs = || cases.iter().map(|case| &case.runs);
    let mut rows: Vec<Row> = Vec::new();
    let mut seen = BTreeSet::new();
    for report in runs().map(Repeats::first) {
        let is_same = |other: &&Repeats| {
            let other = other.first();
            (other.experiment, &other.machine) == (report.experiment, &report.machine)
        };
        let same: Vec<&Repeats> = runs().filter(is_same).collect();
        let is_of_case = |other: &&Repeats| other.first().case() == report.case();
        // Cases without a published figure are left out if other cases have one.
        let has_paper = |one: &&Repeats| {
            let case = one.first().case();
            same.iter()
                .map(|other| other.first())
                .any(|other| other.case() == case && headline(other).is_some())
        };
        let known: Vec<&Repeats> = same.iter().copied().filter(has_paper).collect();
        let shown = if known.is_empty() { &same } else { &known };
        let of_case: Vec<&Repeats> = shown.iter().copied().filter(is_of_case).collect();
        if of_case.is_empty() || !seen.insert((report.experiment, &report.machine, report.case())) {
            continue;
        }
        let shown: Vec<&Report> = shown.iter().map(|runs| runs.first()).collect();
        rows.push(row(&of_case, distinction(report, &shown)));
    }
    rows
}

fn row(runs: &[&Repeats], case: Option<String>) -> Row {
    let baseline = runs.iter().find(|runs| runs.first().is_baseline()).copied();
    let others = || runs.iter().filter(|runs| !runs.first().is_baseline()).copied();
    let after = others().find(|runs| runs.first().is_proposal()).or_else(|| others().next());
    let any = after.or(baseline).unwrap_or(runs[0]);
    let found = headline(any.first());
    let (metric, published) = match found {
        Some((metric, paper)) => (metric_name(metric), Some(*paper)),
        None => (("operations per second".into(), "ops/s".into()), None),
    };
    let figure = |report: &Report| match found {
        Some((metric, _)) => report.published.get(metric).map_or(f64::NAN, |paper| paper.measured),
        None => report.operations_per_s,
    };
    let interval = |runs: Option<&Repeats>| runs.and_then(|runs| runs.interval(figure));
    let name = found.map_or("", |(metric, _)| metric);
    let wrong = |report: &&Report| report.violations + report.loads_wrong.unwrap_or(0);
    Row {
        experiment: any.first().experiment,
        machine: any.first().machine.clone(),
        case,
        metric,
        published,
        own: found.is_none().then(|| Own::of(runs)),
        ours: [interval(baseline), interval(after)],
        ratio: baseline.and_then(|before| after?.ratio(before, figure)),
        other: after
            .map(Repeats::first)
            .filter(|report| !report.is_proposal())
            .map(|report| report.mechanism),
        basis: any.basis(name, baseline),
        caveats: found.map_or(Vec::new(), |_| any.caveats(name, baseline)),
        wrong: runs.iter().flat_map(|runs| runs.all()).map(wrong).sum(),
    }
}

/// The headline figure of the paper of a run.
fn headline(report: &Report) -> Option<(&'static str, &Comparison)> {
    let known = HEADLINES.iter().find_map(|name| report.published.get_key_value(name));
    known.or_else(|| report.published.first_key_value()).map(|(name, paper)| (*name, paper))
}
