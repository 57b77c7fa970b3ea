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
//! A frame that was let go of owing may still be read through read-only entries. This ends when the frame is
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
use crate::oracle::holdings::{ByAsid, Held, Holdings};
use crate::oracle::numbered::Numbered;
use crate::oracle::place::Place;
use crate::oracle::reached::Reached;
use crate::oracle::rule::{Rule, Violation};
use crate::oracle::view::{Translation, View};

/// The number of violations of each rule that are stored. Later ones are only counted.
const KEPT: usize = 16;

/// The number of places of a frame from which on those without an entry are forgotten.
const LONG: usize = 128;

/// The oracle's record of a frame.
#[derive(Debug, Clone, Copy)]
struct History {
    /// The first place at which a small translation of it was cached since the frame was last freed.
    place: Place,
    /// The moment of the last free; 0 if it was never freed.
    freed: u64,
}

/// The oracle.
#[derive(Debug)]
pub(crate) struct Oracle {
    frames: RefCell<Box<[History]>>,
    /// The further places of the few frames with more than one.
    more: RefCell<Numbered<Vec<Place>>>,
    /// The places of huge translations, by the first frame.
    huge: RefCell<BTreeMap<u32, Vec<Place>>>,
    /// The translations that each CPU may hold.
    held: Box<[RefCell<ByAsid>]>,
    /// For each root, what CPUs have cached from its tables.
    reached: RefCell<BTreeMap<u32, Reached>>,
    clock: Cell<u64>,
    debts: RefCell<Debts>,
    /// For each thread in a system call, the moment at which it began.
    calls: RefCell<Numbered<u64>>,
    violations: Cell<u64>,
    kept: RefCell<Vec<Violation>>,
    stale_hits: Cell<u64>,
}

