//! Nodes: memory that is equally near to some CPUs.
//!
//! Each has its own buddy allocator (the zone), its own lists of pages, and watermarks that say when reclaim starts
//! and stops.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ceasefire::Lock;

use crate::address::FrameNumber;
use crate::buddy::Buddy;
use crate::frame::FrameTable;
use crate::locks;
use crate::lru::Lists;
use crate::machine::Machine;

/// A node, numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl NodeId {
    /// The number, as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How large and how fast a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeLayout {
    /// Frames of memory.
    pub frames: u32,
    /// 0 for the fastest memory of the machine; reclaim demotes pages from one tier to the next before it frees any.
    pub tier: u8,
}

impl NodeLayout {
    /// A node of the fastest memory.
    pub const fn new(frames: u32) -> Self {
        Self { frames, tier: 0 }
    }
}

/// How many free frames a node should keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// Below it, whoever allocates reclaims first.
    pub min: u32,
    /// Below it, background reclaim is woken, and allocation looks at other nodes.
    pub low: u32,
    /// Up to here background reclaim goes.
    pub high: u32,
}

impl Watermarks {
    /// For a node with `frames` of the machine's `total`.
    ///
    /// Linux's rule: four times the square root of the memory in KiB, between 128 KiB and 64 MiB, shared out by size;
    /// low and high lie a quarter and a half above (`init_per_zone_wmark_min`, `__setup_per_zone_wmarks`).
    pub fn new(frames: u32, total: u32) -> Self {
        let kib = u64::from(total) * 4;
        let reserve_kib = (kib * 16).isqrt().clamp(128, 65536).min(kib / 16);
        let min = (reserve_kib / 4 * u64::from(frames) / u64::from(total).max(1)) as u32;
        Self { min, low: min + min / 4, high: min + min / 2 }
    }
}

/// One node.
#[derive(Debug)]
pub(crate) struct Node<P: Machine> {
    pub(crate) zone: P::Lock<Buddy>,
    pub(crate) lists: P::Lock<Lists>,
    pub(crate) watermarks: Watermarks,
    /// Frames in the zone. Changed under the zone lock, read without.
    free: AtomicU32,
    /// Background reclaim was asked for and has not finished.
    woken: AtomicBool,
}

impl<P: Machine> Node<P> {
    /// The nodes, whose frames are numbered through from `first` on.
    pub(crate) fn all(first: FrameNumber, layouts: &[NodeLayout], frames: &FrameTable) -> Box<[Self]> {
        let total = layouts.iter().map(|layout| layout.frames).sum();
        let mut end = first.get();
        layouts
            .iter()
            .map(|layout| {
                let start = end;
                end += layout.frames;
                Self {
                    zone: P::Lock::new(&locks::ZONE, Buddy::new(frames, start, end)),
                    lists: P::Lock::new(&locks::LRU, Lists::default()),
                    watermarks: Watermarks::new(layout.frames, total),
                    free: AtomicU32::new(layout.frames),
                    woken: AtomicBool::new(false),
                }
            })
            .collect()
    }

    pub(crate) fn free(&self) -> u32 {
        self.free.load(Ordering::Relaxed)
    }

    /// Counts frames that left the zone; the caller holds the zone lock.
    pub(crate) fn took(&self, count: u32) {
        self.free.store(self.free() - count, Ordering::Relaxed);
    }

    /// Counts frames that came back; the caller holds the zone lock.
    pub(crate) fn got(&self, count: u32) {
        self.free.store(self.free() + count, Ordering::Relaxed);
    }

    /// Whether background reclaim has to be woken: it was not yet.
    pub(crate) fn wake(&self) -> bool {
        !self.woken.load(Ordering::Relaxed) && !self.woken.swap(true, Ordering::AcqRel)
    }

    /// Background reclaim goes to sleep.
    pub(crate) fn slept(&self) {
        self.woken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watermarks_follow_linux() {
        // 64 GiB: 4 * sqrt(64 Mi KiB) = 32 MiB, a quarter of it on each of four nodes.
        let total = 16 << 20;
        assert_eq!(Watermarks::new(total / 4, total), Watermarks { min: 2048, low: 2560, high: 3072 });
    }

    #[test]
    fn a_tiny_machine_keeps_most_of_its_memory_usable() {
        let marks = Watermarks::new(256, 256);
        assert!(marks.high < 64, "{marks:?}");
    }
}
