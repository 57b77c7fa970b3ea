//! Migration: moving pages to another node, many at a time.
//!
//! A batch of pages is taken off the lists, locked, and unmapped: each entry is marked as moving, so every access
//! waits. *One* flush settles them all. Then each page is copied if only the migration holds it, and its entries lead
//! to the copy. A busy page gets its entries back. It is tried again with the other busy pages, and at last by itself,
//! where the migration waits for its lock. If the page is still held then, it stays where it is. A huge page is flushed
//! on its own, because that is already one flush for the memory of 512 small pages. (BATCH-MIGRATE: Huang 2023, Linux
//! commit 7e12beb8ca2a.)
//!
//! A page that no CPU could store to may arrive without any flush. CPUs go on reading the frame that it left, whose
//! bytes are the same, until the debt is settled. No CPU may be led to the new frame before that, so that no two CPUs
//! see different frames at one address. For a page of a file, the entries are empty, and the page is found in its file
//! again, where its slot owes. For an anonymous page, the entries lead to the new frame but are hidden, and say that
//! they owe.

use alloc::vec::Vec;
use core::cell::{Cell, RefCell};

use ceasefire::{Batch, Owed, Schedule, Stamp, Unmapping, BATCH};

use crate::address::{Block, FrameNumber, Store, HUGE_FRAMES};
use crate::cache::page_lock::PageLock;
use crate::frames::allocate::Pay;
use crate::frames::frame::{huge_frames, Frame, HugeFrame};
use crate::frames::lru::Isolated;
use crate::frames::node::NodeId;
use crate::machine::{Machine, Work};
use crate::tables::entry::Entry;
use crate::Memory;

/// The most pages that are unmapped for one flush (Linux: `NR_MAX_BATCHED_MIGRATION`, the number of small pages in a
/// huge one).
pub const MIGRATE_BATCH: usize = 512;
/// How often busy pages are tried again together before each is tried by itself (Linux: `NR_MAX_MIGRATE_ASYNC_RETRY`).
const ROUNDS: u32 = 3;

/// A page between two frames. Its old frame is locked and isolated.
#[derive(Debug)]
struct Move<'m, P: Machine> {
    page: Isolated,
    lock: PageLock<'m, P>,
    target: Frame,
}

/// The same for a huge page.
#[derive(Debug)]
struct HugeMove<'m, P: Machine> {
    page: Isolated,
    lock: PageLock<'m, P>,
    target: HugeFrame,
}

/// Pages on their way to one node.
pub(crate) struct Journey {
    to: NodeId,
    /// The pages may arrive while CPUs still read their old frames.
    lazily: bool,
    /// Whether the migration pays for frames.
    pay: Pay,
    pub(crate) moved: Cell<u64>,
    /// The node has no frame left.
    pub(crate) full: Cell<bool>,
    /// Pages that are in use.
    busy: RefCell<Vec<Isolated>>,
    /// Pages for which the node has no room.
    homeless: RefCell<Vec<Isolated>>,
}

impl Journey {
    pub(crate) fn to(to: NodeId) -> Self {
        Self {
            to,
            lazily: true,
            pay: Pay::Always,
            moved: Cell::new(0),
            full: Cell::new(false),
            busy: RefCell::default(),
            homeless: RefCell::default(),
        }
    }
}

impl<P: Machine> Memory<P> {
    /// Moves a page to the node of the CPU that uses it, if that is easy. The page is held, and put here.
    pub(crate) fn bring_near(&self, frame: FrameNumber) {
        let to = self.home();
        let shared = self.frames.get(frame).maps() > 1;
        let page = if shared { None } else { self.isolate_page(frame) };
        self.put(frame);
        let Some(page) = page else { return };
        // The task that faulted goes on to use the page.
        let journey = Journey { lazily: false, pay: Pay::IfWorthIt, ..Journey::to(to) };
        self.move_batch::<1>(core::iter::once(page), &journey, false);
        self.put_back(journey.busy.take().into_iter().chain(journey.homeless.take()));
        self.count(|share| &share.promoted, journey.moved.get());
    }

    /// Moves unused pages to a slower node; returns how many moved. The others are put in `left`.
    pub(crate) fn demote(
        &self,
        pages: impl Iterator<Item = Isolated>,
        to: NodeId,
        left: &mut Vec<Isolated>,
    ) -> u64 {
        let journey = Journey { pay: Pay::IfWorthIt, ..Journey::to(to) };
        self.move_batch::<BATCH>(pages, &journey, false);
        left.append(&mut journey.busy.borrow_mut());
        left.append(&mut journey.homeless.borrow_mut());
        self.count(|share| &share.demoted, journey.moved.get());
        journey.moved.get()
    }

