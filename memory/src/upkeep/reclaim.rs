//! Reclaim: taking back the frames of pages that were not used lately.
//!
//! A few pages come off the back of an inactive list. If there is slower memory, they move there. Otherwise each page
//! is unmapped wherever it is mapped, unless it was used since the last check. One flush settles them all. *After* the
//! flush, the pages that are still unused leave their cache and are free. Until then a page stays in its file or in the
//! cache of the swap device. A fault finds this page there, so no second copy is ever read beside it. The batch locks
//! and holds every page whose lock is free, and keeps it even if the page will not be freed. So no other task takes the
//! page while CPUs may still reach it through translations cleared here.
//!
//! A page that no CPU could store to need not wait for the flush. It leaves its cache owing, and the debt is recorded
//! in the frame and in the slot. If such a page cannot be freed after all, its debt is paid before it is unlocked.

use alloc::vec::Vec;

use ceasefire::{Batch, Condition, Owed, PageSize, Schedule, Stamp, Unmapping, BATCH};

use crate::address::{Block, FrameNumber, Store};
use crate::cache::page_lock::PageLock;
use crate::frames::allocate::{DownTo, OutOfMemory, Pay};
use crate::frames::frame::Frame;
use crate::frames::lru::Isolated;
use crate::frames::node::NodeId;
use crate::machine::{Event, Machine, Work};
use crate::sabotage::Guard;
use crate::tables::entry::Entry;
use crate::Memory;

/// How often all frames are scanned in vain before reclaim gives up: once to find them in use, once to find them
/// unused, and once more because other CPUs put pages back meanwhile.
const ROUNDS: u64 = 3;
/// The scan count of an empty list: other CPUs may have isolated its pages at the moment.
const EMPTY: u64 = 256;

/// The result of one batch of reclaim.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shrunk {
    /// Frames freed.
    pub(crate) freed: u32,
    /// Pages scanned.
    pub(crate) scanned: u32,
}

/// How long reclaim continues without freeing a frame.
#[derive(Debug)]
pub(crate) struct Patience {
    limit: u64,
    in_vain: u64,
}

impl Patience {
    /// Patience until `frames` frames were scanned often enough to know that none can be freed.
    pub(crate) fn new(frames: u64) -> Self {
        Self { limit: frames * ROUNDS, in_vain: 0 }
    }

    pub(crate) fn note(&mut self, shrunk: Shrunk) {
        self.in_vain = match shrunk {
            Shrunk { freed: 0, scanned: 0 } => self.in_vain + EMPTY,
            Shrunk { freed: 0, scanned } => self.in_vain + u64::from(scanned),
            _ => 0,
        };
    }

    pub(crate) fn is_over(&self) -> bool {
        self.in_vain > self.limit
    }
}

/// The reason for evicting pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// They seem unused.
    Unused,
    /// Their program said that it will not need them soon.
    Advised,
    /// The contents must be read from the device again.
    Invalid,
}

/// A page under a batch, and whether it may be freed.
#[derive(Debug)]
struct Candidate<'m, P: Machine> {
    page: Isolated,
    lock: PageLock<'m, P>,
    free: bool,
}

/// At most a batch of items.
struct Few<T> {
    items: [Option<T>; BATCH],
    count: usize,
}

impl<T> Few<T> {
    fn new() -> Self {
        Self { items: [const { None }; BATCH], count: 0 }
    }

    fn push(&mut self, item: T) {
        self.items[self.count] = Some(item);
        self.count += 1;
    }

    fn drain(self) -> impl Iterator<Item = T> {
        self.items.into_iter().flatten()
    }
}

impl<P: Machine> Memory<P> {
    /// Reclaims memory of one node in the background. It ends when the node has enough free frames, or will have once
    /// debts are settled, or when no more can be freed. It pays debts that are too old.
    ///
    /// A kernel thread of the node runs this whenever [`Machine::wake_reclaim`] asks for it.
    pub fn reclaim_node(&self, node: NodeId) {
        let state = &self.nodes[node.index()];
        let mut patience = Patience::new(u64::from(self.config.nodes[node.index()].frames));
        loop {
            self.pay_overdue();
            while self.mature(node) > 0 {}
            if state.keeps(state.watermarks.high) || patience.is_over() {
                break;
            }
            patience.note(self.shrink_by(node, true));
            self.platform().reschedule();
        }
        state.slept();
    }

