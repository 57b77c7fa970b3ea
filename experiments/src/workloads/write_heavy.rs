//! `write-heavy`: storing to files one and a half times as large as the memory, as a database does.
//!
//! On three CPUs of four a writer each. It has a table, a file that it maps for stores and of which it stores to random
//! words, and loads some; and a journal, a file that it writes words of by system calls. On the other CPUs run followers,
//! which map journals for loads alone, and load random words of them. Tables and journals are larger than the memory
//! together, so that every third access is to a page that was reclaimed. Nearly all of what reclaim finds was stored
//! through: none of that may be flushed late, so a mechanism that puts flushes off gains nothing there and must not lose
//! either. The journals are its worst case (will-it-scale's `write1`, for which LUF's reviewers asked, beside a reader):
//! their pages may be taken away from a follower with a flush still owed, and then the write has to settle that first, or
//! the follower goes on reading what was there before.

use std::cell::Cell;
use std::ops::Add;
use std::rc::Rc;

use ceasefire_machine::{Options, Program, Simulation};
use ceasefire_memory::{Config, ObjectId, PAGE_BYTES};

use super::random::Random;
use crate::experiment::{Experiment, Finished, Footprint, Mechanism, RunError, Setup, Started, LUF};
use crate::measurement::{Reference, Verdict};

/// All files together, in multiples of the memory.
const TIMES_MEMORY: f64 = 1.5;
/// One part in so many of them is journals.
const JOURNAL_PART: u64 = 4;
/// How many accesses of writers there are for each page of memory.
const ACCESSES: u64 = 8;
/// What a transaction computes around each access, in picoseconds. It decides nothing but how much of the time the rest has.
const AROUND_ACCESS: u64 = 200_000;
/// What a follower computes between two loads, in picoseconds: 10 us. So a page of a journal is used about as often as one
/// of a table, and is reclaimed as often.
const FOLLOWER_PAUSE: u64 = 10_000_000;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "write-heavy",
    paper: LUF,
    description:
        "storing to files larger than the memory, through mappings and by system calls, beside readers",
    machines: &["1-socket"],
    mechanisms: &[Mechanism::PerPage, Mechanism::Batched, Mechanism::Lazy],
    scale: 1.0 / 128.0,
    by_default: false,
    nodes: 1,
    windowed: false,
    sweep: None,
    crowded: false,
    footprint: Footprint {
        // In frames, on the device, and in the reference.
        contents_bytes: |machine, scale| {
            (machine.topology.bytes() as f64 * scale * (1.0 + 2.0 * TIMES_MEMORY)) as u64
        },
        ..Footprint::WHOLE_MEMORY
    },
    start,
};

/// A file, and what it must read as.
#[derive(Debug, Clone)]
struct Words {
    file: ObjectId,
    pages: u64,
    reference: Reference,
}

impl Words {
    fn new(simulation: &Simulation, pages: u64, contents: bool) -> Result<Self, RunError> {
        let file = simulation.memory().create_file(pages as u32)?;
        Ok(Self { file, pages, reference: Reference::new(pages * PAGE_BYTES, contents) })
    }

    /// Maps it, for stores or for loads alone; where.
    fn map(&self, program: &Program, writable: bool) -> Option<u64> {
        let map =
            program.system_call(|memory, space| memory.map_shared(space, self.file, 0, self.pages, writable));
        let base = map.ok()?;
        self.reference.is_at(base);
        Some(base)
    }

    /// Where some word of it is.
    fn any(&self, random: &mut Random) -> u64 {
        random.below(self.pages * PAGE_BYTES / 8) * 8
    }
}

/// What the threads share.
#[derive(Debug)]
struct Test {
    tables: Vec<Words>,
    /// One for each table.
    journals: Vec<Words>,
    /// Writers that still write.
    writers: Cell<usize>,
    /// Accesses of writers, and how many of them were stores or writes.
    accesses: Cell<u64>,
    writes: Cell<u64>,
}

