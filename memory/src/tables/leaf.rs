//! The translations of one table, under its lock: installed, narrowed and cleared.
//!
//! Entries change only under the lock of their table, through [`Leaf`]. [`Leaf::install`] makes a translation visible.
//! An operation that a program asked for clears and narrows translations in the [`LeafChanges`] of a
//! [`Gather`](ceasefire::Gather) ([`clear`], [`narrow`]). These take a [`SettledLeaf`], and the only way to get one is
//! to lock the table and settle the space's debts. So the check cannot be left out when a lock is dropped and taken
//! again. The kernel's own operations replace and narrow translations in a [`Batch`](ceasefire::Batch)
//! ([`Leaf::replace_in`], [`Leaf::narrow_in`]). There is no other way, so every change records its debt.
//!
//! An entry that is not present may still have a meaning: a page that no access may use for now, a page that is moving
//! to another frame, or one on the swap device.

use crate::primitive::Ordering;

use ceasefire::{Access, Changes, Flush, Owed, PageSize, Settled, TableGuard, Translation, Unmapping};

use crate::address::FrameNumber;
use crate::locks::Lock;
use crate::machine::{Event, Machine, Work};
use crate::spaces::space::SpaceHandle;
use crate::tables::entry::{Entry, EntryOf, Format};
use crate::tables::table::Table;
use crate::Memory;

/// A locked table whose entries lead to pages: of the lowest level, or of the level above where an entry stands for 2
/// MiB.
pub(crate) struct Leaf<'m, P: Machine> {
    pub(super) memory: &'m Memory<P>,
    pub(super) space: &'m SpaceHandle<P>,
    pub(super) table: &'m Table,
    pub(super) size: PageSize,
    /// Held for its drop.
    pub(super) _lock: <P::Lock<()> as Lock<(), P>>::Guard<'m>,
}

/// A locked table in a space whose debts for translations found gone are settled.
pub(crate) type SettledLeaf<'m, P> = Settled<Leaf<'m, P>>;

/// Strict changes of the translations of one table.
pub(crate) type LeafChanges<'g, 'e, 'm, P, T, R> = Changes<'g, 'e, P, T, R, Leaf<'m, P>>;

// SAFETY: entries are changed through a `Leaf` alone, which holds the lock of their table. It names one space.
#[allow(unsafe_code)]
unsafe impl<P: Machine> TableGuard<P> for Leaf<'_, P> {
    fn space(&self) -> &SpaceHandle<P> {
        self.space
    }
}

impl<F: Format> Translation for EntryOf<F> {
    fn entry(&self) -> ceasefire::Entry {
        let access = if self.present() {
            Access::Usable
        } else if self.is_hidden() {
            Access::Hidden
        } else {
            Access::None
        };
        ceasefire::Entry { access, writable: self.writable(), dirty: self.dirty() }
    }
}

