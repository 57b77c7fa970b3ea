//! Reclaim: taking back pages of files that nobody used lately.
//!
//! A few pages come off the back of the inactive list. Each is unmapped wherever it is mapped, unless it was used
//! since the last look; one flush settles them all; then those that are still unused leave the cache and are free.
//! *Then*: until the flush a page stays in the cache, so whoever wants it meanwhile finds this page and no second copy
//! is ever read beside it. Every page that was looked at is held by the batch, whatever became of it, so that nobody
//! else takes it up while CPUs may still reach it through what was cleared here.

use ceasefire::{Batch, Lock, BATCH};

use crate::frame::Frame;
use crate::lru::Isolated;
use crate::machine::{Event, Machine, Work};
use crate::node::NodeId;
use crate::Memory;

/// References to an unmapped page that is not in use: the cache's and the one of whoever isolated it.
const UNUSED: u32 = 2;
/// Rounds without progress after which background reclaim sleeps until it is woken again.
const PATIENCE: u32 = 16;

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
        let mut fruitless = 0;
        while state.free() < state.watermarks.high && fruitless < PATIENCE {
            let freed = self.shrink_by(node, true);
            fruitless = if freed == 0 { fruitless + 1 } else { 0 };
            self.platform().reschedule();
        }
        state.slept();
    }

    /// Reclaims one batch of pages of a node for an allocation; how many frames it freed.
    pub(crate) fn shrink(&self, node: NodeId) -> u32 {
        let freed = self.shrink_by(node, false);
        if freed == 0 {
            // What could be reclaimed may still be on its way to the lists.
            self.list_collected();
        }
        freed
    }

    fn shrink_by(&self, node: NodeId, background: bool) -> u32 {
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
                info.set_dirty(false);
                self.platform().observe(Event::WriteOut(frame));
                self.platform().write_out(frame);
                self.count(|share| &share.written, 1);
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
        count
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
        if info.dirty() || !info.take(UNUSED) {
            return Err(page);
        }
        let removed = pages.remove(index);
        debug_assert_eq!(removed, Some(page.number()));
        self.platform().work(Work::CacheRemove, 1);
        info.orphan();
        Ok(Frame::owned(page.into_number()))
    }
}
