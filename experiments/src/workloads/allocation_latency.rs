//! `allocation-latency`: how long single allocations take while reclaim goes on.
//!
//! As in `mmap-read`, processes read ten times the memory, but for two CPUs of each node. On one a prober stores to page
//! after page of fresh memory and gives all of them back when it has enough, and each of these faults is timed. A flush
//! that reclaim puts off is paid for by whoever takes the frame next: that may be one of these, which has nothing to do
//! with whom the page was taken from. A reviewer of LUF said that a latency nobody can foresee is worse than a cost that
//! is always the same; so the slowest of a hundred and of a thousand are shown, beside the median. Beside each fault the
//! prober allocates a frame with interrupts off, as drivers do: that may neither wait nor pay, and is timed apart. The
//! other CPU is left to background reclaim: else now and then a probe would wait for its slice to end, milliseconds that
//! hide all the rest.
//!
//! The probers wait until as many pages were reclaimed as there are, and end with the last reader. Readers that only ever go
//! on leave pages that all look alike: once in each round of memory reclaim finds every one of them used since it last
//! looked, and whoever allocates then sees it go through all of them in vain. That is the longest latency, it grows with
//! the memory, and it is the same under every mechanism.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire::Platform;
use ceasefire_machine::config::Node;
use ceasefire_machine::{Program, Simulation};
use ceasefire_memory::{FaultError, Frame, Machine, PAGE_BYTES};

use super::random::Random;
use super::stream::Stream;
use crate::experiment::{Experiment, Finished, Footprint, Mechanism, RunError, Setup, Started, LUF};
use crate::measurement::{Atomic, Latencies};
use crate::measurement::{Reference, Verdict};

/// How much is read, in multiples of the memory.
const TIMES_MEMORY: u64 = 10;
/// Pages that a prober has before it gives them back: several times what a CPU keeps for itself, so that most of them come
/// from the node, after others had them.
const RANGE: u64 = 1024;
/// Frames that it holds beside them: as many as a CPU has to ask its node for twice.
const HELD: usize = 64;
/// The most that a prober computes between two probes, in picoseconds: 4 us.
const PAUSE: u64 = 4_000_000;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "allocation-latency",
    paper: LUF,
    description: "how long single allocations take while others read ten times the memory",
    machines: &["1-socket", "4-node-48-cpu"],
    mechanisms: &[Mechanism::PerPage, Mechanism::Batched, Mechanism::Lazy],
    scale: 1.0 / 32.0,
    by_default: false,
    nodes: 1,
    windowed: false,
    sweep: None,
    crowded: false,
    footprint: Footprint::WHOLE_MEMORY,
    start,
};

/// What the threads share.
#[derive(Debug)]
struct Test {
    /// Readers that still read.
    readers: Cell<usize>,
    /// Pages that they have read.
    pages: Cell<u64>,
    latencies: Latencies,
    /// Of allocations that must not wait, and how many of them got nothing.
    atomic: Latencies,
    failed: Cell<u64>,
    /// What came of comparing loads, the readers' and the probers'.
    streams: Rc<Cell<Verdict>>,
    probes: Cell<Verdict>,
}

fn start(setup: Setup) -> Result<Started, RunError> {
    let machine = setup.scaled_machine()?;
    let contents = setup.contents;
    let simulation = Simulation::new(&machine, setup.options)?;
    let (readers, probers) = places(machine.topology.nodes());
    let frames = machine.topology.bytes() / PAGE_BYTES;
    let pages = TIMES_MEMORY * frames / readers.len() as u64;
    let test = Rc::new(Test {
        readers: Cell::new(readers.len()),
        pages: Cell::new(0),
        latencies: Latencies::new(),
        atomic: Latencies::new(),
        failed: Cell::new(0),
        streams: Rc::default(),
        probes: Cell::default(),
    });
    for &cpu in &readers {
        let stream = Stream::new(&simulation, pages, &test.streams)?;
        let test = test.clone();
        let space = simulation.memory().new_space()?;
        simulation.spawn(format!("reader/{cpu}"), cpu, 0, &space, move |program| {
            let read = stream.read(program, |read| {
                test.pages.set(test.pages.get() + u64::from(read > 0));
                read < pages
            });
            test.readers.set(test.readers.get() - 1);
            if read.is_ok() {
                program.system_call(|memory, space| memory.exit(space.clone()));
            }
        })?;
    }
    for (number, &cpu) in probers.iter().enumerate() {
        let reference = Reference::new(RANGE * PAGE_BYTES, contents);
        let mut random = Random::of_thread(setup.seed, number);
        let test = test.clone();
        let space = simulation.memory().new_space()?;
        simulation.spawn(format!("prober/{cpu}"), cpu, 0, &space, move |program| {
            while test.readers.get() > 0 && reclaimed(program) < frames {
                program.compute(PAUSE);
            }
            // A prober that fails has measured what it has.
            let _ = probe(program, &test, &reference, &mut random);
            test.probes.set(test.probes.get() + reference.verdict());
            program.system_call(|memory, space| memory.exit(space.clone()));
        })?;
    }
    let planned = pages * readers.len() as u64;
    let so_far = test.clone();
    Ok(Started {
        simulation,
        starts: vec![0; readers.len() + probers.len()],
        progress: Box::new(move |_| so_far.pages.get() as f64 / planned as f64),
        finish: Box::new(move |_| {
            let (done, latency) = (test.pages.get(), test.latencies.summary());
            let operations = latency.count;
            if done < planned || latency.count == 0 {
                return Err(RunError::Unfinished { done, planned });
            }
            let verdict = test.streams.get() + test.probes.get();
            let atomic = Atomic { latency: test.atomic.summary(), failed: test.failed.get() };
            let (latency, atomic) = (Some(latency), Some(atomic));
            Ok(Finished { latency, atomic, ..Finished::new(operations, verdict) })
        }),
    })
}

