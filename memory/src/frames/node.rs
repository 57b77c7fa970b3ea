//! Nodes: memory at the same distance from some CPUs.
//!
//! Each node has its own buddy allocator (the zone), its own lists of pages, and watermarks at which reclaim starts and
//! stops.
//!
//! Owing frames are free, but cannot be handed out before their debts are settled. So reclaim runs *ahead* of
//! allocation. Above each watermark a node keeps a further number of frames: those that lately came to owe, and were
//! taken, within the time that a debt may stand. This supply settles as fast as frames are taken, so allocations need
//! neither wait nor pay.

use crate::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use alloc::boxed::Box;

use ceasefire::Bounds;

use crate::address::FrameNumber;
use crate::frames::buddy::Buddy;
use crate::frames::frame::FrameTable;
use crate::frames::lazy::{Lazy, Limits};
use crate::frames::lru::Lists;
use crate::locks;
use crate::locks::Lock;
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

/// The size and the speed of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeLayout {
    /// The number of frames.
    pub frames: u32,
    /// 0 for the fastest memory of the machine. Reclaim demotes pages from one tier to the next before it frees any.
    pub tier: u8,
}

impl NodeLayout {
    /// A node of the fastest memory.
    pub const fn new(frames: u32) -> Self {
        Self { frames, tier: 0 }
    }
}

/// The numbers of free frames that a node should keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    /// Below it, an allocation reclaims first.
    pub min: u32,
    /// Below it, background reclaim is woken, and allocations try other nodes.
    pub low: u32,
    /// Background reclaim stops here.
    pub high: u32,
}

impl Watermarks {
    /// The watermarks of a node with `frames` of the machine's `total`.
    ///
    /// Linux's rule: the minimum is four times the square root of the memory in KiB, between 128 KiB and 64 MiB,
    /// divided among the nodes by size. Low is a quarter above it and high a half (`init_per_zone_wmark_min`,
    /// `__setup_per_zone_wmarks`).
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
    pub(crate) limits: Limits,
    /// Debt-free and owing frames in the zone. Changed under the zone lock, read without it.
    settled: AtomicU32,
    owing: AtomicU32,
    /// The rates at which frames are taken and come to owe.
    taken: Pace,
    owed: Pace,
    /// Background reclaim was woken and has not finished.
    woken: AtomicBool,
}

/// The rate at which a node's frames are taken, or come to owe. Changed under the zone lock, read without it.
#[derive(Debug, Default)]
struct Pace {
    /// The length of a window in nanoseconds: the time that a debt may stand. 0 if nothing is measured.
    window: u64,
    /// The start of the current window, the frames counted in it, and the result of the windows before.
    since: AtomicU64,
    current: AtomicU32,
    before: AtomicU32,
}

impl Pace {
    fn new(window: u64) -> Self {
        Self { window, ..Self::default() }
    }

    fn went(&self, count: u32, now: u64) {
        let current = self.current.load(Ordering::Relaxed);
        // One division for a batch of frames.
        let windows = now.saturating_sub(self.since.load(Ordering::Relaxed)) / self.window;
        if windows == 0 {
            self.current.store(current.saturating_add(count), Ordering::Relaxed);
            return;
        }
        self.before.store(decayed(self.lately(), current, windows), Ordering::Relaxed);
        self.current.store(count, Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
    }

    /// Frames counted in a window: as many as in the busiest window lately. The value rises at once and falls step by
    /// step, so its users change steadily.
    fn lately(&self) -> u32 {
        self.current.load(Ordering::Relaxed).max(self.before.load(Ordering::Relaxed))
    }
}

/// The value that remains of `most` after `windows`, of which the first counted `last` frames and the others none: each
/// removes an eighth of the difference.
fn decayed(most: u32, last: u32, windows: u64) -> u32 {
    let first = most - most.saturating_sub(last) / 8;
    (1..windows.min(64)).fold(first, |most, _| most - most.div_ceil(8))
}

impl<P: Machine> Node<P> {
    /// The nodes, with frames numbered from `first` on and debts within `bounds`.
    pub(crate) fn all(
        first: FrameNumber,
        layouts: &[NodeLayout],
        frames: &FrameTable,
        lazy: &Lazy,
        bounds: Bounds,
    ) -> Box<[Self]> {
        let total = layouts.iter().map(|layout| layout.frames).sum();
        let mut end = first.get();
        layouts
            .iter()
            .map(|layout| {
                let start = end;
                end += layout.frames;
                let watermarks = Watermarks::new(layout.frames, total);
                Self {
                    zone: P::Lock::new(&locks::ZONE, Buddy::new(frames, start, end)),
                    lists: P::Lock::new(&locks::LRU, Lists::default()),
                    watermarks,
                    limits: Limits::new(lazy, layout.frames, watermarks),
                    settled: AtomicU32::new(layout.frames),
                    owing: AtomicU32::new(0),
                    taken: Pace::new(bounds.max_age()),
                    owed: Pace::new(bounds.max_age()),
                    woken: AtomicBool::new(false),
                }
            })
            .collect()
    }

