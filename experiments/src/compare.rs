//! Comparing each run's figures with those that its paper published.

use crate::experiment::Experiment;
use crate::published::{published, Basis, Comparison, Row, Run, Side};
use crate::run::Report;

impl Report {
    /// Whether its mechanism is the experiment's baseline.
    pub fn is_baseline(&self) -> bool {
        Experiment::find(self.experiment)
            .is_some_and(|experiment| experiment.baseline().name() == self.mechanism)
    }

    /// Whether its mechanism is the one that the paper proposes.
    pub fn is_proposal(&self) -> bool {
        Experiment::find(self.experiment)
            .is_some_and(|experiment| experiment.proposal().name() == self.mechanism)
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
        let Self { experiment, machine, threads, lru_drain, .. } = self;
        Run { experiment, machine, threads: *threads, lru_drain: *lru_drain }
    }

    /// The measured figure that corresponds to a published row.
    fn figure(&self, row: &Row) -> Option<f64> {
        Some(match row.metric {
            "elapsed" | "runtime" => self.elapsed_s,
            "time_range" => self.finish_range_s,
            "time_stddv" => self.finish_stddev_s,
            "user" => self.user_s,
            "system" => self.system_s,
            "interrupts_per_second" | "tlb_interrupts" => self.interrupts_per_s,
            "pages_migrated_per_second" | "loops_per_second" => self.operations_per_s,
            "tlb_shootdowns" => self.interrupts as f64,
            "tlb_flush_events" => self.flushes_full as f64,
            "dtlb_load_misses" => self.tlb_misses_load as f64,
            "dtlb_store_misses" => self.tlb_misses_store as f64,
            "itlb_load_misses" => self.tlb_misses_fetch as f64,
            _ => return None,
        })
    }
}

/// Adds the published figures to each report. Ratios are relative to the baseline run of the same experiment, machine,
/// scale, seed, number of threads and listing of new pages.
pub fn compare(reports: &mut [Report]) {
    let baselines: Vec<Report> = reports.iter().filter(|report| report.is_baseline()).cloned().collect();
    for report in reports {
        let baseline = baselines.iter().find(|baseline| {
            baseline.experiment == report.experiment
                && baseline.machine == report.machine
                && baseline.scale.to_bits() == report.scale.to_bits()
                && baseline.seed == report.seed
                && baseline.threads == report.threads
                && baseline.lru_drain == report.lru_drain
        });
        report.published = published(report.experiment, &report.machine)
            .filter(|row| row.case.is_none_or(|case| case.is(report.threads, report.lru_drain)))
            .filter_map(|row| {
                let measured = report.figure(row)?;
                let before =
                    baseline.and_then(|baseline| baseline.figure(row)).filter(|before| *before > 0.0);
                let ours = before.map(|before| measured / before);
                let Row { metric, unit, before, after, .. } = *row;
                Some((metric, Comparison { unit, before, after, ratio: after / before, ours, measured }))
            })
            .collect();
    }
}
