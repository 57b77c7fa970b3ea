//! A case for which nothing was published, such as one of a workload of one's own: the figures of each mechanism beside
//! those of the baseline.

use ceasefire_experiments::{Interval, Repeats, Report};

use crate::number::compact;

/// The figure that says how fast runs are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speed {
    /// Operations per second.
    Rate,
    /// Elapsed time: every run did the same work.
    Elapsed,
}

impl Speed {
    /// The figure for runs of one case.
    pub(crate) fn of(runs: &[&Repeats]) -> Self {
        let all = || runs.iter().flat_map(|runs| runs.all());
        let first = runs[0].first();
        let is_fixed = all().all(|report| report.operations == first.operations);
        let is_timed = all().any(|report| report.elapsed_s.to_bits() != first.elapsed_s.to_bits());
        if is_fixed && is_timed {
            Self::Elapsed
        } else {
            Self::Rate
        }
    }

    /// Its name with its unit.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rate => "operations per second",
            Self::Elapsed => "elapsed time, s",
        }
    }

    /// The figure of a run.
    pub(crate) fn value(self) -> fn(&Report) -> f64 {
        match self {
            Self::Rate => |report| report.operations_per_s,
            Self::Elapsed => |report| report.elapsed_s,
        }
    }
}

/// The figures of all mechanisms in a case.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    pub(crate) speed: Speed,
    pub(crate) mechanisms: Vec<Mechanism>,
    /// The costs that outweigh saved interrupts, a line each.
    pub(crate) costs: Vec<String>,
}

/// The figures of a mechanism, and their ratios to those of the baseline.
#[derive(Debug, Clone)]
pub(crate) struct Mechanism {
    pub(crate) name: &'static str,
    pub(crate) is_baseline: bool,
    pub(crate) speed: Option<Interval>,
    pub(crate) speed_ratio: Option<Interval>,
    /// TLB interrupts per second.
    pub(crate) interrupts: Option<Interval>,
    pub(crate) interrupts_ratio: Option<Interval>,
}

impl Own {
    /// Whether the number of interrupts tells mechanisms apart. That of a mechanism alone does.
    pub(crate) fn sends_differently(&self) -> bool {
        let median = |one: &Mechanism| one.interrupts.map(|value| compact(value.median));
        let (first, others) = self.mechanisms.split_first().unzip();
        let others: &[Mechanism] = others.unwrap_or_default();
        others.is_empty() || others.iter().any(|other| median(other) != first.and_then(median))
    }

    /// Those of a case, whose `runs` are each mechanism's.
    pub(crate) fn of(runs: &[&Repeats]) -> Self {
        let speed = Speed::of(runs);
        let before = runs.iter().find(|runs| runs.first().is_baseline()).copied();
        let interrupts = |report: &Report| report.interrupts_per_s;
        let mechanism = |runs: &&Repeats| {
            let first = runs.first();
            let before = before.filter(|_| !first.is_baseline());
            Mechanism {
                name: first.mechanism,
                is_baseline: first.is_baseline(),
                speed: runs.interval(speed.value()),
                speed_ratio: before.and_then(|before| runs.ratio(before, speed.value())),
                interrupts: runs.interval(interrupts),
                interrupts_ratio: before.and_then(|before| runs.ratio(before, interrupts)),
            }
        };
        Self { speed, mechanisms: runs.iter().map(mechanism).collect(), costs: super::costs(runs) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::testing::report;

    #[test]
    fn fixed_work_is_compared_by_its_time_and_a_fixed_time_by_its_operations() {
        let slow = Report { elapsed_s: 2.0, operations: 100, ..report("per-page") };
        let fast = Report { elapsed_s: 1.0, mechanism: "batched", ..slow.clone() };
        let timed = Report { elapsed_s: 2.0, operations: 200, ..fast.clone() };
        let speed = |reports: &[Report]| {
            let groups = Repeats::group(reports);
            Speed::of(&groups.iter().collect::<Vec<_>>())
        };
        assert_eq!(speed(&[slow.clone(), fast]), Speed::Elapsed);
        assert_eq!(speed(&[slow.clone(), timed]), Speed::Rate);
        assert_eq!(speed(&[slow]), Speed::Rate, "one run says nothing about others");
    }

    #[test]
    fn every_mechanism_has_its_ratio_to_the_baseline() {
        let rate = |mechanism, operations_per_s, interrupts_per_s| Report {
            operations_per_s,
            interrupts_per_s,
            ..report(mechanism)
        };
        let reports = [rate("per-page", 100.0, 8.0), rate("batched", 150.0, 2.0), rate("all", 50.0, 0.0)];
        let groups = Repeats::group(&reports);
        let own = Own::of(&groups.iter().collect::<Vec<_>>());
        let ratios = |of: fn(&Mechanism) -> Option<Interval>| -> Vec<Option<f64>> {
            own.mechanisms.iter().map(|one| of(one).map(|ratio| ratio.median)).collect()
        };
        assert_eq!(ratios(|one| one.speed_ratio), [None, Some(1.5), Some(0.5)]);
        assert_eq!(ratios(|one| one.interrupts_ratio), [None, Some(0.25), Some(0.0)]);
        assert!(own.mechanisms[0].is_baseline && !own.mechanisms[1].is_baseline);
    }
}
