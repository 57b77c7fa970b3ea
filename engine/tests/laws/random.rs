//! Random histories: whatever the order of switches, lazy mode and unmaps, no CPU uses what it must not.

use std::cell::RefCell;
use std::collections::BTreeMap;

use ceasefire::{Batch, ClearedTable, Engine, Gather, Schedule};
use proptest::prelude::*;

use crate::batch::cleared;
use crate::script::{machine, Machine, Script, Space};

const PAGES: u64 = 4;

/// One step. Numbers are taken modulo what there is.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Switch { cpu: usize, space: usize },
    Lazy { cpu: usize },
    Unload { cpu: usize },
    Fill { cpu: usize, page: u64 },
    Unmap { cpu: usize, space: usize, first: u64, pages: u64, tables: bool },
    Reclaim { cpu: usize, space: usize, page: u64, dirty: bool },
    SettleBatch { cpu: usize },
    SettleSpace { cpu: usize, space: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let (cpu, space, page) = (0..4_usize, 0..3_usize, 0..PAGES);
    prop_oneof![
        3 => (cpu.clone(), space.clone()).prop_map(|(cpu, space)| Step::Switch { cpu, space }),
        1 => cpu.clone().prop_map(|cpu| Step::Lazy { cpu }),
        1 => cpu.clone().prop_map(|cpu| Step::Unload { cpu }),
        6 => (cpu.clone(), page.clone()).prop_map(|(cpu, page)| Step::Fill { cpu, page }),
        2 => (cpu.clone(), space.clone(), page.clone(), 1..=PAGES, any::<bool>())
            .prop_map(|(cpu, space, first, pages, tables)| Step::Unmap { cpu, space, first, pages, tables }),
        4 => (cpu.clone(), space.clone(), page, any::<bool>())
            .prop_map(|(cpu, space, page, dirty)| Step::Reclaim { cpu, space, page, dirty }),
        1 => cpu.clone().prop_map(|cpu| Step::SettleBatch { cpu }),
        1 => (cpu, space).prop_map(|(cpu, space)| Step::SettleSpace { cpu, space }),
    ]
}

pub(crate) fn history() -> impl Strategy<Value = (usize, usize, Vec<Step>)> {
    (2..=4_usize, 2..=3_usize, prop::collection::vec(step(), 1..60))
}

/// A page of a space: the space's index and the page's number.
type Page = (usize, u64);

/// What is true, beside what TLBs believe.
#[derive(Debug, Default)]
struct Truth {
    /// The page tables: which frame each page has now. Frames are never numbered twice.
    mapped: BTreeMap<Page, u64>,
    /// Cleared by reclaim and held by the batch: the entry may still be cached, the frame is not reused.
    owed: BTreeMap<Page, u64>,
    frames: u64,
    broken: Option<String>,
}

struct World<'m> {
    machine: &'m Machine,
    spaces: Vec<Space>,
    cpus: usize,
    truth: RefCell<Truth>,
}

fn address(page: u64) -> u64 {
    page << 12
}

