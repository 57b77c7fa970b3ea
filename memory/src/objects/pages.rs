//! The pages of a file that are in memory, and those that its device holds.
//!
//! The directory has two levels and chunks of 64 neighbouring pages. A chunk exists only where it differs from the
//! initial state: of a new file the device holds either nothing or everything. A page that is in neither place is a
//! hole, and reads as zeros. The swap device uses the same directory for its slots.
//!
//! A page may leave its place, or move to another frame, while CPUs can still read the old one. Then its chunk keeps
//! the stamp of that debt, and no place in the chunk is used before the debt is settled (`slot`). One stamp serves 64
//! pages, so a task may pay for the debt of a neighbour. That is rare, because the pages used next are far from those
//! evicted last. A chunk with no other information is kept until its stamp is settled. Such chunks wait in a line,
//! oldest first, so there are never more of them than were emptied within the time that a debt may stand.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use ceasefire::Stamp;

use crate::address::{FrameNumber, PAGE_BYTES};

const CHUNK: usize = 64;
const ABSENT: u32 = u32::MAX;

/// 64 neighbouring pages.
#[derive(Debug)]
struct Chunk {
    present: u32,
    frames: [u32; CHUNK],
    /// A bit for each page that the device holds.
    stored: u64,
    /// The time until which CPUs may read older copies of some of the pages.
    owed: Stamp,
    /// The chunk stands in the line. It does so only once, so the line is never longer than there are chunks.
    in_line: bool,
}

impl Chunk {
    const EMPTY: Self =
        Self { present: 0, frames: [ABSENT; CHUNK], stored: 0, owed: Stamp::SETTLED, in_line: false };

    /// Whether the chunk has no information beyond the initial state, in which the device holds the pages in `stored`.
    const fn is_as_at_first(&self, stored: u64) -> bool {
        self.present == 0 && self.stored == stored
    }
}

/// Neighbouring chunks behind one pointer.
const GROUP: usize = 1024;

type Group = [Option<Box<Chunk>>; GROUP];

/// The pages of an object that are in memory.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// As long as the last group needs: half a megabyte for the largest object.
    groups: Vec<Option<Box<Group>>>,
    /// Empty chunks that owe: one page of each, and the stamp.
    owing: VecDeque<(u32, Stamp)>,
    /// The time until which CPUs may read older copies of any page.
    owed: Stamp,
    /// Where there is no chunk, the device holds the pages below this one.
    stored_below: u32,
    /// The object's length in bytes.
    pub(crate) bytes: u64,
}

/// The group, the chunk in it, and the place in the chunk.
fn place(index: u32) -> (usize, usize, usize) {
    let chunk = index as usize / CHUNK;
    (chunk / GROUP, chunk % GROUP, index as usize % CHUNK)
}

impl Pages {
    /// No pages, of an object of `bytes`.
    pub(crate) fn new(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }

    /// No pages, of an object of `bytes` that its device holds completely.
    pub(crate) fn stored(bytes: u64) -> Self {
        let pages = Self::new(bytes);
        Self { stored_below: pages.len(), ..pages }
    }

    /// The initial value of `stored` in the chunk of a page.
    fn stored_at_first(&self, index: u32) -> u64 {
        match self.stored_below.saturating_sub(index / CHUNK as u32 * CHUNK as u32) {
            below if below < CHUNK as u32 => (1 << below) - 1,
            _ => u64::MAX,
        }
    }

    /// The object's length in pages. The last one may be partial.
    pub(crate) fn len(&self) -> u32 {
        self.bytes.div_ceil(PAGE_BYTES) as u32
    }

    fn chunk(&self, index: u32) -> Option<&Chunk> {
        let (group, chunk, _) = place(index);
        self.groups.get(group)?.as_ref()?[chunk].as_deref()
    }

    fn chunk_mut(&mut self, index: u32) -> &mut Chunk {
        let (group, chunk, _) = place(index);
        let stored = self.stored_at_first(index);
        if group >= self.groups.len() {
            self.groups.resize_with(group + 1, || None);
        }
        let group = self.groups[group].get_or_insert_with(|| Box::new([const { None }; GROUP]));
        group[chunk].get_or_insert_with(|| Box::new(Chunk { stored, ..Chunk::EMPTY }))
    }

