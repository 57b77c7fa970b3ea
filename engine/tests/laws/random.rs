//! Random histories: in any order of switches, lazy mode and unmaps, no CPU uses an entry that it must not use.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use ceasefire::{
    Asid, Batch, Entry, Flush, Gather, Holders, Owed, PageSize, Payment, Platform, Schedule, Stamp,
};
use proptest::prelude::*;

use crate::hands::{room, small, unmap, was, Hands, Was};
use crate::script::{
    broadcasting, hybrid, lazy, lazy_broadcasting, lazy_hybrid, lazy_until, machine, Carried, Machine,
    Script, Space,
};

const PAGES: u64 = 4;
const SPACES: usize = 4;
/// The space whose tables a device walks.
const DEVICE: usize = 0;

/// One step. Numbers are taken modulo the number of things there are.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Switch {
        cpu: usize,
        space: usize,
    },
    Lazy {
        cpu: usize,
    },
    Unload {
        cpu: usize,
    },
    Fill {
        cpu: usize,
        page: u64,
    },
    Unmap {
        cpu: usize,
        space: usize,
        first: u64,
        pages: u64,
        tables: bool,
    },
    Reclaim {
        cpu: usize,
        space: usize,
        page: u64,
        dirty: bool,
    },
    /// Reclaim of a page that may come out owing.
    ReleaseInDebt {
        cpu: usize,
        space: usize,
        page: u64,
        writable: bool,
    },
    Tick {
        cpu: usize,
        time: u64,
    },
    PayAll {
        cpu: usize,
    },
    FlushHere {
        cpu: usize,
    },
    SettleBatch {
        cpu: usize,
    },
    SettleSpace {
        cpu: usize,
        space: usize,
    },
    Protect {
        cpu: usize,
        space: usize,
        page: u64,
        strict: bool,
    },
    DeviceFill {
        page: u64,
    },
    /// A flush of one page, before which nothing is settled.
    Flush {
        cpu: usize,
        space: usize,
        page: u64,
    },
    /// The space ends, and another takes its place.
    Renew {
        cpu: usize,
        space: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (cpu, space, page) = (0..4_usize, 0..SPACES, 0..PAGES);
    prop_oneof![
        3 => (cpu.clone(), space.clone()).prop_map(|(cpu, space)| Step::Switch { cpu, space }),
        1 => cpu.clone().prop_map(|cpu| Step::Lazy { cpu }),
        1 => cpu.clone().prop_map(|cpu| Step::Unload { cpu }),
        6 => (cpu.clone(), page.clone()).prop_map(|(cpu, page)| Step::Fill { cpu, page }),
        2 => (cpu.clone(), space.clone(), page.clone(), 1..=PAGES, any::<bool>())
            .prop_map(|(cpu, space, first, pages, tables)| Step::Unmap { cpu, space, first, pages, tables }),
        4 => (cpu.clone(), space.clone(), page.clone(), any::<bool>())
            .prop_map(|(cpu, space, page, dirty)| Step::Reclaim { cpu, space, page, dirty }),
        3 => (cpu.clone(), space.clone(), page.clone(), prop::bool::weighted(0.2))
            .prop_map(|(cpu, space, page, writable)| Step::ReleaseInDebt { cpu, space, page, writable }),
        2 => (cpu.clone(), 0..1000_u64).prop_map(|(cpu, time)| Step::Tick { cpu, time }),
        1 => cpu.clone().prop_map(|cpu| Step::PayAll { cpu }),
        1 => cpu.clone().prop_map(|cpu| Step::FlushHere { cpu }),
        1 => cpu.clone().prop_map(|cpu| Step::SettleBatch { cpu }),
        1 => (cpu.clone(), space.clone()).prop_map(|(cpu, space)| Step::SettleSpace { cpu, space }),
        1 => (cpu.clone(), space.clone(), page.clone(), any::<bool>())
            .prop_map(|(cpu, space, page, strict)| Step::Protect { cpu, space, page, strict }),
        1 => page.clone().prop_map(|page| Step::DeviceFill { page }),
        1 => (cpu.clone(), space.clone(), page)
            .prop_map(|(cpu, space, page)| Step::Flush { cpu, space, page }),
        1 => (cpu, space).prop_map(|(cpu, space)| Step::Renew { cpu, space }),
    ]
}

