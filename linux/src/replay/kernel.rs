//! The recorded processes on the CPUs of the replayed machine, and the engine's flushes for them.

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use ceasefire::{
    Batch, Bounds, Condition, CpuId, Engine, Entry, Flush, Gather, Owed, PageSize, Payment, Place, Root,
    Schedule, TableGuard, SINGLE_PAGE_CEILING,
};
use foldhash::HashMap;

use crate::events::PAGE_SHIFT;
use crate::replay::frames::User;
use crate::replay::hardware::{Asked, Hardware, Space};
use crate::replay::pending::Answer;
use crate::shootdowns::Cause;

/// Linux's default tick, `CONFIG_HZ=250`, and the age that a debt may have.
const TICK_NS: u64 = 4_000_000;
const AGE_NS: u64 = 10_000_000;

/// The part of all frames that may owe: see `OWED_SHARE` of the memory manager.
const OWED_SHARE: u64 = 8;

/// A kernel that runs the engine.
#[derive(Debug)]
pub(super) struct Kernel {
    engine: Rc<Engine<Hardware>>,
    spaces: HashMap<u32, Space>,
    /// What each CPU runs: a process, or none for the kernel and the idle loop.
    running: Vec<Option<u32>>,
    schedule: Schedule,
    /// Frames that came out owing, the oldest first, with the slots in which their pages may be found again.
    owing: VecDeque<Owed<u64>>,
    most_owing: usize,
    next_tick_ns: u64,
    roots: u64,
}

/// The page-table lock of a space.
struct Locked<'a>(&'a Space);

// SAFETY: a replay has no translations; one thread runs it. It names one space.
unsafe impl TableGuard<Hardware> for Locked<'_> {
    fn space(&self) -> &Space {
        self.0
    }
}

/// A flush by a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OwnFlush {
    /// The number of pages, or all.
    pub(super) pages: Option<u64>,
    /// Whether page tables are freed: CPUs that idle with the space are interrupted then.
    pub(super) tables: bool,
}

/// A page that the kernel takes back: its frame and the translations to it.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) frame: u64,
    pub(super) users: Vec<User>,
}

impl Kernel {
    /// A kernel on a machine with so many CPUs and frames.
    pub(super) fn new(cpus: usize, frames: u64, schedule: Schedule, broadcasts: bool) -> Self {
        let bounds = Bounds::new(AGE_NS, TICK_NS, Payment::Free).unwrap_or(Bounds::STRICT);
        let engine = Hardware::engine(cpus, broadcasts, bounds);
        let kernel = Self {
            spaces: HashMap::default(),
            running: vec![None; engine.platform().cpu_count()],
            schedule,
            owing: VecDeque::new(),
            most_owing: (frames / OWED_SHARE) as usize,
            next_tick_ns: 0,
            roots: 0,
            engine,
        };
        for cpu in 0..kernel.running.len() {
            if kernel.is_at(cpu as u32, 0) {
                kernel.engine.online();
            }
        }
        kernel
    }

    /// Makes the next calls of the engine on a CPU; false if the machine has no such CPU.
    fn is_at(&self, cpu: u32, now_ns: u64) -> bool {
        let known = CpuId::new(cpu as usize).ok().filter(|cpu| cpu.index() < self.running.len());
        known.inspect(|cpu| self.engine.platform().at(*cpu, now_ns)).is_some()
    }

    /// The requests so far.
    pub(super) fn requests(&self) -> u64 {
        self.engine.platform().requests()
    }

    /// The requests so far, and the interrupts that they took.
    pub(super) fn asked(&self) -> Asked {
        self.engine.platform().asked()
    }

    /// The next requests are made for a cause.
    pub(super) fn works_for(&self, cause: Cause) {
        self.engine.platform().works_for(cause);
    }

    /// The interrupts so far, by cause.
    pub(super) fn interrupts(&self) -> BTreeMap<Cause, u64> {
        self.engine.platform().interrupts()
    }

    /// The next requests are those of a recorded flush; without answers, of none.
    pub(super) fn tell(&self, answers: &[Answer]) {
        self.engine.platform().tell(answers);
    }

    /// A CPU asks another one, which the engine would pass over.
    pub(super) fn ask(&self, sender: u32, target: u32) {
        let cpu = |cpu: u32| CpuId::new(cpu as usize).ok().filter(|cpu| cpu.index() < self.running.len());
        if let (Some(sender), Some(target)) = (cpu(sender), cpu(target)) {
            self.engine.platform().ask(sender, target);
        }
    }

    /// The requests so far, by the CPU that sent them.
    pub(super) fn sent(&self) -> Vec<u64> {
        self.engine.platform().sent()
    }