    pub(crate) fn find(&self, index: u32) -> Option<FrameNumber> {
        let frame = self.chunk(index)?.frames[index as usize % CHUNK];
        (frame != ABSENT).then_some(FrameNumber::new(frame))
    }

    /// Puts a page into a free place.
    pub(crate) fn insert(&mut self, index: u32, frame: FrameNumber) {
        let chunk = self.chunk_mut(index);
        let slot = &mut chunk.frames[index as usize % CHUNK];
        debug_assert_eq!(*slot, ABSENT, "two frames for page {index} of a file");
        *slot = frame.get();
        chunk.present += 1;
    }

    /// Puts a frame in the place of `old`, which CPUs may read until `stamp` is settled.
    pub(crate) fn replace(&mut self, index: u32, old: FrameNumber, new: FrameNumber, stamp: Stamp) {
        debug_assert_eq!(self.find(index), Some(old));
        self.chunk_mut(index).frames[index as usize % CHUNK] = new.get();
        self.owe(index, stamp);
    }

    /// Takes out a page, which CPUs may read until `stamp` is settled.
    pub(crate) fn remove(&mut self, index: u32, stamp: Stamp) -> Option<FrameNumber> {
        let frame = self.find(index)?;
        let chunk = self.chunk_mut(index);
        chunk.frames[index as usize % CHUNK] = ABSENT;
        chunk.present -= 1;
        self.owe(index, stamp);
        self.shrink(index);
        Some(frame)
    }

    fn owe(&mut self, index: u32, stamp: Stamp) {
        if stamp != Stamp::SETTLED {
            let chunk = self.chunk_mut(index);
            chunk.owed = chunk.owed.with(stamp);
            self.owed = self.owed.with(stamp);
        }
    }

    /// The stamp until which CPUs may read older copies of a page, or of a neighbour.
    pub(crate) fn owed(&self, index: u32) -> Stamp {
        self.chunk(index).map_or(Stamp::SETTLED, |chunk| chunk.owed)
    }

    /// The same for `count` neighbours from `index` on.
    pub(crate) fn owed_within(&self, index: u32, count: u32) -> Stamp {
        let last = index.saturating_add(count.saturating_sub(1));
        // One page of each of their chunks.
        let each = (index..last).step_by(CHUNK).chain([last]);
        each.fold(Stamp::SETTLED, |owed, index| owed.with(self.owed(index)))
    }

    /// The stamp until which CPUs may read older copies of any page.
    pub(crate) fn owed_anywhere(&self) -> Stamp {
        self.owed
    }

    /// Drops chunks whose only information is a debt up to `settled`.
    pub(crate) fn forget_settled(&mut self, settled: Stamp) {
        while let Some(&(index, _)) = self.owing.front().filter(|(_, stamp)| *stamp <= settled) {
            self.owing.pop_front();
            let (group, at, _) = place(index);
            let stored = self.stored_at_first(index);
            let Some(entry) = self.groups[group].as_mut().map(|group| &mut group[at]) else { continue };
            let Some(chunk) = entry else { continue };
            chunk.in_line = false;
            if !chunk.is_as_at_first(stored) {
                // The chunk is in use again, and comes back when it is emptied.
            } else if chunk.owed <= settled {
                *entry = None;
            } else {
                chunk.in_line = true;
                self.owing.push_back((index, chunk.owed));
            }
        }
    }

    /// Where a missing page is: neither in memory nor on the device (`Some(false)`), or only on the device
    /// (`Some(true)`). `None` if the page is in memory.
    pub(crate) fn missing(&self, index: u32) -> Option<bool> {
        let Some(chunk) = self.chunk(index) else { return Some(index < self.stored_below) };
        let slot = index as usize % CHUNK;
        (chunk.frames[slot] == ABSENT).then_some(chunk.stored >> slot & 1 != 0)
    }

    /// Whether the device holds a page.
    pub(crate) fn is_stored(&self, index: u32) -> bool {
        match self.chunk(index) {
            Some(chunk) => chunk.stored >> (index as usize % CHUNK) & 1 != 0,
            None => index < self.stored_below,
        }
    }

