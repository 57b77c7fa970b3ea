//! What the engine knows of one address space.
//!
//! Four generations say it all. `generation` is the newest flush that anyone asked for. `deferred` is the
//! newest that a batch recorded and has not necessarily paid. `reached` is the newest that every CPU which may
//! use the space has done. While a batch is open that recorded in the space, something is owed exactly while
//! `deferred > reached`; any flush that completes raises `reached`, whoever asked for it, so nothing is paid twice and
//! nothing wraps. `lazy` is the newest that a batch let go of owing: it is owed until it is reached, or until the stamp
//! under which it was entered is settled. Where flushes are broadcast, a flush
//! of single pages pays for itself alone, so it raises `reached` only if nothing before it is missing: then a debt
//! may be paid twice, and still never too little.

use super::asid::Asid;
use super::generation::{AtomicGeneration, Generation};
use super::id::{Root, SpaceId};
use super::in_flight::InFlight;
use super::pace::Pace;
use super::stamp::Stamp;
use super::tag::Tag;
use crate::cpu_set::AtomicCpuSet;
use crate::flush::Extent;
use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// Spaces that were dropped with an ASID. It belongs to no engine, since a space knows none.
static LEAKED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn leaked_asids() -> u64 {
    LEAKED.load(Ordering::Relaxed)
}

/// The part of an address space that coherence needs; the kernel embeds it in its own.
#[derive(Debug)]
pub struct AddressSpace {
    id: SpaceId,
    root: Root,
    /// What its entries are tagged with.
    pub(crate) tag: Tag,
    /// At how many looks in a row too few CPUs ran it.
    pub(crate) narrow: AtomicU32,
    /// How long its flushes take.
    pub(crate) pace: Pace,
    /// Devices that walk its tables.
    devices: AtomicU32,
    pub(crate) generation: AtomicGeneration,
    pub(crate) reached: AtomicGeneration,
    pub(crate) deferred: AtomicGeneration,
    /// Batches that recorded here and have neither flushed nor entered what they owe.
    pub(crate) batches: AtomicU32,
    lazy: AtomicGeneration,
    stamp: AtomicU64,
    /// Strict unmaps and downgrades that have not flushed yet.
    pub(crate) in_flight: InFlight,
    cpus: AtomicCpuSet,
}

impl AddressSpace {
    pub(crate) fn new(id: SpaceId, root: Root, asid: Option<Asid>) -> Self {
        Self {
            id,
            root,
            tag: Tag::new(asid),
            narrow: AtomicU32::new(0),
            pace: Pace::new(),
            devices: AtomicU32::new(0),
            generation: AtomicGeneration::new(Generation::FIRST),
            reached: AtomicGeneration::new(Generation::FIRST),
            deferred: AtomicGeneration::new(Generation::NONE),
            batches: AtomicU32::new(0),
            lazy: AtomicGeneration::new(Generation::NONE),
            stamp: AtomicU64::new(0),
            in_flight: InFlight::new(),
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

    /// The tag that its entries have on every CPU, if it has a global ASID: [`Asid::SHARED`] if every space should have one
    /// and there was none to be had. `None` if each CPU tags them as it likes, or is about to.
    pub fn asid(&self) -> Option<Asid> {
        self.tag.read().asid()
    }

    /// A device's TLB is about to walk the space's tables: from here on every flush reaches it too
    /// ([`Platform::invalidate_devices`](crate::Platform::invalidate_devices)).
    ///
    /// Call it before the device may walk. A flush that does not see the device yet has changed the tables before
    /// this returns, so the device walks the changed ones. Each call is taken back by one
    /// [`AddressSpace::detach_device`].
    pub fn attach_device(&self) {
        self.devices.fetch_add(1, Ordering::SeqCst);
    }

    /// A device walks the tables no more, and its TLB has forgotten the space.
    pub fn detach_device(&self) {
        let attached = self.devices.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(attached > 0, "{:?}: a device was detached that never was attached", self.id);
    }

    /// Whether a device's TLB walks the tables.
    pub(crate) fn has_devices(&self) -> bool {
        self.devices.load(Ordering::SeqCst) != 0
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

    /// A broadcast has covered `extent`, for the flush of `generation`.
    pub(crate) fn reach_by_broadcast(&self, generation: Generation, extent: Extent) {
        match extent {
            // Every entry from before is gone, so every debt up to here is paid.
            Extent::All => self.reached.raise_to(generation),
            Extent::Pages { .. } => self.reached.extend(generation, generation),
        }
    }

    /// Whether batches cleared translations of this space and no flush of the space since has covered them everywhere. Then
    /// they are owed to the batches that are open, or lazily, or were settled by what CPUs did.
    pub(crate) fn has_unpaid(&self) -> bool {
        self.deferred.load() > self.reached.load()
    }

    /// Whether a batch that recorded here is open.
    pub(crate) fn has_batches(&self) -> bool {
        self.batches.load(Ordering::SeqCst) != 0
    }

    /// Whether translations of this space were let go of owing and no flush of the space since has covered them.
    pub(crate) fn owes_lazily(&self) -> bool {
        self.lazy.load() > self.reached.load()
    }

    /// Until when.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp::stored(self.stamp.load(Ordering::SeqCst))
    }

    /// What was cleared up to `generation` is owed until `stamp` is settled.
    pub(crate) fn owe_until(&self, stamp: Stamp, generation: Generation) {
        // The stamp first: who sees the generation must see it too.
        self.stamp.fetch_max(stamp.get(), Ordering::SeqCst);
        self.lazy.raise_to(generation);
    }

    /// Whether rights were taken away here that some CPU may not have heard of yet, so that a page table which allows no
    /// store does not mean that no CPU can store.
    ///
    /// Read it under the page-table lock: who narrows translations under it has said so before.
    pub fn downgrade_in_flight(&self) -> bool {
        self.in_flight.any()
    }
}

impl Drop for AddressSpace {
    /// Counts an ASID that was never given back.
    fn drop(&mut self) {
        if self.tag.read().held().is_some() {
            LEAKED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl AsRef<AddressSpace> for AddressSpace {
    fn as_ref(&self) -> &AddressSpace {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_asid_that_is_not_given_back_is_counted() {
        let space = |asid| AddressSpace::new(SpaceId::new(SpaceId::FIRST), Root(1), asid);
        let before = leaked_asids();
        for asid in [None, Some(Asid::SHARED)] {
            drop(space(asid));
        }
        let ended = space(Some(Asid::new(9)));
        assert_eq!(ended.tag.end(ended.tag.retire()), Some(Asid::new(9)));
        drop(ended);
        assert_eq!(leaked_asids(), before);
        drop(space(Some(Asid::new(9))));
        let kept = space(Some(Asid::new(10)));
        kept.tag.retire();
        drop(kept);
        assert_eq!(leaked_asids(), before + 2);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "a device was detached that never was attached")]
    fn detaching_more_than_was_attached_is_caught() {
        let space = AddressSpace::new(SpaceId::new(SpaceId::FIRST), Root(1), None);
        space.attach_device();
        space.detach_device();
        assert!(!space.has_devices());
        space.detach_device();
    }
}
