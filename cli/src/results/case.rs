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