    /// The requests so far, by the CPU that received them.
    pub(super) fn received(&self) -> Vec<u64> {
        self.engine.platform().received()
    }

    /// A CPU runs a process, or the kernel or nothing (0).
    pub(super) fn runs(&mut self, cpu: u32, process: u32, now_ns: u64) {
        let next = (process != 0).then_some(process);
        if self.running.get(cpu as usize).is_none_or(|running| *running == next) || !self.is_at(cpu, now_ns) {
            return;
        }
        self.running[cpu as usize] = next;
        match next {
            None => self.engine.enter_lazy(),
            Some(process) => {
                let space = self.space(process);
                drop(self.engine.switch_to(&space));
            }
        }
    }

    /// The process that a CPU runs; none for the kernel or nothing.
    pub(super) fn running(&self, cpu: u32) -> Option<u32> {
        self.running.get(cpu as usize).copied().flatten()
    }

    /// The space of a process.
    fn space(&mut self, process: u32) -> Space {
        let (engine, roots) = (&self.engine, &mut self.roots);
        let new = || {
            *roots += 1;
            Rc::new(engine.new_space(Root(*roots << PAGE_SHIFT)))
        };
        Rc::clone(self.spaces.entry(process).or_insert_with(new))
    }

    /// A process ends, or starts another program: its space goes with the last CPU that leaves it.
    pub(super) fn ends(&mut self, process: u32) {
        if let Some(space) = self.spaces.remove(&process) {
            // A space that a CPU has loaded keeps its global ASID until that CPU leaves it.
            let _ = self.engine.retire(&space);
        }
        for running in &mut self.running {
            if *running == Some(process) {
                *running = None;
            }
        }
    }

    /// A program's own flush: it must be done when the call returns.
    pub(super) fn flush(&mut self, cpu: u32, process: u32, flush: OwnFlush, now_ns: u64) {
        if !self.is_at(cpu, now_ns) {
            return;
        }
        let space = self.space(process);
        let most = u64::from(SINGLE_PAGE_CEILING) + 1;
        let last = flush.pages.map_or(most, |pages| pages.clamp(1, most)) - 1;
        let mut room = [Place::<()>::EMPTY; 1];
        let mut gather = Gather::new(&*self.engine, &space, &mut room, |()| ());
        let mut changes = gather.under(self.engine.settle(Locked(&space)));
        for page in [0, last] {
            changes.clear(page << PAGE_SHIFT, PageSize::KIB_4, |_| Entry::DIRTY, |_| None);
        }
        if flush.tables {
            changes.unlink(0, PageSize::KIB_4, |_| None);
        }
        drop(changes);
        gather.finish();
    }

    /// The kernel flushes ranges of its own.
    pub(super) fn flush_kernel(&mut self, cpu: u32, now_ns: u64) {
        if self.is_at(cpu, now_ns) {
            self.engine.flush_kernel(Flush::ALL);
        }
    }

    /// The kernel takes pages back, in one batch.
    pub(super) fn take(&mut self, cpu: u32, pages: &[Taken], now_ns: u64) {
        if !self.is_at(cpu, now_ns) {
            return;
        }
        let spaces: Vec<Vec<(Space, &User)>> = pages
            .iter()
            .map(|page| page.users.iter().map(|user| (self.space(user.process), user)).collect())
            .collect();
        let (engine, owing) = (&self.engine, &mut self.owing);
        let release = |owed: Owed<u64>| {
            if let Err(owed) = engine.redeem(owed) {
                owing.push_back(owed);
            }
        };
        // Migration takes up to 512 pages at a time, and reclaim 32.
        let mut batch = Batch::<_, _, _, 512>::new(engine, self.schedule, release);
        for (page, users) in pages.iter().zip(&spaces) {
            let mut unmapping = batch.take(page.frame);
            for (space, user) in users {
                let entry = if user.stores { Entry::DIRTY } else { Entry::READ_ONLY };
                unmapping.clear(&Locked(space), user.page << PAGE_SHIFT, PageSize::KIB_4, |_| entry);
            }
            unmapping.release_in_debt(Condition::UNKEPT);
        }
        drop(batch);
        while self.owing.len() > self.most_owing {
            self.pay();
        }
    }

    /// Pays the oldest debt, and with it all that are as old.
    fn pay(&mut self) {
        if let Some(owed) = self.owing.pop_front() {
            self.engine.pay(owed);
        }
    }

    /// A page that was taken back is found again, perhaps while its debt stands.
    pub(super) fn is_found(&mut self, cpu: u32, frame: u64, now_ns: u64) {
        if self.owing.is_empty() || !self.is_at(cpu, now_ns) {
            return;
        }
        if let Some(at) = self.owing.iter().position(|owed| *owed.get() == frame) {
            if let Some(owed) = self.owing.remove(at) {
                self.engine.pay(owed);
            }
        }
    }