fn start(setup: Setup) -> Result<Started, RunError> {
    let machine = setup.scaled_machine()?;
    let simulation = Simulation::new(
        &machine,
        Options {
            // A database asks for the pages that it wants and no others (MADV_RANDOM).
            configure: Box::new(|config: &mut Config| config.read_ahead = 1),
            ..setup.options
        },
    )?;
    let cpus = usize::from(machine.topology.cpu_count());
    // On fewer than four CPUs there is one of them for followers, if there is a second.
    let followers = (cpus / 4).max(1);
    let writers = (cpus - followers).max(1);
    let memory_pages = machine.topology.bytes() / PAGE_BYTES;
    let pages = ((memory_pages as f64 * TIMES_MEMORY) as u64 / writers as u64).max(JOURNAL_PART);
    let each = (ACCESSES * memory_pages / writers as u64).max(1);
    let one_each = |pages| -> Result<Vec<Words>, RunError> {
        (0..writers).map(|_| Words::new(&simulation, pages, setup.contents)).collect()
    };
    let test = Rc::new(Test {
        tables: one_each(pages - pages / JOURNAL_PART)?,
        journals: one_each(pages / JOURNAL_PART)?,
        writers: Cell::new(writers),
        accesses: Cell::new(0),
        writes: Cell::new(0),
    });
    for number in 0..writers {
        let (test, mut random) = (test.clone(), Random::of_thread(setup.seed, number));
        let space = simulation.memory().new_space()?;
        simulation.spawn(format!("writer/{number}"), number as u16, 0, &space, move |program| {
            let done = write(program, &test, (number, each), &mut random);
            test.writers.set(test.writers.get() - 1);
            if done.is_some() {
                program.system_call(|memory, space| memory.exit(space.clone()));
            }
        })?;
    }
    for number in 0..followers {
        let (test, mut random) = (test.clone(), Random::of_thread(setup.seed, writers + number));
        let cpu = ((writers + number) % cpus) as u16;
        let space = simulation.memory().new_space()?;
        simulation.spawn(format!("follower/{number}"), cpu, 0, &space, move |program| {
            let journals: Vec<&Words> = test.journals.iter().skip(number).step_by(followers).collect();
            if follow(program, &test, &journals, &mut random).is_some() {
                program.system_call(|memory, space| memory.exit(space.clone()));
            }
        })?;
    }
    let planned = each * writers as u64;
    let so_far = test.clone();
    Ok(Started {
        simulation,
        starts: vec![0; writers + followers],
        progress: Box::new(move |_| so_far.accesses.get() as f64 / planned as f64),
        finish: Box::new(move |_| {
            let done = test.accesses.get();
            if done < planned {
                return Err(RunError::Unfinished { done, planned });
            }
            let files = test.tables.iter().chain(&test.journals);
            let verdict = files.map(|words| words.reference.verdict()).fold(Verdict::default(), Verdict::add);
            Ok(Finished::new(test.writes.get(), verdict))
        }),
    })
}

/// One writer; nothing if it could not go on. Of sixteen accesses eleven store to the table, two load from it, and three
/// write to the journal.
fn write(program: &Program, test: &Test, (number, each): (usize, u64), random: &mut Random) -> Option<()> {
    let (table, journal) = (&test.tables[number], &test.journals[number]);
    let base = table.map(program, true)?;
    for _ in 0..each {
        let kind = random.below(16);
        match kind {
            0..=2 => journal.reference.write(program, journal.file, journal.any(random)).ok()?,
            3 | 4 => table.reference.load(program, base + table.any(random), 1).ok()?,
            _ => table.reference.store(program, base + table.any(random)).ok()?,
        }
        test.accesses.set(test.accesses.get() + 1);
        test.writes.set(test.writes.get() + u64::from(!(3..=4).contains(&kind)));
        program.compute(AROUND_ACCESS);
    }
    Some(())
}

/// One follower, until the last writer is done; nothing if it could not go on.
fn follow(program: &Program, test: &Test, journals: &[&Words], random: &mut Random) -> Option<()> {
    let bases: Vec<u64> =
        journals.iter().map(|journal| journal.map(program, false)).collect::<Option<_>>()?;
    while test.writers.get() > 0 {
        // There are at least as many writers as followers, so each follower has a journal.
        let chosen = random.below(journals.len() as u64) as usize;
        let (journal, base) = (journals[chosen], bases[chosen]);
        journal.reference.load(program, base + journal.any(random), 1).ok()?;
        program.compute(FOLLOWER_PAUSE);
    }
    Some(())
}
