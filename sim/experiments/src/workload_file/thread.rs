//! The program of a thread: it works through the phases of its group.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use ceasefire_machine::Program;
use ceasefire_memory::{FaultError, Memory, PAGE_BYTES};
use rand_distr::{Distribution, Zipf};

use super::language::{Access, Advise, Operation, Owner, Pattern, Phase, Role, Stores, Workload};
use super::layout::Layout;
use super::pool::Pool;
use super::process::{Process, Slot};
use super::range::Range;
use super::tally::Tally;
use crate::workloads::{Random, Reader};

/// The interval at which a thread looks for the end of another: 1 us, in picoseconds.
const LOOK: u64 = 1_000_000;
/// The least time of a round: 1 ns, in picoseconds.
const MOMENT: u64 = 1_000;
/// The words of a page.
const WORDS: u64 = PAGE_BYTES / 8;
/// The step from the page of one rank to that of the next, so that favourites do not lie side by side: a prime, so that
/// no two ranks have the same page.
const SCATTER: u64 = 2_654_435_761;

/// What all threads of a run use.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) workload: &'static Workload,
    pub(super) layout: Layout,
    pub(super) tally: Tally,
    /// The number of CPUs.
    pub(super) cpus: u16,
}

/// A thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) run: Rc<Run>,
    pub(super) process: Rc<Process>,
    /// Its group, and the group whose processes have its mappings.
    pub(super) group: usize,
    pub(super) home: usize,
    /// Its number among the threads of its group in the process.
    pub(super) index: u64,
    pub(super) cpu: u16,
    pub(super) random: Random,
    pub(super) slots: Vec<Slot>,
    pub(super) pools: Vec<Rc<Pool>>,
    /// The objects of each allocator that it holds, the oldest first.
    pub(super) held: Vec<VecDeque<u64>>,
    pub(super) cursors: Vec<Vec<Cursor>>,
}

/// A thread's place in a range.
#[derive(Debug, Clone, Default)]
pub(super) struct Cursor {
    /// The next page of each operation that walks through the range. `None`: not begun.
    next: Vec<Option<u64>>,
    /// The page used last.
    last: u64,
    reader: Reader,
}

/// Why a thread's program ended.
enum End {
    /// It has done its work.
    Done,
    /// The measured time is over.
    CutOff,
}

impl Thread {
    /// Runs the thread to its end.
    pub(super) fn run(mut self, program: &Program) {
        // A child has the mappings that its parent had.
        let forked = matches!(self.run.workload.groups[self.group].role, Role::ForkedBy(_));
        let mapped = if forked { Ok(()) } else { self.map_all(program) };
        let ended = mapped.and_then(|()| self.work(program));
        let tally = &self.run.tally;
        let running = &tally.running[self.group];
        running.set(running.get() - 1);
        match ended {
            Ok(End::Done) => self.leave(program),
            Ok(End::CutOff) => {}
            Err(error) => tally.fail(error),
        }
    }

    /// Leaves the process. Its last thread ends it.
    fn leave(&self, program: &Program) {
        let alive = &self.process.alive;
        if self.process.threads > 1 {
            program.leave_space();
        }
        alive.set(alive.get() - 1);
        if alive.get() == 0 {
            program.system_call(|memory, space| memory.exit(space.clone()));
        }
    }

    /// Maps the ranges that the thread's group declares, and waits for those of the other threads.
    fn map_all(&mut self, program: &Program) -> Result<(), FaultError> {
        let mappings = &self.run.workload.groups[self.home].mappings;
        for (mapping, slot) in mappings.iter().zip(&self.slots) {
            let mine = mapping.owner == Owner::Thread || self.index == 0;
            if mapping.group == self.group && mapping.mapped && mine {
                slot.ranges().iter().try_for_each(|range| range.map(program))?;
            }
        }
        for (mapping, slot) in mappings.iter().zip(&self.slots) {
            let others = mapping.owner != Owner::Thread && mapping.mapped;
            while others && !slot.ranges().iter().all(Range::is_mapped) {
                if let Some((_, error)) = self.run.tally.failed.get() {
                    return Err(error);
                }
                program.compute(LOOK);
            }
        }
        Ok(())
    }

