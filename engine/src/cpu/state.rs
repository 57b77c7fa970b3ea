//! The engine's record of one CPU.
//!
//! It has three parts with three kinds of access, each on cache lines of its own. Other CPUs read the first to decide
//! whether to interrupt this one. The second is the two ends of the interrupt transport. Only the CPU itself touches
//! the third, with interrupts off.

use core::cell::UnsafeCell;
use core::fmt;

use super::mode::Mode;
use super::places::Places;
use super::request::{Inbox, Request};
use super::slots::Slots;
use crate::counters::{Counters, Tally};
use crate::debt::Marking;
use crate::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::space::{Asid, SpaceId};

/// The engine's record of one CPU. The kernel keeps one in each CPU's own data. `S` is the kernel's reference to a
/// space ([`Platform::Space`](crate::Platform::Space)).
pub struct Cpu<S> {
    pub(crate) seen: Seen,
    pub(crate) inbox: Inbox,
    pub(crate) request: Request,
    pub(crate) tally: Tally,
    pub(crate) marking: Marking,
    pub(crate) own: UnsafeCell<Own<S>>,
}

/// The part that other CPUs read to decide whether this CPU must be interrupted.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Seen {
    loaded: AtomicU64,
    lazy: AtomicBool,
    /// The ASID under which the loaded space runs, and whether that ASID is global.
    tag: AtomicU32,
    /// Whether it runs a program undisturbed, for flushes of the kernel's ranges.
    pub(crate) mode: Mode,
}

/// In [`Seen::tag`]: the ASID in the bits below means the space on every CPU.
const GLOBAL: u32 = 1 << 16;

impl Seen {
    pub(crate) fn loaded(&self) -> SpaceId {
        SpaceId::new(self.loaded.load(Ordering::SeqCst))
    }

    /// Publishes the loaded space. A switch passes a full barrier between this and its reads. So either it reads the new
    /// generation, or the flush that raised it reads the space published here. A flush that reads an earlier value than
    /// the name of a space, or than none, interrupts needlessly.
    pub(crate) fn set_loaded(&self, space: SpaceId) {
        self.loaded.store(space.get(), Ordering::Release);
    }

    pub(crate) fn is_lazy(&self) -> bool {
        self.lazy.load(Ordering::SeqCst)
    }

    /// The same barrier follows where the CPU ceases to be lazy.
    pub(crate) fn set_lazy(&self, lazy: bool) {
        self.lazy.store(lazy, Ordering::Release);
    }

    /// Relaxed: a flush that passes over a CPU for this reason goes on to look at how far the CPU has come with the
    /// transition, and acquires there what the CPU did under its old tag.
    pub(crate) fn is_global(&self) -> bool {
        self.tag.load(Ordering::Relaxed) & GLOBAL != 0
    }

    pub(crate) fn asid(&self) -> Asid {
        Asid::new(self.tag.load(Ordering::Relaxed) as u16)
    }

    /// Whether the loaded space runs under `asid`, a global one.
    pub(crate) fn runs_under(&self, asid: Asid) -> bool {
        self.tag.load(Ordering::Acquire) == u32::from(asid.get()) | GLOBAL
    }

    /// Publishes the tag of the space whose root was just loaded, before the space is named. A CPU that reads the name
    /// reads this tag or a later one. A CPU that changes the tag of its loaded space names the same space again. So the
    /// tag itself releases what the CPU did under the old one.
    pub(crate) fn set_tag(&self, asid: Asid, global: bool) {
        // Equivalent to Relaxed: the load of the root before it is a full barrier.
        self.tag.store(u32::from(asid.get()) | if global { GLOBAL } else { 0 }, Ordering::Release);
    }
}

/// The way in which a flush reaches a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Not at all: the CPU uses no entry that is flushed.
    Not,
    /// By an interrupt, or by a platform that [flushes for it](crate::Platform::flush_for).
    Anyhow,
    /// By an interrupt: the CPU must do more than invalidate, or is switching.
    Itself,
}

