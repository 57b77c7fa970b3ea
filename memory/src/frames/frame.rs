//! Frames: their owners, and the information about each.
//!
//! A [`Frame`] is the ownership of a single frame. The allocator gives it, and takes it back by value. A frame in use
//! is counted instead: one reference for the file it belongs to, one for each translation, and one for each other
//! holder. The holder that drops the last reference owns the frame again. [`FrameInfo`] takes 32 bytes for each frame.
//!
//! A free frame belongs to no file, so the field for the file holds the [`Stamp`] of its debt instead, in 64 bits.
//! Debts therefore need no additional byte.

use crate::primitive::{AtomicU16, AtomicU32, AtomicU8, Ordering};
use alloc::boxed::Box;

use ceasefire::Stamp;

use crate::address::{FrameNumber, ObjectId, HUGE_FRAMES};
use crate::frames::node::{NodeId, NodeLayout};

/// A frame that no other task knows of.
#[must_use = "a frame that is neither used nor given back is lost"]
#[derive(Debug, PartialEq, Eq)]
pub struct Frame(FrameNumber);

impl Frame {
    /// The caller took the last reference, or carves free memory.
    pub(crate) fn owned(number: FrameNumber) -> Self {
        Self(number)
    }

    /// The number of the frame.
    pub fn number(&self) -> FrameNumber {
        self.0
    }

    /// Gives up ownership for counted references.
    pub(crate) fn into_number(self) -> FrameNumber {
        self.0
    }
}

/// 512 neighbouring frames that no other task knows of, aligned to their size.
#[must_use = "frames that are neither used nor given back are lost"]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HugeFrame(FrameNumber);

impl HugeFrame {
    /// The caller took the last reference, or carves free memory.
    pub(crate) fn owned(first: FrameNumber) -> Self {
        Self(first)
    }

    /// The first of them.
    pub(crate) fn number(&self) -> FrameNumber {
        self.0
    }

    /// Gives up ownership for counted references.
    pub(crate) fn into_number(self) -> FrameNumber {
        self.0
    }
}

/// The frames of the huge page that begins with `first`.
pub(crate) fn huge_frames(first: FrameNumber) -> impl Iterator<Item = FrameNumber> {
    (first.get()..first.get() + HUGE_FRAMES).map(FrameNumber::new)
}

/// The standing of a page on the lists. Only the holder of the node's LRU lock, or the task that isolated the page,
/// changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LruState(u8);

impl LruState {
    const LISTED: u8 = 1;
    const ACTIVE: u8 = 2;
    const REFERENCED: u8 = 4;
    const ANONYMOUS: u8 = 8;
    const LAZY: u8 = 16;

    pub(crate) const fn new(anonymous: bool) -> Self {
        Self(if anonymous { Self::ANONYMOUS } else { 0 })
    }

    pub(crate) const fn listed(self) -> bool {
        self.0 & Self::LISTED != 0
    }

    pub(crate) const fn active(self) -> bool {
        self.0 & Self::ACTIVE != 0
    }

    pub(crate) const fn referenced(self) -> bool {
        self.0 & Self::REFERENCED != 0
    }

    pub(crate) const fn anonymous(self) -> bool {
        self.0 & Self::ANONYMOUS != 0
    }

    /// Its program gave up its contents (madvise FREE): the page is dropped unwritten unless it was stored to since. It
    /// is on the lists of files' pages.
    pub(crate) const fn lazy(self) -> bool {
        self.0 & Self::LAZY != 0
    }

    const fn set(self, bit: u8, on: bool) -> Self {
        Self(if on { self.0 | bit } else { self.0 & !bit })
    }

    pub(crate) const fn set_listed(self, on: bool) -> Self {
        self.set(Self::LISTED, on)
    }

    pub(crate) const fn set_active(self, on: bool) -> Self {
        self.set(Self::ACTIVE, on)
    }

    pub(crate) const fn set_referenced(self, on: bool) -> Self {
        self.set(Self::REFERENCED, on)
    }

