//! The oracle: it knows every TLB and every page table, and reports each broken rule.
//!
//! It looks at the machine's state itself, and shares nothing with the engine's bookkeeping. If a rule forbids a CPU
//! an access, the oracle does not wait for the access. It checks at each moment that matters: when a frame is freed,
//! a translation becomes visible, an operation returns, or a write-out begins. It then checks all entries that the
//! CPUs running the space may still hold: every entry that they filled and that was not invalidated since. It does
//! not matter whether a TLB was too small to keep the entry, because no code may rely on that. An entry counts as
//! reachable on a CPU that has the space loaded under the entry's ASID and is not lazy. In addition, each access that
//! hits is checked against the history of its frame.
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
use ceasefire_memory::{Block, Event, Protection, PAGE_SHIFT};

use crate::hardware::numbers::{HUGE_PAGES, KERNEL_ROOT};
use crate::hardware::tlb::{Cached, Fill};
use crate::oracle::holdings::{ByAsid, Held};
use crate::oracle::place::Place;
use crate::oracle::rule::{Rule, Violation};
use crate::oracle::view::View;

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
    /// The CPUs that have each root loaded.
    loaded: RefCell<BTreeMap<u32, BTreeSet<usize>>>,
    clock: Cell<u64>,
    /// Frames that were let go of owing and have not been allocated since.
    left: RefCell<HashMap<u32, Left>>,
    /// For each block, the frames in `left` that held its page, until the page can be found elsewhere.
    left_blocks: RefCell<HashMap<Block, Vec<u32>>>,
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
            loaded: RefCell::default(),
            left: RefCell::default(),
            left_blocks: RefCell::default(),
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
        if !self.held[cpu].borrow_mut().under(asid).add(page, size, held) {
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

    /// A CPU loads a root in place of another. Either may be the kernel's.
    pub(crate) fn loads(&self, cpu: usize, before: u32, root: u32) {
        let mut loaded = self.loaded.borrow_mut();
        if let Some(cpus) = loaded.get_mut(&before) {
            cpus.remove(&cpu);
            if cpus.is_empty() {
                loaded.remove(&before);
            }
        }
        if root != KERNEL_ROOT {
            loaded.entry(root).or_default().insert(cpu);
        }
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

    /// A CPU used an entry for a page.
    pub(crate) fn hit(&self, view: &impl View, cpu: usize, page: u64, entry: &Cached) {
        let (address, frame) = (Some(page << PAGE_SHIFT), entry.frame(page));
        if entry.filled < self.freed_at(frame) {
            self.broken(view, Rule::Frame, cpu, address, frame);
        } else if view.root(cpu) != Some(entry.root) {
            self.broken(view, Rule::Tag, cpu, address, frame);
        } else if view.translation(entry.root, page).is_none_or(|(now, _)| now != frame) {
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
            Event::Settled(block) => self.settled(view, block),
            Event::TableFreed(table) => self.table_freed(view, table.get()),
            Event::Installed { space, address, frame, size } => {
                self.installed(view, space, address >> PAGE_SHIFT, frame.get(), size);
            }
            Event::Returned { space, start, end, allowed } => self.returned(view, space, start, end, allowed),
            Event::WriteOut(frame) => self.reachable(view, frame.get(), |cpu, page, held| {
                if held.writable && held.dirty {
                    self.broken(view, Rule::Clean, cpu, Some(page << PAGE_SHIFT), frame.get());
                }
            }),
            Event::Superseded(frame) => self.reachable(view, frame.get(), |cpu, page, _| {
                self.broken(view, Rule::OneVersion, cpu, Some(page << PAGE_SHIFT), frame.get());
            }),
        }
    }

    /// A frame is freed: no CPU may reach it.
    fn freed(&self, view: &impl View, frame: u32) {
        self.owes_no_more(frame);
        self.reachable(view, frame, |cpu, page, _| {
            self.broken(view, Rule::Frame, cpu, Some(page << PAGE_SHIFT), frame);
        });
        self.more.borrow_mut().remove(&frame);
        self.frames.borrow_mut()[frame as usize] = History { place: Place::NOWHERE, freed: self.tick() };
    }

    /// Ends the debt of a frame that was let go of owing.
    fn owes_no_more(&self, frame: u32) {
        let Some(left) = self.left.borrow_mut().remove(&frame) else { return };
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
        self.reachable(view, frame, |cpu, page, held| {
            if held.writable {
                self.broken(view, Rule::Clean, cpu, Some(page << PAGE_SHIFT), frame);
            }
        });
        self.left.borrow_mut().insert(frame, Left { since: view.now_ns(), block });
        if let Some(block) = block {
            self.left_blocks.borrow_mut().entry(block).or_default().push(frame);
        }
    }

    /// A block's page can be found from now on: no CPU may read an older copy.
    fn settled(&self, view: &impl View, block: Block) {
        let left = self.left_blocks.borrow_mut().remove(&block);
        for frame in left.into_iter().flatten() {
            self.reachable(view, frame, |cpu, page, _| {
                self.broken(view, Rule::OneVersion, cpu, Some(page << PAGE_SHIFT), frame);
            });
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
        self.running(view, space, |index| {
            let held = self.held[index].borrow();
            let Some(held) = held.get(view.asid(index)) else { return };
            let other = match size {
                PageSize::KIB_4 => held.small(page).map(|held| (page, held)).find(differs),
                _ => held.small_within(page..page + HUGE_PAGES).find(differs),
            };
            let other = other.or_else(|| held.huge_within(page..page + 1).find(differs));
            if let Some((held_page, held)) = other {
                let address = held_page.max(page) << PAGE_SHIFT;
                self.broken(view, Rule::OneTranslation, index, Some(address), held.frame);
            }
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
        let began =
            view.thread().and_then(|thread| self.calls.borrow().get(&thread).copied()).unwrap_or(u64::MAX);
        self.running(view, space, |index| {
            let held = self.held[index].borrow();
            let Some(held) = held.get(view.asid(index)) else { return };
            let small = held.small_within(pages.clone()).map(|(page, old)| (page, 1, old));
            let huge = held.huge_within(pages.clone()).map(|(first, old)| (first, HUGE_PAGES, old));
            let judged = |old: &Held| old.filled <= began && (allowed == Protection::None || old.writable);
            for (first, count, old) in small.chain(huge).filter(|(.., old)| judged(old)) {
                let judged = pages.start.max(first)..pages.end.min(first + count);
                if let Some((page, frame)) = disagrees(view, root_of(space), first, &old, judged) {
                    self.broken(view, Rule::Return, index, Some(page << PAGE_SHIFT), frame);
                }
            }
        });
    }

    /// Calls `visit` with the CPU, the page and the entry for each entry to `frame` that a CPU may hold and use.
    fn reachable(&self, view: &impl View, frame: u32, mut visit: impl FnMut(usize, u64, Held)) {
        let usable = |place: Place| {
            let cpu = place.cpu();
            view.asid(cpu) == place.asid() && view.root(cpu).is_some() && !view.is_lazy(cpu)
        };
        let mut small = |place: Place| {
            let held = self.held[place.cpu()].borrow();
            let mut held = held.get(place.asid()).into_iter().flat_map(|held| held.small(place.page()));
            if let Some(held) = held.find(|held| held.frame == frame && usable(place)) {
                visit(place.cpu(), place.page(), held);
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
            let mut held = held.get(place.asid()).into_iter().flat_map(|held| held.huge(place.page()));
            let found = held.find(|held| held.frame == frame - offset);
            if let Some(held) = found.filter(|_| usable(*place)) {
                visit(place.cpu(), place.page() + u64::from(offset), held);
            }
            // Its frames are freed one by one, so a place is forgotten only here.
            found.is_some()
        });
        if places.is_empty() {
            huge.remove(&(frame - offset));
        }
    }

    /// Calls `visit` for each CPU that runs `space` and is not lazy.
    fn running(&self, view: &impl View, space: &AddressSpace, mut visit: impl FnMut(usize)) {
        let loaded = self.loaded.borrow();
        for &index in loaded.get(&root_of(space)).into_iter().flatten() {
            if !view.is_lazy(index) {
                visit(index);
            }
        }
    }
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

/// The first page in `judged` for which an entry that translates from `first` on disagrees with the current page
/// tables or allows more, with the frame to which the entry leads.
fn disagrees(
    view: &impl View,
    root: u32,
    first: u64,
    old: &Held,
    mut judged: Range<u64>,
) -> Option<(u64, u32)> {
    judged.find_map(|page| {
        let frame = old.frame + (page - first) as u32;
        let wrong = match view.translation(root, page) {
            Some((now, writable)) => now != frame || (old.writable && !writable),
            None => true,
        };
        wrong.then_some((page, frame))
    })
}

#[cfg(test)]
mod tests {
    use ceasefire_memory::{FrameNumber, Machine as _};

    use super::*;
    use crate::testing::{
        alone, broken, roomy, run_on, thread, Slot, FRAME, HIDDEN, PRESENT, US, USER, WRITABLE,
    };
    use crate::world::state::World;
    use crate::Program;

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
        sim.forget_page(sim.here.get(), World::cpu(sim).asid.get(), address >> PAGE_SHIFT);
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
