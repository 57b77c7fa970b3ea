//! What one CPU may hold under one ASID: every translation that it cached and nobody invalidated since.
//!
//! A real TLB forgets most of it, but no code may rely on that. On a large machine this is nearly a translation for
//! each frame, so pages are kept in chunks of neighbours, and the rare second translation of a page by itself.

use std::collections::BTreeMap;
use std::ops::Range;

/// Neighbouring pages in a chunk.
const CHUNK: u64 = 64;

/// A translation that a CPU may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    /// How many fills there had been on the machine before it.
    pub(crate) filled: u64,
    pub(crate) frame: u32,
    pub(crate) writable: bool,
    /// Stores through it do not go to the page table.
    pub(crate) dirty: bool,
}

#[derive(Debug)]
struct Chunk {
    present: u32,
    pages: [Option<Held>; CHUNK as usize],
}

/// All of it, by page.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    chunks: BTreeMap<u64, Box<Chunk>>,
    /// Older translations of pages that have a newer one in their chunk.
    further: BTreeMap<u64, Vec<Held>>,
}

impl Holdings {
    /// Adds a translation; one of the same page to another frame may live on beside it.
    pub(crate) fn add(&mut self, page: u64, held: Held) {
        let further = self.further.get_mut(&page);
        if let Some(old) = further.into_iter().flatten().find(|old| old.frame == held.frame) {
            (old.writable, old.dirty) = (old.writable | held.writable, old.dirty | held.dirty);
            return;
        }
        let chunk = self
            .chunks
            .entry(page / CHUNK)
            .or_insert_with(|| Box::new(Chunk { present: 0, pages: [None; CHUNK as usize] }));
        match &mut chunk.pages[(page % CHUNK) as usize] {
            Some(old) if old.frame == held.frame => {
                (old.writable, old.dirty) = (old.writable | held.writable, old.dirty | held.dirty);
            }
            Some(old) => self.further.entry(page).or_default().push(std::mem::replace(old, held)),
            vacant => {
                *vacant = Some(held);
                chunk.present += 1;
            }
        }
    }

    /// Takes a page's translations out.
    pub(crate) fn remove(&mut self, page: u64) {
        self.further.remove(&page);
        let Some(chunk) = self.chunks.get_mut(&(page / CHUNK)) else { return };
        if chunk.pages[(page % CHUNK) as usize].take().is_some() {
            chunk.present -= 1;
            if chunk.present == 0 {
                self.chunks.remove(&(page / CHUNK));
            }
        }
    }

    /// Takes everything out.
    pub(crate) fn clear(&mut self) {
        self.chunks.clear();
        self.further.clear();
    }

    /// A page's translations.
    pub(crate) fn of(&self, page: u64) -> impl Iterator<Item = Held> + '_ {
        let newest = self.chunks.get(&(page / CHUNK)).and_then(|chunk| chunk.pages[(page % CHUNK) as usize]);
        newest.into_iter().chain(self.further.get(&page).into_iter().flatten().copied())
    }

    /// The translations of a range of pages, with their pages.
    pub(crate) fn within(&self, pages: Range<u64>) -> impl Iterator<Item = (u64, Held)> + '_ {
        let chunks = pages.start / CHUNK..pages.end.div_ceil(CHUNK);
        let newest = self.chunks.range(chunks).flat_map(|(&number, chunk)| {
            let held = move |(at, held): (usize, &Option<Held>)| Some((number * CHUNK + at as u64, (*held)?));
            chunk.pages.iter().enumerate().filter_map(held)
        });
        let of_page = |(&page, further): (&u64, &Vec<Held>)| {
            further.iter().map(|held| (page, *held)).collect::<Vec<_>>()
        };
        let further = self.further.range(pages.clone()).flat_map(of_page);
        newest.filter(move |(page, _)| pages.contains(page)).chain(further)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(frame: u32) -> Held {
        Held { filled: 0, frame, writable: false, dirty: false }
    }

    fn frames(held: impl Iterator<Item = Held>) -> Vec<u32> {
        let mut frames: Vec<u32> = held.map(|held| held.frame).collect();
        frames.sort_unstable();
        frames
    }

    #[test]
    fn a_page_keeps_every_translation_until_it_is_invalidated() {
        let mut holdings = Holdings::default();
        for (page, frame) in [(63, 1), (64, 2), (64, 3), (64, 2), (200, 4)] {
            holdings.add(page, held(frame));
        }
        assert_eq!(frames(holdings.of(64)), [2, 3]);
        assert_eq!(frames(holdings.within(63..65).map(|(_, held)| held)), [1, 2, 3]);
        assert_eq!(frames(holdings.within(65..200).map(|(_, held)| held)), [0u32; 0]);
        holdings.remove(64);
        assert_eq!(frames(holdings.within(0..1000).map(|(_, held)| held)), [1, 4]);
        holdings.clear();
        assert_eq!(holdings.of(63).count() + holdings.of(200).count(), 0);
    }

    #[test]
    fn rights_add_up_as_long_as_the_frame_stays() {
        let mut holdings = Holdings::default();
        holdings.add(1, Held { writable: true, ..held(7) });
        holdings.add(1, Held { dirty: true, ..held(7) });
        assert_eq!(holdings.of(1).collect::<Vec<_>>(), [Held { writable: true, dirty: true, ..held(7) }]);
    }
}