impl Oracle {
    pub(crate) fn new(frames: u32, cpus: usize) -> Self {
        let unused = History { place: Place::NOWHERE, freed: 0 };
        Self {
            frames: RefCell::new(vec![unused; frames as usize].into()),
            more: RefCell::default(),
            huge: RefCell::default(),
            held: (0..cpus).map(|_| RefCell::default()).collect(),
            reached: RefCell::default(),
            debts: RefCell::default(),
            clock: Cell::new(0),
            calls: RefCell::default(),
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
        self.frames.borrow()[frame as usize].freed
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
        let Fill { size, frame, filled, writable, dirty, .. } = *fill;
        let held = Held { filled, frame, writable, dirty };
        let is_new = {
            let mut all = self.held[cpu].borrow_mut();
            let all = all.under(asid);
            let others = all.root != fill.root && !all.is_empty();
            all.root = fill.root;
            let is_new = all.add(page, size, held);
            if is_new || others {
                let mut reached = self.reached.borrow_mut();
                let of_root = reached.entry(fill.root).or_default();
                of_root.add(page, size);
                if others {
                    of_root.mix();
                }
            }
            is_new
        };
        if !is_new {
            // Its place was recorded at the first fill.
            return;
        }
        if size == PageSize::MIB_2 {
            let place = Place::new(cpu, page & !(HUGE_PAGES - 1), asid);
            note(self.huge.borrow_mut().entry(frame).or_default(), place, |place| {
                self.huge_at(*place, frame).is_some()
            });
            return;
        }
        let place = Place::new(cpu, page, asid);
        let known = &mut self.frames.borrow_mut()[frame as usize].place;
        if *known == Place::NOWHERE {
            *known = place;
        } else if *known != place {
            note(self.more.borrow_mut().entry(frame).or_default(), place, |place| {
                self.small_at(*place, frame).is_some()
            });
        }
    }

    /// A CPU has loaded a root under an ASID: what it may hold under that ASID is of these tables, and it is allowed
    /// to use all of it.
    pub(crate) fn loads(&self, view: &impl View, cpu: usize, root: u32, asid: u16) {
        self.reached.borrow_mut().entry(root).or_default().slots.insert((cpu, asid));
        let others =
            self.held[cpu].borrow().get(asid).is_some_and(|held| !held.is_empty() && held.root != root);
        if others {
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
        let mut held = self.held[cpu].borrow_mut();
        for (page, frame, rule) in held.get_mut(asid).into_iter().flat_map(Holdings::take_forbidden) {
            self.broken(view, rule, cpu, Some(page << PAGE_SHIFT), frame);
        }
    }

    /// A CPU waits for others with interrupts off.
    pub(crate) fn waits(&self, view: &impl View, cpu: usize) {
        self.broken(view, Rule::NoWait, cpu, None, 0);
    }

    /// A thread enters the kernel.
    pub(crate) fn called(&self, thread: usize) {
        self.calls.borrow_mut().insert(thread as u32, self.clock.get());
    }

    /// A thread leaves the kernel.
    pub(crate) fn left(&self, thread: usize) {
        self.calls.borrow_mut().remove(&(thread as u32));
    }

    /// A CPU's entries for a page, or all under an ASID, were invalidated.
    pub(crate) fn invalidated(&self, cpu: usize, asid: u16, page: Option<u64>) {
        let mut held = self.held[cpu].borrow_mut();
        let Some(held) = held.get_mut(asid) else { return };
        match page {
            Some(page) => held.remove(page),
            None => held.clear(),
        }
    }

    /// All entries of a CPU were invalidated.
    pub(crate) fn invalidated_all(&self, cpu: usize) {
        self.held[cpu].take();
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
        let held = self.held[cpu].borrow();
        let Some(held) = held.get(asid) else { return Vec::new() };
        let first = |first: u64, held: Held| {
            let page = first.max(pages.start);
            (page, held.frame + (page - first) as u32)
        };
        let mut found: Vec<(u64, u32)> =
            held.small_within(pages.clone()).take(most).map(|(page, held)| (page, held.frame)).collect();
        found.extend(held.huge_within(pages.clone()).map(|(page, held)| first(page, held)));
        found.sort_unstable();
        found.truncate(most);
        found
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
        self.more.borrow_mut().remove(&frame);
        self.frames.borrow_mut()[frame as usize] = History { place: Place::NOWHERE, freed: self.tick() };
    }

    /// A frame is let go of owing: no entry that a CPU may hold for it may allow stores, and the frames in debt must not
    /// be too many.
    fn leaves(&self, view: &impl View, frame: u32, block: Option<Block>) {
        self.out_of_reach(view, frame, Rule::Clean, |held| held.writable);
        let node = view.node_of(frame);
        let mut debts = self.debts.borrow_mut();
        debts.add(frame, node, view.now_ns(), block);
        if debts.are_too_many(node, view.most_owing(node), |frame| self.is_in_reach(view, frame)) {
            self.broken(view, Rule::Bounded, view.this_cpu(), None, frame);
        }
    }

    /// Pages of a store can be found from now on: no CPU may read an older copy.
    fn settled(&self, view: &impl View, store: Store, first: u32, last: u32) {
        let older = || self.debts.borrow_mut().take_copy(store, first, last);
        for frame in std::iter::from_fn(older) {
            self.out_of_reach(view, frame, Rule::OneVersion, |_| true);
        }
    }

    /// A page-table page is freed. No CPU, lazy CPUs included, may have it as its root or in its walk cache.
    fn table_freed(&self, view: &impl View, table: u32) {
        for cpu in 0..view.cpu_count() {
            let Some(root) = view.root(cpu) else { continue };
            if root == table || view.may_walk(cpu, table) {
                self.broken(view, Rule::Table, cpu, None, table);
            }
        }
    }

    /// A translation becomes visible: no CPU may hold an entry of either size for any of its pages that leads to
    /// another frame. Other rights to the same frame are allowed.
    fn installed(&self, view: &impl View, space: &AddressSpace, page: u64, frame: u32, size: PageSize) {
        let is_new = |of_root: &Reached| size == PageSize::KIB_4 && of_root.is_new(page);
        if self.reached.borrow().get(&root_of(space)).is_none_or(is_new) {
            return;
        }
        // The size of an entry does not matter: the distance from page to frame is the same.
        let differs =
            |(held_page, held): &(u64, Held)| u64::from(held.frame) + page != u64::from(frame) + held_page;
        self.of_space(view, space, |held| {
            let small = |(held_page, held): (u64, Held)| (held_page, PageSize::KIB_4, held);
            let other = match size {
                PageSize::KIB_4 => held.small(page).map(|held| (page, held)).find(differs).map(small),
                _ => held.small_within(page..page + HUGE_PAGES).find(differs).map(small),
            };
            let huge = |(held_page, held): (u64, Held)| (held_page, PageSize::MIB_2, held);
            let other = other.or_else(|| held.huge_within(page..page + 1).find(differs).map(huge));
            let found = |(held_page, size, held): (u64, PageSize, Held)| Found {
                rule: Rule::OneTranslation,
                size,
                page: held_page.max(page),
                frame: held.frame,
            };
            other.map(found).into_iter().collect()
        });
    }

    /// An operation on a range returns. Entries for the range that CPUs have held since before the call must agree
    /// with the current page tables. A later entry may be about to be removed by another operation, which is
    /// responsible for it.
    ///
    /// If loads are still allowed, only entries that allow stores are checked, since the flush of the others may
    /// still be owed.
    fn returned(&self, view: &impl View, space: &AddressSpace, start: u64, end: u64, allowed: Protection) {
        let pages = (start >> PAGE_SHIFT)..(end >> PAGE_SHIFT);
        let began = self.began(view);
        let wrong = |old: &Held, frame: u32, now: Option<Translation>| match now {
            Some(now) => now.frame != frame || (old.writable && !now.writable),
            None => true,
        };
        let judged = |old: &Held| old.filled <= began && (allowed == Protection::None || old.writable);
        self.of_space(view, space, |held| {
            disagreeing(view, space, held, &pages, Rule::Return, judged, wrong)
        });
    }

    /// Pages of a range were told clean. An entry that CPUs have held since before the call must not let stores
    /// through that the page tables would not show.
    fn cleaned(&self, view: &impl View, space: &AddressSpace, start: u64, end: u64) {
        let pages = (start >> PAGE_SHIFT)..(end >> PAGE_SHIFT);
        let began = self.began(view);
        let unseen = |_: &Held, frame: u32, now: Option<Translation>| {
            now.is_some_and(|now| now.frame == frame && !now.dirty)
        };
        let judged = |old: &Held| old.filled <= began && old.writable && old.dirty;
        self.of_space(view, space, |held| {
            disagreeing(view, space, held, &pages, Rule::Clean, judged, unseen)
        });
    }

    /// The moment at which the thread's system call began.
    fn began(&self, view: &impl View) -> u64 {
        view.thread()
            .and_then(|thread| self.calls.borrow().get(&(thread as u32)).copied())
            .unwrap_or(u64::MAX)
    }

    /// No CPU may use an entry to `frame` that is judged wrong: now, or when it comes back to the entry's space.
    fn out_of_reach(&self, view: &impl View, frame: u32, rule: Rule, wrong: impl Fn(&Held) -> bool) {
        self.holding(frame, |place, size, page, held| {
            if !wrong(&held) {
            } else if usable(view, place.cpu(), place.asid()) {
                self.broken(view, rule, place.cpu(), Some(page << PAGE_SHIFT), frame);
            } else if let Some(held) = self.held[place.cpu()].borrow_mut().get_mut(place.asid()) {
                held.forbid(page, size, frame, rule);
            }
        });
    }

    /// Whether any CPU could use an entry to `frame`.
    fn is_in_reach(&self, view: &impl View, frame: u32) -> bool {
        let mut found = false;
        self.holding(frame, |place, _, _, _| found |= usable(view, place.cpu(), place.asid()));
        found
    }

    /// Calls `visit` for each entry to `frame` that a CPU may hold: with its place, its size, the page for which it
    /// leads there, and the entry.
    fn holding(&self, frame: u32, mut visit: impl FnMut(Place, PageSize, u64, Held)) {
        let mut small = |place: Place| {
            if let Some(held) = self.small_at(place, frame) {
                visit(place, PageSize::KIB_4, place.page(), held);
            }
        };
        let first = self.frames.borrow()[frame as usize].place;
        if first != Place::NOWHERE {
            small(first);
        }
        if let Some(more) = self.more.borrow().get(&frame) {
            more.iter().copied().for_each(small);
        }
        let offset = frame & (HUGE_PAGES as u32 - 1);
        let mut huge = self.huge.borrow_mut();
        let Some(places) = huge.get_mut(&(frame - offset)) else { return };
        places.retain(|place| {
            let found = self.huge_at(*place, frame - offset);
            if let Some(held) = found {
                visit(*place, PageSize::MIB_2, place.page() + u64::from(offset), held);
            }
            // Its frames are freed one by one, so a place is forgotten only here.
            found.is_some()
        });
        if places.is_empty() {
            huge.remove(&(frame - offset));
        }
    }

    /// The small entry to `frame` that a CPU may hold at a place.
    fn small_at(&self, place: Place, frame: u32) -> Option<Held> {
        let held = self.held[place.cpu()].borrow();
        let mut of_page = held.get(place.asid())?.small(place.page());
        of_page.find(|held| held.frame == frame)
    }

    /// The huge entry to `frame` and those after it that a CPU may hold at a place.
    fn huge_at(&self, place: Place, frame: u32) -> Option<Held> {
        let held = self.held[place.cpu()].borrow();
        let mut of_page = held.get(place.asid())?.huge(place.page());
        of_page.find(|held| held.frame == frame)
    }

    /// Calls `find` with all entries of `space` that each CPU may hold. No CPU may use those that it returns: now, or
    /// when it comes back to the space.
    fn of_space(&self, view: &impl View, space: &AddressSpace, find: impl Fn(&Holdings) -> Vec<Found>) {
        let root = root_of(space);
        let mut reached = self.reached.borrow_mut();
        let Some(of_root) = reached.get_mut(&root) else { return };
        of_root.slots.retain(|&(cpu, asid)| {
            let mut held = self.held[cpu].borrow_mut();
            let loaded = view.root(cpu) == Some(root) && view.asid(cpu) == asid;
            let Some(held) = held.get_mut(asid).filter(|held| held.root == root && !held.is_empty()) else {
                return loaded;
            };
            for Found { rule, size, page, frame } in find(held) {
                if loaded && usable(view, cpu, asid) {
                    self.broken(view, rule, cpu, Some(page << PAGE_SHIFT), frame);
                } else {
                    held.forbid(page, size, frame, rule);
                }
            }
            true
        });
        if of_root.slots.is_empty() {
            reached.remove(&root);
        }
    }
}

/// An entry that a CPU may hold and must not use.
struct Found {
    rule: Rule,
    size: PageSize,
    /// The page for which it is wrong, and the frame to which it leads there.
    page: u64,
    frame: u32,
}

/// Whether a CPU could use the entries that it may hold under an ASID.
fn usable(view: &impl View, cpu: usize, asid: u16) -> bool {
    view.asid(cpu) == asid && view.root(cpu).is_some() && !view.is_lazy(cpu)
}

/// The frame of a space's top-level table.
fn root_of(space: &AddressSpace) -> u32 {
    (space.root().0 >> PAGE_SHIFT) as u32
}

/// Adds a place, unless it is already known. A list that would become long forgets places without an entry first, so a
/// frame that is mapped again and again, and never freed, does not have more and more of them.
fn note(places: &mut Vec<Place>, place: Place, is_held: impl FnMut(&Place) -> bool) {
    if places.contains(&place) {
        return;
    }
    if places.len() >= LONG && places.len() == places.capacity() {
        places.retain(is_held);
        places.reserve(places.len());
    }
    places.push(place);
}

/// The judged entries of a range of pages that are wrong, given the present translation of any of these pages.
fn disagreeing(
    view: &impl View,
    space: &AddressSpace,
    held: &Holdings,
    pages: &Range<u64>,
    rule: Rule,
    judged: impl Fn(&Held) -> bool,
    wrong: impl Fn(&Held, u32, Option<Translation>) -> bool,
) -> Vec<Found> {
    let small = held.small_within(pages.clone()).map(|(page, old)| (page, PageSize::KIB_4, 1, old));
    let huge = held.huge_within(pages.clone()).map(|(first, old)| (first, PageSize::MIB_2, HUGE_PAGES, old));
    let all = small.chain(huge).filter(|(.., old)| judged(old));
    let found = all.filter_map(|(at, size, count, old)| {
        (pages.start.max(at)..pages.end.min(at + count)).find_map(|page| {
            let frame = old.frame + (page - at) as u32;
            let now = view.translation(root_of(space), page);
            wrong(&old, frame, now).then_some(Found { rule, size, page, frame })
        })
    });
    found.collect()
}

#[cfg(test)]
mod tests;