impl<P: Machine> Leaf<'_, P> {
    /// The size of the page that an entry stands for.
    pub(crate) fn size(&self) -> PageSize {
        self.size
    }

    /// The addresses of its entries in a part of its range; one address if the entry stands for a huge page.
    pub(crate) fn addresses(&self, (start, end): (u64, u64)) -> impl Iterator<Item = u64> {
        (start..end).step_by(self.size.bytes() as usize)
    }

    pub(super) fn index(&self, address: u64) -> usize {
        Table::index(address, u32::from(self.size == PageSize::MIB_2))
    }

    pub(crate) fn get(&self, address: u64) -> Entry {
        self.table.get(self.index(address))
    }

    /// Whether nothing is at an address, not even in the TLB of a CPU: a gather may have cleared an entry here and not
    /// flushed it yet.
    pub(crate) fn is_vacant(&self, address: u64) -> bool {
        // Above the lowest level, a mark is in the place of a table.
        let flush = if self.size == PageSize::KIB_4 { Flush::page(address, self.size) } else { Flush::ALL };
        self.memory.is_vacant(self.space, self.get(address), flush)
    }

    /// Installs a translation where there was none, or widens the rights of the present one.
    ///
    /// Either the translation leads to the same page as before (a page in its cache, the frame that a page moved to),
    /// or nothing is owed at the address: in anonymous memory an entry says so itself ([`Entry::GONE`]). For all other
    /// cases there is [`install_new`].
    pub(crate) fn install(&self, address: u64, entry: Entry) {
        let old = self.get(address);
        debug_assert!(
            !old.present() || (old.frame() == entry.frame() && (entry.writable() || !old.writable())),
            "{address:#x}: {old:?} must be cleared and flushed before {entry:?}"
        );
        let root = self.space.coherence().root();
        self.memory.ask_shadow(|shadow| shadow.installs(root, address, self.size, entry.frame()));
        let platform = self.memory.platform();
        platform.work(Work::Map, 1);
        let (space, start) = (self.space.coherence(), address & !(self.size.bytes() - 1));
        // Before a CPU can see it: who observes must know every translation that a CPU uses.
        platform.observe(Event::Installed { space, address: start, frame: entry.frame(), size: self.size });
        self.table.set(self.index(address), entry);
    }

    /// Puts back an entry, present or not, that was here or elsewhere before, for the same page.
    pub(crate) fn put_back(&self, address: u64, entry: Entry) {
        if entry.present() {
            self.install(address, entry);
        } else {
            self.note(address, entry);
        }
    }

    /// Changes an entry that no hardware can use before or after.
    pub(crate) fn note(&self, address: u64, entry: Entry) {
        debug_assert!(!self.get(address).present() && !entry.present());
        self.table.set(self.index(address), entry);
    }

    /// Replaces an entry of a page that a batch unmaps by one that is not present; returns the old entry. `replacement`
    /// makes the new entry from the old one, with the bits that the hardware set.
    pub(crate) fn replace_in<T, R: FnMut(Owed<T>), const N: usize>(
        &self,
        unmapping: &mut Unmapping<'_, '_, P, T, R, N>,
        address: u64,
        replacement: impl Fn(Entry) -> Entry,
    ) -> Entry {
        unmapping.clear(self, address, self.size, |leaf| leaf.exchange(address, replacement))
    }

    /// Narrows an entry of a page in a batch; returns the old entry. `narrower` makes the new entry from the old one,
    /// with the bits that the hardware set.
    pub(crate) fn narrow_in<T, R: FnMut(Owed<T>), const N: usize>(
        &self,
        page: &mut Unmapping<'_, '_, P, T, R, N>,
        address: u64,
        narrower: impl Fn(Entry) -> Entry,
    ) -> Entry {
        page.narrow(self, address, self.size, |leaf| leaf.restrict(address, narrower))
    }

    fn exchange(&self, address: u64, replacement: impl Fn(Entry) -> Entry) -> Entry {
        self.memory.platform().work(Work::Unmap, 1);
        let old = self.table.update(self.index(address), |old| {
            let new = replacement(old);
            debug_assert!(!new.present());
            new
        });
        self.tell_gone(address, old);
        old
    }

    fn restrict(&self, address: u64, narrower: impl Fn(Entry) -> Entry) -> Entry {
        self.memory.platform().work(Work::Protect, 1);
        let old = self.table.update(self.index(address), &narrower);
        if !narrower(old).present() {
            self.tell_gone(address, old);
        }
        old
    }

    /// Reports that an entry was cleared or narrowed on a program's behalf; returns the old one.
    fn withdraw(&self, address: u64, old: Entry) -> Entry {
        if old.present() {
            let (space, size) = (self.space.coherence(), self.size);
            let address = address & !(size.bytes() - 1);
            self.memory.platform().observe(Event::Withdrawn { space, address, size });
        }
        old
    }

    /// Tells the shadow that CPUs may still hold the old entry.
    fn tell_gone(&self, address: u64, old: Entry) {
        if old.present() {
            let (platform, root) = (self.memory.platform(), self.space.coherence().root());
            platform.shadow(|shadow| shadow.gone(root, address, self.size, old.frame(), platform.now()));
        }
    }

    /// Whether the translation was used since the last call. It needs no flush: a CPU that holds the entry may use it
    /// unseen for a while, which costs only accuracy.
    pub(crate) fn test_and_clear_accessed(&self, address: u64) -> bool {
        let index = self.index(address);
        let old = self.table.get(index);
        if old.present() && old.accessed() {
            self.table.0[index].fetch_and(!Entry::ACCESSED, Ordering::AcqRel);
            return true;
        }
        false
    }
}

/// Clears a translation on a program's behalf, and holds the thing that it `led_to`; returns the old entry.
pub(crate) fn clear<P: Machine, T, R: FnMut(T)>(
    changes: &mut LeafChanges<'_, '_, '_, P, T, R>,
    address: u64,
    led_to: impl FnOnce(Entry) -> Option<T>,
) -> Entry {
    let size = changes.size;
    // Above the lowest level a walk would take a mark for a table.
    let mark = changes.mark().filter(|_| size == PageSize::KIB_4);
    let left = mark.map_or(Entry::NONE, Entry::marked);
    let take = |leaf: &Leaf<'_, P>| leaf.withdraw(address, leaf.exchange(address, |_| left));
    changes.clear(address, size, take, |old| led_to(*old))
}

/// Narrows a translation on a program's behalf; returns the old entry. `narrower` makes the new entry from the old one,
/// with the bits that the hardware set.
pub(crate) fn narrow<P: Machine, T, R: FnMut(T)>(
    changes: &mut LeafChanges<'_, '_, '_, P, T, R>,
    address: u64,
    narrower: impl Fn(Entry) -> Entry,
) -> Entry {
    let size = changes.size;
    changes.narrow(address, size, |leaf| leaf.withdraw(address, leaf.restrict(address, narrower)))
}

/// Installs a translation to a page that is new at this address. The settled table proves that no CPU holds a
/// translation of the address to another page (rule R7).
pub(crate) fn install_new<P: Machine>(leaf: &SettledLeaf<'_, P>, address: u64, entry: Entry) {
    leaf.install(address, entry);
}

impl<P: Machine> Memory<P> {
    /// Accounts for a cleared mapping; returns the frame whose reference it gave up, if the mapping was counted.
    pub(crate) fn unmapped_frame(&self, old: Entry) -> Option<FrameNumber> {
        (old.maps() && old.frame() != self.zero).then(|| {
            let info = self.frames.get(old.frame());
            if old.dirty() {
                info.set_dirty();
            }
            info.unmapped();
            old.frame()
        })
    }

    /// Accounts for a cleared mapping of a page that the caller has isolated. Its reference goes at once.
    pub(crate) fn unmapped_isolated(&self, old: Entry) {
        if let Some(frame) = self.unmapped_frame(old) {
            let left = self.frames.get(frame).release();
            debug_assert!(left > 0, "the isolation holds a reference");
        }
    }
}