    /// Reclaims until there is a frame.
    #[cold]
    pub(crate) fn allocate_slowly(&self, home: NodeId) -> Result<Frame, OutOfMemory> {
        let mut patience = Patience::new(self.config.nodes.iter().map(|node| u64::from(node.frames)).sum());
        while !patience.is_over() {
            // A batch from every node, as in Linux (`shrink_zones`): an allocation that runs out helps all low nodes.
            for &node in &self.fallback[home.index()] {
                patience.note(self.shrink(node));
            }
            if let Some(frame) = self.allocate_paying(home, DownTo::Reclaimed, Pay::IfWorthIt) {
                return Ok(frame);
            }
            self.platform().reschedule();
        }
        // Now the frames on other CPUs' lists, and at last those below the minimum.
        self.drain_all();
        self.allocate_paying(home, DownTo::Reserve, Pay::Always).ok_or(OutOfMemory)
    }

    /// Reclaims one batch of pages of a node for an allocation.
    fn shrink(&self, node: NodeId) -> Shrunk {
        self.pay_overdue();
        let shrunk = self.shrink_by(node, false);
        if shrunk.scanned == 0 {
            // Reclaimable pages may still be on their way to the lists.
            self.list_collected();
        }
        shrunk
    }

    fn shrink_by(&self, node: NodeId, background: bool) -> Shrunk {
        if !self.may_owe(node) {
            // One round of interrupts for all of them, instead of one for each batch from here on.
            self.engine.pay_all();
            self.mature(node);
        }
        // Pages that this CPU brought in lately must be on the lists too (Linux: `lru_add_drain` in
        // `shrink_inactive_list`).
        self.list_own();
        let mut isolated: [Option<Isolated>; BATCH] = core::array::from_fn(|_| None);
        let scanned = self.isolate(node, &mut isolated);
        let pages = isolated.into_iter().flatten();
        let freed = match self.slower[node.index()].filter(|_| self.config.demote) {
            None => self.evict(pages, Why::Unused).0,
            Some(slower) => self.move_down(pages, slower),
        };
        self.count(|share| &share.scanned, scanned as u64);
        self.count(
            |share| if background { &share.reclaimed_background } else { &share.reclaimed_direct },
            u64::from(freed),
        );
        Shrunk { freed, scanned: scanned as u32 }
    }

    /// Moves unused pages to slower memory, and frees those for which there is no room; returns how many frames became
    /// free.
    fn move_down(&self, pages: impl Iterator<Item = Isolated>, to: NodeId) -> u32 {
        let (mut unused, mut needed) = (Few::new(), Few::new());
        for page in pages {
            if self.is_needed(page.number(), Why::Unused) {
                self.note_use(page.number());
                needed.push(page);
            } else {
                unused.push(page);
            }
        }
        self.put_back(needed.drain());
        let mut left = Vec::new();
        let moved = self.demote(unused.drain(), to, &mut left);
        self.wake_if_low(to);
        moved as u32 + self.evict(left.into_iter(), Why::Unused).0
    }

