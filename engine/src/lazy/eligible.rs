//! The rule for pages that may be released in debt. It is decided only here.
//!
//! CPUs can still reach such a page. So it may be reused later only if they can do no more than read what the program
//! was meant to read. Three conditions follow:
//!
//! - No translation of the page allowed stores, neither in the page table nor in a TLB that may still hold an older
//!   one. (LUF checked only the page table: reference scenario 10.)
//! - Its bytes stay unchanged while it is free.
//! - The program was not promised that the page stays mapped where it is.
//!
//! The rule is the same for anonymous memory and files, small pages and huge ones.

use crate::entry::Entry;

/// The facts about a page that its translations do not show. It has no default: a fact that a kernel forgets lets a page
/// go that must stay. [`Condition::UNKEPT`] says that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Condition {
    /// It is newer than its copy on a device, so it must be written out with every store that was made.
    pub dirty: bool,
    /// The program was promised that it stays mapped where it is (mlock).
    pub locked: bool,
    /// Its bytes change while it is free: the kernel fills free frames with zeros or a pattern, or unmaps them from its
    /// own mapping to find wrong accesses.
    pub altered: bool,
}

impl Condition {
    /// A page that nothing keeps: it may be released in debt.
    pub const UNKEPT: Self = Self { dirty: false, locked: false, altered: false };
}

/// The facts found while the translations of a page were cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Met {
    /// A translation that allowed stores.
    pub(crate) writable: bool,
    /// A translation through which a store was made.
    pub(crate) dirty: bool,
    /// A space in which rights were taken away and some CPU may not know yet.
    pub(crate) downgrade: bool,
}

impl Met {
    /// Adds a translation of a space; `in_flight` says whether a downgrade is in flight there.
    pub(crate) fn add(&mut self, entry: Entry, in_flight: bool) {
        self.writable |= entry.writable;
        self.dirty |= entry.dirty;
        self.downgrade |= in_flight;
    }

    /// Adds the facts of another.
    pub(crate) fn join(&mut self, other: Self) {
        self.writable |= other.writable;
        self.dirty |= other.dirty;
        self.downgrade |= other.downgrade;
    }
}

/// Whether a page may be released in debt while CPUs can still reach it.
pub(crate) const fn may_owe(page: Condition, met: Met) -> bool {
    let Condition { dirty, locked, altered } = page;
    !(dirty || locked || altered || met.writable || met.dirty || met.downgrade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_one_reason_is_enough_to_pay_first() {
        for reasons in 0..64_u32 {
            let given = |bit: u32| reasons >> bit & 1 != 0;
            let page = Condition { dirty: given(0), locked: given(1), altered: given(2) };
            let met = Met { writable: given(3), dirty: given(4), downgrade: given(5) };
            assert_eq!(may_owe(page, met), reasons == 0, "{page:?} {met:?}");
        }
    }

    #[test]
    fn one_translation_of_many_is_enough() {
        let clean = Entry::READ_ONLY;
        let mut met = Met::default();
        met.add(clean, false);
        assert!(may_owe(Condition::UNKEPT, met));
        for (entry, in_flight) in [
            (Entry { writable: true, ..clean }, false),
            (Entry { dirty: true, ..clean }, false),
            (clean, true),
        ] {
            let mut added = met;
            added.add(entry, in_flight);
            added.add(clean, false);
            assert!(!may_owe(Condition::UNKEPT, added), "{entry:?} {in_flight}");
            let (mut to, mut from) = (met, added);
            to.join(added);
            from.join(met);
            assert_eq!((to, from), (added, added));
        }
    }
}
