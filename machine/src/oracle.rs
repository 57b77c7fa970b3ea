//! The oracle: it knows every TLB and every page table, and says when a rule is broken.
//!
//! It looks from outside, at the machine's state itself, and shares nothing with the engine's bookkeeping. Where a
//! rule says what no CPU *can* do, it does not wait for a CPU to do it: at each moment that matters (a frame is freed,
//! a translation becomes visible, an operation returns, a write-out begins) it looks at what the CPUs that run the space
//! may still hold: every entry that they filled and nobody invalidated since, whether or not their TLBs were too small to
//! keep it, because no code may rely on that. An entry counts as reachable on a CPU that has the space loaded under the
//! entry's ASID and is not lazy. For the rest, each access that hits is checked against the frame's history.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;

use ceasefire::{AddressSpace, CpuId};
use ceasefire_memory::{Event, Machine, Table, PAGE_SHIFT};

use crate::holdings::{Held, Holdings};
use crate::sim::Sim;
use crate::tlb::{Cached, Fill, ASIDS};
use crate::world::{CpuState, World, KERNEL_ROOT};

/// A rule of TLB coherence that the machine can see broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// R1 frame: no CPU can reach a frame through an entry from before the frame's last free.
    Frame,
    /// R2 table: no walker can read a page-table page after it was freed.
    Table,
    /// R3 return: once an unmap returned, no CPU uses the old translation.
    Return,
    /// R4 tag: an entry found under an ASID was filled by that ASID's present owner.
    Tag,
    /// R5 clean: no store lands in a page after it was declared clean or its write-out began.
    Clean,
    /// R7 one translation: no two CPUs see different frames at one address.
    OneTranslation,
}

impl Rule {
    /// The short name that messages use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frame => "R1",
            Self::Table => "R2",
            Self::Return => "R3",
            Self::Tag => "R4",
            Self::Clean => "R5",
            Self::OneTranslation => "R7",
        }
    }
}

/// A rule seen broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// On which CPU the entry was.
    pub cpu: u16,
    /// When, in nanoseconds of simulated time.
    pub time_ns: u64,
    /// At which address, if the entry had one.
    pub address: Option<u64>,
    /// Which frame it led to.
    pub frame: u32,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, cpu, time_ns, address, frame } = self;
        write!(f, "{} broken at {time_ns} ns: CPU {cpu} can still reach frame {frame:#x}", rule.name())?;
        address.map_or(Ok(()), |address| write!(f, " at {address:#x}"))
    }
}

/// Violations kept in full; beyond these only the count goes on.
const KEPT: usize = 16;

/// Where an entry was filled, in one number, since there is one for each frame: from the top the page (36 bits), the
/// CPU plus one (14 bits, so that 0 is nowhere) and the ASID (8 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place(u64);

impl Place {
    const NOWHERE: Self = Self(0);

    fn new(cpu: usize, page: u64, asid: u16) -> Self {
        Self(page << 22 | (cpu as u64 + 1) << 8 | u64::from(asid))
    }

    fn cpu(self) -> usize {
        (self.0 >> 8 & 0x3fff) as usize - 1
    }

    fn page(self) -> u64 {
        self.0 >> 22
    }

    fn asid(self) -> u16 {
        (self.0 & 0xff) as u16
    }
}

/// What a CPU may hold, by ASID.
type MayHold = [Holdings; ASIDS];

/// What the oracle knows.
#[derive(Debug)]
pub(crate) struct Oracle {
    /// How often each frame was freed.
    incarnations: RefCell<Box<[u32]>>,
    /// The first place where each frame's translation was cached since it was last freed, and the further ones of the
    /// few frames that have any.
    first: RefCell<Box<[Place]>>,
    more: RefCell<HashMap<u32, Vec<Place>>>,
    /// What each CPU may hold.
    held: Box<[RefCell<MayHold>]>,
    fills: Cell<u64>,
    /// For each thread in a system call, how many fills there had been when it began.
    calls: RefCell<HashMap<usize, u64>>,
    violations: Cell<u64>,
    kept: RefCell<Vec<Violation>>,
    stale_hits: Cell<u64>,
}

