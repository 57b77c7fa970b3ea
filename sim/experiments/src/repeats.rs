//! Runs that differ in nothing but the seed, and the spread of their figures.

use crate::measurement::Interval;
use crate::published::{Basis, Caveat, Comparison};
use crate::run::Report;

/// Runs that differ in nothing but the seed: at least one, in the order of their seeds.
#[derive(Debug, Clone)]
pub struct Repeats<'a>(Vec<&'a Report>);

impl<'a> Repeats<'a> {
    /// Groups runs, in the order in which each group's first run stands.
    pub fn group(reports: &'a [Report]) -> Vec<Self> {
        let mut groups: Vec<Self> = Vec::new();
        for report in reports {
            match groups.iter_mut().find(|group| group.first().differs_in_seed_alone(report)) {
                Some(Self(group)) => group.push(report),
                None => groups.push(Self(vec![report])),
            }
        }
        groups
    }

    /// The first run. It has the same settings as the others, but for the seed.
    pub fn first(&self) -> &'a Report {
        self.0[0]
    }

    /// All runs.
    pub fn all(&self) -> &[&'a Report] {
        &self.0
    }

    /// The spread of a figure. `None` if a run does not know it.
    pub fn interval(&self, figure: impl Fn(&Report) -> f64) -> Option<Interval> {
        Interval::of(self.0.iter().map(|report| figure(report)))
    }

    /// The spread of the ratio of a figure to that of the `baseline`, each run divided by the baseline's run of the same
    /// seed. `None` if there is no such pair, or if a ratio is not a number.
    pub fn ratio(&self, baseline: &Self, figure: impl Fn(&Report) -> f64) -> Option<Interval> {
        let before = |report: &Report| {
            baseline.0.iter().find(|before| before.seed == report.seed).map(|one| figure(one))
        };
        Interval::of(self.0.iter().filter_map(|report| Some(figure(report) / before(report)?)))
    }

    /// The paper's figure of that name.
    pub fn published(&self, metric: &str) -> Option<&'a Comparison> {
        self.first().published.get(metric)
    }

    /// The spread of our ratio for the published figure of that name.
    pub fn published_ratio(&self, metric: &str) -> Option<Interval> {
        let ratio = |report: &Report| report.published.get(metric)?.ours;
        Interval::of(self.0.iter().filter_map(|report| ratio(report)))
    }

    /// The basis of our ratio for the published figure of that name: the weakest of all runs'.
    pub fn basis(&self, metric: &str, baseline: Option<&Self>) -> Basis {
        let basis = |report: &&Report| {
            let before = baseline.and_then(|runs| runs.0.iter().find(|before| before.seed == report.seed));
            report.basis(metric, before.copied())
        };
        self.0.iter().map(basis).max().unwrap_or(Basis::Predicted)
    }

    /// The reasons to doubt our ratio for a figure, of its two sides together.
    pub fn caveats(&self, metric: &str, baseline: Option<&Self>) -> Vec<Caveat> {
        let runs = self.0.iter().chain(baseline.iter().flat_map(|before| &before.0));
        let counts = runs.filter_map(|report| report.events(metric));
        let few = counts.min().filter(|&count| count < Caveat::FEW).map(Caveat::Few);
        few.into_iter().chain(self.first().distortion()).collect()
    }
}

impl Report {
    /// Whether another run had the same settings, but for the seed. The checkers change no figure, so they may differ.
    fn differs_in_seed_alone(&self, other: &Self) -> bool {
        self.has_same_work(other)
            && (&self.machine, &self.without, self.speculate)
                == (&other.machine, &other.without, other.speculate)
            && (self.mechanism, self.settle) == (other.mechanism, other.settle)
    }
}