    pub(crate) const fn set_lazy(self, on: bool) -> Self {
        self.set(Self::LAZY, on)
    }
}

/// Information about one frame. The fields are atomics because several CPUs may read them. The lock named at each field
/// separates changes, so most are plain loads and stores.
#[derive(Debug)]
#[repr(C, align(32))]
pub(crate) struct FrameInfo {
    /// Neighbours on the frame's list: a free list (zone lock, per-CPU lock) or an LRU list (LRU lock).
    pub(crate) next: AtomicU32,
    pub(crate) previous: AtomicU32,
    /// In use: the file or anonymous memory it belongs to, plus one, and its page there. Set while no other task knows
    /// of the frame. Free and owing: the two halves of the stamp of the frame, or of the block that it heads.
    object: AtomicU32,
    index: AtomicU32,
    references: AtomicU32,
    /// The number of references held by translations.
    maps: AtomicU32,
    /// In use: the swap slot that also holds the page, plus one. At the head of a free block: the block's order plus
    /// one, and whether the block owes (zone lock).
    slot_or_order: AtomicU32,
    lru: AtomicU8,
    state: AtomicU8,
    node: AtomicU16,
}

impl FrameInfo {
    fn new(node: u16) -> Self {
        Self {
            next: AtomicU32::new(0),
            previous: AtomicU32::new(0),
            object: AtomicU32::new(0),
            index: AtomicU32::new(0),
            references: AtomicU32::new(0),
            maps: AtomicU32::new(0),
            slot_or_order: AtomicU32::new(0),
            lru: AtomicU8::new(0),
            state: AtomicU8::new(0),
            node: AtomicU16::new(node),
        }
    }

    pub(crate) fn node(&self) -> NodeId {
        NodeId(self.node.load(Ordering::Relaxed))
    }

