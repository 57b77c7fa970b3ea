//! What the engine knows of one address space.
//!
//! Three generations say it all. `generation` is the newest flush that anyone asked for. `deferred` is the
//! newest that a batch recorded and has not necessarily paid. `reached` is the newest that every CPU which may
//! use the space has done. Something is owed exactly while `deferred > reached`; any flush that completes raises
//! `reached`, whoever asked for it, so nothing is paid twice and nothing wraps.

use crate::cpu_set::AtomicCpuSet;
use crate::generation::{AtomicGeneration, Generation};
use crate::platform::Root;
use crate::primitive::{AtomicU32, Ordering};

/// Names an address space; never used again after the space is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(u64);

impl SpaceId {
    /// No space: the CPU runs on the kernel's own tables, or a slot is empty.
    pub const NONE: Self = Self(0);
    /// A CPU is between two spaces; every flusher must interrupt it.
    pub(crate) const SWITCHING: Self = Self(1);
    pub(crate) const FIRST: u64 = 2;

    pub(crate) const fn new(raw: u64) -> Self {
        Self(raw)
    }

    /// The number itself.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// The part of an address space that coherence needs; the kernel embeds it in its own.
#[derive(Debug)]
pub struct AddressSpace {
    id: SpaceId,
    root: Root,
    pub(crate) generation: AtomicGeneration,
    pub(crate) reached: AtomicGeneration,
    pub(crate) deferred: AtomicGeneration,
    /// Strict unmaps that cleared translations and have not flushed yet.
    pub(crate) gathers: AtomicU32,
    cpus: AtomicCpuSet,
}

impl AddressSpace {
    pub(crate) fn new(id: SpaceId, root: Root) -> Self {
        Self {
            id,
            root,
            generation: AtomicGeneration::new(Generation::FIRST),
            reached: AtomicGeneration::new(Generation::FIRST),
            deferred: AtomicGeneration::new(Generation::NONE),
            gathers: AtomicU32::new(0),
            cpus: AtomicCpuSet::new(),
        }
    }

    /// Its name.
    pub fn id(&self) -> SpaceId {
        self.id
    }

    /// Where its page tables start.
    pub fn root(&self) -> Root {
        self.root
    }

    /// The newest flush requested so far.
    pub fn generation(&self) -> Generation {
        self.generation.load()
    }

    /// The CPUs that may use entries of it: those that have it loaded, lazily or not. Entries that stay behind
    /// on a CPU that left are covered by the generation in its ASID slot.
    pub fn cpus(&self) -> &AtomicCpuSet {
        &self.cpus
    }

    /// Whether a batch cleared translations of this space and no flush since has covered them everywhere.
    ///
    /// Read it under the page-table lock under which the translations are examined: batches record under the
    /// same lock.
    pub fn owes(&self) -> bool {
        self.deferred.load() > self.reached.load()
    }

    /// Whether another strict unmap than the caller's own is between clearing and flushing.
    pub(crate) fn nested(&self) -> bool {
        self.gathers.load(Ordering::SeqCst) > 1
    }
}

impl AsRef<AddressSpace> for AddressSpace {
    fn as_ref(&self) -> &AddressSpace {
        self
    }
}
