//! The oracle: it knows every TLB and every page table, and reports each broken rule.
//!
//! It looks at the machine's state itself, and shares nothing with the engine's bookkeeping. If a rule forbids a CPU
//! an access, the oracle does not wait for the access. It checks at each moment that matters: when a frame is freed, a
//! translation becomes visible, an operation returns, or a write-out begins. It then checks all entries that the CPUs
//! running the space may still hold: every entry that they filled and that was not invalidated since. It does not
//! matter whether a TLB was too small to keep the entry, because no code may rely on that. An entry counts as
//! reachable on a CPU that has the space loaded under the entry's ASID and is not lazy. On any other CPU it is
//! forbidden from then on, and the rule is broken if the CPU comes back to the space without having invalidated it. In
//! addition, each access that hits is checked against the history of its frame.
//!
//! A frame that was released in debt may still be read through read-only entries. This ends when the frame is
//! allocated again or when another copy of its page can be found, and at the latest at the engine's bounds.
//!
//! The oracle has its own clock, which ticks at each fill and each free of a frame. An entry of any size that was
//! filled before its frame's last free is from before that free.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use ceasefire::{AddressSpace, PageSize};
use ceasefire_memory::{Block, Event, Protection, Store, PAGE_SHIFT};

use crate::hardware::numbers::HUGE_PAGES;
use crate::hardware::tlb::{Cached, Fill};
use crate::oracle::debts::Debts;
use crate::oracle::numbered::Numbered;
use crate::oracle::record::{Held, Holding, Record};
use crate::oracle::rule::{Rule, Violation};
use crate::oracle::view::{Translation, View};
use crate::oracle::ways::Ways;

/// The number of violations of each rule that are stored. Later ones are only counted.
const KEPT: usize = 16;

/// A system call that is under way.
#[derive(Debug, Default)]
struct Call {
    /// The moment at which it began.
    began: u64,
    /// The pages, by size, whose translations the call has withdrawn while a CPU could hold one that was filled since the
    /// call began, and the moment of the last time.
    withdrawn: BTreeMap<(PageSize, u64), u64>,
}

impl Call {
    /// Whether the call answers for an entry: CPUs have held it since before the call, or since before the call withdrew
    /// its translation. An entry from later may be about to be removed by another operation, which answers for it.
    fn answers_for(&self, holding: &Holding) -> bool {
        let withdrawn = || self.withdrawn.get(&(holding.size, holding.page));
        holding.held.filled <= self.began || withdrawn().is_some_and(|&moment| holding.held.filled <= moment)
    }
}

/// The oracle.
#[derive(Debug)]
pub(crate) struct Oracle {
    record: RefCell<Record>,
    clock: Cell<u64>,
    ways: RefCell<Ways>,
    debts: RefCell<Debts>,
    /// The system calls under way, by thread.
    calls: RefCell<Numbered<Call>>,
    /// For each CPU, the number of allocations under way on it that must not wait.
    atomic: Box<[Cell<u32>]>,
    violations: Cell<u64>,
    kept: RefCell<Vec<Violation>>,
    stale_hits: Cell<u64>,
}

impl Oracle {
    pub(crate) fn new(frames: u32, cpus: usize) -> Self {
        Self {
            record: RefCell::new(Record::new(frames, cpus)),
            ways: RefCell::new(Ways::new(cpus)),
            debts: RefCell::default(),
            clock: Cell::new(0),
            calls: RefCell::default(),
            atomic: vec![Cell::new(0); cpus].into(),
            violations: Cell::new(0),
            kept: RefCell::default(),
            stale_hits: Cell::new(0),
        }
    }

    pub(crate) fn violations(&self) -> u64 {
        self.violations.get()
    }

    pub(crate) fn kept(&self) -> Vec<Violation> {
        self.kept.borrow().clone()
    }

    pub(crate) fn stale_hits(&self) -> u64 {
        self.stale_hits.get()
    }

    /// The time of a fill or a free now: later than all before.
    pub(crate) fn tick(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }

    /// The moment at which a frame was last freed.
    fn freed_at(&self, frame: u32) -> u64 {
        self.record.borrow().freed_at(frame)
    }

    fn broken(&self, view: &impl View, rule: Rule, cpu: usize, address: Option<u64>, frame: u32) {
        self.violations.set(self.violations.get() + 1);
        let mut kept = self.kept.borrow_mut();
        if kept.iter().filter(|kept| kept.rule == rule).count() < KEPT {
            let time_ns = view.now_ns();
            kept.push(Violation { rule, cpu: cpu as u16, time_ns, address, frame });
        }
    }