impl Oracle {
    pub(crate) fn new(frames: u32, cpus: usize) -> Self {
        Self {
            incarnations: RefCell::new(vec![0; frames as usize].into()),
            first: RefCell::new(vec![Place::NOWHERE; frames as usize].into()),
            more: RefCell::default(),
            held: (0..cpus).map(|_| RefCell::default()).collect(),
            fills: Cell::new(0),
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

    /// How often a frame was freed so far.
    pub(crate) fn incarnation(&self, frame: u32) -> u32 {
        self.incarnations.borrow()[frame as usize]
    }

    fn broken(&self, world: &World, rule: Rule, cpu: usize, address: Option<u64>, frame: u32) {
        self.violations.set(self.violations.get() + 1);
        let mut kept = self.kept.borrow_mut();
        if kept.len() < KEPT {
            let time_ns = world.cpu().clock.get() / 1000;
            kept.push(Violation { rule, cpu: cpu as u16, time_ns, address, frame });
        }
    }

    /// A CPU cached a translation.
    pub(crate) fn filled(&self, cpu: usize, page: u64, asid: u16, fill: &Fill) {
        let Fill { frame, writable, dirty, .. } = *fill;
        {
            let filled = self.fills.replace(self.fills.get() + 1);
            let mut held = self.held[cpu].borrow_mut();
            held[asid as usize].add(page, Held { filled, frame, writable, dirty });
        }
        let place = Place::new(cpu, page, asid);
        let mut first = self.first.borrow_mut();
        let known = &mut first[frame as usize];
        if *known == Place::NOWHERE {
            *known = place;
        } else if *known != place {
            let mut more = self.more.borrow_mut();
            let places = more.entry(frame).or_default();
            if !places.contains(&place) {
                places.push(place);
            }
        }
    }

    /// A thread enters the kernel.
    pub(crate) fn called(&self, thread: usize) {
        self.calls.borrow_mut().insert(thread, self.fills.get());
    }

    /// It leaves.
    pub(crate) fn left(&self, thread: usize) {
        self.calls.borrow_mut().remove(&thread);
    }

    /// A CPU invalidated what it held for a page, or everything under an ASID.
    pub(crate) fn invalidated(&self, cpu: usize, asid: u16, page: Option<u64>) {
        let held = &mut self.held[cpu].borrow_mut()[asid as usize];
        match page {
            Some(page) => held.remove(page),
            None => held.clear(),
        }
    }

    /// A CPU invalidated everything.
    pub(crate) fn invalidated_all(&self, cpu: usize) {
        self.held[cpu].take();
    }

    /// A CPU used a cached translation.
    pub(crate) fn hit(&self, sim: &Sim, cpu: usize, entry: &Cached) {
        let address = Some(entry.page() << PAGE_SHIFT);
        if entry.incarnation != self.incarnation(entry.frame) {
            self.broken(sim, Rule::Frame, cpu, address, entry.frame);
        } else if entry.root != sim.cpus[cpu].root.get() {
            self.broken(sim, Rule::Tag, cpu, address, entry.frame);
        } else if translation(sim, entry.root, entry.page()).is_none_or(|(frame, _)| frame != entry.frame) {
            self.stale_hits.set(self.stale_hits.get() + 1);
        }
    }

    /// A walker used a cached way to a table.
    pub(crate) fn walked(&self, world: &World, cpu: usize, page: u64, table: u32, incarnation: u32) {
        if incarnation != self.incarnation(table) {
            self.broken(world, Rule::Table, cpu, Some(page << PAGE_SHIFT), table);
        }
    }

    pub(crate) fn observe(&self, sim: &Sim, event: Event<'_>) {
        match event {
            Event::FrameAllocated(_) | Event::Superseded(_) => {}
            Event::FrameFreed(frame) => self.freed(sim, frame.get()),
            Event::TableFreed(table) => self.table_freed(sim, table.get()),
            Event::Installed { space, address, frame, .. } => {
                running(sim, space, |index, cpu| {
                    let held = self.held[index].borrow();
                    let mut held = held[cpu.asid.get() as usize].of(address >> PAGE_SHIFT);
                    if let Some(old) = held.find(|old| old.frame != frame.get()) {
                        self.broken(sim, Rule::OneTranslation, index, Some(address), old.frame);
                    }
                });
            }
            Event::Returned { space, start, end } => self.returned(sim, space, start, end),
            Event::WriteOut(frame) => {
                for place in self.places(frame.get()) {
                    let (index, page, entry) = self.look(sim, place, frame.get());
                    if entry.is_some_and(|entry| entry.writable && entry.dirty) {
                        self.broken(sim, Rule::Clean, index, Some(page << PAGE_SHIFT), frame.get());
                    }
                }
            }
        }
    }

    fn freed(&self, sim: &Sim, frame: u32) {
        for place in self.places(frame) {
            let (index, page, entry) = self.look(sim, place, frame);
            if entry.is_some() {
                self.broken(sim, Rule::Frame, index, Some(page << PAGE_SHIFT), frame);
            }
        }
        self.first.borrow_mut()[frame as usize] = Place::NOWHERE;
        self.more.borrow_mut().remove(&frame);
        let incarnation = &mut self.incarnations.borrow_mut()[frame as usize];
        *incarnation = incarnation.wrapping_add(1);
    }

    /// A table is freed: no CPU may have it on its walker's way, lazy CPUs included, nor have it as its root.
    fn table_freed(&self, sim: &Sim, table: u32) {
        for (index, cpu) in sim.cpus.iter().enumerate() {
            if cpu.root.get() == KERNEL_ROOT {
                continue;
            }
            let on_the_way = cpu.tlb.borrow().paths_under(cpu.asid.get()).any(|(path, _)| path == table);
            if on_the_way || cpu.root.get() == table {
                self.broken(sim, Rule::Table, index, None, table);
            }
        }
    }

    /// An unmap returns: what CPUs have held for the range since before it was called must be what the page tables say
    /// now. What they filled since then may be on its way out by another operation, which answers for it.
    fn returned(&self, sim: &Sim, space: &AddressSpace, start: u64, end: u64) {
        let pages = (start >> PAGE_SHIFT)..(end >> PAGE_SHIFT);
        let thread = World::cpu(sim).task.get();
        let began = thread.and_then(|thread| self.calls.borrow().get(&thread.0).copied()).unwrap_or(u64::MAX);
        running(sim, space, |index, cpu| {
            let held = self.held[index].borrow();
            let held = held[cpu.asid.get() as usize].within(pages.clone());
            for (page, old) in held.filter(|(_, old)| old.filled < began) {
                let now = translation(sim, cpu.root.get(), page);
                if now.is_none_or(|(frame, writable)| frame != old.frame || (old.writable && !writable)) {
                    self.broken(sim, Rule::Return, index, Some(page << PAGE_SHIFT), old.frame);
                }
            }
        });
    }

    /// Everywhere that the frame's translation was cached since it was last freed.
    fn places(&self, frame: u32) -> Vec<Place> {
        let first = self.first.borrow()[frame as usize];
        if first == Place::NOWHERE {
            return Vec::new();
        }
        let mut places = vec![first];
        if let Some(more) = self.more.borrow().get(&frame) {
            places.extend(more);
        }
        places
    }

    /// What a CPU could use at a place now: the CPU, the page, and the entry for `frame` if it is reachable.
    fn look(&self, sim: &Sim, place: Place, frame: u32) -> (usize, u64, Option<Held>) {
        let (index, page, asid) = (place.cpu(), place.page(), place.asid());
        let cpu = &sim.cpus[index];
        let reachable = cpu.asid.get() == asid && cpu.root.get() != KERNEL_ROOT && !cpu.engine.is_lazy();
        let held = self.held[index].borrow();
        let held = held[asid as usize].of(page).find(|held| reachable && held.frame == frame);
        (index, page, held)
    }
}

/// Calls `visit` for each CPU that runs `space` and is not lazy.
fn running(sim: &Sim, space: &AddressSpace, mut visit: impl FnMut(usize, &CpuState)) {
    let root = (space.root().0 >> PAGE_SHIFT) as u32;
    space.cpus().for_each(|cpu: CpuId| {
        let state = &sim.cpus[cpu.index()];
        if state.root.get() == root && !state.engine.is_lazy() {
            visit(cpu.index(), state);
        }
    });
}

/// What the page tables say about a page: the frame, and whether stores are allowed.
fn translation(sim: &Sim, root: u32, page: u64) -> Option<(u32, bool)> {
    let entry = sim.table(sim.descend(root, page)?).get(Table::index(page << PAGE_SHIFT, 0));
    entry.present().then(|| (entry.frame().get(), entry.writable()))
}