    /// Free frames in the zone.
    pub(crate) fn free(&self) -> u32 {
        self.settled_free() + self.owing()
    }

    /// Debt-free frames in the zone.
    pub(crate) fn settled_free(&self) -> u32 {
        self.settled.load(Ordering::Relaxed)
    }

    /// Owing frames in the zone, including those whose debts were settled since the last check.
    pub(crate) fn owing(&self) -> u32 {
        self.owing.load(Ordering::Relaxed)
    }

    /// The number of free frames that should be between owing and being taken.
    pub(crate) fn ahead(&self) -> u32 {
        // Zero for nearly every call, unless the machine is lazy.
        let owed = self.owed.lately();
        if owed == 0 {
            return 0;
        }
        self.taken_lately().min(owed)
    }

    /// How many frames an allocation may take: at least `mark` are left, and while others owe at least `reserve`
    /// debt-free ones.
    pub(crate) fn spare(&self, mark: u32, reserve: u32) -> u32 {
        let reserve = if self.owing() > 0 { reserve } else { 0 };
        self.free().saturating_sub(mark).min(self.settled_free().saturating_sub(reserve))
    }

    /// Whether the node stays above `mark` if frames are taken at the recent rate.
    pub(crate) fn keeps(&self, mark: u32) -> bool {
        self.free() >= mark.saturating_add(self.ahead())
    }

    /// The number of frames taken lately in the time that a debt may stand, at most the number that may owe.
    pub(crate) fn taken_lately(&self) -> u32 {
        self.taken.lately().min(self.limits.max_owed)
    }

    /// Counts debt-free frames that left the zone. The caller holds the zone lock.
    pub(crate) fn took(&self, count: u32, now: impl FnOnce() -> u64) {
        subtract(&self.settled, count);
        self.went(count, 0, now);
    }

    /// Counts debt-free frames that came back. The caller holds the zone lock.
    pub(crate) fn got(&self, count: u32) {
        add(&self.settled, count);
    }

    /// Counts frames that came to owe. The caller holds the zone lock.
    pub(crate) fn owes(&self, count: u32, now: impl FnOnce() -> u64) {
        add(&self.owing, count);
        self.went(0, count, now);
    }

    /// Advances both rates together: if no frame comes to owe any more, that rate must still fall while frames are
    /// taken.
    fn went(&self, taken: u32, owed: u32, now: impl FnOnce() -> u64) {
        // Where nothing can owe, nothing is measured.
        if self.taken.window > 0 {
            let now = now();
            self.taken.went(taken, now);
            self.owed.went(owed, now);
        }
    }

    /// Counts owing frames that left the zone. The caller holds the zone lock.
    pub(crate) fn took_owing(&self, count: u32) {
        subtract(&self.owing, count);
    }

    /// Counts frames whose debts were settled. The caller holds the zone lock.
    pub(crate) fn matured(&self, count: u32) {
        self.took_owing(count);
        self.got(count);
    }

    /// Whether background reclaim must be woken, because it was not yet.
    pub(crate) fn wake(&self) -> bool {
        !self.woken.load(Ordering::Relaxed) && !self.woken.swap(true, Ordering::AcqRel)
    }

    /// Background reclaim goes to sleep.
    pub(crate) fn slept(&self) {
        self.woken.store(false, Ordering::Release);
    }
}

fn add(counter: &AtomicU32, count: u32) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

fn subtract(counter: &AtomicU32, count: u32) {
    counter.store(counter.load(Ordering::Relaxed) - count, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_rises_at_once_and_falls_step_by_step() {
        let pace = Pace::new(10);
        for (now, count, lately) in
            [(1, 64, 64), (9, 16, 80), (12, 3, 80), (15, 97, 100), (22, 1, 100), (35, 1, 88), (45, 1, 78)]
        {
            pace.went(count, now);
            assert_eq!(pace.lately(), lately, "at {now}");
        }
        pace.went(1, u64::MAX);
        assert_eq!(pace.lately(), 1, "no frame was taken for long");
    }

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
