//! A set of pages, a word for each 64 neighbours.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::oracle::record::bits::{inside, ones, WIDTH};

/// A set of pages.
#[derive(Debug, Default)]
pub(crate) struct PageSet(BTreeMap<u64, u64>);

impl PageSet {
    pub(crate) fn insert(&mut self, page: u64) {
        *self.0.entry(page / WIDTH).or_default() |= 1 << (page % WIDTH);
    }

    pub(crate) fn remove(&mut self, page: u64) {
        let Some(word) = self.0.get_mut(&(page / WIDTH)) else { return };
        *word &= !(1 << (page % WIDTH));
        if *word == 0 {
            self.0.remove(&(page / WIDTH));
        }
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The pages in a range, in order.
    pub(crate) fn within(&self, pages: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let words = self.0.range(pages.start / WIDTH..pages.end.div_ceil(WIDTH));
        words.flat_map(move |(&number, word)| {
            ones(word & inside(number * WIDTH, &pages)).map(move |at| number * WIDTH + at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_finds_the_pages_in_it_across_words() {
        let mut set = PageSet::default();
        let pages = [0, 63, 64, 4095, 4096, 1 << 30];
        pages.into_iter().chain([65]).for_each(|page| set.insert(page));
        set.remove(65);
        set.remove(66);
        for start in [0, 1, 63, 64, 65, 4095, 4096, 4097] {
            for end in [start, 64, 65, 4096, 5000, u64::from(u32::MAX)] {
                let expected: Vec<u64> = pages.into_iter().filter(|at| (start..end).contains(at)).collect();
                if start <= end {
                    assert_eq!(set.within(start..end).collect::<Vec<_>>(), expected, "{start}..{end}");
                }
            }
        }
        set.clear();
        assert_eq!(set.within(0..1 << 31).next(), None);
    }
}
