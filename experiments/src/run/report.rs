//! What one run measured, under the names of the command line's JSON, and beside what was published.

use std::collections::BTreeMap;

use ceasefire::{Schedule, Settle};
use ceasefire_machine::{Outcome, Reading};
use ceasefire_memory::{LruDrain, PAGE_BYTES};
use serde::Serialize;

use super::plan::Plan;
use crate::experiment::Finished;
use crate::measurement::{Atomic, Latency, PerProcess, Series, Time};
use crate::published::Comparison;

const SECOND: f64 = 1e12;

/// What settled the debts of put-off flushes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SettledBy {
    /// Interrupting other CPUs.
    pub interrupt: u64,
    /// Broadcast invalidation.
    pub broadcast: u64,
    /// Nothing: the CPUs stopped using the space by themselves.
    pub switch: u64,
    /// The timer tick.
    pub tick: u64,
    /// A flush of the own CPU alone.
    pub local: u64,
}

/// What one run measured. Times are simulated seconds, but for `wall_s`.
///
/// Where the experiment measures between two moments of its run, as `migrate` does, elapsed time, rates and counts are of
/// the time between them. The times of programs and of the kernel's threads, the spread of finishes, what the oracle saw
/// and the loads compared are always of the whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The machine's name.
    pub machine: String,
    /// The part of the paper's size.
    pub scale: f64,
    /// The seed.
    pub seed: u64,
    /// CPUs of the machine.
    pub cpus: u16,
    /// Concurrent threads of programs.
    pub threads: usize,
    /// The mechanism's name.
    pub mechanism: &'static str,
    /// What settles debts, under `lazy` and `all`: `free` or `demand`. `None`, in JSON `null`, under the others.
    pub settle: Option<&'static str>,
    /// When new pages are listed: `eager` or `batched`. `None`, in JSON `null`, where that cannot be chosen.
    pub lru_drain: Option<&'static str>,
    /// From the first program's start to the last one's end, or between the two moments.
    pub elapsed_s: f64,
    /// Time of all programs outside the kernel.
    pub user_s: f64,
    /// Time of all programs in the kernel, as time(1) would say; interrupts that hit them included.
    pub system_s: f64,
    /// Time of the kernel's own threads: background reclaim.
    pub kernel_s: f64,
    /// The longest elapsed time of a program less the shortest.
    pub finish_range_s: f64,
    /// The standard deviation of the programs' elapsed times.
    pub finish_stddev_s: f64,
    /// Pages read, pages moved, or tokens generated.
    pub operations: u64,
    /// The same per second.
    pub operations_per_s: f64,
    /// Page faults.
    pub faults: u64,
    /// Pages freed by reclaim.
    pub pages_reclaimed: u64,
    /// Pages moved between nodes.
    pub pages_migrated: u64,
    /// Pages that reclaim looked at.
    pub pages_scanned: u64,
    /// Interrupts received for TLB work.
    pub interrupts: u64,
    /// The same per second.
    pub interrupts_per_s: f64,
    /// Operations that sent any interrupt.
    pub shootdowns: u64,
    /// Broadcast invalidations.
    pub broadcasts: u64,
    /// Flushes of everything under an ASID, per CPU that did one.
    pub flushes_full: u64,
    /// Pages invalidated one by one.
    pub flushes_page: u64,
    /// Flushes that a CPU did anyway and that settled something.
    pub flushes_free: u64,
    /// Loads that missed the TLB.
    pub tlb_misses_load: u64,
    /// Stores that did.
    pub tlb_misses_store: u64,
    /// Instruction fetches that did; 0 where the programs' code is not part of the experiment.
    pub tlb_misses_fetch: u64,
    /// Loads and stores.
    pub accesses: u64,
    /// Translations cleared whose flush was put off.
    pub debts_created: u64,
    /// What settled them.
    pub debts_settled_by: SettledBy,
    /// The oldest of them when it was settled.
    pub debt_age_max_s: f64,
    /// Time that CPUs waited for locks.
    pub lock_wait_s: f64,
    /// Time that CPUs waited for the answers to a flush.
    pub answer_wait_s: f64,
    /// The same in nanoseconds for each MiB moved between nodes. `None`, in JSON `null`, if nothing was moved.
    pub flush_wait_ns_per_mib: Option<f64>,
    /// Where the time of all CPUs went.
    pub time: Time,
    /// Interrupts and broadcasts over the whole run.
    pub series: Series,
    /// How long single operations took. `None`, in JSON `null`, where the experiment measures none.
    pub latency: Option<Latency>,
    /// What became of allocations that must not wait. `None`, in JSON `null`, where the experiment makes none.
    pub atomic: Option<Atomic>,
    /// How the operations are spread over processes. `None`, in JSON `null`, where there are not many of the same kind.
    pub per_process: Option<PerProcess>,
    /// Whether the oracle watched; without it the next three say nothing.
    pub oracle: bool,
    /// Uses of owed entries, which the rules allow.
    pub stale_hits: u64,
    /// Rules broken.
    pub violations: u64,
    /// The first of them, in words.
    pub broken: Vec<String>,
    /// Loads that were compared with what they must return; 0 where frames keep no bytes, at large scales.
    pub loads_compared: u64,
    /// How many of these returned something else.
    pub loads_wrong: u64,
    /// Seconds that the run took on the host.
    pub wall_s: f64,
    /// The paper's figures by metric.
    pub published: BTreeMap<&'static str, Comparison>,
}

