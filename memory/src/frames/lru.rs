//! The lists that record which pages were used lately: one set for each node, fed through batches for each CPU.
//!
//! A new page goes to the front of its node's inactive list, and reclaim takes pages from the back. A CPU collects a
//! few new pages and lists them together (Linux: a pagevec), so it takes the node's lock once for all of them. The size
//! of that batch also determines how finely the pages of different programs are mixed in a list, and so how many CPUs a
//! batch of reclaimed pages must interrupt. A batched page is held by a reference.

use ceasefire::CpuId;

use crate::address::FrameNumber;
use crate::frames::frame::{FrameTable, LruState};
use crate::frames::list::List;
use crate::frames::node::NodeId;
use crate::locks::Lock;
use crate::machine::{Machine, Work};
use crate::Memory;

/// The most pages that a CPU collects before it lists them.
pub(crate) const LARGEST_BATCH: usize = 31;

/// When a CPU lists the new pages that it has collected, if a program unmaps or discards pages.
///
/// Such a page was often created just before, on the same CPU. If it is listed first, it takes its node's lock once to
/// come on the list and once to come off it, each time for this page alone. If it stays in the batch, the batch's
/// reference keeps it until the batch is full, and the lock is taken once for all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LruDrain {
    /// Before the unmap, however few pages there are (Linux before 6.14: `lru_add_drain`).
    Eager,
    /// When the batch is full (Linux from 6.14 on).
    #[default]
    Batched,
}

/// A node's pages: file and anonymous, inactive and active.
#[derive(Debug, Default)]
pub(crate) struct Lists([List; 4]);

impl Lists {
    fn of(&mut self, anonymous: bool, active: bool) -> &mut List {
        &mut self.0[usize::from(anonymous) * 2 + usize::from(active)]
    }

    fn list_of(&mut self, state: LruState) -> &mut List {
        self.of(state.anonymous() && !state.lazy(), state.active())
    }

    fn add(&mut self, frames: &FrameTable, frame: FrameNumber) {
        let info = frames.get(frame);
        let state = info.lru().set_listed(true);
        info.set_lru(state);
        self.list_of(state).push_front(frames, frame);
    }

