//! The translations of one table, under its lock: made, narrowed and taken away.
//!
//! Entries change only under the lock of their table, through [`Leaf`]: a translation is made by [`Leaf::install`], taken
//! away by [`Leaf::replace`] and narrowed by [`Leaf::narrow`], which hand out the debt. An operation that a program asked
//! for must know that nothing is owed for the translations it finds gone; what it clears goes into a
//! [`Gather`](ceasefire::Gather), which asks for a [`SettledLeaf`], and every way to get one takes the lock and settles:
//! the check cannot be left out when a lock is dropped and taken again.
//!
//! An entry that is not present may still stand for something: a page that no access may use for now, one that is moving
//! to another frame, or one on the swap device.

use core::sync::atomic::Ordering;

use ceasefire::{Cleared, Narrowed, PageSize, Settled};

use crate::address::FrameNumber;
use crate::locks::Lock;
use crate::machine::{Event, Machine, Work};
use crate::spaces::space::SpaceHandle;
use crate::tables::entry::Entry;
use crate::tables::table::Table;
use crate::Memory;

/// A table whose entries lead to pages, locked: of the lowest level, or of the one above where an entry stands for
/// 2 MiB.
pub(crate) struct Leaf<'m, P: Machine> {
    pub(super) memory: &'m Memory<P>,
    pub(super) space: &'m SpaceHandle<P>,
    pub(super) table: &'m Table,
    pub(super) size: PageSize,
    /// Held for its drop.
    pub(super) _lock: <P::Lock<()> as Lock<(), P>>::Guard<'m>,
}

/// A locked table in a space that owes no flush for translations found gone.
pub(crate) type SettledLeaf<'m, P> = Settled<'m, Leaf<'m, P>>;

impl<P: Machine> Leaf<'_, P> {
    /// What an entry of it stands for.
    pub(crate) fn size(&self) -> PageSize {
        self.size
    }

    /// The addresses of its entries in a part of what it translates; one, if that is a huge page.
    pub(crate) fn addresses(&self, (start, end): (u64, u64)) -> impl Iterator<Item = u64> {
        (start..end).step_by(self.size.bytes() as usize)
    }

    pub(super) fn index(&self, address: u64) -> usize {
        Table::index(address, u32::from(self.size == PageSize::Huge))
    }

    pub(crate) fn get(&self, address: u64) -> Entry {
        self.table.get(self.index(address))
    }

    /// Puts a translation where there was none, or widens the rights of the one that is there. What it leads to must be
    /// what was there before (a page in its cache, the frame that a page moved to), or the place must be one where nothing
    /// is owed: in anonymous memory an entry says so itself ([`Entry::GONE`]). Anything else goes through [`install_new`].
    pub(crate) fn install(&self, address: u64, entry: Entry) {
        let old = self.get(address);
        debug_assert!(
            !old.present() || (old.frame() == entry.frame() && (entry.writable() || !old.writable())),
            "{address:#x}: {old:?} must be cleared and flushed before {entry:?}"
        );
        let root = self.space.coherence().root();
        self.memory.ask_shadow(|shadow| shadow.installs(root, address, self.size, entry.frame()));
        self.table.set(self.index(address), entry);
        let platform = self.memory.platform();
        platform.work(Work::Map, 1);
        let (space, address) = (self.space.coherence(), address & !(self.size.bytes() - 1));
        platform.observe(Event::Installed { space, address, frame: entry.frame(), size: self.size });
    }

    /// Puts back an entry that was here before or elsewhere, present or not, for the same page.
    pub(crate) fn put_back(&self, address: u64, entry: Entry) {
        if entry.present() {
            self.install(address, entry);
        } else {
            self.note(address, entry);
        }
    }

    /// Changes an entry that no hardware can use, before and after.
    pub(crate) fn note(&self, address: u64, entry: Entry) {
        debug_assert!(!self.get(address).present() && !entry.present());
        self.table.set(self.index(address), entry);
    }

    /// Takes a translation away; what it was, and the debt.
    pub(crate) fn clear(&self, address: u64) -> (Entry, Cleared) {
        self.replace(address, |_| Entry::NONE)
    }

    /// Puts an entry that is not present in the place of one that may be; what was there, and the debt. `replacement`
    /// makes it of what the hardware left.
    pub(crate) fn replace(&self, address: u64, replacement: impl Fn(Entry) -> Entry) -> (Entry, Cleared) {
        self.memory.platform().work(Work::Unmap, 1);
        let old = self.table.update(self.index(address), |old| {
            let new = replacement(old);
            debug_assert!(!new.present());
            new
        });
        self.tell_gone(address, old);
        (old, Cleared::new(address, self.size, self.held(old)))
    }

    /// Takes rights away; what the entry was, and the debt. `narrower` makes the new entry of what the hardware left.
    pub(crate) fn narrow(&self, address: u64, narrower: impl Fn(Entry) -> Entry) -> (Entry, Narrowed) {
        self.memory.platform().work(Work::Protect, 1);
        let old = self.table.update(self.index(address), &narrower);
        if !narrower(old).present() {
            self.tell_gone(address, old);
        }
        (old, Narrowed::new(address, self.size, self.held(old)))
    }

    /// CPUs may hold what an entry was: the shadow takes note.
    fn tell_gone(&self, address: u64, old: Entry) {
        if old.present() {
            let (platform, root) = (self.memory.platform(), self.space.coherence().root());
            platform.shadow(|shadow| shadow.gone(root, address, self.size, old.frame(), platform.now()));
        }
    }

    /// What CPUs may hold of an entry. One that is hidden was present before, and whoever hid it may not have flushed yet
    /// (Linux: `pte_accessible`); or its page was elsewhere, where CPUs may still read it.
    pub(crate) fn held(&self, old: Entry) -> ceasefire::Entry {
        let hidden = old.is_hidden() && (old.owes() || self.space.coherence().downgrade_in_flight());
        ceasefire::Entry { accessible: old.present() || hidden, writable: old.writable(), dirty: old.dirty() }
    }

    /// Whether the translation was used since this was last asked. No flush: a CPU that holds the entry may use it
    /// unseen for a while, which costs accuracy and nothing else.
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

/// Puts a translation to a page that is new at this address. That nothing is owed there is what the proof is for: no CPU
/// still holds a translation to another page (rule R7).
pub(crate) fn install_new<P: Machine>(leaf: &SettledLeaf<'_, P>, address: u64, entry: Entry) {
    leaf.install(address, entry);
}

impl<P: Machine> Memory<P> {
    /// Accounts for a mapping that was cleared; the frame whose reference it gave up, if it was counted.
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

    /// Accounts for a mapping that was cleared of a page that the caller has isolated: its reference goes at once.
    pub(crate) fn unmapped_isolated(&self, old: Entry) {
        if let Some(frame) = self.unmapped_frame(old) {
            let left = self.frames.get(frame).release();
            debug_assert!(left > 0, "the isolation holds a reference");
        }
    }
}