impl Report {
    pub(crate) fn new(
        plan: &Plan,
        starts: &[u64],
        outcome: &Outcome,
        finished: &Finished,
        wall_s: f64,
    ) -> Self {
        let seconds = |picoseconds: u64| picoseconds as f64 / SECOND;
        let first = starts.iter().copied().min().unwrap_or(0);
        let measured = match &finished.window {
            Some((before, after)) => after.since(before),
            None => outcome.reading.since(&Reading { time: first, ..Reading::default() }),
        };
        let elapsed_s = seconds(measured.time);
        let programs = || outcome.threads.iter().filter(|thread| !thread.kernel);
        let sum = |times: &mut dyn Iterator<Item = u64>| seconds(times.sum());
        let durations: Vec<f64> = programs()
            .zip(starts)
            .filter_map(|(thread, start)| Some(seconds(thread.ended?.saturating_sub(*start))))
            .collect();
        let count = durations.len().max(1) as f64;
        let mean = durations.iter().sum::<f64>() / count;
        let deviation = (durations.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count).sqrt();
        let longest = durations.iter().copied().fold(0.0, f64::max);
        let shortest = durations.iter().copied().fold(f64::INFINITY, f64::min).min(longest);
        let per_second = |count: u64| if elapsed_s > 0.0 { count as f64 / elapsed_s } else { 0.0 };
        let (counters, statistics) = (&measured.counters, &measured.statistics);
        Self {
            experiment: plan.experiment.name,
            machine: plan.machine.name.clone(),
            scale: plan.scale,
            seed: plan.seed,
            cpus: plan.machine.topology.cpu_count(),
            threads: starts.len(),
            mechanism: plan.mechanism.name(),
            settle: (plan.mechanism.schedule() == Schedule::Lazy).then_some(match plan.settle {
                Settle::Free => "free",
                Settle::Demand => "demand",
            }),
            lru_drain: plan.experiment.sweep.map(|_| drain_name(plan.lru_drain.unwrap_or_default())),
            elapsed_s,
            user_s: sum(&mut programs().map(|thread| thread.user)),
            system_s: sum(&mut programs().map(|thread| thread.system)),
            kernel_s: sum(&mut outcome
                .threads
                .iter()
                .filter(|thread| thread.kernel)
                .map(|thread| thread.system)),
            finish_range_s: longest - shortest,
            finish_stddev_s: deviation,
            operations: finished.operations,
            operations_per_s: per_second(finished.operations),
            faults: statistics.faults,
            pages_reclaimed: statistics.reclaimed_background + statistics.reclaimed_direct,
            pages_migrated: statistics.migrated,
            pages_scanned: statistics.scanned,
            interrupts: counters.interrupts,
            interrupts_per_s: per_second(counters.interrupts),
            shootdowns: counters.shootdowns,
            broadcasts: counters.broadcasts,
            flushes_full: counters.flushes_full,
            flushes_page: counters.flushes_page,
            flushes_free: counters.flushes_free,
            tlb_misses_load: measured.misses_load,
            tlb_misses_store: measured.misses_store,
            tlb_misses_fetch: measured.misses_fetch,
            accesses: measured.accesses,
            debts_created: counters.debts_created,
            debts_settled_by: SettledBy {
                interrupt: counters.debts_by_interrupt,
                broadcast: counters.debts_by_broadcast,
                switch: counters.debts_by_switch,
                tick: counters.debts_by_tick,
                local: counters.debts_by_local,
            },
            debt_age_max_s: counters.debt_age_max_ns as f64 / 1e9,
            lock_wait_s: seconds(measured.lock_wait),
            answer_wait_s: seconds(measured.answer_wait),
            flush_wait_ns_per_mib: (statistics.migrated > 0)
                .then(|| seconds(measured.answer_wait) * 1e9 / mib(statistics.migrated)),
            time: Time::new(&measured, plan.machine.topology.cpu_count()),
            series: Series::new(&outcome.series, finished.window.as_ref()),
            latency: finished.latency,
            atomic: finished.atomic,
            per_process: finished.per_process,
            oracle: plan.oracle,
            stale_hits: outcome.stale_hits,
            violations: outcome.violations,
            broken: outcome.broken.iter().map(ToString::to_string).collect(),
            loads_compared: finished.verdict.compared,
            loads_wrong: finished.verdict.wrong,
            wall_s,
            published: BTreeMap::new(),
        }
    }

    /// MiB moved between nodes.
    pub fn mib_migrated(&self) -> f64 {
        mib(self.pages_migrated)
    }
}

/// The name of a way to list new pages, on the command line and in JSON.
pub const fn drain_name(drain: LruDrain) -> &'static str {
    match drain {
        LruDrain::Eager => "eager",
        LruDrain::Batched => "batched",
    }
}

fn mib(pages: u64) -> f64 {
    (pages * PAGE_BYTES) as f64 / f64::from(1 << 20)
}
