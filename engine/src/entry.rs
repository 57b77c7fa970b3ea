//! Page-table entries, as far as coherence is concerned, and the debt that a changed entry leaves.
//!
//! A kernel changes an entry inside a call of the engine. It passes a closure that exchanges the entry in one atomic
//! step and returns the old one. So the engine sees every change together with its debt, and there is no value for a
//! debt that a caller could drop. The kernel implements [`Translation`] for its own type of entries.

use core::mem;

use crate::flush::{Flush, PageSize};
use crate::platform::Platform;
use crate::sabotage::Guard;
use crate::space::AddressSpace;
use crate::Engine;

/// Whether CPUs can use a page-table entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// The entry is present: a walk fills TLB entries from it.
    Usable,
    /// The entry was present and is not at the moment, but it still leads to the same page. A kernel hides an entry to
    /// learn which CPU uses the page next, or because the program may not use the page for now. A CPU may hold the old
    /// entry until the flush that follows is done (Linux: `pte_accessible`).
    Hidden,
    /// The entry leads to no page, or to one that no CPU has reached through it.
    None,
}

/// The former content of a page-table entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Whether CPUs could use it.
    pub access: Access,
    /// It allowed stores.
    pub writable: bool,
    /// The hardware may have cached it as dirty. A store through such an entry does not touch the page table again.
    pub dirty: bool,
}

impl Entry {
    /// No translation.
    pub const NONE: Self = Self { access: Access::None, writable: false, dirty: false };
    /// A translation that allows only loads.
    pub const READ_ONLY: Self = Self { access: Access::Usable, ..Self::NONE };
    /// A translation that allows stores and has seen none.
    pub const WRITABLE: Self = Self { writable: true, ..Self::READ_ONLY };
    /// A translation that has seen a store.
    pub const DIRTY: Self = Self { dirty: true, ..Self::WRITABLE };
}

/// A page-table entry of the kernel's own format.
pub trait Translation {
    /// The entry's content, as far as coherence is concerned.
    fn entry(&self) -> Entry;
}

impl Translation for Entry {
    fn entry(&self) -> Entry {
        *self
    }
}

/// The debt of a changed translation: some TLB may hold the old entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Debt {
    /// An address in the page.
    pub(crate) address: u64,
    pub(crate) size: PageSize,
    pub(crate) entry: Entry,
}

impl Debt {
    pub(crate) fn new(address: u64, size: PageSize, entry: Entry) -> Self {
        Self { address, size, entry }
    }

    /// The flush that pays it.
    pub(crate) fn flush(self) -> Flush {
        Flush::page(self.address, self.size)
    }
}

/// Exchanges an entry, and returns it with its content. If the kernel's code panics meanwhile, the entry may be gone,
/// and `worst` notes the debt for that.
#[inline]
pub(crate) fn exchanged<E: Translation>(exchange: impl FnOnce() -> E, worst: impl FnMut()) -> (E, Entry) {
    let unwinding = Unwinding(worst);
    let old = exchange();
    let entry = old.entry();
    mem::forget(unwinding);
    (old, entry)
}

/// Runs when it is dropped.
struct Unwinding<F: FnMut()>(F);

impl<F: FnMut()> Drop for Unwinding<F> {
    #[cold]
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Whether some CPU may hold a translation of the kernel's ranges that was `entry` until now. A hidden entry always
/// counts: nothing says whether the flush for its hiding is done.
pub(crate) const fn may_be_held_in_kernel(entry: Entry) -> bool {
    !matches!(entry.access, Access::None)
}

impl<P: Platform> Engine<P> {
    /// Whether some CPU may hold a translation of `space` that was `entry` until now.
    ///
    /// A hidden entry counts while the flush for its hiding may be outstanding: while a downgrade is in flight in the
    /// space, or while the space owes. The caller holds the page-table lock, and the hiding was recorded under the same
    /// lock.
    #[inline]
    pub(crate) fn may_be_held(&self, space: &AddressSpace, entry: Entry) -> bool {
        match entry.access {
            Access::Usable => true,
            Access::Hidden => {
                // R1
                self.guarded(Guard::Hidden) && (space.downgrade_in_flight() || self.owes(space))
            }
            Access::None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flush::Extent;

    #[test]
    fn an_entry_that_has_seen_a_store_allows_stores() {
        let rights = [Entry::NONE, Entry::READ_ONLY, Entry::WRITABLE, Entry::DIRTY]
            .map(|entry| (entry.access == Access::None, entry.writable, entry.dirty));
        let expected =
            [(true, false, false), (false, false, false), (false, true, false), (false, true, true)];
        assert_eq!(rights, expected);
    }

    #[test]
    fn a_debt_starts_where_its_translation_does() {
        let debt = Debt::new(0x40_3fff, PageSize::MIB_2, Entry::READ_ONLY);
        assert_eq!(debt.flush().extent, Extent::Pages { start: 0x40_0000, count: 1, size: PageSize::MIB_2 });
    }
}