    /// Moves pages, with as many attempts as Linux makes; returns how many stayed because they were in use.
    pub(crate) fn travel(&self, pages: &mut Vec<Isolated>, journey: &Journey) -> u64 {
        for _ in 0..ROUNDS {
            if pages.is_empty() {
                break;
            }
            self.move_batch::<MIGRATE_BATCH>(pages.drain(..), journey, false);
            core::mem::swap(pages, &mut journey.busy.borrow_mut());
        }
        for page in pages.drain(..) {
            self.move_batch::<1>(core::iter::once(page), journey, true);
        }
        let busy = journey.busy.take();
        let size = |page: &Isolated| if self.frames.get(page.number()).huge() { HUGE_FRAMES } else { 1 };
        let count = busy.iter().map(|page| u64::from(size(page))).sum();
        self.put_back(busy.into_iter().chain(journey.homeless.take()));
        count
    }

    /// Moves pages with one flush for each `N` of them.
    fn move_batch<const N: usize>(
        &self,
        pages: impl Iterator<Item = Isolated>,
        journey: &Journey,
        patient: bool,
    ) {
        let mut pages = pages.peekable();
        let from = pages.peek().map(|page| self.frames.get(page.number()).node());
        let schedule = self.schedule(journey.lazily && from.is_some_and(|node| self.may_owe(node)));
        let mut batch: Batch<'_, P, Move<'_, P>, _, N> =
            Batch::new(&self.engine, schedule, |page| self.arrive(page, journey));
        for page in pages {
            self.platform().work(Work::MigratePage, 1);
            let lock =
                if patient { Some(self.lock_page(page.number())) } else { self.try_lock_page(page.number()) };
            let Some(lock) = lock else {
                journey.busy.borrow_mut().push(page);
                continue;
            };
            if self.frames.get(page.number()).place().is_none() {
                // The page has left its file. Its last holder frees it.
                drop(lock);
                self.put_back(core::iter::once(page));
                continue;
            }
            if self.frames.get(page.number()).huge() {
                self.move_huge(page, lock, journey, schedule);
                continue;
            }
            let Some(target) = self.allocate_on(journey.to, journey.pay) else {
                journey.full.set(true);
                drop(lock);
                journey.homeless.borrow_mut().push(page);
                continue;
            };
            let frame = page.number();
            let mut moving = batch.take(Move { page, lock, target });
            let locked = self.begin_move(frame, &mut moving);
            moving.release_in_debt(self.condition(frame, locked));
            if self.config.schedule == Schedule::PerPage {
                // As before batches existed: a page arrives before the next one is unmapped.
                batch.flush();
            }
        }
    }

    /// Marks every entry that leads to a page as moving; returns whether one of the mappings is locked.
    fn begin_move<T, R: FnMut(Owed<T>), const N: usize>(
        &self,
        frame: FrameNumber,
        moving: &mut Unmapping<'_, '_, P, T, R, N>,
    ) -> bool {
        let mut locked = false;
        if self.frames.get(frame).maps() == 0 {
            return locked;
        }
        self.for_each_mapping(frame, |mapper, leaf, address| {
            let old = leaf.replace_in(moving, address, Entry::begin_move);
            self.unmapped_isolated(old);
            locked |= mapper.locked;
        });
        locked
    }

    /// Makes every entry that is moving away from `from` lead to `to`. If the page stays, both are the same frame.
    fn end_move(&self, from: FrameNumber, to: FrameNumber) {
        let info = self.frames.get(to);
        let Some(place) = info.place() else { return };
        self.for_each_place(place, |_, leaf, address| {
            let entry = leaf.get(address);
            if entry.is_moving() && entry.frame() == from {
                info.hold();
                info.mapped();
                leaf.put_back(address, entry.end_move(to));
            }
        });
    }

    /// The same while CPUs may still read `from`: no entry leads a CPU to `to` before that debt is settled.
    fn end_move_owing(&self, from: FrameNumber, to: FrameNumber) {
        let info = self.frames.get(to);
        let Some(place) = info.place() else { return };
        let anonymous = place.0.is_anonymous();
        self.for_each_place(place, |_, leaf, address| {
            let entry = leaf.get(address);
            if !entry.is_moving() || entry.frame() != from {
                return;
            }
            if anonymous {
                info.hold();
                info.mapped();
                leaf.note(address, entry.end_move_owing(to));
            } else {
                // The page is found in its file.
                leaf.note(address, Entry::NONE);
            }
        });
    }

    /// The number of references to an unmapped page that only its isolation and its cache, if it has one, hold.
    pub(crate) fn unused(&self, frame: FrameNumber) -> u32 {
        let info = self.frames.get(frame);
        let cached = match info.place() {
            Some((object, _)) => !object.is_anonymous() || info.slot().is_some(),
            None => false,
        };
        1 + u32::from(cached)
    }

