//! Grouping results by experiment and machine. Each group is a section of the page.
//!
//! Within a group, results differ by their mechanism, by their number of threads if it was swept, and by options. This
//! module has no list of options. Every field of a result that is a string or a boolean counts as one if it differs
//! between two results of the same mechanism.

use std::collections::{BTreeMap, BTreeSet};

use ceasefire_experiments::{Experiment, Repeats, Report};
use ceasefire_machine::config::Machine;
use serde_json::Value;

use crate::results::Case;

/// The results of an experiment on a machine.
pub(crate) struct Group<'a> {
    pub(crate) experiment: &'static Experiment,
    pub(crate) machine: &'a Machine,
    /// The first run of each case, in the order in which they were run; never empty.
    pub(crate) reports: Vec<&'a Report>,
    /// All runs of each case.
    pub(crate) runs: Vec<&'a Repeats<'a>>,
    /// The names of the variants, in order: mechanisms, with options if these differ. Each is a line or a bar in every
    /// figure.
    pub(crate) variants: Vec<String>,
    /// The mechanism of each variant, which is also the class of its colour.
    pub(crate) mechanisms: Vec<&'static str>,
    /// The number of each result's variant.
    variant_of: Vec<usize>,
}

/// The groups, in the order of their first results.
pub(crate) fn groups<'a>(cases: &'a [Case<'a>]) -> Vec<Group<'a>> {
    let mut found: Vec<Vec<&'a Case<'a>>> = Vec::new();
    for case in cases {
        let of = |case: &'a Case<'a>| {
            let first = case.runs.first();
            (first.experiment, &first.machine, &first.machine_hash)
        };
        match found.iter_mut().find(|cases| of(cases[0]) == of(case)) {
            Some(cases) => cases.push(case),
            None => found.push(vec![case]),
        }
    }
    let group = |cases: Vec<&'a Case<'a>>| {
        let plan = cases[0].plan;
        let runs: Vec<&Repeats> = cases.iter().map(|case| &case.runs).collect();
        let reports: Vec<&Report> = runs.iter().map(|runs| runs.first()).collect();
        let names = names(&reports);
        let mut variants: Vec<String> = Vec::new();
        let mut mechanisms = Vec::new();
        for (name, report) in names.iter().zip(&reports) {
            if !variants.contains(name) {
                variants.push(name.clone());
                mechanisms.push(report.mechanism);
            }
        }
        let number = |name| variants.iter().position(|variant| variant == name).unwrap_or(0);
        let variant_of = names.iter().map(number).collect();
        let (experiment, machine) = (plan.experiment, &plan.machine);
        Group { experiment, machine, reports, runs, variants, mechanisms, variant_of }
    };
    found.into_iter().map(group).collect()
}

impl<'a> Group<'a> {
    /// Each result with the number of its variant.
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (usize, &'a Report)> + '_ {
        self.variant_of.iter().copied().zip(self.reports.iter().copied())
    }

    /// The runs of each case with the number of its variant.
    pub(crate) fn numbered_runs(&self) -> impl Iterator<Item = (usize, &'a Repeats<'a>)> + '_ {
        self.variant_of.iter().copied().zip(self.runs.iter().copied())
    }

    /// The numbers of threads, in rising order.
    pub(crate) fn threads(&self) -> Vec<usize> {
        let threads: BTreeSet<usize> = self.reports.iter().map(|report| report.threads).collect();
        threads.into_iter().collect()
    }

    /// The most runs of a case.
    pub(crate) fn repeats(&self) -> usize {
        self.runs.iter().map(|runs| runs.all().len()).max().unwrap_or(1)
    }

    /// The end of a caption whose figures are medians of ours.
    pub(crate) fn medians(&self) -> String {
        match self.repeats() {
            0 | 1 => String::new(),
            many => format!(" Ours: median of {many} runs, range as a thin line."),
        }
    }

    /// The end of a caption whose figures are those of the first run.
    pub(crate) fn first_of_several(&self) -> String {
        match self.repeats() {
            0 | 1 => String::new(),
            many => format!(" The first of {many} runs, seed {}.", self.reports[0].seed),
        }
    }

    /// The results with the most threads, one of each variant. Figures without an axis for threads show these.
    pub(crate) fn widest(&self) -> Vec<(usize, &'a Report)> {
        let most = self.threads().last().copied();
        let mut widest: Vec<(usize, &Report)> = Vec::new();
        for (variant, report) in self.numbered().filter(|(_, report)| Some(report.threads) == most) {
            if widest.iter().all(|(other, _)| *other != variant) {
                widest.push((variant, report));
            }
        }
        widest
    }

    /// The end of a figure's title if the figure shows only the results with the most threads.
    pub(crate) fn of_the_widest(&self) -> String {
        match &self.threads()[..] {
            [.., most] if self.threads().len() > 1 => format!(" with {most} threads"),
            _ => String::new(),
        }
    }
}

/// The names of a group's results.
fn names(reports: &[&Report]) -> Vec<String> {
    let options: Vec<BTreeMap<String, String>> = reports.iter().map(|report| options(report)).collect();
    let differs = |field: &String| {
        reports.iter().zip(&options).any(|(one, its)| {
            let others = reports.iter().zip(&options);
            others
                .filter(|(other, _)| other.mechanism == one.mechanism)
                .any(|(_, of)| of.get(field) != its.get(field))
        })
    };
    let fields: BTreeSet<&String> =
        options.iter().flat_map(BTreeMap::keys).filter(|field| differs(field)).collect();
    let name = |(report, options): (&&Report, &BTreeMap<String, String>)| {
        let words = fields.iter().filter_map(|field| options.get(*field));
        std::iter::once(report.mechanism).chain(words.map(String::as_str)).collect::<Vec<_>>().join(", ")
    };
    reports.iter().zip(&options).map(name).collect()
}

/// The fields of a result that may be options, with their values in words.
fn options(report: &Report) -> BTreeMap<String, String> {
    let known = ["experiment", "machine", "machine_hash", "built_in", "mechanism", "oracle", "shadow"];
    let Ok(Value::Object(fields)) = serde_json::to_value(report) else { return BTreeMap::new() };
    let of = |(field, value): (String, Value)| {
        let name = field.replace('_', " ");
        let says = match value {
            Value::String(word) => format!("{name} {word}"),
            Value::Bool(true) => name,
            Value::Bool(false) => format!("no {name}"),
            _ => return None,
        };
        Some((field, says))
    };
    fields.into_iter().filter(|(field, _)| !known.contains(&field.as_str())).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{plans, report};
    use super::*;
    use crate::results::cases;

    #[test]
    fn a_result_is_named_after_the_options_that_differ_and_no_others() {
        let free = Report { settle: Some("free"), ..report("lazy") };
        let demand = Report { settle: Some("demand"), ..report("lazy") };
        assert_eq!(names(&[&report("batched"), &free]), ["batched", "lazy"]);
        assert_eq!(
            names(&[&report("batched"), &free, &demand]),
            ["batched", "lazy, settle free", "lazy, settle demand"]
        );
    }

    #[test]
    fn a_sweep_is_one_group_with_a_variant_for_each_mechanism() {
        let reports: Vec<Report> = [1, 8, 2]
            .into_iter()
            .flat_map(|threads| ["per-page", "batched"].map(|name| Report { threads, ..report(name) }))
            .collect();
        let plans = plans(&reports);
        let cases = cases(&plans, &reports);
        let groups = groups(&cases);
        assert_eq!(groups.len(), 1);
        let group = &groups[0];
        assert_eq!(
            (group.threads(), &group.variants[..]),
            (vec![1, 2, 8], &["per-page", "batched"].map(String::from)[..])
        );
        let widest: Vec<(usize, usize)> =
            group.widest().iter().map(|(variant, report)| (*variant, report.threads)).collect();
        assert_eq!(widest, [(0, 8), (1, 8)]);
        assert_eq!(group.of_the_widest(), " with 8 threads");
    }

    #[test]
    fn each_machine_has_its_own_group_in_any_order_of_results() {
        let other = |name| Report { machine: "other".into(), ..report(name) };
        let reports = [report("batched"), other("batched"), report("per-page")];
        let plans = plans(&reports);
        let sizes: Vec<usize> =
            groups(&cases(&plans, &reports)).iter().map(|group| group.reports.len()).collect();
        assert_eq!(sizes, [2, 1]);
    }
}
