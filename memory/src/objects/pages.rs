//! The pages of a file that are in memory, and those that its device holds.
//!
//! The directory is a tree of chunks of 64 neighbouring pages. A chunk exists only where it differs from the initial
//! state: of a new file the device holds either nothing or everything. A page that is in neither place is a hole, and
//! reads as zeros. The swap device uses the same directory for its slots.
//!
//! A page may leave its place, or move to another frame, while CPUs can still read the old one. Then its chunk keeps
//! the stamp of that debt, and no place in the chunk is used before the debt is settled (`slot`). One stamp serves 64
//! pages, so a task may pay for the debt of a neighbour. That is rare, because the pages used next are far from those
//! evicted last. A chunk with no other information is kept until its stamp is settled. Such chunks wait in a line,
//! oldest first, so there are never more of them than were emptied within the time that a debt may stand.
//!
//! Whoever changes the directory holds its lock. A page that is there is found without it: the tree is published, and
//! frames and stamps are read as they change (`lookup`).

use crate::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use ceasefire::Stamp;

use crate::address::{FrameNumber, PAGE_BYTES};
use crate::locks::{Lock, LockClass, Rcu};
use crate::machine::Machine;
use crate::objects::tree::Tree;

const CHUNK: usize = 64;
const ABSENT: u32 = u32::MAX;

/// 64 neighbouring pages. Only the holder of the directory's lock changes them.
#[derive(Debug)]
struct Chunk {
    frames: [AtomicU32; CHUNK],
    /// The time until which CPUs may read older copies of some of the pages.
    owed: AtomicU64,
    /// How many of the pages are in memory.
    present: AtomicU32,
    /// A bit for each page that the device holds.
    stored: AtomicU64,
    /// The chunk stands in the line. It does so only once, so the line is never longer than there are chunks.
    in_line: AtomicBool,
}

impl Chunk {
    fn new(stored: u64) -> Self {
        Self {
            frames: [const { AtomicU32::new(ABSENT) }; CHUNK],
            owed: AtomicU64::new(Stamp::SETTLED.get()),
            present: AtomicU32::new(0),
            stored: AtomicU64::new(stored),
            in_line: AtomicBool::new(false),
        }
    }

    fn frame(&self, index: u32) -> Option<FrameNumber> {
        let frame = self.frames[slot(index)].load(Ordering::Acquire);
        (frame != ABSENT).then_some(FrameNumber::new(frame))
    }

    fn set_frame(&self, index: u32, frame: u32) {
        self.frames[slot(index)].store(frame, Ordering::Release);
    }

    fn owed(&self) -> Stamp {
        Stamp::stored(self.owed.load(Ordering::Relaxed))
    }

    fn is_stored(&self, index: u32) -> bool {
        self.stored.load(Ordering::Relaxed) >> slot(index) & 1 != 0
    }

    /// Whether the chunk has no information beyond the initial state, in which the device holds the pages in `stored`.
    fn is_as_at_first(&self, stored: u64) -> bool {
        self.present.load(Ordering::Relaxed) == 0 && self.stored.load(Ordering::Relaxed) == stored
    }
}

/// The key of a page's chunk in the tree.
fn key(index: u32) -> u32 {
    index / CHUNK as u32
}

/// The place of a page in its chunk.
fn slot(index: u32) -> usize {
    index as usize % CHUNK
}

/// The place of a page, read while others change it.
pub(crate) struct Shown<'a> {
    chunk: &'a Chunk,
    index: u32,
}

impl Shown<'_> {
    /// The page's frame now.
    pub(crate) fn frame(&self) -> Option<FrameNumber> {
        self.chunk.frame(self.index)
    }

    /// The stamp until which CPUs may read older copies of the page, or of a neighbour. It includes the copy in whose
    /// place a frame came that was read before this.
    pub(crate) fn owed(&self) -> Stamp {
        self.chunk.owed()
    }
}

/// The pages of an object that are in memory.
#[derive(Debug)]
pub(crate) struct Directory<P: Machine> {
    pages: P::Lock<Pages>,
    shown: P::Rcu<Tree<Chunk>>,
}

impl<P: Machine> Directory<P> {
    pub(crate) fn new(class: &'static LockClass) -> Self {
        Self { pages: P::Lock::new(class, Pages::default()), shown: P::Rcu::new(Tree::default()) }
    }

    pub(crate) fn lock<'m>(&'m self, platform: &'m P) -> LockedPages<'m, P> {
        LockedPages { shown: &self.shown, platform, pages: self.pages.lock(platform) }
    }

