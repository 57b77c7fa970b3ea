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
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use ceasefire::{AddressSpace, PageSize};
use ceasefire_memory::{Block, Event, Protection, Store, PAGE_SHIFT};

use crate::hardware::numbers::HUGE_PAGES;
use crate::hardware::tlb::{Cached, Fill};
use crate::oracle::holdings::{ByAsid, Held, Holdings};
use crate::oracle::place::Place;
use crate::oracle::rule::{Rule, Violation};
use crate::oracle::view::{Translation, View};

/// The number of violations of each rule that are stored. Later ones are only counted.
const KEPT: usize = 16;

/// The oracle's record of a frame.
#[derive(Debug, Clone, Copy)]
struct History {
    /// The first place at which a small translation of it was cached since the frame was last freed.
    place: Place,
    /// The moment of the last free; 0 if it was never freed.
    freed: u64,
}

/// A frame that was let go of owing, which CPUs may still read.
#[derive(Debug, Clone, Copy)]
struct Left {
    /// The moment at which it was let go, in nanoseconds.
    since: u64,
    block: Option<Block>,
}

/// The oracle.
#[derive(Debug)]
pub(crate) struct Oracle {
    frames: RefCell<Box<[History]>>,
    /// The further places of the few frames with more than one.
    more: RefCell<HashMap<u32, Vec<Place>>>,
    /// The places of huge translations, by the first frame.
    huge: RefCell<BTreeMap<u32, Vec<Place>>>,
    /// The translations that each CPU may hold.
    held: Box<[RefCell<ByAsid>]>,
    /// For each root, the CPUs that may hold translations of its tables, and under which ASID.
    slots: RefCell<BTreeMap<u32, BTreeSet<(usize, u16)>>>,
    clock: Cell<u64>,
    /// Frames that were let go of owing and have not been allocated since.
    left: RefCell<HashMap<u32, Left>>,
    /// For each block, the frames in `left` that held its page, until the page can be found elsewhere.
    left_blocks: RefCell<BTreeMap<Block, Vec<u32>>>,
    /// For each node, the number of its frames in `left`, and that at which the debts among them are next counted.
    left_of: RefCell<BTreeMap<usize, (usize, usize)>>,
    /// For each thread in a system call, the moment at which it began.
    calls: RefCell<HashMap<usize, u64>>,
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
            slots: RefCell::default(),
            left: RefCell::default(),
            left_blocks: RefCell::default(),
            left_of: RefCell::default(),
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
            all.root = fill.root;
            all.add(page, size, held)
        };
        if !is_new {
            // Its place was recorded at the first fill.
            return;
        }
        if size == PageSize::MIB_2 {
            let place = Place::new(cpu, page & !(HUGE_PAGES - 1), asid);
            note(self.huge.borrow_mut().entry(frame).or_default(), place);
            return;
        }
        let place = Place::new(cpu, page, asid);
        let known = &mut self.frames.borrow_mut()[frame as usize].place;
        if *known == Place::NOWHERE {
            *known = place;
        } else if *known != place {
            note(self.more.borrow_mut().entry(frame).or_default(), place);
        }
    }

    /// A CPU has loaded a root under an ASID: what it may hold under that ASID is of these tables, and it is allowed
    /// to use all of it.
    pub(crate) fn loads(&self, view: &impl View, cpu: usize, root: u32, asid: u16) {
        self.slots.borrow_mut().entry(root).or_default().insert((cpu, asid));
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
        self.calls.borrow_mut().insert(thread, self.clock.get());
    }

    /// A thread leaves the kernel.
    pub(crate) fn left(&self, thread: usize) {
        self.calls.borrow_mut().remove(&thread);
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
            let since = self.left.borrow().get(&frame).map_or(u64::MAX, |left| left.since);
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
                if self.left.borrow().contains_key(&frame.get()) {
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
        self.owes_no_more(view, frame);
        self.out_of_reach(view, frame, Rule::Frame, |_| true);
        self.more.borrow_mut().remove(&frame);
        self.frames.borrow_mut()[frame as usize] = History { place: Place::NOWHERE, freed: self.tick() };
    }

    /// Ends the debt of a frame that was let go of owing.
    fn owes_no_more(&self, view: &impl View, frame: u32) {
        let Some(left) = self.left.borrow_mut().remove(&frame) else { return };
        if let Some((count, _)) = self.left_of.borrow_mut().get_mut(&view.node_of(frame)) {
            *count -= 1;
        }
        if let Some(block) = left.block {
            let mut blocks = self.left_blocks.borrow_mut();
            if let Some(frames) = blocks.get_mut(&block) {
                frames.retain(|&other| other != frame);
                if frames.is_empty() {
                    blocks.remove(&block);
                }
            }
        }
    }

    /// A frame is let go of owing: no entry that a CPU may hold for it may allow stores.
    fn leaves(&self, view: &impl View, frame: u32, block: Option<Block>) {
        self.out_of_reach(view, frame, Rule::Clean, |held| held.writable);
        self.left.borrow_mut().insert(frame, Left { since: view.now_ns(), block });
        if let Some(block) = block {
            self.left_blocks.borrow_mut().entry(block).or_default().push(frame);
        }
        self.count_debts(view, frame);
    }

    /// Another frame of the node of `frame` was let go of owing. Those in debt, which a CPU can reach, must not be too
    /// many. They are fewer than those that were let go of, since a frame is not reported when its debt is settled. So
    /// they are counted only when they may have become too many.
    fn count_debts(&self, view: &impl View, frame: u32) {
        let node = view.node_of(frame);
        let most = view.most_owing(node);
        let due = {
            let mut left_of = self.left_of.borrow_mut();
            let (count, next) = left_of.entry(node).or_insert((0, most + 1));
            *count += 1;
            (*count >= *next).then_some(*count)
        };
        let Some(count) = due else { return };
        let left = self.left.borrow();
        let in_debt = left
            .keys()
            .filter(|&&frame| view.node_of(frame) == node && self.is_in_reach(view, frame))
            .count();
        if in_debt > most {
            self.broken(view, Rule::Bounded, view.this_cpu(), None, frame);
        }
        let next = count + most.saturating_sub(in_debt).max(most / 8) + 1;
        self.left_of.borrow_mut().insert(node, (count, next));
    }

    /// Pages of a store can be found from now on: no CPU may read an older copy.
    fn settled(&self, view: &impl View, store: Store, first: u32, last: u32) {
        loop {
            let (first, last) = (Block { store, index: first }, Block { store, index: last });
            let mut blocks = self.left_blocks.borrow_mut();
            let Some(block) = blocks.range(first..=last).next().map(|(&block, _)| block) else { break };
            let left = blocks.remove(&block);
            drop(blocks);
            for frame in left.into_iter().flatten() {
                self.out_of_reach(view, frame, Rule::OneVersion, |_| true);
            }
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
        view.thread().and_then(|thread| self.calls.borrow().get(&thread).copied()).unwrap_or(u64::MAX)
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
            let held = self.held[place.cpu()].borrow();
            let found = held
                .get(place.asid())
                .and_then(|held| held.small(place.page()).find(|held| held.frame == frame));
            drop(held);
            if let Some(held) = found {
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
            let held = self.held[place.cpu()].borrow();
            let mut of_page = held.get(place.asid()).into_iter().flat_map(|held| held.huge(place.page()));
            let found = of_page.find(|held| held.frame == frame - offset);
            drop(of_page);
            drop(held);
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

    /// Calls `find` with all entries of `space` that each CPU may hold. No CPU may use those that it returns: now, or
    /// when it comes back to the space.
    fn of_space(&self, view: &impl View, space: &AddressSpace, find: impl Fn(&Holdings) -> Vec<Found>) {
        let root = root_of(space);
        let mut slots = self.slots.borrow_mut();
        let Some(of_root) = slots.get_mut(&root) else { return };
        of_root.retain(|&(cpu, asid)| {
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
        if of_root.is_empty() {
            slots.remove(&root);
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

/// Adds a place, unless it is already known.
fn note(places: &mut Vec<Place>, place: Place) {
    if !places.contains(&place) {
        places.push(place);
    }
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
mod tests {
    use ceasefire::{Flush, Platform as _, Schedule};
    use ceasefire_memory::{FrameNumber, Machine as _};

    use super::*;
    use crate::hardware::numbers::KERNEL_ROOT;
    use crate::testing::{
        alone, broken, roomy, run_on, thread, Slot, FRAME, HIDDEN, PRESENT, US, USER, WRITABLE,
    };
    use crate::world::state::World;
    use crate::{Options, Program, Simulation};

    fn frame(offset: u32) -> FrameNumber {
        FrameNumber::new(FRAME + offset)
    }

    fn observe(program: &Program, event: Event<'_>) {
        program.sim.observe(event);
    }

    /// Reports to the oracle that a translation became visible.
    fn install(program: &Program, address: u64, to: FrameNumber, size: PageSize) {
        observe(program, Event::Installed { space: program.space.coherence(), address, frame: to, size });
    }

    /// Enters the kernel, runs `change`, and returns from an operation on one page.
    fn change_and_return(program: &Program, address: u64, change: impl FnOnce()) {
        program.system_call(|_, space| {
            change();
            let (start, end) = (address, address + 4096);
            let allowed = Protection::None;
            observe(program, Event::Returned { space: space.coherence(), start, end, allowed });
        });
    }

    /// Drops a page from the TLB, as the kernel does.
    fn flush(program: &Program, address: u64) {
        let sim = &program.sim;
        sim.forget_page(sim.here(), World::cpu(sim).asid.get(), address >> PAGE_SHIFT);
    }

    /// Runs a thread on a huge page that it has stored to.
    fn with_huge(body: impl FnOnce(&Program, Slot) + 'static) -> crate::Outcome {
        alone(move |program| {
            let huge = Slot::huge(program);
            program.store(huge.address, 1, 0).expect("a present entry");
            body(program, huge);
        })
    }

    #[test]
    fn freeing_a_frame_within_a_huge_page_that_a_cpu_holds_breaks_r1() {
        with_huge(|program, huge| {
            observe(program, Event::FrameFreed(frame(300)));
            assert_eq!(broken(program), [(Rule::Frame, Some(huge.at(300)))]);
            // A use of the freed frame is another violation. The neighbouring frames may be used.
            program.load(huge.at(299), 1).expect("a present entry");
            assert_eq!(broken(program).len(), 1);
            program.load(huge.at(300), 1).expect("a present entry");
            assert_eq!(broken(program)[1..], [(Rule::Frame, Some(huge.at(300)))]);
            // The huge entry stays known while it is held, although single frames are freed.
            observe(program, Event::FrameFreed(frame(301)));
            assert_eq!(broken(program)[2..], [(Rule::Frame, Some(huge.at(301)))]);
            flush(program, huge.at(7));
            observe(program, Event::FrameFreed(frame(302)));
            assert_eq!(broken(program).len(), 3);
        });
    }

    #[test]
    fn writing_out_a_frame_within_a_huge_page_held_dirty_breaks_r5() {
        with_huge(|program, huge| {
            observe(program, Event::WriteOut(frame(511)));
            assert_eq!(broken(program), [(Rule::Clean, Some(huge.at(511)))]);
            flush(program, huge.address);
            huge.set(program, huge.get(program) & !(1 << 6));
            program.load(huge.at(1), 1).expect("a present entry");
            observe(program, Event::WriteOut(frame(511)));
            assert_eq!(broken(program).len(), 1, "a store through a clean entry walks again");
        });
    }

    #[test]
    fn a_superseded_frame_may_not_be_reached_through_an_entry_of_any_size() {
        with_huge(|program, huge| {
            observe(program, Event::Superseded(frame(5)));
            assert_eq!(broken(program), [(Rule::OneVersion, Some(huge.at(5)))]);
            assert_eq!(Rule::OneVersion.name(), "R6");
            flush(program, huge.address);
            observe(program, Event::Superseded(frame(5)));
            assert_eq!(broken(program).len(), 1);
            let small = Slot::small(program);
            let at = FrameNumber::new((small.get(program) >> PAGE_SHIFT) as u32);
            observe(program, Event::Superseded(at));
            assert_eq!(broken(program)[1..], [(Rule::OneVersion, Some(small.address))]);
        });
    }

    #[test]
    fn a_superseded_frame_may_not_be_reached_by_another_cpu_that_only_loads() {
        let shared = std::rc::Rc::new(Cell::new(0));
        let (page, base) = (shared.clone(), shared);
        run_on(
            &roomy(2),
            vec![
                thread(0, move |program| {
                    base.set(Slot::small(program).address);
                    flush(program, base.get());
                    program.compute(100 * US);
                    let at = Slot::of(program, base.get(), PageSize::KIB_4).get(program) >> PAGE_SHIFT;
                    observe(program, Event::Superseded(FrameNumber::new(at as u32)));
                    assert_eq!(broken(program), [(Rule::OneVersion, Some(base.get()))]);
                    let oracle = program.sim.oracle.as_ref().expect("it watches");
                    assert_eq!(oracle.kept()[0].cpu, 1);
                }),
                thread(50 * US, move |program| {
                    program.load(page.get(), 1).expect("a mapped page");
                    for _ in 0..200 {
                        program.compute(US);
                    }
                }),
            ],
        );
    }

    #[test]
    fn a_small_translation_must_agree_with_a_huge_entry_that_is_held() {
        with_huge(|program, huge| {
            install(program, huge.at(9), frame(9), PageSize::KIB_4);
            install(program, huge.address, frame(0), PageSize::MIB_2);
            assert_eq!(broken(program), [], "the frames are the same, in another size");
            install(program, huge.at(9), frame(8), PageSize::KIB_4);
            assert_eq!(broken(program), [(Rule::OneTranslation, Some(huge.at(9)))]);
            install(program, huge.address, frame(512), PageSize::MIB_2);
            assert_eq!(broken(program)[1..], [(Rule::OneTranslation, Some(huge.address))]);
        });
    }

    #[test]
    fn a_huge_translation_must_agree_with_a_small_entry_that_is_held() {
        alone(|program| {
            let small = Slot::small(program);
            let (page, at) =
                (small.address >> PAGE_SHIFT & (HUGE_PAGES - 1), small.get(program) >> PAGE_SHIFT);
            let huge = small.address & !(PageSize::MIB_2.bytes() - 1);
            install(program, huge, FrameNumber::new((at - page) as u32), PageSize::MIB_2);
            assert_eq!(broken(program), []);
            install(program, huge, frame(0), PageSize::MIB_2);
            assert_eq!(broken(program), [(Rule::OneTranslation, Some(small.address))]);
        });
    }

    #[test]
    fn returning_while_the_old_entry_of_a_hidden_translation_is_held_breaks_r3() {
        alone(|program| {
            let small = Slot::small(program);
            let entry = small.get(program);
            change_and_return(program, small.address, || ());
            assert_eq!(broken(program), []);
            let hide = || small.set(program, entry & !PRESENT | HIDDEN);
            change_and_return(program, small.address, hide);
            assert_eq!(broken(program), [(Rule::Return, Some(small.address))]);
            // Fewer rights need a flush, more rights do not.
            for (now, expected) in [(entry, 1), (entry & !WRITABLE, 2)] {
                change_and_return(program, small.address, || small.set(program, now));
                assert_eq!(broken(program).len(), expected);
            }
            flush(program, small.address);
            change_and_return(program, small.address, || small.set(program, 0));
            assert_eq!(broken(program).len(), 2);
        });
    }

    #[test]
    fn returning_while_a_huge_entry_covers_the_cleared_page_breaks_r3() {
        with_huge(|program, huge| {
            change_and_return(program, huge.at(7), || ());
            assert_eq!(broken(program), []);
            // Split: the new table leads to the same frames, except for one page.
            let table = FrameNumber::new(FRAME + 600);
            for (page, word) in (0..).zip(program.sim.ram.words(table)) {
                let entry = (u64::from(FRAME) + page) << PAGE_SHIFT | PRESENT | WRITABLE | USER;
                word.store(if page == 7 { 0 } else { entry }, std::sync::atomic::Ordering::Relaxed);
            }
            let split = u64::from(table.get()) << PAGE_SHIFT | PRESENT | WRITABLE | USER;
            change_and_return(program, huge.at(8), || huge.set(program, split));
            assert_eq!(broken(program), []);
            change_and_return(program, huge.at(7), || ());
            assert_eq!(broken(program), [(Rule::Return, Some(huge.at(7)))]);
        });
    }

    #[test]
    fn an_operation_does_not_answer_for_entries_filled_during_it() {
        alone(|program| {
            let small = Slot::small(program);
            flush(program, small.address);
            let refill_and_hide = || {
                program.load(small.address, 1).expect("a mapped page");
                small.set(program, 0);
            };
            change_and_return(program, small.address, refill_and_hide);
            assert_eq!(broken(program), []);
        });
    }

    /// The CPU loads another root while `meanwhile` runs, and comes back to its space with or without a flush.
    fn away(program: &Program, flushes: bool, meanwhile: impl FnOnce()) {
        let (sim, root) = (&program.sim, root_of(program.space.coherence()));
        let (cpu, asid) = (sim.here(), World::cpu(sim).asid.get());
        sim.set_root(KERNEL_ROOT);
        meanwhile();
        if flushes {
            sim.forget_asid(cpu, asid);
        }
        sim.set_root(root);
        sim.oracle.as_ref().expect("it watches").loads(&**sim, cpu, root, asid);
    }

    /// The frame of a small page.
    fn frame_of(program: &Program, slot: Slot) -> FrameNumber {
        FrameNumber::new((slot.get(program) >> PAGE_SHIFT) as u32)
    }

    #[test]
    fn a_cpu_may_not_come_back_to_entries_that_no_cpu_could_use_at_an_event() {
        type Meanwhile = fn(&Program, Slot);
        let freed: Meanwhile = |program, small| observe(program, Event::FrameFreed(frame_of(program, small)));
        let written: Meanwhile = |program, small| observe(program, Event::WriteOut(frame_of(program, small)));
        let superseded: Meanwhile =
            |program, small| observe(program, Event::Superseded(frame_of(program, small)));
        let hidden: Meanwhile = |program, small| {
            let hide = || small.set(program, small.get(program) & !PRESENT | HIDDEN);
            change_and_return(program, small.address, hide);
        };
        let replaced: Meanwhile = |program, small| install(program, small.address, frame(0), PageSize::KIB_4);
        for (meanwhile, rule) in [
            (freed, Rule::Frame),
            (written, Rule::Clean),
            (superseded, Rule::OneVersion),
            (hidden, Rule::Return),
            (replaced, Rule::OneTranslation),
        ] {
            for flushes in [true, false] {
                alone(move |program| {
                    let small = Slot::small(program);
                    away(program, flushes, || {
                        meanwhile(program, small);
                        assert_eq!(broken(program), [], "no CPU could use the entry yet");
                    });
                    let expected = if flushes { vec![] } else { vec![(rule, Some(small.address))] };
                    assert_eq!(broken(program), expected);
                    away(program, false, || ());
                    assert_eq!(broken(program), expected, "each entry is reported once");
                    program.sim.forget_all(0);
                });
            }
        }
    }

    #[test]
    fn a_lazy_cpu_may_not_go_on_with_an_entry_to_a_frame_that_was_freed_meanwhile() {
        for (flushes, expected) in [(true, 0), (false, 1)] {
            with_huge(move |program, huge| {
                program.sim.rest();
                observe(program, Event::FrameFreed(frame(9)));
                assert_eq!(broken(program), []);
                if flushes {
                    flush(program, huge.address);
                }
                program.sim.run_space(&program.space);
                assert_eq!(broken(program), vec![(Rule::Frame, Some(huge.at(9))); expected]);
                program.sim.forget_all(0);
            });
        }
    }

    #[test]
    fn loading_a_space_under_an_asid_with_entries_of_another_breaks_r4() {
        alone(|program| {
            let (sim, small) = (&program.sim, Slot::small(program));
            let oracle = sim.oracle.as_ref().expect("it watches");
            let (own, asid) = (root_of(program.space.coherence()), World::cpu(sim).asid.get());
            oracle.loads(&**sim, 0, own, asid);
            assert_eq!(broken(program), []);
            oracle.loads(&**sim, 0, FRAME, asid);
            assert_eq!(broken(program), [(Rule::Tag, None)]);
            flush(program, small.address);
            sim.forget_asid(0, asid);
            oracle.loads(&**sim, 0, FRAME, asid);
            assert_eq!(broken(program).len(), 1);
        });
    }

    #[test]
    fn declaring_a_page_droppable_while_stores_to_it_go_unseen_breaks_r5() {
        alone(|program| {
            let small = Slot::small(program);
            let declare = |change: &dyn Fn()| {
                program.system_call(|_, space| {
                    change();
                    let (start, end) = (small.address, small.address + 4096);
                    observe(program, Event::Cleaned { space: space.coherence(), start, end });
                });
            };
            let dirty = small.get(program);
            let clean = dirty & !(1 << 6);
            declare(&|| ());
            assert_eq!(broken(program), [], "the page table shows the store");
            declare(&|| small.set(program, clean));
            assert_eq!(broken(program), [(Rule::Clean, Some(small.address))]);
            declare(&|| {
                flush(program, small.address);
                small.set(program, clean);
            });
            assert_eq!(broken(program).len(), 1);
            program.load(small.address, 1).expect("a mapped page");
            declare(&|| ());
            assert_eq!(broken(program).len(), 1, "a store through a clean entry shows in the page table");
        });
    }

    #[test]
    fn a_page_that_is_found_may_not_be_held_in_an_older_frame() {
        with_huge_to_load(64, |program, huge| {
            let of = |index| Some(Block { store: Store::Swap, index });
            for (offset, index) in [(1, 10), (2, 11), (3, 12)] {
                observe(program, Event::Left { frame: frame(offset), block: of(index) });
            }
            let found = |first, last| observe(program, Event::Settled { store: Store::Swap, first, last });
            found(0, 9);
            found(13, u32::MAX);
            assert_eq!(broken(program), []);
            found(10, 11);
            assert_eq!(broken(program), [1, 2].map(|page| (Rule::OneVersion, Some(huge.at(page)))));
            flush(program, huge.address);
            found(0, u32::MAX);
            assert_eq!(broken(program).len(), 2);
        });
    }

    /// Runs a thread that has loaded from two huge pages side by side. At most `max_owed` frames may owe.
    fn with_huge_to_load(max_owed: u32, body: impl FnOnce(&Program, Slot) + 'static) {
        let configure = move |config: &mut ceasefire_memory::Config| config.lazy.max_owed = Some(max_owed);
        let options = Options { configure: Box::new(configure), ..Options::new(Schedule::Batched) };
        let simulation = Simulation::new(&roomy(1), options).expect("it fits");
        let space = simulation.memory().new_space().expect("a frame");
        let body = move |program: &Program| {
            let huge = Slot::huge(program);
            let next = Slot::of(program, huge.address ^ 2 << PageSize::MIB_2.shift(), PageSize::MIB_2);
            let entry = huge.get(program) & !WRITABLE;
            huge.set(program, entry);
            next.set(program, entry + (HUGE_PAGES << PAGE_SHIFT));
            for slot in [huge, next] {
                program.load(slot.address, 1).expect("a present entry");
            }
            body(program, huge);
            program.sim.forget_all(0);
        };
        simulation.spawn("loads", 0, 0, &space, body).expect("a stack");
        simulation.run(|_, _| true).expect("no trace");
    }

    #[test]
    fn more_frames_in_debt_than_the_bound_and_batches_under_way_allow_break_r8() {
        for (flushes, expected) in [(false, Some(Rule::Bounded)), (true, None)] {
            with_huge_to_load(64, move |program, huge| {
                let most = program.sim.most_owing(0) as u32;
                assert!((64..1024).contains(&most), "{most}");
                let leave = |frames: Range<u32>| {
                    frames.for_each(|at| observe(program, Event::Left { frame: frame(at), block: None }));
                };
                leave(0..most);
                assert_eq!(broken(program), []);
                if flushes {
                    flush(program, huge.address);
                }
                leave(most..most + 1);
                assert_eq!(broken(program).first().map(|&(rule, _)| rule), expected);
            });
        }
    }

    #[test]
    fn waiting_for_others_with_interrupts_off_breaks_r9() {
        for (off, expected) in [(true, Some(Rule::NoWait)), (false, None)] {
            let ended = std::rc::Rc::new(Cell::new(false));
            let told = ended.clone();
            let flushes = move |program: &Program| {
                program.compute(20 * US);
                let flush = || program.memory().engine().flush(program.space().coherence(), Flush::ALL);
                let _ = if off { program.sim.interrupts_off(flush) } else { flush() };
                assert_eq!(broken(program).first().map(|&(rule, _)| rule), expected);
                told.set(true);
            };
            let runs = |program: &Program| (0..100).for_each(|_| program.compute(US));
            run_on(&roomy(2), vec![thread(0, flushes), thread(0, runs)]);
            assert!(ended.get(), "the run goes on");
        }
    }

    #[test]
    fn using_the_old_entry_of_a_hidden_translation_is_a_stale_hit() {
        let outcome = with_huge(|program, huge| {
            program.load(huge.at(3), 1).expect("a held entry");
            huge.set(program, huge.get(program) & !PRESENT | HIDDEN);
            program.load(huge.at(3), 1).expect("a held entry");
            let small = Slot::small(program);
            small.set(program, small.get(program) & !PRESENT | HIDDEN);
            program.load(small.address, 1).expect("a held entry");
        });
        assert_eq!((outcome.stale_hits, outcome.violations), (2, 0));
    }
}
