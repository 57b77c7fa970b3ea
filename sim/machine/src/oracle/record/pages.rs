//! The entries of a space's pages, with neighbouring pages side by side.
//!
//! A chunk holds the lists of 64 pages and a region 64 chunks. A program that uses memory at random costs one step for
//! the region, which the host's caches hold, and one each for the region's entry and the page's list.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::oracle::record::bits::{inside, ones, WIDTH};
use crate::oracle::record::entry::{Entry, List};

/// The lists of 64 pages. A bit each says whether the list has an entry.
#[derive(Debug)]
struct Chunk {
    occupied: u64,
    lists: [List; WIDTH as usize],
}

impl Chunk {
    fn change<R>(&mut self, at: u64, change: impl FnOnce(&mut List) -> R) -> R {
        let list = &mut self.lists[at as usize];
        let was_empty = list.is_empty();
        let result = change(list);
        if was_empty != list.is_empty() {
            self.occupied ^= 1 << at;
        }
        result
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

    /// Removes a chunk that has no entry.
    fn take_empty(&mut self, chunk: u64) -> Option<Box<Chunk>> {
        let empty = self.chunks[chunk as usize].take_if(|chunk| chunk.occupied == 0)?;
        self.present &= !(1 << chunk);
        Some(empty)
    }
}

/// A list of entries for each page.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    regions: BTreeMap<u64, Box<Region>>,
    /// An empty chunk for the next page without one: a page that is flushed and used again allocates nothing.
    spare: Option<Box<Chunk>>,
}

/// The number of a page's region, its chunk in there, and its place in the chunk.
fn split(page: u64) -> (u64, u64, u64) {
    (page / (WIDTH * WIDTH), page / WIDTH % WIDTH, page % WIDTH)
}

impl Pages {
    /// The entries of a page.
    pub(crate) fn of(&self, page: u64) -> &[Entry] {
        let (region, chunk, at) = split(page);
        let chunk = self.regions.get(&region).and_then(|region| region.chunks[chunk as usize].as_deref());
        chunk.map_or(&[], |chunk| &chunk.lists[at as usize])
    }

    /// Adds to the entries of a page.
    pub(crate) fn add<R>(&mut self, page: u64, add: impl FnOnce(&mut List) -> R) -> R {
        let (region, chunk, at) = split(page);
        let region = self.regions.entry(region).or_insert_with(|| Box::new(Region::new()));
        region.present |= 1 << chunk;
        let new = || Box::new(Chunk { occupied: 0, lists: std::array::from_fn(|_| List::new()) });
        let chunk =
            region.chunks[chunk as usize].get_or_insert_with(|| self.spare.take().unwrap_or_else(new));
        chunk.change(at, add)
    }

    /// Removes some of the entries of a page.
    pub(crate) fn remove(&mut self, page: u64, remove: impl FnOnce(&mut List)) {
        let (number, chunk, at) = split(page);
        let Some(region) = self.regions.get_mut(&number) else { return };
        let Some(lists) = region.chunks[chunk as usize].as_deref_mut() else { return };
        lists.change(at, remove);
        if lists.occupied == 0 {
            self.spare = region.take_empty(chunk);
            if region.present == 0 {
                self.regions.remove(&number);
            }
        }
    }

    /// Removes some of the entries of each page.
    pub(crate) fn remove_everywhere(&mut self, mut remove: impl FnMut(u64, &mut List)) {
        self.regions.retain(|number, region| {
            for at in ones(region.present) {
                if let Some(chunk) = region.chunks[at as usize].as_deref_mut() {
                    let first = (number * WIDTH + at) * WIDTH;
                    ones(chunk.occupied).for_each(|at| chunk.change(at, |list| remove(first + at, list)));
                }
                region.take_empty(at);
            }
            region.present != 0
        });
    }

    /// The pages of a range that have entries, in order.
    pub(crate) fn within(&self, pages: Range<u64>) -> impl Iterator<Item = (u64, &[Entry])> {
        let chunks = pages.start / WIDTH..pages.end.div_ceil(WIDTH);
        let regions = self.regions.range(chunks.start / WIDTH..chunks.end.div_ceil(WIDTH));
        let chunks = regions.flat_map(move |(&number, region)| {
            let chunk = move |at| Some((number * WIDTH + at, region.chunks[at as usize].as_deref()?));
            ones(region.present & inside(number * WIDTH, &chunks)).filter_map(chunk)
        });
        chunks.flat_map(move |(number, chunk)| {
            let list = move |at| (number * WIDTH + at, &chunk.lists[at as usize][..]);
            ones(chunk.occupied & inside(number * WIDTH, &pages)).map(list)
        })
    }
}
