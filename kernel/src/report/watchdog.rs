//! Ends a run that makes no progress, or one of whose CPUs takes no ticks. Each CPU watches at its own ticks.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::arch::Frame;
use crate::failure::{self, Kind};
use crate::patience::TICKS;
use crate::report::log;
use crate::threads::cpu::{self, PerCpu};

/// From one `BEAT` to the next each CPU has this many ticks on average: a second's, where no tick is late.
const BEAT: u64 = 100;

/// The ticks of all CPUs.
static ALL_TICKS: AtomicU64 = AtomicU64::new(0);

/// Watches at a tick of this CPU.
pub(crate) fn watch(here: &PerCpu, frame: &Frame) {
    let cpus = cpu::all();
    if ALL_TICKS.fetch_add(1, Ordering::Relaxed).is_multiple_of(BEAT * cpus.len() as u64) {
        log::line(format_args!("BEAT"));
    }
    let progress = cpus.iter().map(|cpu| cpu.progress.load(Ordering::Relaxed)).sum();
    let is_still = |cpu: &PerCpu| !cpu.presence.has_ticks() || cpu.all_progress.unchanged() >= TICKS;
    if here.all_progress.look(progress) >= TICKS && cpus.iter().all(is_still) {
        failure::stop(Kind::Hang, frame, format_args!("no progress while every CPU took {TICKS} ticks"));
    }
    // Each CPU watches the next one.
    let (number, next) = (here.number(), (here.number() + 1) % cpus.len());
    let other = &cpus[next];
    if !other.presence.has_ticks() {
        here.others_ticks.restart();
    } else if here.others_ticks.look(other.ticks.load(Ordering::Relaxed)) >= TICKS {
        failure::stop(
            Kind::Hang,
            frame,
            format_args!("CPU {next} took no tick while CPU {number} took {TICKS}"),
        );
    }
}