    /// Replaces all that is known, for another object.
    pub(crate) fn reset(&self, platform: &P, pages: Pages) {
        *self.lock(platform) = Pages { reshaped: true, ..pages };
    }

    /// Calls `body` with the place of a page, without the lock; `None` if nothing is known there. `body` must not sleep,
    /// and takes no lock.
    pub(crate) fn look<R>(
        &self,
        platform: &P,
        index: u32,
        body: impl FnOnce(Shown<'_>) -> Option<R>,
    ) -> Option<R> {
        self.shown.read(platform, |tree| body(Shown { chunk: tree.get(key(index))?, index }))
    }
}

/// A locked directory. What is new in it is published before it is unlocked.
pub(crate) struct LockedPages<'m, P: Machine> {
    shown: &'m P::Rcu<Tree<Chunk>>,
    platform: &'m P,
    pages: <P::Lock<Pages> as Lock<Pages, P>>::Guard<'m>,
}

impl<P: Machine> Deref for LockedPages<'_, P> {
    type Target = Pages;

    fn deref(&self) -> &Pages {
        &self.pages
    }
}

impl<P: Machine> DerefMut for LockedPages<'_, P> {
    fn deref_mut(&mut self) -> &mut Pages {
        &mut self.pages
    }
}

impl<P: Machine> Drop for LockedPages<'_, P> {
    fn drop(&mut self) {
        if core::mem::take(&mut self.pages.reshaped) {
            self.shown.update(self.platform, |shown| *shown = self.pages.chunks.clone());
        }
    }
}

