//! What the papers published.

/// The unit of a figure of which only the ratio was published.
pub(crate) const RELATIVE: &str = "relative";

/// A published figure, before and after the paper's mechanism.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The experiment that stands for the paper's workload.
    pub experiment: &'static str,
    /// The machine that stands for the paper's.
    pub machine: &'static str,
    /// What was measured.
    pub metric: &'static str,
    /// In which unit; `relative` if only the ratio was published.
    pub unit: &'static str,
    /// The baseline.
    pub before: f64,
    /// With the mechanism.
    pub after: f64,
    /// What it was measured with, where the paper varied that.
    pub case: Option<Case>,
}

/// What a figure was measured with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// How many threads.
    pub threads: u16,
    /// When new pages were listed.
    pub lru_drain: &'static str,
}

impl Case {
    /// Whether a run was made with it.
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
    Row { experiment, machine, metric, unit, before, after, case: None }
}

/// Loops a second of all threads of `tlb-flush2`.
const fn loops(machine: &'static str, threads: u16, lru_drain: &'static str, before: f64, after: f64) -> Row {
    let row = row("tlb-flush2", machine, "loops_per_second", "1/s", before, after);
    Row { case: Some(Case { threads, lru_drain }), ..row }
}

/// BATCH-RECLAIM (M. Gorman, 2015, Linux commit 72b252aed506): vm-scalability lru-file-mmap-read on Linux 4.2-rc1, before
/// and after the series; interrupts are the text's rough figures for the steady phase.
///
/// BATCH-MIGRATE (Y. Huang, 2023, Linux commit 7e12beb8ca2a): pmbench and migratepages, as ratios alone: interrupts during
/// the test, whose length is the same before and after, and pages migrated a second. The figure for Arm is the best of
/// what its tester saw ("up to"), with a workload that is not stated.
///
/// LUF (B. Park, 2024, patch series version 10): llama.cpp with three models of 70 GB. The mean of the 30 run times printed, and counts
/// for one run of the three programs, of which the interrupts were printed for ten. Its flushes include some that were
/// owed and never made, so its figures after the change are no goal.
///
/// BROADCAST (R. van Riel, 2025, patch series version 14): will-it-scale `tlb_flush2_threads`, total loops a second. On 36 cores
/// with and without the drain of new pages before each unmap; its number of threads is not told, and taken for that of the
/// cores. On 72 CPUs for numbers of threads, where the baseline ("tip") has the drain removed already: it is as fast at 32
/// threads as the other table says of that.
static ROWS: &[Row] = &[
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
    row("tiered-inference", "xeon-6430-cxl", "runtime", "s", 1052.527, 996.377),
    row("tiered-inference", "xeon-6430-cxl", "tlb_shootdowns", "count", 1_251_250_816.0, 56_927_034.6),
    row("tiered-inference", "xeon-6430-cxl", "tlb_flush_events", "count", 1_357_543_886.0, 69_175_002.0),
    row("tiered-inference", "xeon-6430-cxl", "dtlb_load_misses", "count", 3_163_679_332.0, 2_394_694_609.0),
    row("tiered-inference", "xeon-6430-cxl", "dtlb_store_misses", "count", 2_017_751_856.0, 861_144_167.0),
    row("tiered-inference", "xeon-6430-cxl", "itlb_load_misses", "count", 327_092_903.0, 64_055_579.0),
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

/// The figures published for an experiment on a machine.
pub fn published<'a>(experiment: &'a str, machine: &'a str) -> impl Iterator<Item = &'static Row> + 'a {
    ROWS.iter().filter(move |row| row.experiment == experiment && row.machine == machine)
}
