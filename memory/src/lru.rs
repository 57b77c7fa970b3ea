//! Which pages were used lately: per-node lists, fed through per-CPU batches.
//!
//! A new page goes to the front of its node's inactive list, reclaim takes from the back. So that not every new page
//! takes the node's lock, a CPU collects a few (Linux: a pagevec) and lists them together; that is also the grain at
//! which the pages of different programs are mixed in a list, and so decides how many CPUs a batch of reclaimed pages
//! has to interrupt. A batched page is held by a reference.

use ceasefire::{CpuId, Lock};

use crate::frame::FrameTable;
use crate::list::List;
use crate::machine::{Machine, Work};
use crate::node::NodeId;
use crate::{FrameNumber, Memory};

/// The most pages that a CPU collects before it lists them.
pub(crate) const LARGEST_BATCH: usize = 31;

/// A node's pages: file and anonymous, inactive and active.
#[derive(Debug, Default)]
pub(crate) struct Lists([List; 4]);

impl Lists {
    fn of(&mut self, anonymous: bool, active: bool) -> &mut List {
        &mut self.0[usize::from(anonymous) * 2 + usize::from(active)]
    }

    fn add(&mut self, frames: &FrameTable, frame: FrameNumber) {
        let info = frames.get(frame);
        let state = info.lru().set_listed(true);
        info.set_lru(state);
        self.of(state.anonymous(), state.active()).push_front(frames, frame);
    }

    fn remove(&mut self, frames: &FrameTable, frame: FrameNumber) {
        let info = frames.get(frame);
        let state = info.lru();
        if state.listed() {
            self.of(state.anonymous(), state.active()).remove(frames, frame);
            info.set_lru(state.set_listed(false));
        }
    }
}

/// A CPU's pages on their way to the lists.
#[derive(Debug)]
pub(crate) struct LruBatch {
    pages: [FrameNumber; LARGEST_BATCH],
    count: usize,
}

impl Default for LruBatch {
    fn default() -> Self {
        Self { pages: [FrameNumber::new(0); LARGEST_BATCH], count: 0 }
    }
}

/// A page off the lists, held by a reference, that nobody else takes off meanwhile.
#[must_use = "an isolated page must be put back or freed"]
#[derive(Debug)]
pub(crate) struct Isolated(FrameNumber);

impl Isolated {
    pub(crate) fn number(&self) -> FrameNumber {
        self.0
    }

    /// Whoever took all references, that of the isolation included, owns the frame.
    pub(crate) fn into_number(self) -> FrameNumber {
        self.0
    }
}

impl<P: Machine> Memory<P> {
    /// Puts a new page on its way to the lists; the batch takes over one reference.
    pub(crate) fn list_soon(&self, frame: FrameNumber) {
        let platform = self.platform();
        platform.pinned(|| {
            let mut batch = self.lru_batches[platform.this_cpu().index()].lock(platform);
            let at = batch.count;
            batch.pages[at] = frame;
            batch.count += 1;
            if batch.count >= self.config.lru_batch {
                let full = core::mem::take(&mut *batch);
                self.list(full.pages[..full.count].iter().copied(), Work::LruAdd);
            }
        });
    }

    /// Lists what the CPUs have collected (Linux: `lru_add_drain_all`): pages that were let go of meanwhile are free
    /// only then.
    pub fn list_collected(&self) {
        CpuId::all(self.lru_batches.len()).for_each(|cpu| self.list_collected_by(cpu));
    }

    /// Lists what this CPU has collected.
    pub(crate) fn list_own(&self) {
        self.platform().pinned(|| self.list_collected_by(self.platform().this_cpu()));
    }

    fn list_collected_by(&self, cpu: CpuId) {
        let collected = core::mem::take(&mut *self.lru_batches[cpu.index()].lock(self.platform()));
        self.list(collected.pages[..collected.count].iter().copied(), Work::LruAdd);
    }

    /// Puts isolated pages back to the front of their lists.
    pub(crate) fn put_back(&self, pages: impl Iterator<Item = Isolated>) {
        self.list(pages.map(Isolated::into_number), Work::LruPutback);
    }

    /// Lists pages and lets go of one reference to each, taking a node's lock once for neighbours of one node.
    fn list(&self, pages: impl Iterator<Item = FrameNumber>, work: Work) {
        let mut pages = pages.peekable();
        while let Some(first) = pages.peek() {
            let node = self.frames.get(*first).node();
            let mut dead = [FrameNumber::new(0); LARGEST_BATCH];
            let mut deaths = 0;
            {
                let mut lists = self.nodes[node.index()].lists.lock(self.platform());
                let mut listed = 0;
                while let Some(page) = pages.next_if(|page| self.frames.get(*page).node() == node) {
                    lists.add(&self.frames, page);
                    listed += 1;
                    if self.frames.get(page).release() {
                        // Everyone else let go while it was on its way.
                        lists.remove(&self.frames, page);
                        dead[deaths] = page;
                        deaths += 1;
                        if deaths == LARGEST_BATCH {
                            break;
                        }
                    }
                }
                self.platform().work(work, listed);
            }
            for page in &dead[..deaths] {
                self.free_orphan(*page);
            }
        }
    }

    /// Takes up to `out.len()` pages from the back of a node's inactive files; how many it took.
    pub(crate) fn isolate(&self, node: NodeId, out: &mut [Option<Isolated>]) -> usize {
        let mut taken = 0;
        let mut lists = self.nodes[node.index()].lists.lock(self.platform());
        self.age(&mut lists);
        let mut left = lists.of(false, false).len();
        while taken < out.len() && left > 0 {
            left -= 1;
            let Some(page) = lists.of(false, false).pop_back(&self.frames) else { break };
            let info = self.frames.get(page);
            if info.try_hold() {
                info.set_lru(info.lru().set_listed(false));
                out[taken] = Some(Isolated(page));
                taken += 1;
            } else {
                // Its last holder is about to take it off the list, so it has to be on one, and to say so throughout:
                // that holder asks before it takes the lock.
                lists.add(&self.frames, page);
            }
        }
        self.platform().work(Work::LruIsolate, taken as u32);
        taken
    }

    /// Moves the oldest active pages to the inactive list while there are more active than inactive ones (Linux:
    /// `inactive_file_is_low`), a few at a time.
    fn age(&self, lists: &mut Lists) {
        for _ in 0..LARGEST_BATCH {
            if lists.of(false, true).len() <= lists.of(false, false).len() {
                break;
            }
            let Some(page) = lists.of(false, true).pop_back(&self.frames) else { break };
            let info = self.frames.get(page);
            info.set_lru(info.lru().set_active(false).set_referenced(false));
            lists.add(&self.frames, page);
        }
    }

    /// Takes a page without holders off its list, if it is on one.
    pub(crate) fn unlist(&self, page: FrameNumber) {
        let info = self.frames.get(page);
        if info.lru().listed() {
            self.nodes[info.node().index()].lists.lock(self.platform()).remove(&self.frames, page);
        }
    }
}
