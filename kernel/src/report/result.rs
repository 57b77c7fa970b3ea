//! The measurement of a run, and its result in JSON.

use core::fmt::Write;
use core::sync::atomic::{AtomicU64, Ordering};

use alloc::string::String;
use ceasefire::Counters;
use ceasefire_kernel_abi::INCONCLUSIVE;
use ceasefire_memory::Statistics;

use super::parameters::{frames, options};
use crate::arch::{boot, clock, Frame, NAME};
use crate::failure::{self, Kind};
use crate::lock::IrqLock;
use crate::manager::memory;
use crate::memory::platform::broadcasts_everything;
use crate::report::log;
use crate::threads::cpu;

/// All counters at one moment.
#[derive(Clone, Copy, Default)]
struct Reading {
    time: u64,
    counters: Counters,
    statistics: Statistics,
    ticks: u64,
    program_ticks: u64,
    idle_ticks: u64,
    answer_wait: u64,
    switches: u64,
}

impl Reading {
    fn now() -> Self {
        let sum = |count: fn(&cpu::PerCpu) -> &AtomicU64| {
            cpu::all().iter().map(|cpu| count(cpu).load(Ordering::Relaxed)).sum()
        };
        Self {
            time: clock::now(),
            counters: memory().counters(),
            statistics: memory().statistics(),
            ticks: sum(|cpu| &cpu.ticks),
            program_ticks: sum(|cpu| &cpu.program_ticks),
            idle_ticks: sum(|cpu| &cpu.idle_ticks),
            answer_wait: sum(|cpu| &cpu.answer_wait),
            switches: sum(|cpu| &cpu.switches),
        }
    }
}

/// The readings at the begin and the end of the measurement, and the number of operations between them.
static MEASURED: IrqLock<(Option<Reading>, Option<Reading>, u64)> = IrqLock::new((None, None, 0));

/// Begins the measurement.
pub(crate) fn begin() {
    let mut measured = MEASURED.lock();
    *measured = (Some(Reading::now()), None, 0);
}

/// Ends the measurement.
pub(crate) fn end(operations: u64) {
    let mut measured = MEASURED.lock();
    (measured.1, measured.2) = (Some(Reading::now()), operations);
}

static BOOT: AtomicU64 = AtomicU64::new(0);

/// Notes that a program has run its first instructions.
pub(crate) fn user_mode_reached() {
    if BOOT.load(Ordering::Relaxed) == 0
        && BOOT.compare_exchange(0, clock::now(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        log::line(format_args!("USER"));
    }
}

/// Ends the run: the first process has ended with `code`.
pub(crate) fn finish(code: u64) -> ! {
    let (begin, end, operations) = *MEASURED.lock();
    let (begin, end) = (begin.unwrap_or_default(), end.unwrap_or_else(Reading::now));
    log::line(format_args!("RESULT {}", result(&begin, &end, operations)));
    if code != 0 && code != INCONCLUSIVE {
        failure::stop(
            Kind::Program,
            &Frame::here(),
            format_args!("the first process ended with code {code}"),
        );
    }
    failure::done(code == 0)
}

fn result(begin: &Reading, end: &Reading, operations: u64) -> String {
    let options = options();
    let counters = end.counters.since(&begin.counters);
    let statistics = end.statistics.since(&begin.statistics);
    let mut features = String::new();
    for name in boot::features() {
        let _ = write!(features, "{}{name}", if features.is_empty() { "" } else { " " });
    }
    let mut text = String::new();
    let _ = write!(
        text,
        "{{\"arch\":\"{NAME}\",\"program\":\"{}\",\"mechanism\":\"{}\",\"features\":\"{features}\"",
        options.program, options.mechanism
    );
    let _ = match options.without {
        Some(without) => write!(text, ",\"without\":\"{without}\""),
        None => write!(text, ",\"without\":null"),
    };
    let numbers = [
        ("cpus", cpu::all().len() as u64),
        ("nodes", options.nodes as u64),
        ("frames", frames()),
        ("seconds", options.seconds),
        ("seed", options.seed),
        ("pinned", u64::from(options.pinned)),
        ("undisturbed", u64::from(options.undisturbed)),
        ("boot_ns", BOOT.load(Ordering::Relaxed)),
        ("elapsed_ns", end.time - begin.time),
        ("operations", operations),
        ("interrupts", counters.interrupts),
        ("requests", counters.requests),
        ("shootdowns", counters.shootdowns),
        ("broadcasts", counters.broadcasts),
        ("broadcasts_everything", broadcasts_everything()),
        ("flushes_full", counters.flushes_full),
        ("flushes_page", counters.flushes_page),
        ("flushes_free", counters.flushes_free),
        ("debts_created", counters.debts_created),
        ("debts_by_interrupt", counters.debts_by_interrupt),
        ("debts_by_broadcast", counters.debts_by_broadcast),
        ("debts_by_switch", counters.debts_by_switch),
        ("debts_by_tick", counters.debts_by_tick),
        ("debts_by_local", counters.debts_by_local),
        ("debt_age_max_ns", counters.debt_age_max_ns),
        ("max_age_ms", options.max_age),
        ("faults", statistics.faults),
        ("pages_reclaimed", statistics.reclaimed_background + statistics.reclaimed_direct),
        ("pages_reclaimed_background", statistics.reclaimed_background),
        ("pages_scanned", statistics.scanned),
        ("pages_migrated", statistics.migrated),
        ("pages_written", statistics.written),
        ("pages_read", statistics.read),
        ("pages_swapped_in", statistics.swapped_in),
        ("ticks", end.ticks - begin.ticks),
        ("program_ticks", end.program_ticks - begin.program_ticks),
        ("idle_ticks", end.idle_ticks - begin.idle_ticks),
        ("answer_wait_ns", end.answer_wait - begin.answer_wait),
        ("switches", end.switches - begin.switches),
        ("allocations_paid", statistics.allocations_paid),
    ];
    for (name, value) in numbers {
        let _ = write!(text, ",\"{name}\":{value}");
    }
    text.push('}');
    text
}