    fn work(&mut self, program: &Program) -> Result<End, FaultError> {
        let run = self.run.clone();
        for phase in &run.layout.groups[self.group].phases {
            if let End::CutOff = self.work_through(program, phase)? {
                return Ok(End::CutOff);
            }
        }
        Ok(End::Done)
    }

    fn work_through(&mut self, program: &Program, phase: &Phase<u64>) -> Result<End, FaultError> {
        let run = self.run.clone();
        let tally = &run.tally;
        let mut due = program.now();
        for round in 0.. {
            let ended = phase.until.is_some_and(|group| tally.running[group].get() == 0);
            if ended || phase.times == Some(round) {
                break;
            }
            let begun = program.now();
            let mut counted = 1;
            for operation in &phase.operations {
                counted *= u64::from(self.perform(program, operation)?);
            }
            take_some_time(program, begun);
            if phase.latency && tally.is_measuring() {
                tally.latencies.add(program.now() - begun);
            }
            let counted = if phase.counts { counted } else { 0 };
            if tally.count(program, counted) {
                return Ok(End::CutOff);
            }
            if tally.is_measuring() {
                self.process.operations.set(self.process.operations.get() + counted);
            }
            if let Some(time) = phase.think {
                program.compute(time.draw(&mut self.random));
            }
            if let Some(every) = phase.every {
                due += every;
                if let Some(left) = due.checked_sub(program.now()).filter(|left| *left > 0) {
                    program.sleep(left);
                }
            }
        }
        Ok(End::Done)
    }

    /// Performs an operation, and returns whether its round may count as an operation of the run.
    fn perform(&mut self, program: &Program, operation: &Operation<u64>) -> Result<bool, FaultError> {
        match operation {
            Operation::Access(access) => self.access(program, access)?,
            Operation::Advise(advise) => self.advise(program, advise)?,
            &Operation::Write(mapping) => {
                let (range, _) = self.pick(mapping);
                let offset = self.random.below(range.pages * WORDS) * 8;
                range.write(program, offset)?;
            }
            &Operation::Map(mapping) => self.pick(mapping).0.map(program)?,
            &Operation::Unmap(mapping) => self.pick(mapping).0.unmap(program)?,
            &Operation::Protect { mapping, writable } => self.pick(mapping).0.protect(program, writable)?,
            Operation::Compute(time) => program.compute(time.draw(&mut self.random)),
            Operation::Sleep(time) => program.sleep(time.draw(&mut self.random)),
            Operation::Choose(choices) => {
                let all: u32 = choices.iter().map(|(weight, ..)| weight).sum();
                let mut drawn = self.random.below(all.into());
                for (weight, counts, operation) in choices {
                    if drawn < u64::from(*weight) {
                        return Ok(self.perform(program, operation)? && *counts);
                    }
                    drawn -= u64::from(*weight);
                }
            }
            Operation::Repeat(times, operations) => {
                for _ in 0..*times {
                    let begun = program.now();
                    for operation in operations {
                        self.perform(program, operation)?;
                    }
                    take_some_time(program, begun);
                }
            }
            &Operation::Fork { group, wait } => self.fork(program, group, wait)?,
            &Operation::Allocate { allocator, objects } => {
                for _ in 0..objects {
                    self.allocate(program, allocator)?;
                }
            }
            &Operation::Free { allocator, objects, oldest } => {
                for _ in 0..objects {
                    let held = &mut self.held[allocator];
                    if held.is_empty() {
                        break;
                    }
                    let at = if oldest { 0 } else { self.random.below(held.len() as u64) as usize };
                    let object = self.held[allocator].remove(at);
                    object.map_or(Ok(()), |object| self.pools[allocator].free(program, object))?;
                }
            }
            &Operation::Purge { allocator, objects } => {
                self.pools[allocator].purge(program, objects as usize)?;
            }
        }
        Ok(true)
    }

    /// The range of a mapping, and its number among several.
    fn pick(&mut self, mapping: usize) -> (Range, usize) {
        match &self.slots[mapping] {
            Slot::One(range) => (range.clone(), 0),
            Slot::Several(ranges) => {
                let at = self.random.below(ranges.len() as u64) as usize;
                (ranges[at].clone(), at)
            }
        }
    }

