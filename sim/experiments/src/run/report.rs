//! The figures that one run measured, under the names of the command line's JSON.

use std::collections::BTreeMap;

use ceasefire_machine::config::{builtin, Machine, MachineError};
use ceasefire_machine::{Outcome, Reading};
use ceasefire_memory::{CLASSES, PAGE_BYTES};
use serde::Serialize;

use super::plan::Plan;
use super::used::is_used;
use crate::experiment::{Finished, Mechanism};
use crate::measurement::{Atomic, Latency, PerProcess, Series, Time};
use crate::published::{Comparison, Influences};

const SECOND: f64 = 1e12;

/// The host's time that a run took.
pub(crate) struct Taken {
    pub(crate) wall_s: f64,
    pub(crate) cpu_s: f64,
}

/// The number of debts settled, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SettledBy {
    /// By interrupts to other CPUs.
    pub interrupt: u64,
    /// By a broadcast invalidation.
    pub broadcast: u64,
    /// Without a flush: the CPUs stopped using the space by themselves.
    pub switch: u64,
    /// By the timer tick.
    pub tick: u64,
    /// By a flush of the local CPU alone.
    pub local: u64,
}

/// The figures of one run. All times except `wall_s` and `cpu_s` are simulated seconds.
///
/// Some experiments measure only between two moments of their run, as `migrate` does. Elapsed time, rates and counts
/// then cover the time between these moments. The times of programs and of the kernel's threads, the spread of
/// finishing times, the oracle's findings and the compared loads always cover the whole run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The machine's name.
    pub machine: String,
    /// The hash of everything of the machine that a run can depend on ([`Machine::hash`]).
    pub machine_hash: String,
    /// The name of the built-in machine with the same content. `None`, in JSON `null`, for any other machine, which has
    /// no published figures.
    pub built_in: Option<&'static str>,
    /// The size of the run, as a fraction of the paper's size.
    pub scale: f64,
    /// The seed.
    pub seed: u64,
    /// The number of CPUs of the machine.
    pub cpus: u16,
    /// The number of concurrent threads of programs.
    pub threads: usize,
    /// The mechanism's name.
    pub mechanism: &'static str,
    /// The way in which debts are settled under `lazy` and `all`: `free` or `demand`. `None`, in JSON `null`, under the
    /// other mechanisms.
    pub settle: Option<&'static str>,
    /// The release of Linux that the memory manager was like.
    pub kernel: &'static str,
    /// The time at which a CPU lists its new pages: `eager` or `batched`. `None`, in JSON `null`, if it cannot be
    /// chosen.
    pub lru_drain: Option<&'static str>,
    /// The time from the first program's start to the last program's end, or between the two moments.
    pub elapsed_s: f64,
    /// The time of all programs outside the kernel, over the whole run.
    pub user_s: f64,
    /// The time of all programs in the kernel over the whole run, as time(1) reports it, including the interrupts that
    /// hit them.
    pub system_s: f64,
    /// The time of the kernel's own threads, which do background reclaim, over the whole run.
    pub kernel_s: f64,
    /// The longest elapsed time of a program minus the shortest.
    pub finish_range_s: f64,
    /// The standard deviation of the programs' elapsed times.
    pub finish_stddev_s: f64,
    /// The number of operations, such as pages read, pages moved, or tokens generated.
    pub operations: u64,
    /// Operations per second.
    pub operations_per_s: f64,
    /// Page faults.
    pub faults: u64,
    /// Pages freed by reclaim.
    pub pages_reclaimed: u64,
    /// Pages moved between nodes.
    pub pages_migrated: u64,
    /// Pages that reclaim scanned.
    pub pages_scanned: u64,
    /// Flush requests that CPUs answered. Linux's TLB row counts these. There are more than `interrupts` if requests find
    /// CPUs interrupted already.
    pub requests: u64,
    /// Interrupts received for TLB work.
    pub interrupts: u64,
    /// Interrupts received for TLB work, per second.
    pub interrupts_per_s: f64,
    /// Shootdowns: flushes that sent at least one interrupt.
    pub shootdowns: u64,
    /// Broadcast invalidations.
    pub broadcasts: u64,
    /// Flushes of all entries of an ASID, counted on each CPU.
    pub flushes_full: u64,
    /// Invalidations of single pages.
    pub flushes_page: u64,
    /// Flushes that a CPU did anyway and that settled a debt.
    pub flushes_free: u64,
    /// Loads that missed the TLB.
    pub tlb_misses_load: u64,
    /// Stores that missed the TLB.
    pub tlb_misses_store: u64,
    /// Instruction fetches that missed the TLB; 0 if the programs' code is not part of the experiment.
    pub tlb_misses_fetch: u64,
    /// Loads and stores.
    pub accesses: u64,
    /// Debts created: translations cleared with their flush deferred.
    pub debts_created: u64,
    /// Debts settled, by cause.
    pub debts_settled_by: SettledBy,
    /// The greatest age at which a debt was settled.
    pub debt_age_max_s: f64,
    /// The time that CPUs waited for locks.
    pub lock_wait_s: f64,
    /// `lock_wait_s` by the class of the lock, under the names of the memory manager's classes.
    pub lock_wait_by_class_s: BTreeMap<&'static str, f64>,
    /// The time that CPUs waited for the answers to a flush.
    pub answer_wait_s: f64,
    /// `answer_wait_s` in nanoseconds, per MiB moved between nodes. `None`, in JSON `null`, if nothing was moved.
    pub flush_wait_ns_per_mib: Option<f64>,
    /// The time of all CPUs, by use.
    pub time: Time,
    /// Interrupts and broadcasts over the whole run.
    pub series: Series,
    /// The latencies of single operations. `None`, in JSON `null`, if the experiment measures none.
    pub latency: Option<Latency>,
    /// The latencies of allocations that must not wait. `None`, in JSON `null`, if the experiment makes none.
    pub atomic: Option<Atomic>,
    /// The spread of the operations over processes. `None`, in JSON `null`, unless there are many processes of the same
    /// kind.
    pub per_process: Option<PerProcess>,
    /// The effects that the model of the machine left out.
    pub without: Vec<&'static str>,
    /// How often a CPU of the machine fills a translation that no access asked for; 0: never.
    pub speculate: f64,
    /// Whether the oracle was on. Without it, `stale_hits`, `violations` and `broken` have no meaning.
    pub oracle: bool,
    /// Whether the memory manager's shadow record was on. Its reports are among `violations` and `broken`.
    pub shadow: bool,
    /// Uses of old TLB entries while their debt was owed, which the rules allow.
    pub stale_hits: u64,
    /// The number of times that a rule was broken.
    pub violations: u64,
    /// The first broken rules, in words.
    pub broken: Vec<String>,
    /// The number of loads compared with the expected value, those included that a CPU could have made through an older
    /// entry. `None`, in JSON `null`, if no load was compared: if the experiment has none that a missing flush could make
    /// wrong, or if frames keep no bytes, as at large scales.
    pub loads_compared: Option<u64>,
    /// The number of compared loads that found a wrong value. `None`, in JSON `null`, if no load was compared.
    pub loads_wrong: Option<u64>,
    /// The seconds that the run took on the host, waits for other programs included.
    pub wall_s: f64,
    /// The processor time that the run took on the host, in seconds.
    pub cpu_s: f64,
    /// The paper's figures, by metric.
    pub published: BTreeMap<&'static str, Comparison>,
    /// The mechanism with which the others are compared, and the paper's proposal.
    #[serde(skip)]
    pub compared: [Mechanism; 2],
    /// The smallest scale at which the experiment's ratios are known to be those of scale 1.
    #[serde(skip)]
    pub faithful_from: f64,
    /// The published figures that determined the parameters of the run's machine.
    #[serde(skip)]
    pub influences: Influences,
}