impl Reach {
    fn unless(self, lazy: bool) -> Self {
        if lazy {
            Self::Not
        } else {
            self
        }
    }
}

/// The part that only the CPU itself touches, with interrupts off.
#[derive(Debug)]
pub(crate) struct Own<S> {
    pub(crate) slots: Slots,
    pub(crate) loaded: Option<Loaded<S>>,
    /// The spaces that it has left and whose sets it is still in.
    pub(crate) left: Places<S>,
}

/// The space in a CPU's hardware.
#[derive(Debug)]
pub(crate) struct Loaded<S> {
    pub(crate) space: S,
    /// The ASID under which it runs.
    pub(crate) asid: Asid,
    /// Whether the ASID means the space on every CPU; otherwise it is one of the CPU's own slots.
    pub(crate) global: bool,
}

// SAFETY: `own` is reached only through `Engine::on_this_cpu`, on the CPU that it belongs to and with interrupts off.
// `Platform`'s contract then excludes every other access. All other fields are atomic. The CPU that switches away drops
// the space reference inside, hence `Send`.
unsafe impl<S: Send> Sync for Cpu<S> {}

impl<S> Cpu<S> {
    /// A CPU that has not come [online](crate::Engine::online) yet, on the kernel's own tables.
    pub const fn new() -> Self {
        Self {
            seen: Seen {
                loaded: AtomicU64::new(SpaceId::NONE.get()),
                lazy: AtomicBool::new(false),
                tag: AtomicU32::new(0),
                mode: Mode::new(),
            },
            inbox: Inbox::new(),
            request: Request::new(),
            tally: Tally::new(),
            marking: Marking::new(),
            own: UnsafeCell::new(Own { slots: Slots::new(), loaded: None, left: Places::new() }),
        }
    }

    /// The counters of this CPU.
    pub fn counters(&self) -> Counters {
        self.tally.read()
    }

    /// The space in its hardware; [`SpaceId::NONE`] on the kernel's own tables.
    pub fn loaded(&self) -> SpaceId {
        self.seen.loaded()
    }

    /// The ASID under which the CPU runs its loaded space, as it published it: one of its own slots, or a global one.
    /// It has no meaning on the kernel's own tables and during a switch.
    pub fn loaded_asid(&self) -> Asid {
        self.seen.asid()
    }

    /// Whether the CPU runs no program at present, and so needs no flush until it runs one again.
    pub fn is_lazy(&self) -> bool {
        self.seen.is_lazy()
    }

    /// Whether the CPU may use entries of its loaded space before it reads that space's generation again, if the space
    /// is one that a flush `concerns`.
    pub(crate) fn uses_entries(&self, concerns: impl Fn(SpaceId) -> bool) -> bool {
        self.reach(concerns) != Reach::Not
    }

    /// The way to reach the CPU to bring its loaded space up to date, if the space is one that a flush `concerns`.
    pub(crate) fn reach(&self, concerns: impl Fn(SpaceId) -> bool) -> Reach {
        // The loaded space is read before laziness: a CPU that switches publishes the switch first.
        match self.seen.loaded() {
            SpaceId::NONE => Reach::Not,
            SpaceId::SWITCHING => Reach::Itself.unless(self.seen.is_lazy()),
            loaded if concerns(loaded) => Reach::Anyhow.unless(self.seen.is_lazy()),
            _ => Reach::Not,
        }
    }
}

impl<S> Default for Cpu<S> {
    fn default() -> Self {
        Self::new()
    }
}

impl<S> fmt::Debug for Cpu<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cpu")
            .field("seen", &self.seen)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_global_tag_is_told_from_a_slot_of_the_same_number() {
        let cpu = Cpu::<()>::new();
        for global in [true, false] {
            cpu.seen.set_tag(Asid::new(9), global);
            assert_eq!((cpu.seen.is_global(), cpu.seen.asid()), (global, Asid::new(9)));
            assert_eq!(cpu.seen.runs_under(Asid::new(9)), global);
            assert!(!cpu.seen.runs_under(Asid::new(8)));
        }
    }
}