/// What the lock of a directory guards.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    chunks: Tree<Chunk>,
    /// Chunks came or went that readers do not know of.
    reshaped: bool,
    /// Empty chunks that owe: one page of each, and the stamp.
    owing: VecDeque<(u32, Stamp)>,
    /// The time until which CPUs may read older copies of any page.
    owed: Stamp,
    /// Where there is no chunk, the device holds the pages below this one.
    stored_below: u32,
    /// The object's length in bytes.
    pub(crate) bytes: u64,
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
        match self.stored_below.saturating_sub(key(index) * CHUNK as u32) {
            below if below < CHUNK as u32 => (1 << below) - 1,
            _ => u64::MAX,
        }
    }

    /// The object's length in pages. The last one may be partial.
    pub(crate) fn len(&self) -> u32 {
        self.bytes.div_ceil(PAGE_BYTES) as u32
    }

    fn chunk(&self, index: u32) -> Option<&Chunk> {
        self.chunks.get(key(index)).map(|chunk| &**chunk)
    }

    /// The chunk of a page, new if there is none.
    fn made_chunk(&mut self, index: u32) -> Arc<Chunk> {
        if let Some(chunk) = self.chunks.get(key(index)) {
            return chunk.clone();
        }
        let chunk = Arc::new(Chunk::new(self.stored_at_first(index)));
        self.chunks.insert(key(index), chunk.clone());
        self.reshaped = true;
        chunk
    }

    fn drop_chunk(&mut self, index: u32) {
        self.chunks.remove(key(index));
        self.reshaped = true;
    }

    pub(crate) fn find(&self, index: u32) -> Option<FrameNumber> {
        self.chunk(index)?.frame(index)
    }

    /// Puts a page into a free place.
    pub(crate) fn insert(&mut self, index: u32, frame: FrameNumber) {
        let chunk = self.made_chunk(index);
        debug_assert_eq!(chunk.frame(index), None, "two frames for page {index} of a file");
        chunk.set_frame(index, frame.get());
        chunk.present.fetch_add(1, Ordering::Relaxed);
    }

    /// Puts a frame in the place of `old`, which CPUs may read until `stamp` is settled.
    pub(crate) fn replace(&mut self, index: u32, old: FrameNumber, new: FrameNumber, stamp: Stamp) {
        debug_assert_eq!(self.find(index), Some(old));
        let chunk = self.made_chunk(index);
        // First, so that whoever finds the new frame finds the debt.
        self.owe(&chunk, stamp);
        chunk.set_frame(index, new.get());
    }

    /// Takes out a page, which CPUs may read until `stamp` is settled.
    pub(crate) fn remove(&mut self, index: u32, stamp: Stamp) -> Option<FrameNumber> {
        let frame = self.find(index)?;
        let chunk = self.made_chunk(index);
        self.owe(&chunk, stamp);
        chunk.set_frame(index, ABSENT);
        chunk.present.fetch_sub(1, Ordering::Relaxed);
        self.shrink(index);
        Some(frame)
    }

    fn owe(&mut self, chunk: &Chunk, stamp: Stamp) {
        if stamp != Stamp::SETTLED {
            chunk.owed.store(chunk.owed().with(stamp).get(), Ordering::Relaxed);
            self.owed = self.owed.with(stamp);
        }
    }

    /// The stamp until which CPUs may read older copies of a page, or of a neighbour.
    pub(crate) fn owed(&self, index: u32) -> Stamp {
        self.chunk(index).map_or(Stamp::SETTLED, Chunk::owed)
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
            let Some(chunk) = self.chunk(index) else { continue };
            chunk.in_line.store(false, Ordering::Relaxed);
            // One in use again comes back when it is emptied.
            self.leave_line(index, settled);
        }
    }

    /// Where a missing page is: neither in memory nor on the device (`Some(false)`), or only on the device
    /// (`Some(true)`). `None` if the page is in memory.
    pub(crate) fn missing(&self, index: u32) -> Option<bool> {
        self.find(index).is_none().then(|| self.is_stored(index))
    }

    /// Whether the device holds a page.
    pub(crate) fn is_stored(&self, index: u32) -> bool {
        self.chunk(index).map_or(index < self.stored_below, |chunk| chunk.is_stored(index))
    }

    /// Records whether the device holds a current copy of a page.
    pub(crate) fn set_stored(&mut self, index: u32, stored: bool) {
        if stored != self.is_stored(index) {
            let (chunk, bit) = (self.made_chunk(index), 1 << slot(index));
            if stored {
                chunk.stored.fetch_or(bit, Ordering::Relaxed);
            } else {
                chunk.stored.fetch_and(!bit, Ordering::Relaxed);
            }
            self.shrink(index);
        }
    }

    /// Drops a chunk without information once it is debt-free.
    fn shrink(&mut self, index: u32) {
        self.leave_line(index, Stamp::SETTLED);
    }

    /// Drops a chunk without information whose debt is settled up to `settled`, or puts it in the line.
    fn leave_line(&mut self, index: u32, settled: Stamp) {
        let stored = self.stored_at_first(index);
        let Some(chunk) = self.chunk(index) else { return };
        if !chunk.is_as_at_first(stored) || chunk.in_line.load(Ordering::Relaxed) {
            return;
        }
        let owed = chunk.owed();
        if owed <= settled {
            self.drop_chunk(index);
        } else {
            chunk.in_line.store(true, Ordering::Relaxed);
            self.owing.push_back((index, owed));
        }
    }

    /// The chunks from the one of page `from` on, with the first page of each.
    fn chunks_from(&self, from: u32) -> impl Iterator<Item = (u32, &Chunk)> {
        let next = |from: u32| self.chunks.next(from);
        let all = core::iter::successors(next(key(from)), move |&(key, _)| next(key + 1));
        all.map(|(key, chunk)| (key * CHUNK as u32, &**chunk))
    }

    /// The first page at or after `from` that is in memory.
    pub(crate) fn next(&self, from: u32) -> Option<(u32, FrameNumber)> {
        self.chunks_from(from).find_map(|(first, chunk)| {
            let rest = first.max(from)..=first + (CHUNK as u32 - 1);
            rest.into_iter().find_map(|index| Some((index, chunk.frame(index)?)))
        })
    }

    /// Forgets that the device holds pages from `from` on.
    pub(crate) fn forget_stored(&mut self, from: u32) {
        self.stored_below = self.stored_below.min(from);
        let starts: Vec<u32> = self.chunks_from(from).map(|(first, _)| first).collect();
        for first in starts {
            let keep = from.saturating_sub(first);
            self.made_chunk(first).stored.fetch_and((1 << keep) - 1, Ordering::Relaxed);
            self.shrink(first);
        }
    }

    /// The number of pages in memory.
    pub(crate) fn present(&self) -> u64 {
        self.chunks_from(0).map(|(_, chunk)| u64::from(chunk.present.load(Ordering::Relaxed))).sum()
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
                let used = pages.chunks_from(0).filter(|(_, chunk)| chunk.present.load(Ordering::Relaxed) > 0).count();
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
    fn the_next_page_may_be_in_a_later_node() {
        let mut pages = Pages::new(0);
        let first = 2 * (CHUNK * CHUNK) as u32;
        pages.insert(first, FrameNumber::new(7));
        // The chunk that the search begins with has a later place in its node than the chunk of the page.
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