impl Report {
    pub(crate) fn new(
        plan: &Plan,
        starts: &[u64],
        outcome: &Outcome,
        finished: &Finished,
        Taken { wall_s, cpu_s }: Taken,
    ) -> Result<Self, MachineError> {
        let seconds = |picoseconds: u64| picoseconds as f64 / SECOND;
        let first = starts.iter().copied().min().unwrap_or(0);
        let measured = match &finished.window {
            Some((before, after)) => after.since(before),
            None => outcome.reading.since(&Reading { time: first, ..Reading::default() }),
        };
        let elapsed_s = seconds(measured.time);
        let programs = || outcome.threads.iter().filter(|thread| !thread.kernel);
        let kernels = outcome.threads.iter().filter(|thread| thread.kernel);
        let sum = |times: &mut dyn Iterator<Item = u64>| seconds(times.sum());
        let durations: Vec<f64> = programs()
            .zip(starts)
            .filter_map(|(thread, start)| Some(seconds(thread.ended?.saturating_sub(*start))))
            .collect();
        let deviation = deviation(&durations);
        let longest = durations.iter().copied().fold(0.0, f64::max);
        let shortest = durations.iter().copied().fold(f64::INFINITY, f64::min).min(longest);
        let per_second = |count: u64| if elapsed_s > 0.0 { count as f64 / elapsed_s } else { 0.0 };
        let (counters, statistics) = (&measured.counters, &measured.statistics);
        let broken = outcome.broken.iter().map(ToString::to_string);
        let misuses = outcome.misuses.iter().map(|misuse| format!("shadow record: {misuse}"));
        let compared = Some(finished.verdict).filter(|verdict| verdict.compared > 0);
        let (built_in, influences) = influences(&plan.machine, &outcome.reading)?;
        Ok(Self {
            experiment: plan.experiment.name,
            machine: plan.machine.name.clone(),
            machine_hash: plan.machine.hash(),
            built_in,
            scale: plan.scale,
            seed: plan.seed,
            cpus: plan.machine.topology.cpu_count(),
            threads: starts.len(),
            mechanism: plan.mechanism.name(),
            settle: plan.settle(),
            kernel: plan.kernel.name(),
            lru_drain: plan.listing(),
            elapsed_s,
            user_s: sum(&mut programs().map(|thread| thread.user)),
            system_s: sum(&mut programs().map(|thread| thread.system)),
            kernel_s: sum(&mut kernels.map(|thread| thread.system)),
            finish_range_s: longest - shortest,
            finish_stddev_s: deviation,
            operations: finished.operations,
            operations_per_s: per_second(finished.operations),
            faults: statistics.faults,
            pages_reclaimed: statistics.reclaimed_background + statistics.reclaimed_direct,
            pages_migrated: statistics.migrated,
            pages_scanned: statistics.scanned,
            requests: counters.requests,
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
            lock_wait_by_class_s: CLASSES
                .iter()
                .zip(measured.lock_wait_of)
                .map(|(class, time)| (class.name, seconds(time)))
                .collect(),
            answer_wait_s: seconds(measured.answer_wait),
            flush_wait_ns_per_mib: (statistics.migrated > 0)
                .then(|| seconds(measured.answer_wait) * 1e9 / mib(statistics.migrated)),
            time: Time::new(&measured, plan.machine.topology.cpu_count()),
            series: Series::new(&outcome.series, finished.window.as_ref()),
            latency: finished.latency,
            atomic: finished.atomic,
            per_process: finished.per_process,
            speculate: plan.machine.processor.speculate,
            without: plan.machine.without.iter().map(|effect| effect.name()).collect(),
            oracle: plan.oracle,
            shadow: plan.shadow,
            stale_hits: outcome.stale_hits,
            violations: outcome.violations,
            broken: broken.chain(misuses).collect(),
            loads_compared: compared.map(|verdict| verdict.compared),
            loads_wrong: compared.map(|verdict| verdict.wrong),
            wall_s,
            cpu_s,
            published: BTreeMap::new(),
            compared: [plan.experiment.baseline(), plan.experiment.proposal()],
            faithful_from: plan.experiment.faithful_from,
            influences,
        })
    }

    /// The amount of memory moved between nodes, in MiB.
    pub fn mib_migrated(&self) -> f64 {
        mib(self.pages_migrated)
    }
}

/// The built-in machine with the same content, and the published figures that determined its parameters.
fn influences(machine: &Machine, run: &Reading) -> Result<(Option<&'static str>, Influences), MachineError> {
    let built_in = machine.built_in();
    let influences = match built_in.and_then(builtin).transpose()? {
        Some(own) => Influences::new(&own.without(&machine.without), |parameter| is_used(parameter, run))?,
        None => Influences::default(),
    };
    Ok((built_in, influences))
}

/// The standard deviation of some values; 0 if there are none.
fn deviation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt()
}

fn mib(pages: u64) -> f64 {
    (pages * PAGE_BYTES) as f64 / f64::from(1 << 20)
}
