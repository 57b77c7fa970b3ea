//! Frames: who owns them, and what is known about each.
//!
//! A [`Frame`] is the ownership of a free-standing frame: the allocator gives it, and giving it back takes it by
//! value. A frame in use is counted instead: one reference for the file it belongs to, one for each translation and
//! one for each holder in between; the last to let go owns it again. [`FrameInfo`] is 32 bytes a frame.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU8, Ordering};

use crate::address::FrameNumber;
use crate::node::{NodeId, NodeLayout};
use crate::object::ObjectId;

/// A frame that nobody else knows of.
#[must_use = "a frame that is neither used nor given back is lost"]
#[derive(Debug, PartialEq, Eq)]
pub struct Frame(FrameNumber);

impl Frame {
    /// The caller took the last reference, or carves free memory.
    pub(crate) fn owned(number: FrameNumber) -> Self {
        Self(number)
    }

    /// Which frame it is.
    pub fn number(&self) -> FrameNumber {
        self.0
    }

    /// Gives up ownership for counted references.
    pub(crate) fn into_number(self) -> FrameNumber {
        self.0
    }
}

/// Where a page stands with the lists. Changed only by the holder of the node's LRU lock, or by whoever isolated
/// the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LruState(u8);

impl LruState {
    const LISTED: u8 = 1;
    const ACTIVE: u8 = 2;
    const REFERENCED: u8 = 4;
    const ANONYMOUS: u8 = 8;

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
}

/// What is known about one frame. Fields are atomics because several CPUs may look; the lock named at each keeps
/// changes apart, so most are plain loads and stores.
#[derive(Debug)]
#[repr(C, align(32))]
pub(crate) struct FrameInfo {
    /// Neighbours on the list it is on: a free list (zone lock, per-CPU lock) or an LRU list (LRU lock).
    pub(crate) next: AtomicU32,
    pub(crate) previous: AtomicU32,
    /// The file or address space it belongs to, plus one, and the page there. Set while nobody else knows of it.
    object: AtomicU32,
    index: AtomicU32,
    references: AtomicU32,
    /// How many of the references are translations.
    maps: AtomicU32,
    lru: AtomicU8,
    /// The file's copy on the device is older.
    dirty: AtomicU8,
    /// While it heads a free block: the block's order plus one (zone lock).
    free_order: AtomicU8,
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
            lru: AtomicU8::new(0),
            dirty: AtomicU8::new(0),
            free_order: AtomicU8::new(0),
            node: AtomicU16::new(node),
        }
    }

    pub(crate) fn node(&self) -> NodeId {
        NodeId(self.node.load(Ordering::Relaxed))
    }

    /// Makes an owned frame a page of `object`, held by `references`.
    pub(crate) fn adopt(&self, object: ObjectId, index: u32, references: u32, lru: LruState) {
        self.object.store(object.get() + 1, Ordering::Relaxed);
        self.index.store(index, Ordering::Relaxed);
        self.dirty.store(0, Ordering::Relaxed);
        self.set_lru(lru);
        self.references.store(references, Ordering::Release);
    }

    /// Makes an owned frame one that is never freed.
    pub(crate) fn adopt_reserved(&self) {
        self.references.store(1, Ordering::Relaxed);
    }

    /// The file or address space it belongs to, and the page there.
    pub(crate) fn place(&self) -> Option<(ObjectId, u32)> {
        let object = self.object.load(Ordering::Relaxed).checked_sub(1)?;
        Some((ObjectId::new(object), self.index.load(Ordering::Relaxed)))
    }

    /// It belongs to nothing any more; the holders keep it.
    pub(crate) fn orphan(&self) {
        self.object.store(0, Ordering::Relaxed);
    }

    pub(crate) fn references(&self) -> u32 {
        self.references.load(Ordering::Acquire)
    }

    /// Adds a reference; the caller must have seen one that cannot go away meanwhile.
    pub(crate) fn hold(&self) {
        self.references.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds a reference unless the last one is gone.
    pub(crate) fn try_hold(&self) -> bool {
        let held = |count: u32| (count > 0).then_some(count + 1);
        self.references.fetch_update(Ordering::Acquire, Ordering::Relaxed, held).is_ok()
    }

    /// Lets go of a reference; whether it was the last.
    #[must_use = "whoever lets go of the last reference frees the frame"]
    pub(crate) fn release(&self) -> bool {
        self.references.fetch_sub(1, Ordering::AcqRel) == 1
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

    pub(crate) fn dirty(&self) -> bool {
        self.dirty.load(Ordering::Acquire) != 0
    }

    pub(crate) fn set_dirty(&self, dirty: bool) {
        self.dirty.store(u8::from(dirty), Ordering::Release);
    }

    /// It counts as clean from here on. Whoever made it dirty before held a reference, which is seen after this.
    pub(crate) fn clear_dirty(&self) {
        self.dirty.swap(0, Ordering::AcqRel);
    }

    pub(crate) fn free_order(&self) -> Option<u32> {
        self.free_order.load(Ordering::Relaxed).checked_sub(1).map(u32::from)
    }

    pub(crate) fn set_free_order(&self, order: Option<u32>) {
        self.free_order.store(order.map_or(0, |order| order as u8 + 1), Ordering::Relaxed);
    }
}

/// What is known about every frame.
#[derive(Debug)]
pub(crate) struct FrameTable(Box<[FrameInfo]>);

impl FrameTable {
    pub(crate) fn new(nodes: &[NodeLayout]) -> Self {
        let frames = nodes.iter().enumerate().flat_map(|(node, layout)| {
            core::iter::repeat_with(move || FrameInfo::new(node as u16)).take(layout.frames as usize)
        });
        let mut table = alloc::vec::Vec::with_capacity(nodes.iter().map(|node| node.frames as usize).sum());
        table.extend(frames);
        Self(table.into_boxed_slice())
    }

    pub(crate) fn get(&self, frame: FrameNumber) -> &FrameInfo {
        &self.0[frame.index()]
    }
}
