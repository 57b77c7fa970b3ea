//! What the engine knows of one CPU.
//!
//! Three parts with three kinds of access, each on cache lines of its own: what other CPUs read to decide whether
//! to interrupt this one; the two ends of the interrupt transport; and what only the CPU itself touches, with
//! interrupts off.

use core::cell::UnsafeCell;
use core::fmt;

use super::mode::Mode;
use super::request::{Inbox, Request};
use super::slots::Slots;
use crate::counters::{Counters, Tally};
use crate::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::space::{Asid, SpaceId};

/// The engine's state of one CPU; the kernel keeps one in each CPU's own data. `S` is the kernel's reference to a space
/// ([`Platform::Space`](crate::Platform::Space)).
pub struct Cpu<S> {
    pub(crate) seen: Seen,
    pub(crate) inbox: Inbox,
    pub(crate) request: Request,
    pub(crate) tally: Tally,
    pub(crate) own: UnsafeCell<Own<S>>,
}

/// What others read to decide whether this CPU must be interrupted.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Seen {
    loaded: AtomicU64,
    lazy: AtomicBool,
    /// What it runs the loaded space under: an ASID, and whether that is global.
    tag: AtomicU32,
    /// Whether it runs a program undisturbed, for flushes of the kernel's ranges.
    pub(crate) mode: Mode,
}

/// In [`Seen::tag`]: the ASID below it means the space on every CPU.
const GLOBAL: u32 = 1 << 16;

impl Seen {
    pub(crate) fn loaded(&self) -> SpaceId {
        SpaceId::new(self.loaded.load(Ordering::SeqCst))
    }

    /// Publishes what is loaded. Sequentially consistent: either this CPU reads the new generation afterwards, or
    /// the flusher that raised it reads what was published here.
    pub(crate) fn set_loaded(&self, space: SpaceId) {
        self.loaded.store(space.get(), Ordering::SeqCst);
    }

    pub(crate) fn is_lazy(&self) -> bool {
        self.lazy.load(Ordering::SeqCst)
    }

    pub(crate) fn set_lazy(&self, lazy: bool) {
        self.lazy.store(lazy, Ordering::SeqCst);
    }

    pub(crate) fn is_global(&self) -> bool {
        self.tag.load(Ordering::SeqCst) & GLOBAL != 0
    }

    pub(crate) fn asid(&self) -> Asid {
        Asid::new(self.tag.load(Ordering::SeqCst) as u16)
    }

    /// Whether it runs what is loaded under `asid`, which is a global one.
    pub(crate) fn runs_under(&self, asid: Asid) -> bool {
        self.tag.load(Ordering::SeqCst) == u32::from(asid.get()) | GLOBAL
    }

    /// Publishes under what the space runs whose root was just loaded, before the space is named: a CPU that reads the
    /// name reads this tag or a later one.
    pub(crate) fn set_tag(&self, asid: Asid, global: bool) {
        self.tag.store(u32::from(asid.get()) | if global { GLOBAL } else { 0 }, Ordering::SeqCst);
    }
}

/// How a flush reaches a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It need not: the CPU uses nothing of what is flushed.
    Not,
    /// By an interrupt, or by a platform that [flushes for it](crate::Platform::flush_for).
    Anyhow,
    /// By an interrupt: the CPU has to do more than invalidate, or is switching.
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

/// What only the CPU itself touches, with interrupts off.
#[derive(Debug)]
pub(crate) struct Own<S> {
    pub(crate) slots: Slots,
    pub(crate) loaded: Option<Loaded<S>>,
    /// A space that an interrupt took off this CPU, kept until a caller can drop it outside the interrupt.
    pub(crate) parked: Option<S>,
}

/// The space in a CPU's hardware.
#[derive(Debug)]
pub(crate) struct Loaded<S> {
    pub(crate) space: S,
    /// What it runs under.
    pub(crate) asid: Asid,
    /// The ASID means the space on every CPU; else it is one of the CPU's own slots.
    pub(crate) global: bool,
}

// SAFETY: `own` is reached only through `Engine::on_this_cpu`, on the CPU that it belongs to and with interrupts
// off, which by `Platform`'s contract excludes every other access. All else is atomic. The space reference inside
// is dropped by whichever CPU switches away, hence `Send`.
unsafe impl<S: Send> Sync for Cpu<S> {}

impl<S> Cpu<S> {
    /// A CPU that runs on the kernel's own tables. It calls [`Engine::online`](crate::Engine::online) before it runs its
    /// first space.
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
            own: UnsafeCell::new(Own { slots: Slots::new(), loaded: None, parked: None }),
        }
    }

    /// What it did so far.
    pub fn counters(&self) -> Counters {
        self.tally.read()
    }

    /// The space in its hardware; [`SpaceId::NONE`] on the kernel's own tables.
    pub fn loaded(&self) -> SpaceId {
        self.seen.loaded()
    }

    /// The ASID under which it runs the space in its hardware, as it published it: of this CPU's own slots, or global. Without
    /// a meaning on the kernel's own tables and during a switch.
    pub fn loaded_asid(&self) -> Asid {
        self.seen.asid()
    }

    /// Whether it runs no program at present and so needs no flush until it does again.
    pub fn is_lazy(&self) -> bool {
        self.seen.is_lazy()
    }

    /// Whether it may use entries of the space that it has loaded, before it looks at that space's generation again.
    pub(crate) fn uses_entries(&self) -> bool {
        // What is loaded is read before laziness: a CPU that switches publishes the switch first.
        self.seen.loaded() != SpaceId::NONE && !self.seen.is_lazy()
    }

    /// How it is reached to bring whatever it has loaded up to date.
    pub(crate) fn reach(&self) -> Reach {
        // In this order, as above.
        match self.seen.loaded() {
            SpaceId::NONE => Reach::Not,
            SpaceId::SWITCHING => Reach::Itself.unless(self.seen.is_lazy()),
            _ => Reach::Anyhow.unless(self.seen.is_lazy()),
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