    fn remove(&mut self, frames: &FrameTable, frame: FrameNumber) {
        let info = frames.get(frame);
        let state = info.lru();
        if state.listed() {
            self.list_of(state).remove(frames, frame);
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

impl LruBatch {
    /// Adds a page; returns the batch if it is full as large as it can be.
    pub(crate) fn add(&mut self, page: FrameNumber) -> Option<Self> {
        self.add_up_to(page, LARGEST_BATCH)
    }

    fn add_up_to(&mut self, page: FrameNumber, full: usize) -> Option<Self> {
        self.pages[self.count] = page;
        self.count += 1;
        (self.count >= full).then(|| core::mem::take(self))
    }

    fn pages(&self) -> impl Iterator<Item = FrameNumber> + '_ {
        self.pages[..self.count].iter().copied()
    }
}

/// A page off the lists, held by a reference. No other task can take it off meanwhile.
#[must_use = "an isolated page must be put back or freed"]
#[derive(Debug)]
pub(crate) struct Isolated(FrameNumber);

impl Isolated {
    pub(crate) fn number(&self) -> FrameNumber {
        self.0
    }

    /// For a caller that has taken all references, that of the isolation included, and so owns the frame.
    pub(crate) fn into_number(self) -> FrameNumber {
        self.0
    }
}

impl<P: Machine> Memory<P> {
    /// Puts a new page on its way to the lists. The batch takes over one reference.
    pub(crate) fn list_soon(&self, frame: FrameNumber) {
        let platform = self.platform();
        platform.pinned(|| {
            let most = self.config.lru_batch.min(LARGEST_BATCH);
            let full = self.lru_batches[platform.this_cpu().index()].lock(platform).add_up_to(frame, most);
            if let Some(full) = full {
                self.list(full.pages(), Work::LruAdd);
            }
        });
    }

    /// Lists the pages that the CPUs have collected (Linux: `lru_add_drain_all`). Pages whose other holders are gone
    /// become free only then.
    pub fn list_collected(&self) {
        CpuId::all(self.lru_batches.len()).for_each(|cpu| self.list_collected_by(cpu));
    }

    /// Lists the pages that this CPU has collected.
    pub(crate) fn list_own(&self) {
        self.platform().pinned(|| self.list_collected_by(self.platform().this_cpu()));
    }

    /// A program is about to unmap pages.
    pub(crate) fn drain_before_unmap(&self) {
        if self.config.lru_drain == LruDrain::Eager {
            self.list_own();
        }
    }

    fn list_collected_by(&self, cpu: CpuId) {
        let collected = core::mem::take(&mut *self.lru_batches[cpu.index()].lock(self.platform()));
        self.list(collected.pages(), Work::LruAdd);
    }

    /// Puts isolated pages back to the front of their lists.
    pub(crate) fn put_back(&self, pages: impl Iterator<Item = Isolated>) {
        self.list(pages.map(Isolated::into_number), Work::LruPutback);
    }

    /// The same for pages whose isolation a batch took over.
    pub(crate) fn put_back_batch(&self, pages: &LruBatch) {
        self.list(pages.pages(), Work::LruPutback);
    }

    /// Lists pages and drops one reference to each. Neighbours of one node share one acquisition of its lock.
    fn list(&self, pages: impl Iterator<Item = FrameNumber>, work: Work) {
        let mut pages = pages.peekable();
        while let Some(first) = pages.peek() {
            let node = self.frames.get(*first).node();
            let mut dead = [FrameNumber::new(0); LARGEST_BATCH];
            let (mut deaths, mut alive) = (0, 0);
            {
                let mut lists = self.nodes[node.index()].lists.lock(self.platform());
                let mut listed = 0;
                while let Some(page) = pages.next_if(|page| self.frames.get(*page).node() == node) {
                    let info = self.frames.get(page);
                    lists.add(&self.frames, page);
                    listed += 1;
                    match info.release() {
                        // All other holders dropped the page while it was on its way.
                        0 => {
                            lists.remove(&self.frames, page);
                            dead[deaths] = page;
                            deaths += 1;
                        }
                        // Only the swap device's cache still holds it.
                        1 if info.slot().is_some() => {
                            alive += 1;
                            dead[LARGEST_BATCH - alive] = page;
                        }
                        _ => {}
                    }
                    if deaths + alive == LARGEST_BATCH {
                        break;
                    }
                }
                self.platform().work(work, listed);
                self.platform().work(Work::LruRemove, deaths as u32);
            }
            for page in &dead[..deaths] {
                self.free_orphan(*page);
            }
            for page in &dead[LARGEST_BATCH - alive..] {
                self.forget_swapped(*page);
            }
        }
    }

    /// Takes a page that the caller holds off its list; `None` if it is on none at the moment.
    pub(crate) fn isolate_page(&self, page: FrameNumber) -> Option<Isolated> {
        let info = self.frames.get(page);
        let mut lists = self.nodes[info.node().index()].lists.lock(self.platform());
        if !info.lru().listed() || !info.try_hold() {
            return None;
        }
        lists.remove(&self.frames, page);
        self.platform().work(Work::LruIsolate, 1);
        Some(Isolated(page))
    }

    /// Changes the standing of an isolated page.
    pub(crate) fn set_standing(&self, page: &Isolated, change: impl FnOnce(LruState) -> LruState) {
        let info = self.frames.get(page.number());
        info.set_lru(change(info.lru()));
    }

    /// Takes up to `out.len()` pages from the back of a node's inactive pages; returns how many.
    ///
    /// Files and anonymous memory take turns in proportion to their numbers, as long as there is a place for anonymous
    /// pages.
    pub(crate) fn isolate(&self, node: NodeId, out: &mut [Option<Isolated>]) -> usize {
        let anonymous_too = self.can_move_anonymous(node);
        let room = anonymous_too && self.room_for_anonymous(node);
        let mut taken = 0;
        let mut lists = self.nodes[node.index()].lists.lock(self.platform());
        self.age(&mut lists, false);
        let mut kinds = [false, false];
        if anonymous_too {
            self.age(&mut lists, true);
            let mut total =
                |anonymous: bool| lists.of(anonymous, false).len() + lists.of(anonymous, true).len();
            let anonymous_first = room && total(true) > total(false);
            kinds = [anonymous_first, !anonymous_first];
        }
        for anonymous in kinds.into_iter().take(1 + usize::from(anonymous_too)) {
            let mut left = lists.of(anonymous, false).len();
            while taken < out.len() && left > 0 {
                left -= 1;
                let Some(page) = lists.of(anonymous, false).pop_back(&self.frames) else { break };
                let info = self.frames.get(page);
                if info.try_hold() {
                    info.set_lru(info.lru().set_listed(false));
                    out[taken] = Some(Isolated(page));
                    taken += 1;
                } else {
                    // The page's last holder is about to take it off the list. The page must be on a list and say so
                    // throughout, because that holder checks before it takes the lock.
                    lists.add(&self.frames, page);
                }
            }
        }
        self.platform().work(Work::LruIsolate, taken as u32);
        taken
    }

    /// Whether anonymous pages of a node have a place to go.
    fn can_move_anonymous(&self, node: NodeId) -> bool {
        (self.config.demote && self.slower[node.index()].is_some()) || self.config.swap_pages > 0
    }

    /// Whether there is room for another anonymous page on the swap device. If not, most anonymous pages cannot go, and
    /// must not keep reclaim from pages of files (Linux: `can_reclaim_anon_pages`). Those that already have a slot
    /// still can go.
    fn room_for_anonymous(&self, node: NodeId) -> bool {
        let room = |slower: NodeId| {
            let slower = &self.nodes[slower.index()];
            slower.free() > slower.watermarks.min
        };
        (self.config.demote && self.slower[node.index()].is_some_and(room))
            || (self.config.swap_pages > 0 && self.free_slots() > 0)
    }

    /// Moves the oldest active pages to the inactive list, a few at a time, while there are more active than inactive
    /// pages (Linux: `inactive_file_is_low`).
    fn age(&self, lists: &mut Lists, anonymous: bool) {
        for _ in 0..LARGEST_BATCH {
            if lists.of(anonymous, true).len() <= lists.of(anonymous, false).len() {
                break;
            }
            let Some(page) = lists.of(anonymous, true).pop_back(&self.frames) else { break };
            let info = self.frames.get(page);
            info.set_lru(info.lru().set_active(false).set_referenced(false));
            lists.add(&self.frames, page);
        }
    }

    /// Takes pages without holders off their lists, and frees them. Neighbours of one node share one acquisition of its
    /// lock.
    pub(crate) fn free_listed(&self, dead: &LruBatch) {
        let mut pages = dead.pages().peekable();
        while let Some(first) = pages.peek() {
            let node = self.frames.get(*first).node();
            let mut lists = self.nodes[node.index()].lists.lock(self.platform());
            let mut count = 0;
            while let Some(page) = pages.next_if(|page| self.frames.get(*page).node() == node) {
                lists.remove(&self.frames, page);
                count += 1;
            }
            self.platform().work(Work::LruRemove, count);
        }
        for page in dead.pages() {
            self.free_orphan(page);
        }
    }

    /// Takes a page without holders off its list, if it is on one.
    pub(crate) fn unlist(&self, page: FrameNumber) {
        let info = self.frames.get(page);
        if info.lru().listed() {
            let mut lists = self.nodes[info.node().index()].lists.lock(self.platform());
            lists.remove(&self.frames, page);
            self.platform().work(Work::LruRemove, 1);
        }
    }
}
