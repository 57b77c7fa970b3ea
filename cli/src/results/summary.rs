//! The summary: a row for each experiment, machine and number of threads, with the paper's figure, ours, and the
//! difference.
//!
//! The row shows the paper's headline figure before and after its change, and the ratio of the two. Only the ratios are
//! comparable, because our run may be smaller. The last column gives the basis of our ratio.

use std::collections::BTreeSet;

use ceasefire_experiments::{Basis, Comparison, Report};

use crate::number::{compact, difference, ratio};

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
    /// Our figures before and after, NaN if they were not run.
    pub(crate) ours: [f64; 2],
    /// The mechanism of our figure after, if it is not the one that the paper proposes.
    pub(crate) other: Option<&'static str>,
    pub(crate) basis: Basis,
    /// The number of broken rules and wrong loads.
    pub(crate) wrong: u64,
}

impl Row {
    /// Our figure after divided by that before.
    pub(crate) fn ratio(&self) -> Option<f64> {
        let [before, after] = self.ours;
        (before > 0.0).then(|| after / before).filter(|ratio| ratio.is_finite())
    }

    /// The basis of our ratio, or `-` if there is nothing to compare it with. A mechanism without published figures is
    /// no prediction of the paper's figure, so its name stands here instead.
    pub(crate) fn verdict(&self, word: fn(Basis) -> &'static str) -> &'static str {
        match self.published {
            _ if self.wrong > 0 => "BROKEN",
            Some(_) if self.ratio().is_some() => self.other.unwrap_or(word(self.basis)),
            _ => "-",
        }
    }

    /// The cells: experiment, machine, metric; published before, after and ratio; ours before, after and ratio;
    /// difference, verdict in the short word.
    pub(crate) fn cells(&self) -> [String; 11] {
        let machine = match &self.case {
            Some(case) => format!("{} {case}", self.machine),
            None => self.machine.clone(),
        };
        let paper = self.published.as_ref();
        let figure = |value: fn(&Comparison) -> f64| paper.map_or("-".into(), |paper| compact(value(paper)));
        [
            self.experiment.into(),
            machine,
            self.metric.1.clone(),
            figure(|paper| paper.before),
            figure(|paper| paper.after),
            ratio(paper.map(|paper| paper.ratio)),
            compact(self.ours[0]),
            compact(self.ours[1]),
            ratio(self.ratio()),
            paper.map_or("-".into(), |paper| difference(self.ratio(), paper.ratio)),
            self.verdict(Basis::short_name).into(),
        ]
    }
}

/// The rows of all results, in the results' order.
pub(crate) fn rows(reports: &[Report]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let mut seen: BTreeSet<(&str, &str, usize, Option<&str>)> = BTreeSet::new();
    for report in reports {
        let is_same =
            |other: &&Report| (other.experiment, &other.machine) == (report.experiment, &report.machine);
        let same: Vec<&Report> = reports.iter().filter(is_same).collect();
        let case = |report: &Report| (report.threads, report.lru_drain);
        let is_of_case = |other: &&Report| case(other) == case(report);
        // Cases without a published figure are left out if other cases have one.
        let has_paper =
            |one: &&Report| same.iter().any(|other| case(other) == case(one) && headline(other).is_some());
        let known: Vec<&Report> = same.iter().copied().filter(has_paper).collect();
        let shown = if known.is_empty() { &same } else { &known };
        let of_case: Vec<&Report> = shown.iter().copied().filter(is_of_case).collect();
        if of_case.is_empty()
            || !seen.insert((report.experiment, &report.machine, report.threads, report.lru_drain))
        {
            continue;
        }
        let threads = shown.iter().any(|other| other.threads != report.threads);
        let drains = shown.iter().any(|other| other.lru_drain != report.lru_drain);
        let words = [
            threads.then(|| format!("x{}", report.threads)),
            report.lru_drain.filter(|_| drains).map(str::to_owned),
        ];
        let words: Vec<String> = words.into_iter().flatten().collect();
        rows.push(row(&of_case, (!words.is_empty()).then(|| words.join(" "))));
    }
    rows
}

fn row(reports: &[&Report], case: Option<String>) -> Row {
    let baseline = reports.iter().find(|report| report.is_baseline());
    let others = || reports.iter().filter(|report| !report.is_baseline());
    let after = others().find(|report| report.is_proposal()).or_else(|| others().next());
    let any = after.or(baseline).copied();
    let found = any.and_then(headline);
    let (metric, published) = match found {
        Some((metric, paper)) => (metric_name(metric), Some(*paper)),
        None => (("operations per second".into(), "ops/s".into()), None),
    };
    let figure = |report: Option<&&Report>| {
        let own = |report: &&Report| match found {
            Some((metric, _)) => report.published.get(metric).map(|paper| paper.measured),
            None => Some(report.operations_per_s),
        };
        report.and_then(own).unwrap_or(f64::NAN)
    };
    let first = reports[0];
    Row {
        experiment: first.experiment,
        machine: first.machine.clone(),
        case,
        metric,
        published,
        ours: [figure(baseline), figure(after)],
        other: after.filter(|report| !report.is_proposal()).map(|report| report.mechanism),
        basis: found
            .map_or(Basis::Predicted, |(metric, _)| any.unwrap_or(first).basis(metric, baseline.copied())),
        wrong: reports.iter().map(|report| report.violations + report.loads_wrong.unwrap_or(0)).sum(),
    }
}

/// The headline figure of the paper of a run.
fn headline(report: &Report) -> Option<(&'static str, &Comparison)> {
    let known = HEADLINES.iter().find_map(|name| report.published.get_key_value(name));
    known.or_else(|| report.published.first_key_value()).map(|(name, paper)| (*name, paper))
}
