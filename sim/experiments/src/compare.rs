//! Comparing each run's figures with those that its paper published.

use ceasefire_machine::config::Linux;

use crate::experiment::{Experiment, Mechanism};
use crate::published::{self, published, Basis, Caveat, Comparison, Row, Run, Side};
use crate::run::Report;

impl Report {
    /// The values of a sweep: the number of threads, and the time of listing new pages.
    pub fn case(&self) -> (usize, Option<&'static str>) {
        (self.threads, self.lru_drain)
    }

    /// Whether another run did the same work on the same machine, but for its seed. The mechanisms may differ.
    pub(crate) fn has_same_work(&self, other: &Self) -> bool {
        (self.experiment, &self.machine_hash) == (other.experiment, &other.machine_hash)
            && self.scale.to_bits() == other.scale.to_bits()
            && self.case() == other.case()
    }

    /// Whether its mechanism is the one with which the others are compared.
    pub fn is_baseline(&self) -> bool {
        self.compared[0].name() == self.mechanism
    }

    /// Whether its mechanism is the one that the paper proposes.
    pub fn is_proposal(&self) -> bool {
        self.compared[1].name() == self.mechanism
    }

    /// The side of the published figures to which its mechanism belongs, if the paper measured it.
    pub fn side(&self) -> Option<Side> {
        let before = self.is_baseline().then_some(Side::Before);
        before.or(self.is_proposal().then_some(Side::After))
    }

    /// The basis of the ratio of this run's figure to that of `baseline`. Without a baseline, this run stands for it.
    pub fn basis(&self, metric: &str, baseline: Option<&Self>) -> Basis {
        let before = baseline.map_or(&self.influences, |baseline| &baseline.influences);
        self.influences.ratio(before, &self.as_run(), metric)
    }

    /// The basis of this run's own figure, beside that side of the published row.
    pub fn basis_of_side(&self, metric: &str, side: Side) -> Basis {
        self.influences.side(&self.as_run(), metric, side)
    }

    fn as_run(&self) -> Run<'_> {
        let Self { experiment, built_in, threads, lru_drain, .. } = self;
        // The machines were fitted on the experiment's own Linux.
        let kernel = Linux::of_release(self.kernel);
        let is_other = |built_in: &Experiment| kernel.is_none_or(|kernel| kernel.differs(built_in.kernel));
        let altered = !self.without.is_empty() || Experiment::find(experiment).is_some_and(is_other);
        let machine = built_in.unwrap_or_default();
        Run { experiment, machine, threads: *threads, lru_drain: *lru_drain, altered }
    }

    /// Our figure that corresponds to a published one, by the latter's name.
    pub fn measured(&self, metric: &str) -> Option<f64> {
        Some(match Figure::of(metric)?.kind {
            Kind::Time(value) | Kind::Rate(value, _) => value(self),
            Kind::Count(events) => events(self) as f64,
        })
    }

    /// The number of events that a published figure counts. `None`: it is no count.
    pub(crate) fn events(&self, metric: &str) -> Option<u64> {
        match Figure::of(metric)?.kind {
            Kind::Time(_) => None,
            Kind::Rate(_, events) | Kind::Count(events) => Some(events(self)),
        }
    }

    /// The distortion of its ratios by its scale, if there is any.
    pub(crate) fn distortion(&self) -> Option<Caveat> {
        (self.scale < self.faithful_from).then_some(Caveat::Scale(self.faithful_from))
    }

    /// This run's figure that corresponds to a published one, for the paper's size: times and counts shrink with the
    /// scale and with the operations, rates do not. `None`: the figure is unknown.
    pub fn at_full_size(&self, figure: &published::Figure) -> Option<f64> {
        let measured = self.measured(figure.row.metric)?;
        Some(match Figure::of(figure.row.metric)?.kind {
            Kind::Time(_) | Kind::Count(_) => {
                let operations = figure.row.operations.map_or(1.0, |all| all as f64 / self.operations as f64);
                measured / self.scale * operations
            }
            Kind::Rate(..) => measured,
        })
    }
}

/// The figure of ours that corresponds to published ones.
struct Figure {
    /// The names of the published figures.
    published: &'static [&'static str],
    /// The name of ours in JSON.
    field: &'static str,
    kind: Kind,
}

/// The kind of a figure.
enum Kind {
    /// Seconds.
    Time(fn(&Report) -> f64),
    /// Events per second, and the number of events.
    Rate(fn(&Report) -> f64, fn(&Report) -> u64),
    /// The number of events.
    Count(fn(&Report) -> u64),
}

const fn figure(published: &'static [&'static str], field: &'static str, kind: Kind) -> Figure {
    Figure { published, field, kind }
}

const FIGURES: &[Figure] = &[
    figure(&["elapsed", "runtime"], "elapsed_s", Kind::Time(|run| run.elapsed_s)),
    figure(&["time_range"], "finish_range_s", Kind::Time(|run| run.finish_range_s)),
    figure(&["time_stddv"], "finish_stddev_s", Kind::Time(|run| run.finish_stddev_s)),
    figure(&["user"], "user_s", Kind::Time(|run| run.user_s)),
    figure(&["system"], "system_s", Kind::Time(|run| run.system_s)),
    figure(
        &["interrupts_per_second", "tlb_interrupts"],
        "interrupts_per_s",
        Kind::Rate(|run| run.interrupts_per_s, |run| run.interrupts),
    ),
    figure(
        &["pages_migrated_per_second", "loops_per_second"],
        "operations_per_s",
        Kind::Rate(|run| run.operations_per_s, |run| run.operations),
    ),
    figure(&["tlb_shootdowns"], "interrupts", Kind::Count(|run| run.interrupts)),
    figure(&["tlb_flush_events"], "flushes_full", Kind::Count(|run| run.flushes_full)),
    figure(&["dtlb_load_misses"], "tlb_misses_load", Kind::Count(|run| run.tlb_misses_load)),
    figure(&["dtlb_store_misses"], "tlb_misses_store", Kind::Count(|run| run.tlb_misses_store)),
    figure(&["itlb_load_misses"], "tlb_misses_fetch", Kind::Count(|run| run.tlb_misses_fetch)),
];

