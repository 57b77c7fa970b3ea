//! A case: the runs that differ in nothing but the seed, with the plan of the first.

use ceasefire_experiments::{Plan, Repeats, Report};

/// The runs of one case.
#[derive(Debug)]
pub(crate) struct Case<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) runs: Repeats<'a>,
}

/// The cases of some runs, in the order in which each case's first run stands. `plans` and `reports` belong together.
pub(crate) fn cases<'a>(plans: &'a [Plan], reports: &'a [Report]) -> Vec<Case<'a>> {
    let plan_of = |report: &Report| {
        plans.iter().zip(reports).find(|(_, other)| std::ptr::eq(*other, report)).map(|(plan, _)| plan)
    };
    let groups = Repeats::group(reports).into_iter();
    groups.filter_map(|runs| Some(Case { plan: plan_of(runs.first())?, runs })).collect()
}

/// The words that tell the case of a run from those of other runs of its experiment on its machine: its number of
/// threads and its value of `lru_drain`, where these differ.
pub(crate) fn distinction(report: &Report, among: &[&Report]) -> Option<String> {
    let threads = among.iter().any(|other| other.threads != report.threads);
    let drains = among.iter().any(|other| other.lru_drain != report.lru_drain);
    let words = [
        threads.then(|| format!("x{}", report.threads)),
        report.lru_drain.filter(|_| drains).map(str::to_owned),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// A machine, and the case if there are several.
pub(crate) fn place(machine: &str, case: Option<&str>) -> String {
    std::iter::once(machine).chain(case).collect::<Vec<_>>().join(" ")
}
