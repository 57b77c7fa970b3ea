//! Reclaim: taking back pages of files that nobody used lately.
//!
//! A few pages come off the back of the inactive list. Each is unmapped wherever it is mapped, unless it was used
//! since the last look; one flush settles them all; then those that are still unused leave the cache and are free.
//! *Then*: until the flush a page stays in the cache, so whoever wants it meanwhile finds this page and no second copy
//! is ever read beside it. Every page that was looked at is held by the batch, whatever became of it, so that nobody
//! else takes it up while CPUs may still reach it through what was cleared here.

use ceasefire::{Batch, Lock, BATCH};

use crate::address::{Block, Store};
use crate::frame::Frame;
use crate::lru::Isolated;
use crate::machine::{Event, Machine, Work};
use crate::node::NodeId;
use crate::Memory;

/// References to an unmapped page that is not in use: the cache's and the one of whoever isolated it.
const UNUSED: u32 = 2;
/// How often all frames are looked at in vain before reclaim gives up: once to find them in use, once to find them
/// unused, and once more because others put pages back meanwhile.
const ROUNDS: u64 = 3;
/// What a look at an empty list counts: pages may be isolated by others at the moment.
const EMPTY: u64 = 256;

/// What one batch of reclaim came to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shrunk {
    /// Frames freed.
    pub(crate) freed: u32,
    /// Pages looked at.
    pub(crate) scanned: u32,
}

/// How long reclaim goes on without freeing anything.
#[derive(Debug)]
pub(crate) struct Patience {
    limit: u64,
    in_vain: u64,
}

