//! The last events of each CPU, kept for the report of a failure.

use core::fmt;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use ceasefire_kernel_abi::{numbers, Call, Error};

use crate::arch::cpus::MOST_CPUS;
use crate::arch::{clock, this_cpu};

/// How many events of each CPU are kept.
const KEPT: usize = 64;

numbers! {
    /// Kinds of events, each with two values.
    What {
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
}

/// An event in words.
struct Words(What, [u64; 2]);

impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self(what, [one, other]) = self;
        match (what, one, other) {
            (What::Fault, address, 0) => write!(f, "a load from {address:#x} faulted"),
            (What::Fault, address, _) => write!(f, "a store to {address:#x} faulted"),
            (What::Call, call, argument) => {
                write!(f, "the program called {} with {argument:#x}", CallName(call))
            }
            (What::Returned, call, result) => match Error::decode(result) {
                Ok(result) => write!(f, "the call {} returned {result:#x}", CallName(call)),
                Err(error) => write!(f, "the call {} failed: {error:?}", CallName(call)),
            },
            (What::Asked, ..) => f.write_str("another CPU's request for TLB work arrived"),
            (What::Asks, targets, _) => write!(f, "this CPU interrupted {targets} CPUs for TLB work"),
            (What::Invalidated, u64::MAX, u64::MAX) => f.write_str("this CPU's whole TLB was invalidated"),
            (What::Invalidated, asid, u64::MAX) => {
                write!(f, "all entries of ASID {asid} were invalidated in this CPU's TLB")
            }
            (What::Invalidated, address, pages) => {
                write!(f, "{pages} page(s) from {address:#x} on were invalidated in this CPU's TLB")
            }
            (What::Loaded, 0, _) => f.write_str("the kernel's own page tables were loaded"),
            (What::Loaded, root, asid) => {
                write!(f, "the page tables with root {root:#x} were loaded under ASID {asid}")
            }
            (What::Thread, 0, _) => f.write_str("the idle thread runs from now on"),
            (What::Thread, number, _) => write!(f, "thread {number} runs from now on"),
            (What::Tick, at, 0) => write!(f, "a tick interrupted the kernel at {at:#x}"),
            (What::Tick, at, _) => write!(f, "a tick interrupted the program at {at:#x}"),
            (What::Woken, ..) => f.write_str("another CPU woke this one"),
            (What::Flushed, reason, u64::MAX) => write!(f, "flush of everything: {}", reason_words(reason)),
            (What::Flushed, reason, pages) => write!(f, "flush of {pages} page(s): {}", reason_words(reason)),
            (What::Offline, 0, _) => f.write_str("this CPU came back"),
            (What::Offline, ..) => f.write_str("this CPU went offline"),
        }
    }
}

/// A system call's name, or its number if there is none.
struct CallName(u64);

impl fmt::Display for CallName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Call::from_number(self.0) {
            Some(call) => write!(f, "{call:?}"),
            None => write!(f, "number {}", self.0),
        }
    }
}

/// The engine's reason for a flush in words.
fn reason_words(reason: u64) -> &'static str {
    const WORDS: [&str; 8] = [
        "this CPU switched to a space whose entries were out of date",
        "another CPU asked for it",
        "this CPU's part of a batch",
        "this CPU's part of a flush of one space",
        "this CPU asked others for it",
        "another CPU asked for it, but this one has left the space",
        "broadcast to all CPUs",
        "this CPU owed it at its tick",
    ];
    WORDS.get(reason as usize).unwrap_or(&"for an unknown reason")
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
            let Some(what) = What::from_number(slot.what.load(Ordering::Relaxed)) else { continue };
            let words = Words(what, slot.values.each_ref().map(|value| value.load(Ordering::Relaxed)));
            writeln!(f, "  {:>6}.{:09} {words}", time / 1_000_000_000, time % 1_000_000_000)?;
        }
        Ok(())
    }
}
