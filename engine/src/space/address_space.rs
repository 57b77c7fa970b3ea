//! The engine's record of one address space.
//!
//! Four generations describe its flushes:
//!
//! - `generation`: the newest flush requested.
//! - `deferred`: the newest translation that a batch recorded and may not have paid for.
//! - `lazy`: the newest translation that a batch released in debt. It is owed until it is reached, or until the stamp
//!   under which it was entered is settled.
//! - `reached`: the newest generation that every CPU that may use the space has done.
//!
//! While a batch that recorded in the space is open, the space owes exactly if `deferred > reached`. Any flush that
//! completes raises `reached`, for whatever purpose, so no debt is paid twice. Generations do not wrap. Where flushes
//! are broadcast, a flush of single pages pays only for itself. So it raises `reached` only if no flush before it is
//! missing. A debt may then be paid twice, but is never left unpaid.

use super::asid::Asid;
use super::generation::{AtomicGeneration, Generation};
use super::id::{Root, SpaceId};
use super::in_flight::InFlight;
use super::pace::Pace;
use super::stamp::Stamp;
use super::tag::Tag;
use super::used_on::UsedOn;
use crate::cpu_set::AtomicCpuSet;
use crate::flush::Extent;
use crate::primitive::{AtomicU32, AtomicU64, Ordering};

/// The number of spaces that were dropped with an ASID. It belongs to no engine, since a space knows none.
static LEAKED: AtomicU64 = AtomicU64::new(0);

pub(crate) fn leaked_asids() -> u64 {
    LEAKED.load(Ordering::Relaxed)
}

/// The part of an address space that coherence needs. The kernel embeds it in its own.
#[derive(Debug)]
pub struct AddressSpace {
    id: SpaceId,
    root: Root,
    /// The tag of its entries.
    pub(crate) tag: Tag,
    /// The number of looks in a row at which too few CPUs ran it.
    pub(crate) narrow: AtomicU32,
    /// The CPUs that may hold entries under its global ASID.
    pub(crate) used_on: UsedOn,
    /// The time that its flushes take.
    pub(crate) pace: Pace,
    /// The number of devices that walk its tables.
    devices: AtomicU32,
    pub(crate) generation: AtomicGeneration,
    pub(crate) reached: AtomicGeneration,
    pub(crate) deferred: AtomicGeneration,
    /// The number of batches that recorded here and have neither flushed nor entered their debts.
    pub(crate) batches: AtomicU32,
    lazy: AtomicGeneration,
    stamp: AtomicU64,
    /// The strict unmaps and downgrades that have not flushed yet.
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
            used_on: UsedOn::new(),
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

    /// The space's name, which is never used again.
    pub fn id(&self) -> SpaceId {
        self.id
    }

    /// The start of its page tables.
    pub fn root(&self) -> Root {
        self.root
    }

    /// The tag of its entries on every CPU, if it has a global ASID. It is [`Asid::SHARED`] if every space should have
    /// one and none was left. `None` if each CPU tags them with a slot of its own, or is about to.
    pub fn asid(&self) -> Option<Asid> {
        self.tag.read().asid()
    }

    /// Announces that a device's TLB will walk the space's tables. From here on every flush reaches it too
    /// ([`Platform::invalidate_devices`](crate::Platform::invalidate_devices)).
    ///
    /// Call it before the device may walk. A flush that does not see the device yet changed the tables before this call
    /// returns, so the device walks the changed tables. One [`AddressSpace::detach_device`] ends the effect of one
    /// call.
    pub fn attach_device(&self) {
        self.devices.fetch_add(1, Ordering::SeqCst);
    }

    /// Announces that a device no longer walks the tables, and that its TLB holds no entry of the space.
    pub fn detach_device(&self) {
        let attached = self.devices.fetch_sub(1, Ordering::Release);
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

    /// What a CPU needs to know that is about to load the space, and has published that it is switching: the ASID as in
    /// [`AddressSpace::asid`], and the newest flush.
    #[inline]
    pub(crate) fn to_load(&self) -> (Option<Asid>, Generation) {
        // In this order: a flush that saw another tag than this one has raised the generation before.
        let asid = self.asid();
        let newest = self.generation();
        (asid, newest)
    }

    /// The CPUs at which a flush of the space looks: those that have it loaded, lazily or not, and those that left it
    /// lately ([`PLACES`](crate::PLACES)). A CPU that left may still hold entries; the generation in its ASID slot
    /// covers them.
    pub fn cpus(&self) -> &AtomicCpuSet {
        &self.cpus
    }

    /// Records that a broadcast has covered `extent`, for the flush of `generation`.
    pub(crate) fn reach_by_broadcast(&self, generation: Generation, extent: Extent) {
        match extent {
            // All earlier entries are gone, so every debt up to here is paid.
            Extent::All => self.reached.raise_to(generation),
            Extent::Pages { .. } => self.reached.extend(generation, generation),
        }
    }

    /// Whether batches cleared translations of this space that no later flush of the space has covered on every CPU.
    /// The debt then belongs to open batches, or is lazy, or the CPUs have settled it by themselves.
    pub(crate) fn has_unpaid(&self) -> bool {
        self.deferred.load() > self.reached.load()
    }

    /// Whether a batch that recorded here is open.
    pub(crate) fn has_batches(&self) -> bool {
        self.batches.load(Ordering::Acquire) != 0
    }

    /// Whether translations of this space were released in debt and no flush of the space since has covered them.
    pub(crate) fn owes_lazily(&self) -> bool {
        self.lazy.load() > self.reached.load()
    }

    /// The stamp until which the space owes.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp::stored(self.stamp.load(Ordering::Relaxed))
    }

    /// Records that translations cleared up to `generation` are owed until `stamp` is settled.
    pub(crate) fn owe_until(&self, stamp: Stamp, generation: Generation) {
        self.stamp.fetch_max(stamp.get(), Ordering::Relaxed);
        // Either order: until the batch is closed, a reader finds it open and asks for neither (`Engine::owes`).
        self.lazy.raise_to(generation);
    }

    /// Whether rights were taken away here and some CPU may not know yet. If so, some CPU may be able to store although
    /// the page table allows no store.
    ///
    /// Read it under the page-table lock: a caller that narrows translations under it has counted its downgrade before.
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
    fn a_space_whose_deferred_flushes_are_reached_owes_nothing() {
        let space = AddressSpace::new(SpaceId::new(SpaceId::FIRST), Root(1), None);
        let owes = || (space.has_unpaid(), space.owes_lazily());
        assert_eq!(owes(), (false, false));
        let generation = space.generation.raise();
        space.deferred.raise_to(generation);
        assert_eq!(owes(), (true, false));
        space.owe_until(Stamp::new(1), generation);
        assert_eq!(owes(), (true, true));
        space.reached.raise_to(generation);
        assert_eq!(owes(), (false, false));
    }

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