impl World<'_> {
    /// The space that `cpu` runs a program of.
    fn runs(&self, cpu: usize) -> Option<usize> {
        let state = self.machine.cpu(cpu);
        let loaded = self.spaces.iter().position(|space| space.id() == state.loaded())?;
        (!state.is_lazy()).then_some(loaded)
    }

    fn broken(&self, what: String) {
        self.truth.borrow_mut().broken.get_or_insert(what);
    }

    /// No CPU that runs the space can use `page` of it.
    fn gone(&self, (space, page): Page, when: &str) {
        for cpu in 0..self.cpus {
            if self.runs(cpu) == Some(space) && self.machine.cached(cpu, address(page)).is_some() {
                self.broken(format!("CPU {cpu} uses page {page} of space {space} {when}"));
            }
        }
    }

    /// Whatever a CPU that runs a program can use was filled from that program's tables, and is mapped or owed.
    fn check(&self) {
        for cpu in 0..self.cpus {
            let Some(space) = self.runs(cpu) else { continue };
            let root = self.spaces[space].root();
            if self.machine.root(cpu) != Some(root) {
                self.broken(format!("CPU {cpu} runs space {space} on another root"));
            }
            for (address, filled) in self.machine.usable(cpu) {
                let page = (space, address >> 12);
                let truth = self.truth.borrow();
                let known = [truth.mapped.get(&page), truth.owed.get(&page)].contains(&Some(&filled.stamp));
                drop(truth);
                if filled.root != root || !known {
                    self.broken(format!("CPU {cpu} uses {page:?} filled as {filled:?}"));
                }
            }
        }
    }

    fn fill(&self, cpu: usize, page: u64) {
        let Some(space) = self.runs(cpu) else { return };
        let mut truth = self.truth.borrow_mut();
        if truth.owed.contains_key(&(space, page)) {
            // The page is still in the cache and busy: the fault waits for it.
            return;
        }
        truth.frames += 1;
        let fresh = truth.frames;
        let frame = *truth.mapped.entry((space, page)).or_insert(fresh);
        self.machine.fill(cpu, address(page), frame);
    }

    fn unmap(
        &self,
        engine: &Engine<Script>,
        space: usize,
        pages: impl Iterator<Item = u64> + Clone,
        tables: bool,
    ) {
        let owner = &self.spaces[space];
        engine.settle(owner);
        let mut gather: Gather<'_, _, Option<Page>, _, 2> = Gather::new(engine, owner, |held| {
            if let Some(page) = held {
                self.gone(page, "after its frame was released");
            }
        });
        for page in pages.clone() {
            let frame = self.truth.borrow_mut().mapped.remove(&(space, page));
            if frame.is_some() {
                gather.unmap(cleared(address(page), false), Some(Some((space, page))));
            }
        }
        if tables {
            gather.table(ClearedTable::new(0), None);
        }
        gather.finish();
        for page in pages {
            self.gone((space, page), "after munmap returned");
        }
        if tables {
            for cpu in 0..self.cpus {
                if self.machine.root(cpu) == Some(owner.root()) && self.runs(cpu) != Some(space) {
                    self.broken(format!("CPU {cpu} may walk freed tables of space {space}"));
                }
            }
        }
    }

    /// A page comes out of the batch.
    fn settled(&self, page: Page) {
        self.truth.borrow_mut().owed.remove(&page);
        self.gone(page, "after it came out of the batch");
    }
}

/// Plays a history; what it broke.
pub(crate) fn play(machine: &Machine, cpus: usize, spaces: usize, steps: &[Step]) -> Result<(), String> {
    let spaces: Vec<Space> = (0..spaces).map(|space| machine.space(space as u64 + 1)).collect();
    let world = World { machine, spaces, cpus, truth: RefCell::default() };
    let mut batch: Batch<'_, _, Page, _, 4> =
        Batch::new(machine, Schedule::Batched, |page| world.settled(page));
    for step in steps {
        let go = |cpu: usize| {
            machine.go(cpu % cpus);
            cpu % cpus
        };
        let space_of = |space: usize| space % world.spaces.len();
        match *step {
            Step::Switch { cpu, space } => machine.switch(go(cpu), &world.spaces[space_of(space)]),
            Step::Lazy { cpu } => machine.lazy(go(cpu)),
            Step::Unload { cpu } => {
                go(cpu);
                drop(machine.unload());
            }
            Step::Fill { cpu, page } => world.fill(go(cpu), page),
            Step::Unmap { cpu, space, first, pages, tables } => {
                go(cpu);
                world.unmap(machine, space_of(space), first..(first + pages).min(PAGES), tables);
            }
            Step::Reclaim { cpu, space, page, dirty } => {
                go(cpu);
                let page = (space_of(space), page);
                let frame = world.truth.borrow_mut().mapped.remove(&page);
                if let Some(frame) = frame {
                    batch.record(&world.spaces[page.0], cleared(address(page.1), dirty));
                    world.truth.borrow_mut().owed.insert(page, frame);
                    if dirty {
                        let written = batch.write_permit(page).into_page();
                        world.gone(written, "while it is written out");
                    }
                    batch.hold(page);
                }
            }
            Step::SettleBatch { cpu } => {
                go(cpu);
                batch.settle();
                if world.spaces.iter().any(|space| space.owes()) {
                    world.broken("a space owes after the only batch settled".into());
                }
            }
            Step::SettleSpace { cpu, space } => {
                go(cpu);
                let space = space_of(space);
                machine.settle(&world.spaces[space]);
                for page in 0..PAGES {
                    if world.truth.borrow().owed.contains_key(&(space, page)) {
                        world.gone((space, page), "after its space was settled");
                    }
                }
            }
        }
        world.check();
    }
    drop(batch);
    world.check();
    world.truth.take().broken.map_or(Ok(()), Err)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_cpu_ever_uses_what_it_must_not((cpus, spaces, steps) in history()) {
        prop_assert_eq!(play(&machine(cpus), cpus, spaces, &steps), Ok(()));
    }
}
