//! The pages of one space for which any CPU ever cached a translation, and the CPUs that may still hold some.
//!
//! Most pages are new when they are mapped. A page that no CPU ever reached needs no look at every CPU's record, which
//! is the larger part of the oracle's work on a machine of many CPUs.

use std::collections::{BTreeMap, BTreeSet};

use ceasefire::PageSize;

use crate::hardware::numbers::HUGE_SHIFT;

/// The number of pages in a word, and of words in a region.
const WIDTH: u64 = u64::BITS as u64;

/// What CPUs have cached from the tables of one root.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    /// The CPUs that may hold translations, and under which ASID.
    pub(crate) slots: BTreeSet<(usize, u16)>,
    /// A bit for each small page, by region.
    small: BTreeMap<u64, Box<[u64; WIDTH as usize]>>,
    /// The huge pages, by number.
    huge: BTreeSet<u64>,
    /// A CPU holds translations from other tables under an ASID of this root. Any page may be among them.
    mixed: bool,
}

impl Reached {
    /// A CPU caches a translation of a page.
    pub(crate) fn add(&mut self, page: u64, size: PageSize) {
        if size == PageSize::MIB_2 {
            self.huge.insert(page >> HUGE_SHIFT);
            return;
        }
        let (region, word, bit) = split(page);
        self.small.entry(region).or_insert_with(|| Box::new([0; WIDTH as usize]))[word] |= bit;
    }

    /// Any page may have been reached from now on.
    pub(crate) fn mix(&mut self) {
        self.mixed = true;
    }

    /// Whether no CPU ever cached a translation of either size for a small page.
    pub(crate) fn is_new(&self, page: u64) -> bool {
        let (region, word, bit) = split(page);
        let small = self.small.get(&region).is_some_and(|words| words[word] & bit != 0);
        !self.mixed && !small && !self.huge.contains(&(page >> HUGE_SHIFT))
    }
}

/// A page's region, its word in there, and its bit in the word.
fn split(page: u64) -> (u64, usize, u64) {
    (page / (WIDTH * WIDTH), (page / WIDTH % WIDTH) as usize, 1 << (page % WIDTH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_new_until_a_translation_of_either_size_covers_it() {
        let mut reached = Reached::default();
        let pages = [0, 63, 64, 511, 512, 1023, 1024, 4095, 4096, 1 << 30];
        assert!(pages.into_iter().all(|page| reached.is_new(page)));
        reached.add(64, PageSize::KIB_4);
        reached.add(4096, PageSize::KIB_4);
        reached.add(600, PageSize::MIB_2);
        let new: Vec<u64> = pages.into_iter().filter(|page| reached.is_new(*page)).collect();
        assert_eq!(new, [0, 63, 511, 1024, 4095, 1 << 30]);
        reached.mix();
        assert!(!pages.into_iter().any(|page| reached.is_new(page)));
    }
}
