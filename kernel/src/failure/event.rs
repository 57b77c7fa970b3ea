//! The last events of each CPU, kept for the report of a failure.

use core::fmt;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::arch::cpus::MOST_CPUS;
use crate::arch::{clock, this_cpu};

/// How many events of each CPU are kept.
const KEPT: usize = 64;

/// Kinds of events, each with two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum What {
    /// A page fault: its address, and whether it was a store.
    Fault,
    /// A system call: its number and first argument.
    Call,
    /// The end of a system call: its number and result.
    Returned,
    /// Another CPU's request arrived.
    Asked,
    /// This CPU sent requests: to how many CPUs.
    Asks,
    /// An invalidation: address or ASID, and how much (see `platform`).
    Invalidated,
    /// A root was loaded: its address, and the ASID.
    Loaded,
    /// A thread was switched to: its number.
    Thread,
    /// A tick: at which instruction, and whether in a program.
    Tick,
    /// A wake-up arrived.
    Woken,
    /// The engine flushed: why (`ceasefire::Reason`), and how many pages.
    Flushed,
    /// The CPU went offline, 1, or came back, 0.
    Offline,
}

impl What {
    const NAMES: [&'static str; 12] = [
        "fault",
        "call",
        "returned",
        "asked",
        "asks",
        "invalidated",
        "loaded",
        "thread",
        "tick",
        "woken",
        "flushed",
        "offline",
    ];
}

/// One event.
struct Slot {
    time: AtomicU64,
    what: AtomicU64,
    values: [AtomicU64; 2],
}

/// The last events of a CPU, which alone writes them. An interrupt in the middle of a write may mix two events. That is
/// good enough for a report that people read.
pub(super) struct Events {
    count: AtomicUsize,
    slots: [Slot; KEPT],
}

impl Events {
    const fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            slots: [const {
                Slot {
                    time: AtomicU64::new(0),
                    what: AtomicU64::new(0),
                    values: [AtomicU64::new(0), AtomicU64::new(0)],
                }
            }; KEPT],
        }
    }
}

static EVENTS: [Events; MOST_CPUS] = [const { Events::new() }; MOST_CPUS];

/// A CPU's events, by its number.
pub(super) fn of(cpu: usize) -> &'static Events {
    &EVENTS[cpu]
}

/// Records an event of this CPU.
pub(crate) fn record(what: What, one: u64, other: u64) {
    let events = of(this_cpu::number());
    let count = events.count.load(Ordering::Relaxed);
    events.count.store(count.wrapping_add(1), Ordering::Relaxed);
    let slot = &events.slots[count % KEPT];
    slot.time.store(clock::now(), Ordering::Relaxed);
    slot.what.store(what as u64, Ordering::Relaxed);
    slot.values[0].store(one, Ordering::Relaxed);
    slot.values[1].store(other, Ordering::Relaxed);
}

impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.count.load(Ordering::Relaxed);
        for number in count.saturating_sub(KEPT)..count {
            let slot = &self.slots[number % KEPT];
            let time = slot.time.load(Ordering::Relaxed);
            let name = What::NAMES[slot.what.load(Ordering::Relaxed) as usize % What::NAMES.len()];
            let [one, other] = &slot.values;
            let (one, other) = (one.load(Ordering::Relaxed), other.load(Ordering::Relaxed));
            writeln!(
                f,
                "  {:>6}.{:09} {name} {one:#x} {other:#x}",
                time / 1_000_000_000,
                time % 1_000_000_000
            )?;
        }
        Ok(())
    }
}
