//! Which pages may be let go of owing: the one place where that is decided.
//!
//! A page that CPUs can still reach may be reused later only if all that they can do meanwhile is read what the program
//! was meant to read. So no translation of it may have allowed stores, as far as anybody can tell: neither in the page
//! table nor in a TLB that has not heard yet that the right to store was taken away (LUF asked the page table alone,
//! reference scenario 10). Its bytes must stay as they are while it is free, and nobody may have been promised that it
//! stays where it is. Anonymous memory and files alike, small pages and huge ones.

use crate::entry::Entry;

/// What the kernel knows of a page besides its translations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Condition {
    /// It is newer than its copy on a device: it has to be written out, with every store that was made.
    pub dirty: bool,
    /// Somebody was promised that it stays mapped where it is (mlock).
    pub locked: bool,
    /// Its bytes change while it is free: the kernel fills free frames with zeros or a pattern, or takes them out of its
    /// own mapping to find wrong accesses.
    pub altered: bool,
}

/// What was met when the translations of a page were cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Met {
    /// A translation that allowed stores.
    pub(crate) writable: bool,
    /// A translation through which was stored.
    pub(crate) dirty: bool,
    /// A space in which rights were taken away that not every CPU has heard of.
    pub(crate) downgrade: bool,
}

impl Met {
    /// Adds a translation of a space in which a downgrade is `in_flight` or not.
    pub(crate) fn add(&mut self, entry: Entry, in_flight: bool) {
        self.writable |= entry.writable;
        self.dirty |= entry.dirty;
        self.downgrade |= in_flight;
    }

    /// Adds what was met elsewhere.
    pub(crate) fn join(&mut self, other: Self) {
        self.writable |= other.writable;
        self.dirty |= other.dirty;
        self.downgrade |= other.downgrade;
    }
}

/// Whether a page may be let go of while CPUs can still reach it.
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
        let mut met = Met::default();
        let clean = Entry::READ_ONLY;
        met.add(clean, false);
        assert!(may_owe(Condition::default(), met));
        met.add(Entry { writable: true, ..clean }, false);
        met.add(clean, false);
        assert!(!may_owe(Condition::default(), met));
    }
}
