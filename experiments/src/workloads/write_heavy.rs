//! `write-heavy`: storing to files one and a half times as large as the memory, as a database does.
//!
//! Three CPUs of four run one writer each. A writer has a table and a journal. The table is a file mapped for stores;
//! the writer stores to random words of it, and loads some. The journal is a file whose words the writer writes by
//! system calls. The other CPUs run followers, which map journals read-only and load random words of them.
//!
//! Tables and journals together are larger than the memory, so every third access is to a reclaimed page. Nearly all
//! translations that reclaim clears have been stored through. Their flushes cannot be deferred, so a mechanism that
//! defers flushes gains nothing there, and must not lose either. The journals are such a mechanism's worst case
//! (will-it-scale's
//! `write1` beside a reader, requested by LUF's reviewers). A journal's page may be unmapped from a follower with a
//! flush still owed. The write must then settle that debt first, or the follower continues to read the old bytes.

use std::cell::Cell;
use std::ops::Add;
use std::rc::Rc;

use ceasefire_machine::{Options, Program, Simulation};
use ceasefire_memory::{Config, ObjectId, Pages, PAGE_BYTES};

use super::random::Random;
use crate::experiment::{Experiment, Finished, Footprint, Mechanism, RunError, Setup, Started, LUF};
use crate::measurement::{Reference, Verdict};

/// The size of all files together, in multiples of the memory.
const TIMES_MEMORY: f64 = 1.5;
/// Journals take one part in this many of the files' size.
const JOURNAL_PART: u64 = 4;
/// The number of writers' accesses for each page of memory.
const ACCESSES: u64 = 8;
/// The time for which a transaction computes around each access, in picoseconds. It affects only the share of time that
/// remains for the accesses.
const AROUND_ACCESS: u64 = 200_000;
/// The time for which a follower computes between two loads: 10 us, in picoseconds. With it, pages of journals are
/// used, and reclaimed, about as often as pages of tables.
const FOLLOWER_PAUSE: u64 = 10_000_000;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "write-heavy",
    paper: LUF,
    description:
        "storing to files larger than the memory, through mappings and by system calls, beside readers",
    machines: &["1-socket"],
    mechanisms: &[Mechanism::PerPage, Mechanism::Batched, Mechanism::Lazy],
    scale: 1.0 / 128.0,
    faithful_from: 0.0,
    repeats: 1,
    by_default: false,
    nodes: 1,
    windowed: false,
    sweep: None,
    crowded: false,
    footprint: Footprint {
        // Contents are kept in frames, on the device, and in the reference.
        contents_bytes: Some(|machine, scale| {
            (machine.topology.bytes() as f64 * scale * (1.0 + 2.0 * TIMES_MEMORY)) as u64
        }),
        ..Footprint::WHOLE_MEMORY
    },
    start,
};

/// A file and its expected contents.
#[derive(Debug, Clone)]
struct Words {
    file: ObjectId,
    pages: u64,
    reference: Reference,
}

impl Words {
    fn new(simulation: &Simulation, pages: u64, contents: bool) -> Result<Self, RunError> {
        let file = simulation.memory().create_file(pages as u32)?;
        Ok(Self { file, pages, reference: Reference::new(file.get(), pages, contents) })
    }

    /// Maps the file, for stores or read-only, and returns the address.
    fn map(&self, program: &Program, writable: bool) -> Option<u64> {
        let map = program.system_call(|memory, space| {
            memory.map_shared(space, self.file, 0, Pages::new(self.pages), writable)
        });
        let base = map.ok()?;
        self.reference.is_at(base);
        Some(base)
    }

    /// The offset of a random word.
    fn any(&self, random: &mut Random) -> u64 {
        random.below(self.pages * PAGE_BYTES / 8) * 8
    }
}

/// The state that the threads share.
#[derive(Debug)]
struct Test {
    tables: Vec<Words>,
    /// The journals, one for each table.
    journals: Vec<Words>,
    /// The number of writers that still write.
    writers: Cell<usize>,
    /// The number of writers' accesses, and of those that were stores or writes.
    accesses: Cell<u64>,
    writes: Cell<u64>,
}

fn start(setup: Setup) -> Result<Started, RunError> {
    let machine = setup.scaled_machine()?;
    let simulation = Simulation::new(
        &machine,
        Options {
            // A database turns read-ahead off (MADV_RANDOM).
            configure: Box::new(|config: &mut Config| config.read_ahead = 1),
            ..setup.options
        },
    )?;
    let cpus = usize::from(machine.topology.cpu_count());
    // On fewer than four CPUs, one is for followers, if there is a second.
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

/// The program of a writer; returns `None` if an access fails. Of sixteen accesses, eleven store to the table, two load
/// from it, and three write to the journal.
fn write(program: &Program, test: &Test, (number, each): (usize, u64), random: &mut Random) -> Option<()> {
    let (table, journal) = (&test.tables[number], &test.journals[number]);
    let base = table.map(program, true)?;
    for _ in 0..each {
        let kind = random.below(16);
        match kind {
            0..=2 => journal.reference.write(program, journal.file, journal.any(random)).ok()?,
            3 | 4 => table.reference.load(program, base + table.any(random)).ok()?,
            _ => table.reference.store(program, base + table.any(random)).ok()?,
        }
        test.accesses.set(test.accesses.get() + 1);
        test.writes.set(test.writes.get() + u64::from(!(3..=4).contains(&kind)));
        program.compute(AROUND_ACCESS);
    }
    Some(())
}

/// The program of a follower, which ends with the last writer; returns `None` if an access fails.
fn follow(program: &Program, test: &Test, journals: &[&Words], random: &mut Random) -> Option<()> {
    let bases: Vec<u64> =
        journals.iter().map(|journal| journal.map(program, false)).collect::<Option<_>>()?;
    while test.writers.get() > 0 {
        // There are at least as many writers as followers, so each follower has a journal.
        let chosen = random.below(journals.len() as u64) as usize;
        let (journal, base) = (journals[chosen], bases[chosen]);
        journal.reference.load(program, base + journal.any(random)).ok()?;
        program.compute(FOLLOWER_PAUSE);
    }
    Some(())
}