pub(crate) fn history() -> impl Strategy<Value = (usize, usize, Vec<Step>)> {
    (2..=4_usize, 2..=SPACES, prop::collection::vec(step(), 1..60))
}

/// A page of a space: the space's index and the page's number.
type Page = (usize, u64);

/// The true state, beside the contents of the TLBs.
#[derive(Debug, Default)]
struct Truth {
    /// The page tables: the present frame of each page. No frame number is used twice.
    mapped: BTreeMap<Page, u64>,
    /// Cleared by reclaim and held by the batch: the entry may still be cached, but the frame is not reused.
    owed: BTreeMap<Page, u64>,
    /// Released in debt by a batch, with the frame and the stamp until which it is owed.
    left: Vec<(Page, u64, Stamp)>,
    frames: u64,
    broken: Option<String>,
}

struct World<'m> {
    machine: &'m Machine,
    spaces: RefCell<Vec<Space>>,
    cpus: usize,
    truth: RefCell<Truth>,
}

fn address(page: u64) -> u64 {
    page << 12
}

impl World<'_> {
    fn space(&self, space: usize) -> Space {
        self.spaces.borrow()[space].clone()
    }

    /// The space whose program `cpu` runs.
    fn runs(&self, cpu: usize) -> Option<usize> {
        let state = self.machine.cpu(cpu);
        let loaded = self.spaces.borrow().iter().position(|space| space.id() == state.loaded())?;
        (!state.is_lazy()).then_some(loaded)
    }

    fn broken(&self, what: String) {
        self.truth.borrow_mut().broken.get_or_insert(what);
    }

    /// Takes a page's translation away for a batch, if it has one and no batch has its page already. True if it did.
    fn unmaps(&self, page: Page) -> bool {
        let mut truth = self.truth.borrow_mut();
        if truth.owed.contains_key(&page) {
            return false;
        }
        let Some(frame) = truth.mapped.remove(&page) else { return false };
        truth.owed.insert(page, frame);
        true
    }

    /// No CPU that runs the space can use `page` of it, and no device.
    fn gone(&self, (space, page): Page, when: &str) {
        for cpu in 0..self.cpus {
            if self.runs(cpu) == Some(space) && self.machine.cached(cpu, address(page)).is_some() {
                self.broken(format!("CPU {cpu} uses page {page} of space {space} {when}"));
            }
        }
        if self.machine.device_cached(&self.space(space), address(page)).is_some() {
            self.broken(format!("a device uses page {page} of space {space} {when}"));
        }
    }

    /// No CPU that runs the space can use `page` of it through an entry to `frame`.
    fn unreachable(&self, (space, page): Page, frame: u64, when: &str) {
        for cpu in 0..self.cpus {
            let cached = self.machine.cached(cpu, address(page));
            if self.runs(cpu) == Some(space) && cached.is_some_and(|filled| filled.stamp == frame) {
                self.broken(format!("CPU {cpu} uses page {page} of space {space} {when}"));
            }
        }
    }

    /// The pages released in debt in a space are out of reach.
    fn all_gone(&self, space: usize, when: &str) {
        let left = self.truth.borrow().left.clone();
        for (page, frame, _) in left.into_iter().filter(|(page, ..)| page.0 == space) {
            self.unreachable(page, frame, when);
        }
    }

    /// Every entry that a CPU running a program can use was filled from that program's tables, and is mapped or owed.
    fn check(&self) {
        let mut left = std::mem::take(&mut self.truth.borrow_mut().left);
        left.retain(|&(page, frame, stamp)| {
            let settled = self.machine.is_settled(stamp);
            if settled {
                self.unreachable(page, frame, "after its debt was settled");
            }
            !settled
        });
        self.truth.borrow_mut().left = left;
        for cpu in 0..self.cpus {
            let Some(space) = self.runs(cpu) else { continue };
            let root = self.space(space).root();
            if self.machine.root(cpu) != Some(root) {
                self.broken(format!("CPU {cpu} runs space {space} on another root"));
            }
            for (address, filled) in self.machine.usable(cpu) {
                let page = (space, address >> 12);
                let truth = self.truth.borrow();
                let left = truth.left.iter().any(|&(owed, frame, _)| (owed, frame) == (page, filled.stamp));
                let known = [truth.mapped.get(&page), truth.owed.get(&page)].contains(&Some(&filled.stamp));
                let known = known || left;
                drop(truth);
                if filled.root != root || !known {
                    self.broken(format!("CPU {cpu} uses {page:?} filled as {filled:?}"));
                }
            }
        }
        for page in 0..PAGES {
            let cached = self.machine.device_cached(&self.space(DEVICE), address(page));
            if cached.is_some() && cached != self.truth.borrow().mapped.get(&(DEVICE, page)).copied() {
                self.broken(format!("a device uses page {page}, which a batch or an unmap took away"));
            }
        }
    }

    /// The frame that a walk finds for `page`, which is mapped if it was not; `None` where a fault would wait.
    fn walk(&self, page: Page) -> Option<u64> {
        let mut truth = self.truth.borrow_mut();
        if truth.owed.contains_key(&page) || truth.left.iter().any(|(left, ..)| *left == page) {
            // The page is still in the cache and busy, so the fault waits for it, or would pay first.
            return None;
        }
        truth.frames += 1;
        let fresh = truth.frames;
        Some(*truth.mapped.entry(page).or_insert(fresh))
    }

    fn fill(&self, cpu: usize, page: u64) {
        let Some(space) = self.runs(cpu) else { return };
        if let Some(frame) = self.walk((space, page)) {
            self.machine.fill(cpu, address(page), frame);
        }
    }

    fn unmap(&self, space: usize, pages: impl Iterator<Item = u64> + Clone, tables: bool) {
        let owner = &self.space(space);
        let lock = self.machine.settled(owner);
        self.all_gone(space, "while munmap finds it gone");
        let mut room = room::<_, 2>();
        let mut gather: Gather<'_, _, Option<Page>, _> =
            Gather::new(self.machine, owner, &mut room, |held| {
                if let Some(page) = held {
                    self.gone(page, "after its frame was released");
                }
            });
        let mut changes = gather.under(lock);
        for page in pages.clone() {
            let frame = self.truth.borrow_mut().mapped.remove(&(space, page));
            if frame.is_some() {
                changes.clear(
                    address(page),
                    PageSize::KIB_4,
                    |_| Entry::READ_ONLY,
                    |_| Some(Some((space, page))),
                );
            }
        }
        if tables {
            changes.unlink(0, PageSize::KIB_4, |_| Some(None));
        }
        drop(changes);
        gather.finish();
        for page in pages {
            self.gone((space, page), "after munmap returned");
        }
        for cpu in 0..self.cpus {
            let idles = self.machine.root(cpu) == Some(owner.root()) && self.runs(cpu) != Some(space);
            // A CPU that loads a space with the shared ASID flushes it, so what stands there belongs to its loaded
            // space.
            let remembers = owner.asid().is_some_and(|asid| {
                let own = asid != Asid::SHARED || self.machine.root(cpu) == Some(owner.root());
                own && self.machine.walked(cpu, asid, 0)
            });
            if tables && (idles || remembers) {
                self.broken(format!("CPU {cpu} may walk freed tables of space {space}"));
            }
        }
    }

    /// Takes rights away from a page: entries from before must go. The frame's number stands for both.
    fn protect(&self, batch: &mut impl Narrow, page: Page, strict: bool) {
        let owner = &self.space(page.0);
        let narrowed = || {
            let mut truth = self.truth.borrow_mut();
            truth.frames += 1;
            let fresh = truth.frames;
            let old = truth.mapped.insert(page, fresh)?;
            Some((old, was(address(page.1), false)))
        };
        if self.truth.borrow().owed.contains_key(&page) || !self.truth.borrow().mapped.contains_key(&page) {
            return;
        }
        if strict {
            let lock = self.machine.settled(owner);
            let mut gather: Gather<'_, _, (), _> = Gather::new(self.machine, owner, &mut [], drop);
            if let Some((_, narrowed)) = narrowed() {
                unmap(&mut gather, lock, narrowed, None);
            }
            gather.finish();
            self.gone(page, "after mprotect returned");
        } else if let Some((old, narrowed)) = narrowed() {
            self.truth.borrow_mut().owed.insert(page, old);
            batch.narrow_and_hold(owner, narrowed, page);
        }
    }

    /// A page comes out of the batch.
    fn settled(&self, page: Owed<Page>) {
        let frame = self.truth.borrow_mut().owed.remove(page.get());
        match (self.machine.redeem(page), frame) {
            (Err(page), Some(frame)) => {
                let mut stamp = Stamp::SETTLED;
                let page = page.leave_in(&mut stamp);
                self.truth.borrow_mut().left.push((page, frame, stamp));
            }
            (Ok(page), _) => self.gone(page, "after it came out of the batch"),
            (Err(page), None) => self.broken(format!("{page:?} was never recorded")),
        }
    }

    /// Ends a space in which no batch owes anything, and puts a new one in its place.
    fn renew(&self, space: usize, root: u64) {
        // Its debts are settled when its range is unmapped.
        drop(self.machine.settled(&self.space(space)));
        self.all_gone(space, "after it ended");
        self.truth.borrow_mut().left.retain(|(page, ..)| page.0 != space);
        let old = self.space(space);
        for cpu in 0..self.cpus {
            if self.machine.cpu(cpu).loaded() == old.id() {
                drop(self.machine.on(cpu, ceasefire::Engine::unload));
            }
        }
        self.truth.borrow_mut().mapped.retain(|(owner, _), _| *owner != space);
        assert_eq!(self.machine.retire(&old), Ok(()));
        let new = self.machine.space(root);
        if space == DEVICE {
            old.detach_device();
            new.attach_device();
        }
        self.spaces.borrow_mut()[space] = new;
    }
}