    fn access(&mut self, program: &Program, access: &Access<u64>) -> Result<(), FaultError> {
        let home = &self.run.layout.groups[self.home];
        let pooled = home.allocators.iter().position(|allocator| allocator.mapping == access.mapping);
        for _ in 0..access.pages {
            let (range, at) = self.pick(access.mapping);
            let offset = match pooled {
                None => self.offset(program, &range, (access.mapping, at), access.pattern, access.striped)?,
                Some(pool) => match self.held_offset(pool) {
                    Some(offset) => offset,
                    None => return Ok(()),
                },
            };
            let store = match access.stores {
                Stores::None => false,
                Stores::All => true,
                Stores::Some(stores, of) => self.random.next() % of >= of - stores,
            };
            let cursor = &mut self.cursors[access.mapping][at];
            range.access(program, offset, access.words, store, &mut cursor.reader)?;
        }
        Ok(())
    }

    /// The offset of a random word of an object that the thread holds, if it holds any.
    fn held_offset(&mut self, pool: usize) -> Option<u64> {
        let (held, object, used) = (&self.held[pool], self.pools[pool].object, self.pools[pool].used);
        if held.is_empty() {
            return None;
        }
        let at = held[self.random.below(held.len() as u64) as usize];
        Some(at * object * PAGE_BYTES + self.random.below(used * WORDS) * 8)
    }

    /// The offset of the next word of a pattern.
    fn offset(
        &mut self,
        program: &Program,
        range: &Range,
        (mapping, at): (usize, usize),
        pattern: Pattern,
        striped: bool,
    ) -> Result<u64, FaultError> {
        let pages = range.pages;
        let cursor = &mut self.cursors[mapping][at];
        let offset = match pattern {
            Pattern::Sequential { anywhere, walk } => {
                let (start, step) = if striped {
                    (self.index % pages, self.run.layout.groups[self.group].threads[0])
                } else {
                    (0, 1)
                };
                let first = || if anywhere { self.random.below(pages) } else { start };
                let mut page = cursor.next.get(walk).copied().flatten().unwrap_or_else(first);
                if page >= pages {
                    page = start;
                    if self.run.workload.groups[self.home].mappings[mapping].renew {
                        range.unmap(program)?;
                        range.map(program)?;
                    }
                }
                if cursor.next.len() <= walk {
                    cursor.next.resize(walk + 1, None);
                }
                cursor.next[walk] = Some(page + step);
                page * PAGE_BYTES
            }
            Pattern::Random => self.random.below(pages * WORDS) * 8,
            Pattern::Zipf(skew) => {
                favourite(&mut self.random, pages, skew) * PAGE_BYTES + self.random.below(WORDS) * 8
            }
            Pattern::Same | Pattern::Whole => cursor.last.min(pages - 1) * PAGE_BYTES,
        };
        cursor.last = offset / PAGE_BYTES;
        Ok(offset)
    }

    fn advise(&mut self, program: &Program, advise: &Advise<u64>) -> Result<(), FaultError> {
        let mut parts = Vec::new();
        let (range, at) = self.pick(advise.mapping);
        if advise.pattern == Pattern::Whole {
            return range.advise(program, advise.advice, &[(0, range.pages * PAGE_BYTES)]);
        }
        for _ in 0..advise.pages {
            let offset = self.offset(program, &range, (advise.mapping, at), advise.pattern, false)?;
            parts.push((offset / PAGE_BYTES * PAGE_BYTES, PAGE_BYTES));
            if parts.len() as u64 == advise.batch {
                range.advise(program, advise.advice, &parts)?;
                parts.clear();
            }
        }
        if parts.is_empty() {
            Ok(())
        } else {
            range.advise(program, advise.advice, &parts)
        }
    }

    /// Takes an object and stores to its used pages.
    fn allocate(&mut self, program: &Program, allocator: usize) -> Result<(), FaultError> {
        let pool = self.pools[allocator].clone();
        let object = pool.allocate(program)?;
        self.held[allocator].push_back(object);
        let mapping = self.run.layout.groups[self.home].allocators[allocator].mapping;
        for page in 0..pool.used {
            let offset = (object * pool.object + page) * PAGE_BYTES;
            let reader = &mut self.cursors[mapping][0].reader;
            pool.range().access(program, offset, 1, true, reader)?;
        }
        Ok(())
    }

