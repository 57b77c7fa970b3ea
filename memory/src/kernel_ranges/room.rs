//! The addresses of an area: a bit for each page, set from the moment at which the page is handed out until no CPU can
//! hold a translation of it.
//!
//! The first free range that is long enough is handed out. Giving a range back takes no lock and no memory, so a flush
//! can do it.

use crate::primitive::{AtomicU64, Ordering};
use alloc::boxed::Box;

/// Which pages of an area are taken, by their number in it.
#[derive(Debug)]
pub(super) struct Room {
    words: Box<[AtomicU64]>,
    pages: u32,
}

impl Room {
    /// Room of `pages` pages, all free.
    pub(super) fn new(pages: u32) -> Self {
        Self { words: (0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect(), pages }
    }

    /// How many pages there are.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// Takes the first `count` free neighbours. Two calls of this must not run at the same time.
    pub(super) fn take(&self, count: u32) -> Option<u32> {
        let mut first = 0;
        while count <= self.pages - first {
            let Some(taken) = (first..first + count).rev().find(|&page| self.is_taken(page)) else {
                self.set(first, count, true);
                return Some(first);
            };
            first = taken + 1;
        }
        None
    }

    /// Gives `count` neighbours back.
    pub(super) fn give_back(&self, first: u32, count: u32) {
        self.set(first, count, false);
    }

    fn is_taken(&self, page: u32) -> bool {
        // What the last owner did comes before this, as `set` releases.
        self.words[page as usize / 64].load(Ordering::Acquire) >> (page % 64) & 1 != 0
    }

    fn set(&self, first: u32, count: u32, taken: bool) {
        for page in first..first + count {
            let (word, bit) = (&self.words[page as usize / 64], 1 << (page % 64));
            let was = if taken {
                word.fetch_or(bit, Ordering::AcqRel)
            } else {
                word.fetch_and(!bit, Ordering::AcqRel)
            };
            debug_assert_eq!(was & bit != 0, !taken, "page {page} of the area is taken or given back twice");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_range_that_is_long_enough_is_taken() {
        let room = Room::new(130);
        assert_eq!(room.take(3), Some(0));
        assert_eq!(room.take(100), Some(3));
        assert_eq!(room.take(27), Some(103));
        assert_eq!(room.take(1), None);
        room.give_back(1, 1);
        room.give_back(60, 10);
        assert_eq!(room.take(2), Some(60));
        assert_eq!(room.take(1), Some(1));
        assert_eq!(room.take(8), Some(62));
        assert_eq!(room.take(1), None);
    }

    #[test]
    fn more_pages_than_there_are_cannot_be_taken() {
        let room = Room::new(4);
        assert_eq!((room.take(5), room.take(u32::MAX), room.take(4)), (None, None, Some(0)));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "page 2 of the area is taken or given back twice")]
    fn a_range_given_back_twice_is_caught() {
        let room = Room::new(4);
        assert_eq!(room.take(3), Some(0));
        room.give_back(2, 1);
        room.give_back(2, 1);
    }
}
