//! The figures that the papers published.

use ceasefire_memory::LruDrain;

use crate::names::LRU_DRAINS;

/// The unit of a figure for which the paper gives only the ratio.
pub(crate) const RELATIVE: &str = "relative";

/// The figures that the model is known not to predict. The spread of finishing times comes from unfair locks and from
/// a scheduler that moves threads. The model has neither, and its spread differs from the papers' by up to seven times.
pub(crate) const UNMODELLED: [&str; 2] = ["time_range", "time_stddv"];

/// A published figure, before and after the paper's change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The experiment that models the paper's workload.
    pub experiment: &'static str,
    /// The machine that models the paper's.
    pub machine: &'static str,
    /// The name of the figure.
    pub metric: &'static str,
    /// The unit. It is `relative` if the paper gives only the ratio.
    pub unit: &'static str,
    /// The figure of the paper's baseline.
    pub before: f64,
    /// The figure of the paper's mechanism.
    pub after: f64,
    /// The settings of the measurement, if the paper varied them.
    pub case: Option<Case>,
    /// The operations of the paper's run, if ours does fewer at a small scale, each of them smaller too.
    pub operations: Option<u64>,
}

/// The settings with which a paper measured a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// The number of threads.
    pub threads: u16,
    /// The time at which new pages were listed: `eager` or `batched`.
    pub lru_drain: &'static str,
}

impl Case {
    /// The time at which new pages were listed.
    pub(crate) fn lru_drain(self) -> LruDrain {
        let found = LRU_DRAINS.iter().find(|(name, _)| *name == self.lru_drain);
        found.map(|(_, drain)| *drain).unwrap_or_default()
    }

    /// Whether a run has these settings.
    pub(crate) fn is(self, threads: usize, lru_drain: Option<&str>) -> bool {
        usize::from(self.threads) == threads && lru_drain == Some(self.lru_drain)
    }
}

const fn row(
    experiment: &'static str,
    machine: &'static str,
    metric: &'static str,
    unit: &'static str,
    before: f64,
    after: f64,
) -> Row {
    Row { experiment, machine, metric, unit, before, after, case: None, operations: None }
}

/// A figure of `tiered-inference`, in which three programs take 24 tokens each.
const fn tokens(metric: &'static str, unit: &'static str, before: f64, after: f64) -> Row {
    let row = row("tiered-inference", "xeon-6430-cxl", metric, unit, before, after);
    Row { operations: Some(3 * 24), ..row }
}

/// Loops per second of all threads of `tlb-flush2`.
const fn loops(machine: &'static str, threads: u16, lru_drain: &'static str, before: f64, after: f64) -> Row {
    let row = row("tlb-flush2", machine, "loops_per_second", "1/s", before, after);
    Row { case: Some(Case { threads, lru_drain }), ..row }
}

/// All published figures, by paper:
///
/// - BATCH-RECLAIM (M. Gorman, 2015, Linux commit 72b252aed506): vm-scalability lru-file-mmap-read on Linux 4.2-rc1,
///   before and after the series. The numbers of interrupts are rough figures from the text, for the steady phase.
/// - BATCH-MIGRATE (Y. Huang, 2023, Linux commit 7e12beb8ca2a): pmbench and migratepages. The paper gives only ratios:
///   interrupts during the test, which is equally long before and after, and pages migrated per second. The figure for
///   Arm is the best one that its tester saw ("up to"); the workload is not stated.
/// - LUF (B. Park, 2024, patch series version 10): llama.cpp with three models of 70 GB. The run time is the mean of the
///   30 printed ones. The counts are for one run of the three programs; interrupts were printed for ten runs. LUF's
///   flushes include some that were owed and never made, so its figures after the change are not a goal.
/// - BROADCAST (R. van Riel, 2025, patch series version 14): will-it-scale `tlb_flush2_threads`, total loops per second.
///   On 36 cores the paper varies whether new pages are drained before each unmap. It does not state the number of
///   threads, which is taken to be the number of cores. On 72 CPUs it varies the number of threads. There the baseline
///   ("tip") already lacks the drain: at 32 threads it is as fast as the other table's baseline without the drain.
pub(crate) static ROWS: &[Row] = &[
    row("mmap-read", "4-node-48-cpu", "elapsed", "s", 159.62, 120.68),
    row("mmap-read", "4-node-48-cpu", "time_range", "s", 30.59, 2.80),
    row("mmap-read", "4-node-48-cpu", "time_stddv", "s", 6.70, 0.64),
    row("mmap-read", "4-node-48-cpu", "user", "s", 581.00, 611.43),
    row("mmap-read", "4-node-48-cpu", "system", "s", 5804.93, 4111.76),
    row("mmap-read", "4-node-48-cpu", "interrupts_per_second", "1/s", 900_000.0, 180_000.0),
    row("mmap-read", "1-socket", "elapsed", "s", 25.33, 20.38),
    row("mmap-read", "1-socket", "time_range", "s", 0.91, 1.44),
    row("mmap-read", "1-socket", "time_stddv", "s", 0.28, 0.47),
    row("mmap-read", "1-socket", "user", "s", 58.09, 57.64),
    row("mmap-read", "1-socket", "system", "s", 111.82, 76.56),
    row("mmap-read", "1-socket", "interrupts_per_second", "1/s", 500_000.0, 45_000.0),
    row("migrate", "2-socket-intel", "tlb_interrupts", RELATIVE, 1.0, 0.009),
    row("migrate", "2-socket-intel", "pages_migrated_per_second", RELATIVE, 1.0, 3.917),
    row("migrate", "128-core-arm64", "pages_migrated_per_second", RELATIVE, 1.0, 1.78),
    tokens("runtime", "s", 1052.527, 996.377),
    tokens("tlb_shootdowns", "count", 1_251_250_816.0, 56_927_034.6),
    tokens("tlb_flush_events", "count", 1_357_543_886.0, 69_175_002.0),
    tokens("dtlb_load_misses", "count", 3_163_679_332.0, 2_394_694_609.0),
    tokens("dtlb_store_misses", "count", 2_017_751_856.0, 861_144_167.0),
    tokens("itlb_load_misses", "count", 327_092_903.0, 64_055_579.0),
    loops("milan-36", 36, "eager", 527_000.0, 527_000.0),
    loops("milan-36", 36, "batched", 731_000.0, 1_157_000.0),
    loops("milan-72", 1, "batched", 315_000.0, 304_000.0),
    loops("milan-72", 2, "batched", 423_000.0, 424_000.0),
    loops("milan-72", 4, "batched", 644_000.0, 1_032_000.0),
    loops("milan-72", 8, "batched", 652_000.0, 1_267_000.0),
    loops("milan-72", 16, "batched", 737_000.0, 1_368_000.0),
    loops("milan-72", 32, "batched", 759_000.0, 1_199_000.0),
    loops("milan-72", 64, "batched", 636_000.0, 1_094_000.0),
    loops("milan-72", 72, "batched", 609_000.0, 993_000.0),
];

/// The published figures for an experiment on a machine.
pub fn published<'a>(experiment: &'a str, machine: &'a str) -> impl Iterator<Item = &'static Row> + 'a {
    ROWS.iter().filter(move |row| row.experiment == experiment && row.machine == machine)
}