/// The CPUs of readers and of probers: one prober on each node, and one CPU for the kernel where there are enough.
fn places(nodes: &[Node]) -> (Vec<u16>, Vec<u16>) {
    let (mut readers, mut probers) = (Vec::new(), Vec::new());
    for node in nodes {
        match &node.cpus[..] {
            [] => {}
            [only] => {
                readers.push(*only);
                probers.push(*only);
            }
            [reader, prober] => {
                readers.push(*reader);
                probers.push(*prober);
            }
            [read @ .., prober, _] => {
                readers.extend(read);
                probers.push(*prober);
            }
        }
    }
    (readers, probers)
}

/// How many pages were reclaimed so far.
fn reclaimed(program: &Program) -> u64 {
    let statistics = program.memory().statistics();
    statistics.reclaimed_background + statistics.reclaimed_direct
}

/// Does something and adds how long it took, interrupts that came meanwhile included.
fn time<R>(latencies: &Latencies, program: &Program, probe: impl FnOnce() -> R) -> R {
    let begun = program.now();
    let result = probe();
    latencies.add(program.now() - begun);
    result
}

/// Frames that were allocated with interrupts off.
struct Held(Vec<Frame>);

impl Held {
    /// Times the allocation of one more, and gives all back when there are enough.
    fn probe(&mut self, program: &Program, test: &Test) {
        program.system_call(|memory, _| {
            let platform = memory.platform();
            let home = platform.node_of(platform.this_cpu());
            let allocate = || platform.interrupts_off(|| memory.allocate_atomic(home));
            match time(&test.atomic, program, allocate) {
                Some(frame) => self.0.push(frame),
                None => test.failed.set(test.failed.get() + 1),
            }
            if self.0.len() >= HELD {
                self.0.drain(..).for_each(|frame| memory.free(frame));
            }
        });
    }

    fn give_back(self, program: &Program) {
        program.system_call(|memory, _| self.0.into_iter().for_each(|frame| memory.free(frame)));
    }
}

/// Times stores to fresh pages, and allocations that must not wait, until there are no more readers.
fn probe(
    program: &Program,
    test: &Test,
    reference: &Reference,
    random: &mut Random,
) -> Result<(), FaultError> {
    let mut held = Held(Vec::with_capacity(HELD));
    let probed = probe_faults(program, test, reference, random, &mut held);
    held.give_back(program);
    probed
}

fn probe_faults(
    program: &Program,
    test: &Test,
    reference: &Reference,
    random: &mut Random,
    held: &mut Held,
) -> Result<(), FaultError> {
    let base = program.system_call(|memory, space| memory.map_anonymous(space, RANGE));
    let base = base.map_err(|_| FaultError::OutOfMemory)?;
    reference.is_at(base);
    loop {
        for address in (0..RANGE).map(|page| base + page * PAGE_BYTES) {
            if test.readers.get() == 0 {
                return Ok(());
            }
            program.compute(random.below(PAUSE));
            time(&test.latencies, program, || reference.store(program, address))?;
            held.probe(program, test);
            reference.load(program, address, 1)?;
        }
        // Only a range that is not mapped, or is locked, cannot be given back.
        let _ = program.system_call(|memory, space| memory.discard(space, base, RANGE * PAGE_BYTES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gets_a_cpu_where_there_are_three() {
        let node = |cpus: &[u16]| Node { cpus: cpus.to_vec(), bytes: 4096, tier: 0 };
        assert_eq!(places(&[node(&[0])]), (vec![0], vec![0]));
        assert_eq!(places(&[node(&[0, 1])]), (vec![0], vec![1]));
        assert_eq!(places(&[node(&[0, 1, 2, 3])]), (vec![0, 1], vec![2]));
        let memory_alone = node(&[]);
        assert_eq!(places(&[node(&[0, 1, 2]), memory_alone, node(&[3])]), (vec![0, 3], vec![1, 3]));
    }
}