    /// The timer of each busy CPU ticks, as often as it is due. The caller tells the time so before all else that happens
    /// then.
    pub(super) fn tick(&mut self, now_ns: u64) {
        if now_ns < self.next_tick_ns {
            return;
        }
        self.next_tick_ns = now_ns + TICK_NS;
        if self.schedule != Schedule::Lazy {
            return;
        }
        for cpu in 0..self.running.len() {
            if self.running[cpu].is_some() && self.is_at(cpu as u32, now_ns) && self.engine.tick() {
                // A debt is too old.
                self.pay();
            }
        }
        while let Some(owed) = self.owing.pop_front() {
            if let Err(owed) = self.engine.redeem(owed) {
                self.owing.push_front(owed);
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: OwnFlush = OwnFlush { pages: Some(1), tables: false };

    fn kernel(schedule: Schedule, broadcasts: bool) -> Kernel {
        let mut kernel = Kernel::new(6, 1 << 20, schedule, broadcasts);
        // Process 7 runs on CPUs 0 to 4, process 8 on CPU 5.
        for cpu in 0..5 {
            kernel.runs(cpu, 7, 0);
        }
        kernel.runs(5, 8, 0);
        kernel
    }

    fn pages(count: u64, stores: bool) -> Vec<Taken> {
        let user = |page| User { process: 7, page, stores };
        (0..count).map(|frame| Taken { frame, users: vec![user(frame)] }).collect()
    }

    #[test]
    fn a_flush_interrupts_the_cpus_that_run_the_process() {
        let mut kernel = kernel(Schedule::Batched, false);
        kernel.flush(0, 7, ONE, 100);
        assert_eq!((kernel.asked().requests, kernel.received()), (4, vec![0, 1, 1, 1, 1, 0]));
        // Idle CPUs are left out, and flush when they come back.
        kernel.runs(1, 0, 200);
        kernel.flush(0, 7, OwnFlush { pages: None, tables: false }, 300);
        assert_eq!(kernel.asked().requests, 7);
        kernel.runs(1, 7, 400);
        kernel.ends(7);
        kernel.flush(5, 8, ONE, 500);
        assert_eq!(kernel.asked().requests, 7);
    }

    #[test]
    fn a_flush_that_frees_page_tables_interrupts_idle_cpus_too() {
        let mut kernel = kernel(Schedule::Batched, false);
        kernel.runs(1, 0, 100);
        kernel.flush(0, 7, ONE, 200);
        assert_eq!(kernel.received(), [0, 0, 1, 1, 1, 0]);
        kernel.flush(0, 7, OwnFlush { pages: None, tables: true }, 300);
        assert_eq!(kernel.received(), [0, 1, 2, 2, 2, 0]);
    }

    #[test]
    fn a_batch_interrupts_once_and_pages_one_by_one_each_time() {
        for (schedule, interrupts) in [(Schedule::PerPage, 4 * 20), (Schedule::Batched, 4)] {
            let mut kernel = kernel(schedule, false);
            kernel.take(0, &pages(20, false), 100);
            assert_eq!(kernel.asked().requests, interrupts, "{schedule:?}");
        }
    }

    #[test]
    fn lazy_debts_are_settled_by_ticks_unless_a_page_could_be_stored_to() {
        let mut kernel = kernel(Schedule::Lazy, false);
        kernel.take(0, &pages(20, false), 100);
        assert_eq!((kernel.asked().requests, kernel.owing.len()), (0, 20));
        for time in 1..10 {
            kernel.tick(time * TICK_NS);
        }
        assert_eq!((kernel.asked().requests, kernel.owing.len()), (0, 0));
        kernel.take(0, &pages(20, true), 50 * TICK_NS);
        assert_eq!(kernel.asked().requests, 4);
    }

    #[test]
    fn a_page_that_is_found_again_is_paid_for() {
        let mut kernel = kernel(Schedule::Lazy, false);
        kernel.take(0, &pages(2, false), 100);
        kernel.is_found(0, 77, 200);
        assert_eq!(kernel.asked().requests, 0);
        kernel.is_found(0, 1, 300);
        assert_eq!(kernel.asked().requests, 4);
    }

    #[test]
    fn broadcasts_replace_the_interrupts_of_a_wide_process() {
        let mut kernel = kernel(Schedule::Batched, true);
        for time in 0..500 {
            kernel.flush(0, 7, ONE, time);
        }
        let before = kernel.asked().requests;
        assert!(before < 4 * 200, "{before}");
        kernel.flush(0, 7, ONE, 1000);
        assert_eq!(kernel.asked().requests, before);
    }
}