impl Patience {
    /// Until `frames` frames were looked at often enough to know that none can be had.
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

/// A page under a batch, and what is to become of it.
#[derive(Debug)]
struct Candidate {
    page: Isolated,
    free: bool,
}

/// Up to a batch of things.
struct Few<T> {
    items: [Option<T>; BATCH],
    count: usize,
}

impl<T> Few<T> {
    fn new() -> Self {
        Self { items: core::array::from_fn(|_| None), count: 0 }
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
    /// Background reclaim of one node: until it has enough free frames, or nothing more can be had.
    ///
    /// Run by a kernel thread of the node whenever [`Machine::wake_reclaim`] asks for it.
    pub fn reclaim_node(&self, node: NodeId) {
        let state = &self.nodes[node.index()];
        let mut patience = Patience::new(u64::from(self.config.nodes[node.index()].frames));
        while state.free() < state.watermarks.high && !patience.is_over() {
            patience.note(self.shrink_by(node, true));
            self.platform().reschedule();
        }
        state.slept();
    }

    /// Reclaims one batch of pages of a node for an allocation.
    pub(crate) fn shrink(&self, node: NodeId) -> Shrunk {
        let shrunk = self.shrink_by(node, false);
        if shrunk.scanned == 0 {
            // What could be reclaimed may still be on its way to the lists.
            self.list_collected();
        }
        shrunk
    }

    fn shrink_by(&self, node: NodeId, background: bool) -> Shrunk {
        // What this CPU brought in lately should stand in line too (Linux: `lru_add_drain` in `shrink_inactive_list`).
        self.list_own();
        let mut isolated: [Option<Isolated>; BATCH] = core::array::from_fn(|_| None);
        let scanned = self.isolate(node, &mut isolated);
        let (mut freed, mut kept) = (Few::new(), Few::new());
        let mut batch: Batch<'_, P, Candidate, _> =
            Batch::new(&self.engine, self.config.schedule, |candidate: Candidate| {
                let candidate =
                    if candidate.free { self.remove_unused(candidate.page) } else { Err(candidate.page) };
                match candidate {
                    Ok(frame) => freed.push(frame),
                    Err(page) => kept.push(page),
                }
            });
        for page in isolated.into_iter().flatten() {
            self.platform().work(Work::ReclaimPage, 1);
            let mut candidate = Candidate { free: self.unmap_unused(&page, &mut batch), page };
            let info = self.frames.get(candidate.page.number());
            // Only if nobody else holds it: a strict unmap that has not flushed yet still does.
            if candidate.free && info.dirty() && info.references() == UNUSED {
                let permit = batch.write_permit(candidate);
                let frame = permit.page().page.number();
                info.clear_dirty();
                // Asked again, now that it counts as clean: someone may have mapped it since, dirtied it and begun to
                // unmap it, and still store through what is not flushed yet.
                let block = info.place().map(|(file, index)| Block { store: Store::File(file), index });
                if let Some(block) = block.filter(|_| info.references() == UNUSED) {
                    self.platform().observe(Event::WriteOut(frame));
                    self.platform().write_out(&[(block, frame)]);
                    self.count(|share| &share.written, 1);
                } else {
                    info.set_dirty(true);
                }
                candidate = permit.into_page();
            }
            batch.hold(candidate);
        }
        batch.settle();
        drop(batch);
        self.put_back(kept.drain());
        let count = freed.count as u32;
        for frame in freed.drain() {
            self.free(frame);
        }
        self.count(|share| &share.scanned, scanned as u64);
        self.count(
            |share| if background { &share.reclaimed_background } else { &share.reclaimed_direct },
            u64::from(count),
        );
        Shrunk { freed: count, scanned: scanned as u32 }
    }

    /// Takes a page's translations away, unless it was used since the last look; whether it may be freed.
    fn unmap_unused<R: FnMut(Candidate)>(
        &self,
        page: &Isolated,
        batch: &mut Batch<'_, P, Candidate, R>,
    ) -> bool {
        let frame = page.number();
        let info = self.frames.get(frame);
        if info.maps() > 1 {
            // All mappings are asked first: taking some away from a page that stays would only cost faults.
            let mut used = false;
            self.for_each_mapping(frame, |_, leaf, address| used |= leaf.test_and_clear_accessed(address));
            if used {
                self.note_use(page);
                return false;
            }
        }
        let mut used = false;
        if info.maps() > 0 {
            self.for_each_mapping(frame, |space, leaf, address| {
                if leaf.test_and_clear_accessed(address) {
                    used = true;
                    return;
                }
                let (entry, cleared) = leaf.clear(address);
                if entry.dirty() {
                    info.set_dirty(true);
                }
                batch.record(space, cleared);
                info.unmapped();
                let last = info.release();
                debug_assert!(!last, "the isolation holds a reference");
            });
        }
        if used {
            self.note_use(page);
        }
        !used && info.maps() == 0
    }

    /// A page found in use goes round once more; the second time running it counts as active (Linux:
    /// `folio_check_references`).
    fn note_use(&self, page: &Isolated) {
        let info = self.frames.get(page.number());
        let state = info.lru();
        info.set_lru(if state.referenced() { state.set_active(true) } else { state.set_referenced(true) });
    }

    /// Takes a page out of its file if nobody uses it; else the page back.
    fn remove_unused(&self, page: Isolated) -> Result<Frame, Isolated> {
        let info = self.frames.get(page.number());
        let Some((object, index)) = info.place() else { return Err(page) };
        let mut pages = self.objects.get(object).pages.lock(self.platform());
        // Deleting a file takes the page out first and lets go of its reference after: that one is not ours to take.
        if pages.find(index) != Some(page.number()) || !info.take(UNUSED) {
            return Err(page);
        }
        // Only now that nobody holds it can nobody make it dirty any more (Linux: `__remove_mapping`).
        if info.dirty() {
            info.give_back(UNUSED);
            return Err(page);
        }
        let removed = pages.remove(index);
        debug_assert_eq!(removed, Some(page.number()));
        self.platform().work(Work::CacheRemove, 1);
        info.orphan();
        Ok(Frame::owned(page.into_number()))
    }
}