    /// Records whether the device holds a current copy of a page.
    pub(crate) fn set_stored(&mut self, index: u32, stored: bool) {
        if stored != self.is_stored(index) {
            self.chunk_mut(index).stored ^= 1 << (index as usize % CHUNK);
            self.shrink(index);
        }
    }

    /// Drops a chunk without information once it is debt-free. Its group stays until the object ends.
    fn shrink(&mut self, index: u32) {
        let (group, at, _) = place(index);
        let stored = self.stored_at_first(index);
        let Some(entry) = self.groups[group].as_mut().map(|group| &mut group[at]) else { return };
        let Some(chunk) = entry.as_mut().filter(|chunk| chunk.is_as_at_first(stored) && !chunk.in_line)
        else {
            return;
        };
        if chunk.owed == Stamp::SETTLED {
            *entry = None;
        } else {
            chunk.in_line = true;
            self.owing.push_back((index, chunk.owed));
        }
    }

    /// The chunks from the one of page `from` on, with the first page of each.
    fn chunks_from(&self, from: u32) -> impl Iterator<Item = (u32, &Chunk)> {
        let (first, skip, _) = place(from);
        let groups = self.groups.iter().enumerate().skip(first);
        groups.filter_map(|(at, group)| Some((at, group.as_ref()?))).flat_map(move |(at, group)| {
            let chunks = group.iter().enumerate().skip(if at == first { skip } else { 0 });
            chunks.filter_map(move |(chunk, present)| {
                Some((((at * GROUP + chunk) * CHUNK) as u32, present.as_deref()?))
            })
        })
    }

    /// The first page at or after `from` that is in memory.
    pub(crate) fn next(&self, from: u32) -> Option<(u32, FrameNumber)> {
        self.chunks_from(from).find_map(|(first, chunk)| {
            let skip = from.saturating_sub(first) as usize;
            let slot = (skip..CHUNK).find(|&slot| chunk.frames[slot] != ABSENT)?;
            Some((first + slot as u32, FrameNumber::new(chunk.frames[slot])))
        })
    }

    /// Forgets that the device holds pages from `from` on.
    pub(crate) fn forget_stored(&mut self, from: u32) {
        self.stored_below = self.stored_below.min(from);
        let starts: Vec<u32> = self.chunks_from(from).map(|(first, _)| first).collect();
        for first in starts {
            let keep = from.saturating_sub(first);
            self.chunk_mut(first).stored &= (1 << keep) - 1;
            self.shrink(first);
        }
    }