    /// A CPU fills an entry.
    pub(crate) fn filled(&self, cpu: usize, page: u64, asid: u16, fill: &Fill) {
        self.record.borrow_mut().fill(cpu, page, asid, fill);
    }

    /// A CPU has loaded a root under an ASID: what it may hold under that ASID is of these tables, and it is allowed
    /// to use all of it.
    pub(crate) fn loads(&self, view: &impl View, cpu: usize, root: u32, asid: u16) {
        if self.record.borrow().has_others(cpu, asid, root) {
            self.broken(view, Rule::Tag, cpu, None, root);
        }
        self.comes_back(view, cpu, asid);
    }

    /// A CPU goes on in the space that it has loaded.
    pub(crate) fn runs(&self, view: &impl View, cpu: usize) {
        if view.root(cpu).is_some() {
            self.comes_back(view, cpu, view.asid(cpu));
        }
    }

    /// A CPU may use its entries under an ASID again.
    fn comes_back(&self, view: &impl View, cpu: usize, asid: u16) {
        for (page, frame, rule) in self.record.borrow_mut().take_forbidden(cpu, asid) {
            self.broken(view, rule, cpu, Some(page << PAGE_SHIFT), frame);
        }
        for (page, table) in self.ways.borrow_mut().take_freed(cpu, asid) {
            self.broken(view, Rule::Table, cpu, Some(page << PAGE_SHIFT), table);
        }
        self.debts.borrow_mut().come_into_reach();
        let nodes = self.debts.borrow().nodes();
        for node in nodes {
            self.bound_count(view, node);
        }
    }

    /// A CPU waits for others with interrupts off.
    pub(crate) fn waits(&self, view: &impl View, cpu: usize) {
        self.broken(view, Rule::NoWait, cpu, None, 0);
    }

    /// A CPU begins to wait for a flush, with interrupts on or for the hardware. No allocation that must not wait may be
    /// under way on it.
    pub(crate) fn waits_for_flush(&self, view: &impl View, cpu: usize) {
        if self.atomic[cpu].get() > 0 {
            self.waits(view, cpu);
        }
    }

    /// A timer ticks. No CPU may use an entry to a frame whose debt is too old by now: now, or when it comes back to the
    /// entry's space.
    pub(crate) fn ticks(&self, view: &impl View) {
        let oldest = view.now_ns().saturating_sub(view.oldest_debt_ns());
        let older = || self.debts.borrow_mut().take_older(oldest);
        for frame in std::iter::from_fn(older) {
            self.out_of_reach(view, frame, Rule::Bounded, |_| true);
        }
    }

    /// The frames of a node in debt must not be too many.
    fn bound_count(&self, view: &impl View, node: usize) {
        let last = Cell::new(0);
        let is_in_debt = |frame| {
            let is_in_reach = self.is_in_reach(view, frame);
            if is_in_reach {
                last.set(frame);
            }
            is_in_reach
        };
        if self.debts.borrow_mut().are_too_many(node, view.most_owing(node), is_in_debt) {
            self.broken(view, Rule::Bounded, view.this_cpu(), None, last.get());
        }
    }

    /// A thread enters the kernel.
    pub(crate) fn called(&self, thread: usize) {
        let call = Call { began: self.clock.get(), ..Call::default() };
        self.calls.borrow_mut().insert(thread as u32, call);
    }

    /// A thread leaves the kernel.
    pub(crate) fn left(&self, thread: usize) {
        self.calls.borrow_mut().remove(&(thread as u32));
    }

    /// A CPU's entries for a page, or all under an ASID, were invalidated.
    pub(crate) fn invalidated(&self, cpu: usize, asid: u16, page: Option<u64>) {
        let mut record = self.record.borrow_mut();
        if let Some(page) = page {
            record.forget_page(cpu, asid, page);
        } else {
            record.forget_asid(cpu, asid, self.clock.get());
            self.dropped_ways(cpu, asid);
        }
    }

    /// A CPU's walker dropped all ways to tables under an ASID.
    pub(crate) fn dropped_ways(&self, cpu: usize, asid: u16) {
        self.ways.borrow_mut().drop_all(cpu, asid, self.clock.get());
    }

    /// A CPU's walker dropped the ways to a page's tables under an ASID.
    pub(crate) fn dropped_way(&self, cpu: usize, asid: u16, page: u64) {
        self.ways.borrow_mut().drop_page(cpu, asid, page);
    }