    /// Frees those of up to [`BATCH`] isolated pages that may be freed, and puts the others back; returns both counts.
    pub(crate) fn evict(&self, pages: impl Iterator<Item = Isolated>, why: Why) -> (u32, u32) {
        let (mut freed, mut kept, mut busy) = (Few::new(), Few::new(), Few::new());
        let mut pages = pages.peekable();
        let node = pages.peek().map(|page| self.frames.get(page.number()).node());
        // Evictions that were asked for are done when the call returns.
        let lazily = why == Why::Unused && node.is_some_and(|node| self.may_owe(node));
        let mut batch: Batch<'_, P, Candidate<'_, P>, _> =
            Batch::new(&self.engine, self.schedule(lazily), |candidate: Owed<Candidate<'_, P>>| {
                let stamp = candidate.stamp();
                if candidate.get().free && self.take_unused(candidate.get().page.number(), stamp) {
                    let frame = |candidate: Candidate<'_, P>| Frame::owned(candidate.page.into_number());
                    freed.push(candidate.map(frame));
                } else {
                    kept.push(self.engine.pay(candidate).page);
                }
            });
        let mut dirty = false;
        for page in pages {
            self.platform().work(Work::ReclaimPage, 1);
            let Some(lock) = self.try_lock_page(page.number()) else {
                busy.push(page);
                continue;
            };
            let frame = page.number();
            let whole = self.split_isolated(&page);
            let mut candidate = batch.take(Candidate { page, lock, free: false });
            let free = whole && self.unmap_unused(frame, &mut candidate, why);
            candidate.update(|candidate| candidate.free = free);
            let info = self.frames.get(frame);
            // Only if no other holder is left: a strict unmap that has not flushed yet still holds the page, and a CPU
            // may store through a translation that the unmap has cleared.
            if free && info.dirty() && !self.has_holders(frame) {
                candidate.withhold();
                dirty = true;
            } else if free && (node == Some(info.node()) || self.may_owe(info.node())) {
                // A page that a mapping locks is not free here, except for an invalidation, which is never lazy.
                candidate.release_in_debt(self.condition(frame, false));
            } else {
                candidate.hold();
            }
        }
        if dirty {
            self.write_unused(&mut batch);
        }
        drop(batch);
        let counts = (freed.count as u32, (busy.count + kept.count) as u32);
        self.put_back(busy.drain().chain(kept.drain()));
        for frame in freed.drain() {
            self.free_owed(frame);
        }
        counts
    }

    /// Whether a task holds an isolated, unmapped page besides its isolation and its cache.
    fn has_holders(&self, frame: FrameNumber) -> bool {
        // R5
        self.guarded(Guard::Holders) && self.frames.get(frame).references() != self.unused(frame)
    }

    /// The schedule for the kernel's own unmaps: the configured one, but never lazy unless `lazily` allows it.
    pub(crate) fn schedule(&self, lazily: bool) -> Schedule {
        match self.config.schedule {
            Schedule::Lazy if !lazily => Schedule::Batched,
            schedule => schedule,
        }
    }

    /// The properties of an isolated page, besides its translations, that decide whether it may be released while CPUs
    /// may read it.
    pub(crate) fn condition(&self, frame: FrameNumber, locked: bool) -> Condition {
        Condition {
            dirty: self.frames.get(frame).dirty(),
            locked,
            altered: self.platform().alters_free_frames(),
        }
    }

    /// Writes out all unmapped dirty pages at once.
    fn write_unused<'m, R: FnMut(Owed<Candidate<'m, P>>)>(
        &'m self,
        batch: &mut Batch<'_, P, Candidate<'m, P>, R>,
    ) {
        let mut blocks = [(Block { store: Store::Swap, index: 0 }, FrameNumber::new(0)); BATCH];
        let mut count = 0;
        let mut permits = Few::new();
        while let Some(permit) = batch.write_permit() {
            let frame = permit.page().lock.frame();
            let info = self.frames.get(frame);
            info.clear_dirty();
            // A page that a task has mapped since it was withheld stays, so its write-out would be wasted (Linux:
            // `is_page_cache_freeable`). R5 does not need this second look. The page is locked, and a fault maps a
            // locked page for loads only, so no task has dirtied the page and begun to unmap it.
            match self.block_of(frame) {
                Some(block) if !self.has_holders(frame) => {
                    self.platform().observe(Event::WriteOut(frame));
                    blocks[count] = (block, frame);
                    count += 1;
                }
                _ => info.set_dirty(),
            }
            permits.push(permit);
        }
        // Pages that can be freed are freed before the wait for the device, and no flush is owed during it.
        batch.flush();
        self.write_blocks(&blocks[..count]);
        for permit in permits.drain() {
            batch.hold(permit.into_page());
        }
    }

    /// Writes clean, locked pages to their devices, and records that the devices hold them.
    pub(crate) fn write_blocks(&self, blocks: &[(Block, FrameNumber)]) {
        if blocks.is_empty() {
            return;
        }
        self.write_out(blocks);
        for (block, _) in blocks {
            if let Store::File(file) = block.store {
                self.objects.get(file).pages.lock(self.platform()).set_stored(block.index, true);
            }
        }
        self.count(|share| &share.written, blocks.len() as u64);
    }

    /// The block that holds a cached page's bytes.
    pub(crate) fn block_of(&self, frame: FrameNumber) -> Option<Block> {
        let info = self.frames.get(frame);
        let (object, index) = info.place()?;
        if object.is_anonymous() {
            return info.slot().map(|slot| Block { store: Store::Swap, index: slot });
        }
        Some(Block { store: Store::File(object), index })
    }

    /// Splits an isolated, locked page if it is huge; returns false if there is no frame for that.
    fn split_isolated(&self, page: &Isolated) -> bool {
        let frame = page.number();
        if !self.frames.get(frame).huge() {
            return true;
        }
        // Reclaim must not call reclaim: it takes the frame from the reserve.
        let Some(table) = self.allocate_reserve() else { return false };
        self.zero(table.number(), 1);
        let mut table = Some(table);
        self.for_each_mapping(frame, |_, leaf, base| {
            if leaf.size() == PageSize::MIB_2 {
                if let Some(table) = table.take() {
                    self.split(leaf, base, table);
                }
            }
        });
        if let Some(table) = table {
            self.free(table);
        }
        !self.frames.get(frame).huge()
    }

    /// Whether a mapped page must stay: a mapping locks it or, where use matters, it was used since the last check.
    fn is_needed(&self, frame: FrameNumber, why: Why) -> bool {
        let mut needed = false;
        if self.frames.get(frame).maps() > 0 {
            self.for_each_mapping(frame, |mapper, leaf, address| {
                needed |= mapper.locked;
                needed |= why == Why::Unused && leaf.test_and_clear_accessed(address);
            });
        }
        needed
    }

    /// Clears a page's translations, unless it is needed; returns whether the page may be freed.
    fn unmap_unused<'m, R: FnMut(Owed<Candidate<'m, P>>)>(
        &self,
        frame: FrameNumber,
        unmapping: &mut Unmapping<'_, '_, P, Candidate<'m, P>, R, BATCH>,
        why: Why,
    ) -> bool {
        let info = self.frames.get(frame);
        let anonymous = info.place().is_some_and(|(object, _)| object.is_anonymous());
        let lazy = info.lru().lazy();
        let swaps = anonymous && !lazy;
        // All mappings are checked first. Unmapping only some would cost faults and free nothing, and the page would
        // occupy a slot that another page needs.
        let asked = info.maps() > 1 || (swaps && info.slot().is_none());
        if why != Why::Invalid && asked && self.is_needed(frame, why) {
            self.note_use(frame);
            return false;
        }
        let mut used = false;
        if info.maps() > 0 {
            if swaps && !self.add_to_swap(frame) {
                return false;
            }
            let of_file = if anonymous { Entry::GONE } else { Entry::NONE };
            let gone = info.slot().map_or(of_file, Entry::swapped);
            self.for_each_mapping(frame, |mapper, leaf, address| {
                if used || (mapper.locked && why != Why::Invalid) {
                    used = true;
                    return;
                }
                if why == Why::Unused && leaf.test_and_clear_accessed(address) {
                    used = true;
                    return;
                }
                if let Some(slot) = gone.slot() {
                    self.name_slot(slot);
                }
                let entry = leaf.replace_in(unmapping, address, |_| gone);
                if lazy && entry.dirty() && self.guarded(Guard::Restore) {
                    // The page was stored to after its program gave up its contents, so its entry comes back as it was.
                    info.set_lru(info.lru().set_lazy(false));
                    leaf.put_back(address, entry);
                    used = true;
                    return;
                }
                if lazy {
                    // It will be dropped, because nothing was stored to it.
                    self.platform().observe(Event::WriteOut(frame));
                }
                self.unmapped_isolated(entry);
            });
        }
        if used {
            self.note_use(frame);
        }
        !used && info.maps() == 0
    }

    /// A page found in use stays for another round. After two such rounds in succession it counts as active (Linux:
    /// `folio_check_references`).
    fn note_use(&self, frame: FrameNumber) {
        let info = self.frames.get(frame);
        let state = info.lru();
        info.set_lru(if state.referenced() { state.set_active(true) } else { state.set_referenced(true) });
    }

    /// Takes the last references to an unused, unmapped page: those of its cache and of its isolation. CPUs may read
    /// the page until `stamp` is settled.
    fn take_unused(&self, frame: FrameNumber, stamp: Stamp) -> bool {
        let info = self.frames.get(frame);
        let Some((object, _)) = info.place() else { return false };
        let taken = if object.is_anonymous() && info.slot().is_none() {
            // Nothing was stored to the page since its program gave up its contents.
            let taken = info.lru().lazy() && info.take(1);
            if taken && stamp != Stamp::SETTLED {
                // The page has no slot; its entries say that they owe.
                self.left(frame, stamp, None);
            }
            taken
        } else {
            self.take_from_cache(frame, 2, stamp)
        };
        if taken {
            info.orphan();
        }
        taken
    }
}