/// A batch that narrows and holds; its type cannot be written.
trait Narrow {
    fn narrow_and_hold(&mut self, space: &Space, was: Was, page: Page);
}

impl<R: FnMut(Owed<Page>)> Narrow for Batch<'_, Script, Page, R, 4> {
    fn narrow_and_hold(&mut self, space: &Space, was: Was, page: Page) {
        self.restrict(space, was, page);
    }
}

/// Plays a history, and returns the violation that it found.
#[allow(clippy::too_many_lines)] // One step after the other, each with its meaning.
pub(crate) fn play(
    machine: &Machine,
    schedule: Schedule,
    cpus: usize,
    spaces: usize,
    steps: &[Step],
) -> Result<(), String> {
    let spaces: Vec<Space> = (0..spaces).map(|space| machine.space(space as u64 + 1)).collect();
    spaces[DEVICE].attach_device();
    let count = spaces.len();
    let world = World { machine, spaces: RefCell::new(spaces), cpus, truth: RefCell::default() };
    let new = || Batch::<'_, _, Page, _, 4>::new(machine, schedule, |page| world.settled(page));
    // A batch belongs to one task, which moves. Every other step belongs to some other task.
    let mut batches = [new(), new()];
    let homes = [Cell::new(0), Cell::new(0)];
    let carry = |batch: usize, cpu: usize| machine.move_task(homes[batch].replace(cpu % cpus), cpu % cpus);
    let go = |cpu: usize| {
        machine.go(cpu % cpus);
        cpu % cpus
    };
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Switch { cpu, space } => machine.switch(go(cpu), &world.space(space % count)),
            Step::Lazy { cpu } => machine.lazy(go(cpu)),
            Step::Unload { cpu } => {
                go(cpu);
                drop(machine.unload());
            }
            Step::Fill { cpu, page } => world.fill(go(cpu), page),
            Step::DeviceFill { page } => {
                if let Some(frame) = world.walk((DEVICE, page)) {
                    machine.device_fill(&world.space(DEVICE), address(page), frame);
                }
            }
            Step::Flush { cpu, space, page } => {
                go(cpu);
                let space = space % count;
                machine.flush(&world.space(space), Flush::page(address(page), PageSize::KIB_4));
                world.gone((space, page), "after a flush of it");
            }
            Step::Unmap { cpu, space, first, pages, tables } => {
                go(cpu);
                world.unmap(space % count, first..(first + pages).min(PAGES), tables);
            }
            Step::Protect { cpu, space, page, strict } => {
                let of = page as usize % 2;
                if strict {
                    go(cpu);
                } else {
                    carry(of, cpu);
                }
                world.protect(&mut batches[of], (space % count, page), strict);
            }
            Step::Reclaim { cpu, space, page, dirty } => {
                let of = page as usize % 2;
                carry(of, cpu);
                let batch = &mut batches[of];
                let page = (space % count, page);
                if world.unmaps(page) {
                    let (space, translation) = (world.space(page.0), was(address(page.1), dirty));
                    if dirty {
                        let written = batch.unmap_to_write(&space, translation, page).into_page();
                        world.gone(written, "while it is written out");
                        batch.hold(page);
                    } else {
                        batch.unmap(&space, translation, page);
                    }
                }
            }
            Step::ReleaseInDebt { cpu, space, page, writable } => {
                let of = page as usize % 2;
                carry(of, cpu);
                let batch = &mut batches[of];
                let page = (space % count, page);
                if world.unmaps(page) {
                    let entry = Entry { writable, ..Entry::READ_ONLY };
                    batch.unmap_and_release(&world.space(page.0), small(address(page.1), entry), page);
                }
            }
            Step::Tick { cpu, time } => {
                machine.pass(time);
                if machine.tick(go(cpu)) {
                    machine.pay_overdue();
                }
            }
            Step::PayAll { cpu } => {
                go(cpu);
                machine.pay_all();
                let unpaid = world.truth.borrow().left.iter().any(|(.., stamp)| !machine.is_settled(*stamp));
                if unpaid {
                    world.broken("a debt stands after all were paid".into());
                }
            }
            Step::FlushHere { cpu } => {
                let cpu = go(cpu);
                if machine
                    .platform()
                    .capabilities()
                    .broadcast
                    .map_or(true, |it| it.holders() == Holders::Wide)
                {
                    machine.flush_here();
                    if !machine.usable(cpu).is_empty() {
                        world.broken(format!("CPU {cpu} uses something after it flushed everything"));
                    }
                }
            }
            Step::SettleBatch { cpu } => {
                let of = cpu / 2;
                carry(of, cpu);
                batches[of].flush();
                // Interrupts bring a space up to date as a whole. A broadcast pays only for itself, and may be paid
                // again.
                let broadcasts = machine.platform().capabilities().broadcast.is_some();
                let owing = |space: &Space| !broadcasts && machine.owes(space);
                let lazy = schedule == Schedule::Lazy;
                if !lazy && batches.iter().all(Batch::is_empty) && world.spaces.borrow().iter().any(owing) {
                    world.broken("a space owes after every batch settled".into());
                }
            }
            Step::SettleSpace { cpu, space } => {
                go(cpu);
                let space = space % count;
                drop(machine.settled(&world.space(space)));
                world.all_gone(space, "after its space was settled");
                for page in 0..PAGES {
                    if world.truth.borrow().owed.contains_key(&(space, page)) {
                        world.gone((space, page), "after its space was settled");
                    }
                }
            }
            Step::Renew { cpu, space } => {
                for (of, batch) in batches.iter_mut().enumerate() {
                    carry(of, cpu);
                    batch.flush();
                }
                world.renew(space % count, (count + number) as u64 + 1);
            }
        }
        world.check();
    }
    for (batch, home) in batches.into_iter().zip(&homes) {
        go(home.get());
        drop(batch);
    }
    world.check();
    world.truth.take().broken.map_or(Ok(()), Err)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ceasefire_testing::cases(10_000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_keep_every_rule((cpus, spaces, steps) in history()) {
        prop_assert_eq!(play(&machine(cpus), Schedule::Batched, cpus, spaces, &steps), Ok(()));
    }

    #[test]
    fn random_histories_keep_every_rule_while_debts_stand((cpus, spaces, steps) in history()) {
        prop_assert_eq!(play(&lazy(cpus), Schedule::Lazy, cpus, spaces, &steps), Ok(()));
    }

    #[test]
    fn random_histories_keep_every_rule_when_debts_are_paid_on_demand((cpus, spaces, steps) in history()) {
        let machine = lazy_until(cpus, Payment::Demand);
        prop_assert_eq!(play(&machine, Schedule::Lazy, cpus, spaces, &steps), Ok(()));
    }

    /// With one to three ASIDs beside the shared one, so they run out and are used again.
    #[test]
    fn random_histories_keep_every_rule_with_broadcasts((cpus, spaces, steps) in history(), asids in 2..=4_u32) {
        prop_assert_eq!(play(&broadcasting(cpus, asids), Schedule::Batched, cpus, spaces, &steps), Ok(()));
    }

    #[test]
    fn random_histories_keep_every_rule_with_debts_settled_by_broadcasts((cpus, spaces, steps) in history(), asids in 2..=4_u32) {
        let machine = lazy_broadcasting(cpus, asids);
        prop_assert_eq!(play(&machine, Schedule::Lazy, cpus, spaces, &steps), Ok(()));
    }

    /// With one or two global ASIDs, so spaces get them and give them back all the time.
    #[test]
    fn random_histories_keep_every_rule_while_spaces_move_to_broadcasts_and_back(
        (cpus, spaces, steps) in history(), asids in 1..=2_u32,
    ) {
        prop_assert_eq!(play(&hybrid(cpus, asids), Schedule::Batched, cpus, spaces, &steps), Ok(()));
    }

    /// Firmware that fences all harts before it returns, and actions that go to chosen CPUs, behind the same trait.
    #[test]
    fn random_histories_keep_every_rule_for_every_carrier_of_broadcasts((cpus, spaces, steps) in history(), asids in 2..=4_u32) {
        for carried in [Carried::AtOnce, Carried::ToHolders] {
            for machine in [broadcasting(cpus, asids), lazy_hybrid(cpus, asids)] {
                let machine = machine.carrying(carried);
                prop_assert_eq!(play(&machine, Schedule::Lazy, cpus, spaces, &steps), Ok(()));
            }
        }
    }

    /// A hypervisor or hardware flushes for some CPUs, which answer nothing.
    #[test]
    fn random_histories_keep_every_rule_where_the_platform_flushes((cpus, spaces, steps) in history(), first in 0..4_usize) {
        let machine = lazy(cpus).flushing_for(first..cpus);
        prop_assert_eq!(play(&machine, Schedule::Lazy, cpus, spaces, &steps), Ok(()));
        let machine = lazy_hybrid(cpus, 1).flushing_for(first..cpus);
        prop_assert_eq!(play(&machine, Schedule::Batched, cpus, spaces, &steps), Ok(()));
    }

    #[test]
    fn random_histories_keep_every_rule_while_spaces_move_to_broadcasts_and_owe((cpus, spaces, steps) in history(), asids in 1..=2_u32) {
        prop_assert_eq!(play(&lazy_hybrid(cpus, asids), Schedule::Lazy, cpus, spaces, &steps), Ok(()));
    }
}