    /// All entries of a CPU were invalidated.
    pub(crate) fn invalidated_all(&self, cpu: usize) {
        self.record.borrow_mut().forget_all(cpu, self.clock.get());
        self.ways.borrow_mut().drop_everything(cpu, self.clock.get());
    }

    /// The entries for pages under an ASID were invalidated on all CPUs. Only `cpus` may have held any.
    pub(crate) fn invalidated_everywhere(
        &self,
        cpus: impl Iterator<Item = usize>,
        asid: u16,
        pages: impl Iterator<Item = u64>,
    ) {
        self.record.borrow_mut().forget_pages(cpus, asid, pages);
    }

    /// The pages for which a CPU may hold entries under an ASID, and the frames to which these lead: the first `most`.
    /// Of a huge entry, the first page in the range counts.
    pub(crate) fn held_frames(
        &self,
        cpu: usize,
        asid: u16,
        pages: Range<u64>,
        most: usize,
    ) -> Vec<(u64, u32)> {
        self.record.borrow_mut().frames_of(cpu, asid, pages, most)
    }

    /// A CPU used an entry for a page.
    pub(crate) fn hit(&self, view: &impl View, cpu: usize, page: u64, entry: &Cached) {
        let (address, frame) = (Some(page << PAGE_SHIFT), entry.frame(page));
        if entry.filled < self.freed_at(frame) {
            self.broken(view, Rule::Frame, cpu, address, frame);
        } else if view.root(cpu) != Some(entry.root) {
            self.broken(view, Rule::Tag, cpu, address, frame);
        } else if view.translation(entry.root, page).is_none_or(|now| now.frame != frame) {
            self.stale_hits.set(self.stale_hits.get() + 1);
            let since = self.debts.borrow().since(frame).unwrap_or(u64::MAX);
            if view.now_ns().saturating_sub(since) > view.oldest_debt_ns() {
                self.broken(view, Rule::Bounded, cpu, address, frame);
            }
        }
    }

    /// A CPU's walker has read the way to the table of a page at a level, and may remember it.
    pub(crate) fn remembers(&self, cpu: usize, asid: u16, of: (u64, u32), table: u32) {
        self.ways.borrow_mut().read(cpu, asid, of, table, || self.tick());
    }

    /// A walker used a path to a page-table page that was cached at `filled`.
    pub(crate) fn walked(&self, view: &impl View, cpu: usize, page: u64, table: u32, filled: u64) {
        if filled < self.freed_at(table) {
            self.broken(view, Rule::Table, cpu, Some(page << PAGE_SHIFT), table);
        }
    }

    pub(crate) fn observe(&self, view: &impl View, event: Event<'_>) {
        match event {
            Event::FrameFreed(frame) => self.freed(view, frame.get()),
            Event::FrameAllocated(frame) => {
                // An owing frame was not reported as freed.
                if self.debts.borrow().since(frame.get()).is_some() {
                    self.freed(view, frame.get());
                }
            }
            Event::Left { frame, block } => self.leaves(view, frame.get(), block),
            Event::Settled { store, first, last } => self.settled(view, store, first, last),
            Event::HoleFilled { .. } => {}
            Event::Withdrawn { space, address, size } => {
                self.withdrawn(view, space, address >> PAGE_SHIFT, size);
            }
            Event::Atomic { begins } => {
                let under_way = &self.atomic[view.this_cpu()];
                under_way.set(if begins { under_way.get() + 1 } else { under_way.get().saturating_sub(1) });
            }
            Event::TableFreed(table) => self.table_freed(view, table.get()),
            Event::Installed { space, address, frame, size } => {
                self.installed(view, space, address >> PAGE_SHIFT, frame.get(), size);
            }
            Event::Returned { space, start, end, allowed } => self.returned(view, space, start, end, allowed),
            Event::Cleaned { space, start, end } => self.cleaned(view, space, start, end),
            Event::WriteOut(frame) => {
                self.out_of_reach(view, frame.get(), Rule::Clean, |held| held.writable && held.dirty);
            }
            Event::Superseded(frame) => self.out_of_reach(view, frame.get(), Rule::OneVersion, |_| true),
        }
    }

    /// A frame is freed: no CPU may reach it.
    fn freed(&self, view: &impl View, frame: u32) {
        self.debts.borrow_mut().remove(frame);
        self.out_of_reach(view, frame, Rule::Frame, |_| true);
        self.record.borrow_mut().freed(frame, self.tick());
    }

