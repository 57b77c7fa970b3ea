//! The words that readers store: each names its owner.

use crate::memory::{PAGE, WORDS};

/// Words between those of two slots in one page. They lie in different cache lines, and not in the same lines of each
/// page.
const APART: u64 = 24;
/// The most slots with words of their own.
pub(super) const SLOTS: usize = 17;
/// The slot of a forked child, which is no reader.
pub(super) const STRANGER: usize = 0xff;

const _: () = assert!(SLOTS as u64 * APART <= WORDS);

/// The owner of a word, and its page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    /// The scenario's number.
    pub(super) scenario: usize,
    /// The reader's slot.
    pub(super) slot: usize,
    /// The page of the region.
    pub(super) page: u64,
}

impl Owner {
    /// The word's offset from the start of the region.
    pub(super) fn offset(self) -> u64 {
        let word = self.slot as u64 * APART + self.page % APART;
        self.page * PAGE + word * 8
    }

    /// The owner's word in this pass.
    pub(super) fn mark(self, sequence: u64) -> u64 {
        let scenario = self.scenario as u64 + 1;
        scenario << 56 | (self.slot as u64) << 48 | self.page << 32 | (sequence & 0xffff_ffff)
    }

    /// The pass of a word; 0 if the word is zero. `None` if the word is another owner's.
    pub(super) fn sequence(self, found: u64) -> Option<u64> {
        if found == 0 {
            return Some(0);
        }
        let sequence = found & 0xffff_ffff;
        (found == self.mark(sequence)).then_some(sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_do_not_overlap_and_stay_in_their_page() {
        let mut seen = std::collections::HashSet::new();
        for page in 0..100 {
            for slot in 0..SLOTS {
                let offset = Owner { scenario: 0, slot, page }.offset();
                assert!(seen.insert(offset) && offset.is_multiple_of(8) && offset / PAGE == page);
            }
        }
    }

    #[test]
    fn a_mark_is_known_to_its_owner_alone() {
        let owner = Owner { scenario: 3, slot: 2, page: 519 };
        let mark = owner.mark(77);
        assert_eq!((owner.sequence(mark), owner.sequence(0)), (Some(77), Some(0)));
        for other in [
            Owner { scenario: 4, ..owner },
            Owner { slot: 1, ..owner },
            Owner { page: 7, ..owner },
            Owner { slot: STRANGER, ..owner },
        ] {
            assert_eq!(other.sequence(mark), None);
        }
    }
}