    /// Forks a process with one thread, on the next CPU.
    fn fork(&mut self, program: &Program, group: usize, wait: bool) -> Result<(), FaultError> {
        let child = program.system_call(Memory::fork).map_err(|_| FaultError::OutOfMemory)?;
        let slots: Vec<Slot> = self.slots.iter().map(Slot::forked).collect();
        let (tally, random) = (&self.run.tally, Random::new(self.random.next()));
        tally.running[group].set(tally.running[group].get() + 1);
        let cpu = (self.cpu + 1) % self.run.cpus;
        let process = Process {
            slots: Vec::new(),
            pools: Vec::new(),
            alive: Cell::new(1),
            threads: 1,
            operations: Cell::new(0),
        };
        let thread = Thread {
            run: self.run.clone(),
            process: Rc::new(process),
            group,
            home: self.home,
            index: 0,
            cpu,
            random,
            cursors: Cursor::for_all(&slots),
            slots,
            pools: Vec::new(),
            held: Vec::new(),
        };
        let ended = Rc::new(Cell::new(false));
        let told = ended.clone();
        let body = move |program: &Program| {
            thread.run(program);
            told.set(true);
        };
        program.spawn("child", cpu, &child, body).map_err(|_| FaultError::OutOfMemory)?;
        drop(child);
        while wait && !ended.get() {
            program.sleep(LOOK);
        }
        Ok(())
    }
}

/// Computes for a moment if no time has passed since `begun`, so that other threads have their turn.
fn take_some_time(program: &Program, begun: u64) {
    if program.now() == begun {
        program.compute(MOMENT);
    }
}

/// A page of `pages`, drawn by Zipf's law.
fn favourite(random: &mut Random, pages: u64, skew: f64) -> u64 {
    // The reader allows no skew that the distribution refuses.
    let rank = Zipf::new(pages as f64, skew).map_or(1.0, |zipf| zipf.sample(random.generator()));
    let rank = (rank as u64).clamp(1, pages) - 1;
    (u128::from(rank) * u128::from(SCATTER) % u128::from(pages)) as u64
}

impl Cursor {
    /// The cursors of a thread with these mappings.
    pub(super) fn for_all(slots: &[Slot]) -> Vec<Vec<Self>> {
        slots.iter().map(|slot| vec![Self::default(); slot.ranges().len()]).collect()
    }
}

impl Slot {
    pub(super) fn ranges(&self) -> &[Range] {
        match self {
            Self::One(range) => std::slice::from_ref(range),
            Self::Several(ranges) => ranges,
        }
    }

    fn forked(&self) -> Self {
        match self {
            Self::One(range) => Self::One(range.forked()),
            Self::Several(ranges) => Self::Several(ranges.iter().map(Range::forked).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_page_falls_with_its_rank() {
        const DRAWS: u32 = 200_000;
        const PAGES: u64 = 1000;
        for skew in [0.5, 0.99, 1.5] {
            let mut random = Random::new(7);
            let mut counts = vec![0u32; PAGES as usize];
            for _ in 0..DRAWS {
                counts[favourite(&mut random, PAGES, skew) as usize] += 1;
            }
            let share = |rank: u64| (rank as f64).powf(-skew);
            let all: f64 = (1..=PAGES).map(share).sum();
            for rank in [1, 2, 3, 10, 100] {
                let page = ((rank - 1) * SCATTER % PAGES) as usize;
                let expected = share(rank) / all * f64::from(DRAWS);
                let found = f64::from(counts[page]);
                // Six standard deviations.
                assert!(
                    (found - expected).abs() < 6.0 * expected.sqrt() + 1.0,
                    "skew {skew}, rank {rank}: {found}"
                );
            }
        }
    }

    #[test]
    fn no_two_ranks_have_the_same_page() {
        for pages in [1, 2, 511, 512, 1000, 4096, 65_537] {
            let mut of: Vec<u64> = (0..pages).map(|rank| rank * SCATTER % pages).collect();
            of.sort_unstable();
            of.dedup();
            assert_eq!(of.len() as u64, pages);
        }
    }
}