    /// A frame is released in debt: no entry that a CPU may hold for it may allow stores, and the frames in debt must not
    /// be too many.
    fn leaves(&self, view: &impl View, frame: u32, block: Option<Block>) {
        self.out_of_reach(view, frame, Rule::Clean, |held| held.writable);
        let node = view.node_of(frame);
        self.debts.borrow_mut().add(frame, node, view.now_ns(), block);
        self.bound_count(view, node);
    }

    /// Pages of a store can be found from now on: no CPU may read an older copy.
    fn settled(&self, view: &impl View, store: Store, first: u32, last: u32) {
        let older = || self.debts.borrow_mut().take_copy(store, first, last);
        for frame in std::iter::from_fn(older) {
            self.out_of_reach(view, frame, Rule::OneVersion, |_| true);
        }
    }

    /// A page-table page of any level is freed. No CPU, lazy CPUs included, may have it as its root, and no walker may
    /// remember the way to it: now, or when its CPU loads the space again.
    fn table_freed(&self, view: &impl View, table: u32) {
        for cpu in (0..view.cpu_count()).filter(|&cpu| view.root(cpu) == Some(table)) {
            self.broken(view, Rule::Table, cpu, None, table);
        }
        let remembered = self.ways.borrow_mut().free(table);
        for of in remembered {
            if view.root(of.cpu).is_some() && view.asid(of.cpu) == of.asid {
                self.broken(view, Rule::Table, of.cpu, Some(of.page() << PAGE_SHIFT), table);
            } else {
                self.ways.borrow_mut().forbid(of, table);
            }
        }
    }

    /// A translation becomes visible: no CPU may hold an entry of either size for any of its pages that leads to
    /// another frame. Other rights to the same frame are allowed.
    fn installed(&self, view: &impl View, space: &AddressSpace, page: u64, frame: u32, size: PageSize) {
        let (root, record) = (root_of(space), self.record.borrow());
        // The size of an entry does not matter: the distance from page to frame is the same.
        let differs =
            |holding: &Holding| u64::from(holding.held.frame) + page != u64::from(frame) + holding.page;
        let found = |holding: Holding| {
            let page = holding.page.max(page);
            Found { rule: Rule::OneTranslation, page, frame: holding.held.frame, holding }
        };
        let mut all: Vec<Found> = match size {
            PageSize::KIB_4 => record.small(root, page).filter(differs).map(found).collect(),
            _ => record.small_within(root, page..page + HUGE_PAGES).filter(differs).map(found).collect(),
        };
        all.extend(record.huge_within(root, page..page + 1).filter(differs).map(found));
        drop(record);
        // One of each CPU's is reported.
        all.sort_by_key(Found::slot);
        all.dedup_by_key(|found| found.slot());
        self.forbid(view, root, all);
    }

    /// The thread's system call withdraws the translation of a page. It answers for entries that were filled until now.
    fn withdrawn(&self, view: &impl View, space: &AddressSpace, page: u64, size: PageSize) {
        let Some(thread) = view.thread() else { return };
        let mut calls = self.calls.borrow_mut();
        let Some(Call { began, withdrawn }) = calls.get_mut(&(thread as u32)) else { return };
        let (root, record) = (root_of(space), self.record.borrow());
        let pages = page..page + (size.bytes() >> PAGE_SHIFT);
        let mut note = |holding: Holding| {
            if holding.held.filled > *began {
                withdrawn.insert((holding.size, holding.page), self.clock.get());
            }
        };
        match size {
            PageSize::KIB_4 => record.small(root, page).for_each(&mut note),
            _ => record.small_within(root, pages.clone()).for_each(&mut note),
        }
        record.huge_within(root, pages).for_each(note);
    }

    /// An operation on a range returns. Entries for the range that the thread's call [answers for](Call::answers_for)
    /// must agree with the current page tables.
    ///
    /// If loads are still allowed, only entries that allow stores are checked, since the flush of the others may
    /// still be owed.
    fn returned(&self, view: &impl View, space: &AddressSpace, start: u64, end: u64, allowed: Protection) {
        let pages = (start >> PAGE_SHIFT)..(end >> PAGE_SHIFT);
        let wrong = |old: &Held, frame: u32, now: Option<Translation>| match now {
            Some(now) => now.frame != frame || (old.writable && !now.writable),
            None => true,
        };
        let judged = |old: &Held| allowed == Protection::None || old.writable;
        self.check(view, root_of(space), &pages, Rule::Return, judged, wrong);
    }