    /// Copies an unmapped page that no CPU can store to, and maps the copy. If CPUs may still read the old frame, the
    /// copy can only be found in its cache.
    fn arrive(&self, page: Owed<Move<'_, P>>, journey: &Journey) {
        let (from, to) = (page.get().page.number(), page.get().target.number());
        let references = self.unused(from);
        let info = self.frames.get(from);
        if info.place().is_none() || !info.take(references) {
            let Move { page, lock, target } = self.engine.pay(page);
            self.end_move(from, from);
            drop(lock);
            self.free(target);
            journey.busy.borrow_mut().push(page);
            return;
        }
        let mut stamp = Stamp::SETTLED;
        let Move { page, lock, target } = page.leave_in(&mut stamp);
        // From here on no task can take hold of the page: a task that finds it in its cache waits for its lock.
        let (block, owing) = (self.block_of(from), stamp != Stamp::SETTLED);
        if !owing {
            self.left(from, stamp, block);
        }
        self.copy(from, to, 1);
        let arriving = self.take_over(from, target.into_number(), references, stamp);
        if owing {
            // Only now, after the slot says so: until then no task that looked there was told of a copy.
            self.left(from, stamp, block);
        }
        self.let_arrive(from, to, stamp);
        info.orphan();
        drop((lock, arriving));
        self.free_owed(Owed::new(Frame::owned(page.into_number()), stamp));
        // One of the references was the isolation's. Like that of a new page, it goes with the copy to the lists (Linux:
        // `folio_add_lru`).
        self.list_soon(to);
        journey.moved.set(journey.moved.get() + 1);
        self.count(|share| &share.migrated, 1);
    }

    fn let_arrive(&self, from: FrameNumber, to: FrameNumber, stamp: Stamp) {
        if stamp == Stamp::SETTLED {
            self.end_move(from, to);
        } else {
            self.end_move_owing(from, to);
        }
    }

    /// Puts the copy of a page in its place in every respect except translations. The copy stays locked until they are
    /// installed too, because a write-out must find every entry through which the page can be stored to.
    fn take_over(
        &self,
        from: FrameNumber,
        to: FrameNumber,
        references: u32,
        stamp: Stamp,
    ) -> Option<PageLock<'_, P>> {
        let (old, new) = (self.frames.get(from), self.frames.get(to));
        let (object, index) = old.place()?;
        let platform = self.platform();
        new.adopt(object, index, references, 0, old.lru());
        let lock = self.try_lock_page(to);
        if old.dirty() {
            new.set_dirty();
        }
        if let Some(slot) = old.slot() {
            new.set_slot(Some(slot));
            let mut cache = self.swap.cache.lock(platform);
            cache.replace(slot, from, to, stamp);
            self.outdated(from, Block { store: Store::Swap, index: slot });
            drop(cache);
            old.set_slot(None);
        } else if !object.is_anonymous() {
            let mut pages = self.objects.get(object).pages.lock(platform);
            pages.replace(index, from, to, stamp);
            self.outdated(from, Block { store: Store::File(object), index });
        }
        lock
    }

    /// Moves a huge page, with a flush of its own if it needs one.
    fn move_huge(&self, page: Isolated, lock: PageLock<'_, P>, journey: &Journey, schedule: Schedule) {
        let from = page.number();
        let mark = self.nodes[journey.to.index()].watermarks.min;
        let Some(target) = self.allocate_huge(journey.to, mark, journey.pay) else {
            journey.full.set(true);
            drop(lock);
            journey.homeless.borrow_mut().push(page);
            return;
        };
        let mut stored = false;
        self.for_each_mapping(from, |_, leaf, address| stored |= leaf.get(address).writable());
        // A huge page that must be flushed anyway is flushed by itself, without any other translation.
        let schedule = if schedule == Schedule::Lazy && !stored { schedule } else { Schedule::PerPage };
        let mut batch: Batch<'_, P, HugeMove<'_, P>, _, 1> =
            Batch::new(&self.engine, schedule, |page| self.arrive_huge(page, journey));
        let mut moving = batch.take(HugeMove { page, lock, target });
        let locked = self.begin_move(from, &mut moving);
        moving.release_in_debt(self.condition(from, locked));
    }

    /// The same as [`Memory::arrive`] for a huge page.
    fn arrive_huge(&self, page: Owed<HugeMove<'_, P>>, journey: &Journey) {
        let (from, to) = (page.get().page.number(), page.get().target.number());
        let info = self.frames.get(from);
        // The page may have been split after it was checked. Then only its first small page is left here.
        if !info.huge() || !info.take(1) {
            let HugeMove { page, lock, target } = self.engine.pay(page);
            self.end_move(from, from);
            drop(lock);
            self.free_huge(target);
            journey.busy.borrow_mut().push(page);
            return;
        }
        let mut stamp = Stamp::SETTLED;
        let HugeMove { page, lock, target } = page.leave_in(&mut stamp);
        huge_frames(from).for_each(|frame| self.left(frame, stamp, None));
        self.copy(from, to, HUGE_FRAMES);
        let arriving = self.take_over(from, target.into_number(), 1, stamp);
        self.frames.get(to).set_huge(true);
        self.let_arrive(from, to, stamp);
        info.orphan();
        drop((lock, arriving));
        info.set_huge(false);
        self.free_huge_owed(Owed::new(HugeFrame::owned(page.into_number()), stamp));
        self.list_soon(to);
        journey.moved.set(journey.moved.get() + u64::from(HUGE_FRAMES));
        self.count(|share| &share.migrated, u64::from(HUGE_FRAMES));
        self.count(|share| &share.migrated_huge, 1);
    }
}