    /// Makes an owned frame a page of `object`, held by `references`, of which `maps` are for translations.
    pub(crate) fn adopt(&self, object: ObjectId, index: u32, references: u32, maps: u32, lru: LruState) {
        self.object.store(object.raw() + 1, Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
        self.state.store(0, Ordering::Relaxed);
        self.slot_or_order.store(0, Ordering::Relaxed);
        self.maps.store(maps, Ordering::Relaxed);
        self.set_lru(lru);
        self.references.store(references, Ordering::Release);
    }

    /// Makes an owned frame one that is never freed.
    pub(crate) fn adopt_reserved(&self) {
        self.references.store(1, Ordering::Relaxed);
    }

    /// The file or anonymous memory that the page belongs to, and its page number there.
    pub(crate) fn place(&self) -> Option<(ObjectId, u32)> {
        let object = self.object.load(Ordering::Relaxed).checked_sub(1)?;
        Some((ObjectId::new(object), self.index.load(Ordering::Relaxed)))
    }

    /// The page belongs to nothing from now on; its holders keep it.
    pub(crate) fn orphan(&self) {
        self.object.store(0, Ordering::Relaxed);
    }

    pub(crate) fn references(&self) -> u32 {
        self.references.load(Ordering::SeqCst)
    }

    /// Adds a reference. The caller must have seen one that cannot go away meanwhile.
    ///
    /// Either the task that locked the page and counts its holders sees this reference, or a call of
    /// [`FrameInfo::locked`] after it returns true. Therefore all four operations are in one total order.
    pub(crate) fn hold(&self) {
        self.references.fetch_add(1, Ordering::SeqCst);
    }

    /// Adds a reference unless the last one is gone.
    pub(crate) fn try_hold(&self) -> bool {
        let held = |count: u32| (count > 0).then_some(count + 1);
        self.references.fetch_update(Ordering::SeqCst, Ordering::Relaxed, held).is_ok()
    }

    /// Drops a reference; returns how many are left.
    #[must_use = "the caller that drops the last reference must free the frame"]
    pub(crate) fn release(&self) -> u32 {
        self.references.fetch_sub(1, Ordering::AcqRel) - 1
    }

    /// Takes all references, if there are exactly `expected`.
    pub(crate) fn take(&self, expected: u32) -> bool {
        self.references.compare_exchange(expected, 0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Gives back the references that [`FrameInfo::take`] took.
    pub(crate) fn give_back(&self, taken: u32) {
        self.references.store(taken, Ordering::Release);
    }

    pub(crate) fn maps(&self) -> u32 {
        self.maps.load(Ordering::Acquire)
    }

    pub(crate) fn mapped(&self) {
        self.maps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn unmapped(&self) {
        self.maps.fetch_sub(1, Ordering::Release);
    }

    pub(crate) fn lru(&self) -> LruState {
        LruState(self.lru.load(Ordering::Relaxed))
    }

    pub(crate) fn set_lru(&self, state: LruState) {
        self.lru.store(state.0, Ordering::Relaxed);
    }

    /// The page is newer than its copy on the device.
    pub(crate) fn dirty(&self) -> bool {
        self.is(DIRTY)
    }

    pub(crate) fn set_dirty(&self) {
        if !self.dirty() {
            self.state.fetch_or(DIRTY, Ordering::AcqRel);
        }
    }

    /// The page counts as clean from here on. A task that dirtied it before held a reference, which is visible after
    /// this.
    pub(crate) fn clear_dirty(&self) {
        self.state.fetch_and(!DIRTY, Ordering::AcqRel);
    }

    /// The frame is the first of the 512 frames of a huge page.
    pub(crate) fn huge(&self) -> bool {
        self.is(HUGE)
    }

    pub(crate) fn set_huge(&self, huge: bool) {
        if huge {
            self.state.fetch_or(HUGE, Ordering::AcqRel);
        } else {
            self.state.fetch_and(!HUGE, Ordering::AcqRel);
        }
    }

    /// The page is still on its way from the device. It is locked until it has arrived.
    pub(crate) fn arriving(&self) -> bool {
        self.is(ARRIVING)
    }

    pub(crate) fn set_arriving(&self) {
        self.state.fetch_or(ARRIVING, Ordering::AcqRel);
    }

    pub(crate) fn locked(&self) -> bool {
        self.is(LOCKED)
    }

    /// Locks the page; returns false if it is locked.
    pub(crate) fn try_lock(&self) -> bool {
        self.state.fetch_or(LOCKED, Ordering::SeqCst) & LOCKED == 0
    }

    /// Unlocks the page; returns whether a task waits for that.
    pub(crate) fn unlock(&self) -> bool {
        self.state.fetch_and(!(LOCKED | WANTED | ARRIVING), Ordering::AcqRel) & WANTED != 0
    }

    /// Requests a wake-up when the page is unlocked; returns false if it is not locked.
    pub(crate) fn want(&self) -> bool {
        self.locked() && self.state.fetch_or(WANTED, Ordering::AcqRel) & LOCKED != 0
    }

    fn is(&self, bit: u8) -> bool {
        self.state.load(Ordering::SeqCst) & bit != 0
    }

    /// The swap slot that also holds its page.
    pub(crate) fn slot(&self) -> Option<u32> {
        self.slot_or_order.load(Ordering::Acquire).checked_sub(1).filter(|&slot| slot < ORDERS_FROM)
    }

    pub(crate) fn set_slot(&self, slot: Option<u32>) {
        self.slot_or_order.store(slot.map_or(0, |slot| slot + 1), Ordering::Release);
    }

    /// The free block that it heads.
    pub(crate) fn heads(&self) -> Option<Heads> {
        let marked = self.slot_or_order.load(Ordering::Relaxed).checked_sub(1 + ORDERS_FROM)?;
        Some(Heads { order: marked & !OWING, owing: marked & OWING != 0 })
    }

    pub(crate) fn set_heads(&self, block: Option<Heads>) {
        let mark = |Heads { order, owing }| 1 + ORDERS_FROM + order + if owing { OWING } else { 0 };
        self.slot_or_order.store(block.map_or(0, mark), Ordering::Relaxed);
    }

    /// The stamp of the frame, or of the block that it heads. Only for owing frames, under the lock that guards their
    /// list: the zone lock, or that of a CPU's free frames.
    pub(crate) fn stamp(&self) -> Stamp {
        let half = |field: &AtomicU32| u64::from(field.load(Ordering::Relaxed));
        Stamp::stored(half(&self.object) << 32 | half(&self.index))
    }

    /// Sets the stamp of a frame that is about to be listed, under the lock that guards the list. [`Stamp::SETTLED`]
    /// when the frame leaves the list, so that it belongs to nothing again.
    pub(crate) fn set_stamp(&self, stamp: Stamp) {
        self.object.store((stamp.get() >> 32) as u32, Ordering::Relaxed);
        self.index.store(stamp.get() as u32, Ordering::Relaxed);
    }
}

/// A free block, as recorded at its first frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Heads {
    /// The block has 2^`order` frames.
    pub(crate) order: u32,
    /// CPUs may still reach some of them.
    pub(crate) owing: bool,
}

/// Slots are below it. Free blocks are above: their order, and whether they owe.
const ORDERS_FROM: u32 = 1 << 31;
const OWING: u32 = 1 << 8;

const DIRTY: u8 = 1;
const LOCKED: u8 = 2;
const WANTED: u8 = 4;
const HUGE: u8 = 8;
const ARRIVING: u8 = 16;

/// Information about every frame.
#[derive(Debug)]
pub(crate) struct FrameTable {
    first: u32,
    infos: Box<[FrameInfo]>,
}

impl FrameTable {
    /// For the frames of `nodes`, numbered from `first` on. The number after the last frame is a valid number too.
    pub(crate) fn new(first: FrameNumber, nodes: &[NodeLayout]) -> Self {
        let frames = nodes.iter().enumerate().flat_map(|(node, layout)| {
            core::iter::repeat_with(move || FrameInfo::new(node as u16)).take(layout.frames as usize)
        });
        let mut table = alloc::vec::Vec::with_capacity(nodes.iter().map(|node| node.frames as usize).sum());
        table.extend(frames);
        Self { first: first.get(), infos: table.into_boxed_slice() }
    }

    pub(crate) fn get(&self, frame: FrameNumber) -> &FrameInfo {
        // A number below the first becomes an index beyond every table, because all numbers together fit in 32 bits.
        &self.infos[frame.get().wrapping_sub(self.first) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(first: u32) -> FrameTable {
        FrameTable::new(FrameNumber::new(first), &[NodeLayout::new(3), NodeLayout::new(2)])
    }

    #[test]
    fn stamps_cost_no_memory_and_keep_all_their_bits() {
        assert_eq!(size_of::<FrameInfo>(), 32);
        let frames = table(0);
        let info = frames.get(FrameNumber::new(1));
        for number in [1, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            info.set_stamp(Stamp::stored(number));
            assert_eq!(info.stamp().get(), number);
        }
        info.set_stamp(Stamp::SETTLED);
        assert_eq!(info.place(), None);
    }

    #[test]
    fn a_frame_says_which_free_block_it_heads() {
        let frames = table(0);
        let info = frames.get(FrameNumber::new(1));
        for block in
            [(0, false), (10, false), (0, true), (10, true)].map(|(order, owing)| Heads { order, owing })
        {
            info.set_heads(Some(block));
            assert_eq!((info.heads(), info.slot()), (Some(block), None));
        }
        info.set_heads(None);
        assert_eq!(info.heads(), None);
    }

    #[test]
    fn frames_are_found_by_their_numbers() {
        for first in [0, 5_003, u32::MAX - 5] {
            let frames = table(first);
            let nodes = (first..first + 5).map(|number| frames.get(FrameNumber::new(number)).node().0);
            assert!(nodes.eq([0, 0, 0, 1, 1]));
        }
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_number_below_the_first_is_no_frame() {
        let _ = table(5_003).get(FrameNumber::new(5_002));
    }

    #[test]
    #[should_panic(expected = "index out of bounds")]
    fn a_number_above_the_last_is_no_frame() {
        let _ = table(5_003).get(FrameNumber::new(5_008));
    }
}