    /// The number of pages in memory.
    pub(crate) fn present(&self) -> u64 {
        self.chunks_from(0).map(|(_, chunk)| u64::from(chunk.present)).sum()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// A page far from all others. Each look at all groups takes Miri seconds, so there it is in the fourth.
    const FAR: u32 = if cfg!(miri) { 200_000 } else { u32::MAX - 1 };

    proptest! {
        #[test]
        fn the_directory_behaves_like_a_map(at_first in prop_oneof![Just(0u32), 1u32..300], steps in prop::collection::vec((prop_oneof![0u32..300, 65_400u32..65_700, Just(FAR)], 0u32..5), 1..200)) {
            let (mut pages, mut frames) = (Pages::stored(u64::from(at_first) * PAGE_BYTES), BTreeMap::new());
            let mut stored: BTreeMap<u32, bool> = (0..at_first).map(|page| (page, true)).collect();
            for (number, (index, action)) in (0..).zip(steps) {
                match action {
                    0 if !frames.contains_key(&index) => {
                        pages.insert(index, FrameNumber::new(number));
                        frames.insert(index, FrameNumber::new(number));
                    }
                    1 => prop_assert_eq!(pages.remove(index, Stamp::SETTLED), frames.remove(&index)),
                    2 => {
                        pages.set_stored(index, number % 2 == 0);
                        stored.insert(index, number % 2 == 0);
                    }
                    3 => {
                        pages.forget_stored(index);
                        stored.retain(|&page, _| page < index);
                    }
                    _ => {
                        let next = frames.range(index..).next().map(|(&index, &frame)| (index, frame));
                        prop_assert_eq!(pages.next(index), next);
                    }
                }
                prop_assert_eq!(pages.find(index), frames.get(&index).copied());
                prop_assert_eq!(pages.is_stored(index), stored.get(&index).copied().unwrap_or(false));
                prop_assert_eq!(pages.present(), frames.len() as u64);
            }
            for index in 0..300 {
                prop_assert_eq!(pages.is_stored(index), stored.get(&index).copied().unwrap_or(false), "page {}", index);
            }
        }

        /// Stamps advance as time passes. The one before last is settled.
        #[test]
        fn a_page_owes_for_itself_and_its_neighbours_until_that_is_settled(
            steps in prop::collection::vec((0u32..400, any::<bool>()), 1..200)
        ) {
            let mut pages = Pages::new(0);
            let mut owed = BTreeMap::new();
            for (time, (index, stays)) in (1..).zip(steps) {
                let (stamp, settled) = (Stamp::stored(time), Stamp::stored(time.saturating_sub(2)));
                match pages.find(index) {
                    None => pages.insert(index, FrameNumber::new(7)),
                    Some(frame) => {
                        if stays {
                            pages.replace(index, frame, FrameNumber::new(8), stamp);
                        } else {
                            prop_assert_eq!(pages.remove(index, stamp), Some(frame));
                        }
                        owed.insert(index, stamp);
                    }
                }
                pages.forget_settled(settled);
                for (&page, &stamp) in &owed {
                    prop_assert!(pages.owed(page) >= stamp || stamp <= settled, "{page} owes until {stamp:?}");
                }
                prop_assert!(pages.owed_anywhere() >= owed.values().copied().max().unwrap_or_default());
                let chunks = pages.chunks_from(0).count();
                let used = pages.chunks_from(0).filter(|(_, chunk)| chunk.present > 0).count();
                prop_assert!(chunks <= used + 2, "{chunks} chunks, {used} in use");
            }
        }
    }

    /// A program makes its file shorter again and again, after reclaim took a page of it once.
    #[test]
    fn the_line_of_empty_chunks_is_never_longer_than_there_are() {
        let mut pages = Pages::new(0);
        for round in 0..3 {
            pages.insert(0, FrameNumber::new(7));
            pages.remove(0, Stamp::stored(5 + round));
            for _ in 0..10 {
                pages.set_stored(0, true);
                pages.forget_stored(0);
            }
        }
        assert_eq!(pages.owing.len(), 1);
        pages.forget_settled(Stamp::stored(6));
        assert_eq!((pages.owed(0), pages.owing.len()), (Stamp::stored(7), 1), "emptied again later");
        pages.forget_settled(Stamp::stored(7));
        assert_eq!((pages.chunks_from(0).count(), pages.owing.len()), (0, 0));
    }

    #[test]
    fn the_next_page_may_be_in_a_later_group() {
        let mut pages = Pages::new(0);
        let first = 2 * (GROUP * CHUNK) as u32;
        pages.insert(first, FrameNumber::new(7));
        // The chunk that the search begins with has a later place in its group than the chunk of the page.
        for from in [1, 3 * CHUNK as u32, first - 1] {
            assert_eq!(pages.next(from), Some((first, FrameNumber::new(7))), "from {from} on");
        }
        assert_eq!(pages.next(first + 1), None);
    }

    #[test]
    fn the_device_holds_the_first_pages_of_a_chunk_or_all() {
        for held in [0, 1, 63, 64, 65] {
            let mut pages = Pages::stored(u64::from(held) * PAGE_BYTES);
            // The first and the second chunk exist from here on.
            pages.insert(9, FrameNumber::new(7));
            pages.insert(70, FrameNumber::new(8));
            assert!((0..128).all(|page| pages.is_stored(page) == (page < held)), "{held}");
        }
    }

    #[test]
    fn a_stored_object_takes_no_memory_where_nothing_is_in_memory() {
        let mut pages = Pages::stored(70 << 30);
        assert_eq!((pages.is_stored(0), pages.missing(pages.len() - 1)), (true, Some(true)));
        assert_eq!(pages.missing(pages.len()), Some(false));
        pages.insert(5_000_000, FrameNumber::new(1));
        pages.remove(5_000_000, Stamp::SETTLED);
        assert_eq!(pages.chunks_from(0).count(), 0);
        assert!(pages.is_stored(5_000_000));
    }
}