impl Figure {
    fn of(metric: &str) -> Option<&'static Self> {
        FIGURES.iter().find(|figure| figure.published.contains(&metric))
    }
}

/// The names of the published figures that correspond to a field of a run in JSON.
pub fn published_names(field: &str) -> &'static [&'static str] {
    FIGURES.iter().find(|figure| figure.field == field).map_or(&[], |figure| figure.published)
}

/// The field of a run in JSON that corresponds to a published figure, by the latter's name.
pub fn published_field(metric: &str) -> Option<&'static str> {
    Figure::of(metric).map(|figure| figure.field)
}

/// Adds the published figures to each report of a machine that comes with the program. Ratios are relative to the
/// baseline run of the same experiment, machine, scale, seed, number of threads and listing of new pages. An experiment
/// without published figures on its machine has no paper's baseline: the mechanism that ran first takes its place.
pub fn compare(reports: &mut [Report]) {
    let first = |report: &Report| {
        let has_paper = published(report.experiment, report.built_in.unwrap_or_default()).next().is_some();
        let first = reports.iter().find(|other| other.has_same_work(report)).filter(|_| !has_paper)?;
        first.mechanism.parse().ok()
    };
    let firsts: Vec<Option<Mechanism>> = reports.iter().map(first).collect();
    for (report, first) in reports.iter_mut().zip(firsts) {
        report.compared[0] = first.unwrap_or(report.compared[0]);
    }
    let baselines: Vec<Report> = reports.iter().filter(|report| report.is_baseline()).cloned().collect();
    for report in reports {
        let is_its = |baseline: &&Report| baseline.has_same_work(report) && baseline.seed == report.seed;
        let baseline = baselines.iter().find(is_its);
        report.published = published(report.experiment, report.built_in.unwrap_or_default())
            .filter(|row| row.case.is_none_or(|case| case.is(report.threads, report.lru_drain)))
            .filter_map(|row| {
                let measured = report.measured(row.metric)?;
                let before = baseline
                    .and_then(|baseline| baseline.measured(row.metric))
                    .filter(|before| *before > 0.0);
                let ours = before.map(|before| measured / before);
                let Row { metric, unit, before, after, .. } = *row;
                Some((metric, Comparison { unit, before, after, ratio: after / before, ours, measured }))
            })
            .collect();
    }
}

#[cfg(test)]
mod tests {
    use ceasefire_machine::config::builtin;

    use super::*;
    use crate::published::ROWS;

    #[test]
    fn a_figure_of_few_operations_is_one_of_all_at_the_papers_size() {
        let figure: published::Figure = "tiered-inference runtime before".parse().expect("one figure");
        let machine = builtin("xeon-6430-cxl").expect("a listed name").expect("a valid file");
        let machine = machine.with_cpus(2).expect("it has as many");
        let plan = figure.plan(machine);
        let plan = crate::Plan { scale: plan.least_scale().max(1.0 / 4096.0), ..plan };
        let report = plan.run(|_| ()).expect("a run");
        // Three tokens of three programs, in place of 24.
        assert_eq!(report.operations, 9);
        let full = report.at_full_size(&figure).expect("a known figure");
        assert!((full / (report.elapsed_s * 8.0 / plan.scale) - 1.0).abs() < 1e-9, "{full}");
    }

    #[test]
    fn a_release_that_does_the_same_alters_nothing() {
        let machine = builtin("2-socket-intel").expect("a listed name").expect("a valid file");
        let machine = machine.with_cpus(2).expect("allowed");
        let experiment = crate::Experiment::find("fork-heavy").expect("an experiment");
        let run = crate::Plan { scale: 0.01, ..crate::Plan::new(experiment, machine) };
        let run = crate::Plan { scale: run.least_scale(), ..run }.run(|_| ()).expect("a run");
        let altered = |kernel| Report { kernel, ..run.clone() }.as_run().altered;
        assert_eq!(["6.3", "6.9", "6.12", "6.13", "6.18"].map(altered), [true, false, false, false, true]);
    }

    #[test]
    fn without_published_figures_the_first_mechanism_is_the_baseline() {
        let experiment = crate::Experiment::find("mmap-read").expect("an experiment");
        let machine = builtin("1-socket").expect("a listed name").expect("a valid file");
        let plan = |mechanism, cpus| {
            let machine = machine.with_cpus(cpus).expect("it has as many");
            crate::Plan { mechanism, scale: 0.003, ..crate::Plan::new(experiment, machine) }
        };
        for (cpus, baseline) in [(machine.topology.cpu_count().into(), "per-page"), (2, "lazy")] {
            let run = |mechanism| plan(mechanism, cpus).run(|_| ()).expect("a run");
            let mut reports = [Mechanism::Lazy, Mechanism::PerPage].map(run);
            compare(&mut reports);
            let baselines: Vec<&str> =
                reports.iter().filter(|report| report.is_baseline()).map(|report| report.mechanism).collect();
            assert_eq!(baselines, [baseline], "{cpus} CPUs");
        }
    }

    #[test]
    fn every_published_figure_has_one_of_ours() {
        for row in ROWS {
            assert!(Figure::of(row.metric).is_some(), "{}", row.metric);
        }
    }
}
