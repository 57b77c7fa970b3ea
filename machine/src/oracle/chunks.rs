//! One translation for each page, with neighbouring pages side by side.
//!
//! A chunk holds 64 pages and a region 64 chunks. A CPU that uses memory at random needs one step for the region, which
//! the host's caches hold, and one each for the region's entry and the chunk's.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::oracle::holdings::Held;

/// The number of neighbouring pages in a chunk, and of chunks in a region.
const WIDTH: u64 = u64::BITS as u64;

/// The translations of 64 pages, of which a bit each says whether there is one and what it allows.
#[derive(Debug, Clone)]
struct Chunk {
    present: u64,
    writable: u64,
    dirty: u64,
    filled: [u64; WIDTH as usize],
    frames: [u32; WIDTH as usize],
}

impl Chunk {
    const EMPTY: Self =
        Self { present: 0, writable: 0, dirty: 0, filled: [0; WIDTH as usize], frames: [0; WIDTH as usize] };

    fn get(&self, at: u64) -> Option<Held> {
        let has = |bits: u64| bits >> at & 1 != 0;
        has(self.present).then(|| Held {
            filled: self.filled[at as usize],
            frame: self.frames[at as usize],
            writable: has(self.writable),
            dirty: has(self.dirty),
        })
    }

    fn set(&mut self, at: u64, held: Held) {
        let set = |bits: &mut u64, value: bool| *bits = *bits & !(1 << at) | u64::from(value) << at;
        set(&mut self.present, true);
        set(&mut self.writable, held.writable);
        set(&mut self.dirty, held.dirty);
        (self.filled[at as usize], self.frames[at as usize]) = (held.filled, held.frame);
    }
}

/// 64 chunks. A bit each says whether there is one.
#[derive(Debug)]
struct Region {
    present: u64,
    chunks: [Option<Box<Chunk>>; WIDTH as usize],
}

impl Region {
    fn new() -> Self {
        Self { present: 0, chunks: [const { None }; WIDTH as usize] }
    }
}

/// At most one translation for each page.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    regions: BTreeMap<u64, Box<Region>>,
    /// An empty chunk for the next page without one: a page that is flushed and used again allocates nothing.
    spare: Option<Box<Chunk>>,
}

/// The number of a page's region, its chunk in there, and its place in the chunk.
fn split(page: u64) -> (u64, u64, u64) {
    (page / (WIDTH * WIDTH), page / WIDTH % WIDTH, page % WIDTH)
}

/// The numbers of the bits that are set.
fn ones(mut bits: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let at = bits.trailing_zeros();
        bits &= bits.checked_sub(1)?;
        Some(at.into())
    })
}

/// The bits of those of 64 numbers, `first` the lowest, that lie in a range.
fn inside(first: u64, range: &Range<u64>) -> u64 {
    let below = |end: u64| {
        let count = end.saturating_sub(first).min(WIDTH);
        u64::MAX.checked_shr((WIDTH - count) as u32).unwrap_or(0)
    };
    below(range.end) & !below(range.start)
}

impl Chunks {
    pub(crate) fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    pub(crate) fn get(&self, page: u64) -> Option<Held> {
        let (region, chunk, at) = split(page);
        self.regions.get(&region)?.chunks[chunk as usize].as_deref()?.get(at)
    }

    /// Replaces the translation of a page, if it has one.
    pub(crate) fn update(&mut self, page: u64, update: impl FnOnce(Option<Held>) -> Held) {
        let (region, chunk, at) = split(page);
        let region = self.regions.entry(region).or_insert_with(|| Box::new(Region::new()));
        region.present |= 1 << chunk;
        let empty = || self.spare.take().unwrap_or_else(|| Box::new(Chunk::EMPTY));
        let chunk = region.chunks[chunk as usize].get_or_insert_with(empty);
        chunk.set(at, update(chunk.get(at)));
    }

    /// Removes the translation of a page.
    pub(crate) fn remove(&mut self, page: u64) {
        let (number, chunk, at) = split(page);
        let Some(region) = self.regions.get_mut(&number) else { return };
        let Some(pages) = &mut region.chunks[chunk as usize] else { return };
        pages.present &= !(1 << at);
        if pages.present != 0 {
            return;
        }
        self.spare = region.chunks[chunk as usize].take();
        region.present &= !(1 << chunk);
        if region.present == 0 {
            self.regions.remove(&number);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.regions.clear();
    }

    /// The translations of a range of pages, in order, with their pages.
    pub(crate) fn within(&self, pages: Range<u64>) -> impl Iterator<Item = (u64, Held)> + '_ {
        let chunks = pages.start / WIDTH..pages.end.div_ceil(WIDTH);
        let regions = self.regions.range(chunks.start / WIDTH..chunks.end.div_ceil(WIDTH));
        let chunks = regions.flat_map(move |(&number, region)| {
            let chunk = move |at| Some((number * WIDTH + at, region.chunks[at as usize].as_deref()?));
            ones(region.present & inside(number * WIDTH, &chunks)).filter_map(chunk)
        });
        chunks.flat_map(move |(number, chunk)| {
            let held = move |at| Some((number * WIDTH + at, chunk.get(at)?));
            ones(chunk.present & inside(number * WIDTH, &pages)).filter_map(held)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_finds_the_pages_in_it_across_chunks_and_regions() {
        let mut chunks = Chunks::default();
        let pages = [0, 63, 64, 4095, 4096, 8191, 1 << 30];
        for (frame, page) in (0..).zip(pages) {
            chunks.update(page, |_| Held { filled: page, frame, writable: page == 64, dirty: page == 63 });
        }
        for start in [0, 1, 63, 64, 65, 4095, 4096, 4097, 8192] {
            for end in [start, 64, 65, 4096, 5000, 8191, 8192, u64::from(u32::MAX)] {
                let expected: Vec<u64> =
                    pages.into_iter().filter(|page| (start..end).contains(page)).collect();
                if start <= end {
                    assert_eq!(chunks.within(start..end).map(|(page, _)| page).collect::<Vec<_>>(), expected);
                }
            }
        }
        assert_eq!(chunks.get(64), Some(Held { filled: 64, frame: 2, writable: true, dirty: false }));
        assert_eq!(chunks.get(63), Some(Held { filled: 63, frame: 1, writable: false, dirty: true }));
        chunks.update(64, |_| Held { filled: 9, frame: 8, writable: false, dirty: false });
        assert_eq!(chunks.get(64), Some(Held { filled: 9, frame: 8, writable: false, dirty: false }));
    }

    #[test]
    fn a_page_that_is_used_again_has_no_trace_of_its_neighbours_before() {
        let mut chunks = Chunks::default();
        let held = Held { filled: 1, frame: 2, writable: true, dirty: true };
        chunks.update(10, |_| held);
        chunks.remove(11);
        chunks.remove(10);
        assert!(chunks.is_empty());
        let read = Held { writable: false, dirty: false, ..held };
        chunks.update(5000, |_| read);
        assert_eq!(chunks.within(0..9000).collect::<Vec<_>>(), [(5000, read)]);
        chunks.clear();
        assert_eq!((chunks.get(5000), chunks.is_empty()), (None, true));
    }
}