    /// Pages of a range were told clean. An entry that the thread's call answers for must not let stores through that the
    /// page tables would not show.
    fn cleaned(&self, view: &impl View, space: &AddressSpace, start: u64, end: u64) {
        let pages = (start >> PAGE_SHIFT)..(end >> PAGE_SHIFT);
        let unseen = |_: &Held, frame: u32, now: Option<Translation>| {
            now.is_some_and(|now| now.frame == frame && !now.dirty)
        };
        let judged = |old: &Held| old.writable && old.dirty;
        self.check(view, root_of(space), &pages, Rule::Clean, judged, unseen);
    }

    /// No CPU may use an entry to `frame` that is judged wrong: now, or when it comes back to the entry's space.
    fn out_of_reach(&self, view: &impl View, frame: u32, rule: Rule, wrong: impl Fn(&Held) -> bool) {
        let mut all = Vec::new();
        self.record.borrow_mut().leading_to(frame, |page, holding| {
            if wrong(&holding.held) {
                all.push(Found { rule, page, frame, holding });
            }
        });
        self.forbid_if(view, all, |_| true);
    }

    /// Whether any CPU could use an entry to `frame`.
    fn is_in_reach(&self, view: &impl View, frame: u32) -> bool {
        let mut found = false;
        self.record.borrow_mut().leading_to(frame, |_, Holding { cpu, asid, .. }| {
            found |= usable(view, cpu, asid);
        });
        found
    }

    /// Finds the judged entries for a range of pages that are wrong, given the present translation of any of these
    /// pages, among those that the thread's system call answers for. Outside of a call all are.
    fn check(
        &self,
        view: &impl View,
        root: u32,
        pages: &Range<u64>,
        rule: Rule,
        judged: impl Fn(&Held) -> bool,
        wrong: impl Fn(&Held, u32, Option<Translation>) -> bool,
    ) {
        let (record, calls) = (self.record.borrow(), self.calls.borrow());
        let call = view.thread().and_then(|thread| calls.get(&(thread as u32)));
        let judged = |of: &Holding| judged(&of.held) && call.is_none_or(|call| call.answers_for(of));
        let all = record.small_within(root, pages.clone()).chain(record.huge_within(root, pages.clone()));
        let mut last = None;
        let mut now = |page| match last {
            Some((of, now)) if of == page => now,
            _ => last.insert((page, view.translation(root, page))).1,
        };
        let found = all.filter(judged).filter_map(|holding| {
            let Holding { size, page: first, held, .. } = holding;
            let end = first + (size.bytes() >> PAGE_SHIFT);
            (pages.start.max(first)..pages.end.min(end)).find_map(|page| {
                let frame = held.frame + (page - first) as u32;
                wrong(&held, frame, now(page)).then_some(Found { rule, page, frame, holding })
            })
        });
        let mut all: Vec<Found> = found.collect();
        drop((record, calls));
        all.sort_by_key(Found::slot);
        self.forbid(view, root, all);
    }

    /// No CPU may use these entries of a root: now, or when it comes back to the space.
    fn forbid(&self, view: &impl View, root: u32, all: Vec<Found>) {
        self.forbid_if(view, all, |cpu| view.root(cpu) == Some(root));
    }

    fn forbid_if(&self, view: &impl View, all: Vec<Found>, is_loaded: impl Fn(usize) -> bool) {
        for Found { rule, page, frame, holding } in all {
            let Holding { cpu, asid, .. } = holding;
            if is_loaded(cpu) && usable(view, cpu, asid) {
                self.broken(view, rule, cpu, Some(page << PAGE_SHIFT), frame);
            } else {
                self.record.borrow_mut().forbid(&holding, page, frame, rule);
            }
        }
    }
}

/// An entry that a CPU may hold and must not use.
struct Found {
    rule: Rule,
    /// The page for which it is wrong, and the frame to which it leads there.
    page: u64,
    frame: u32,
    holding: Holding,
}

impl Found {
    fn slot(&self) -> (usize, u16) {
        (self.holding.cpu, self.holding.asid)
    }
}

/// Whether a CPU could use the entries that it may hold under an ASID.
fn usable(view: &impl View, cpu: usize, asid: u16) -> bool {
    view.asid(cpu) == asid && view.root(cpu).is_some() && !view.is_lazy(cpu)
}

/// The frame of a space's top-level table.
fn root_of(space: &AddressSpace) -> u32 {
    (space.root().0 >> PAGE_SHIFT) as u32
}

#[cfg(test)]
mod tests;
