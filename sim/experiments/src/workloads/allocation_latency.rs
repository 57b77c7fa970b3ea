//! `allocation-latency`: the latencies of single allocations while reclaim is at work.
//!
//! As in `mmap-read`, processes read ten times the memory, but not on two CPUs of each node. On one of these two, a
//! prober stores to page after page of fresh memory, and gives all pages back when it has enough. Each of these faults
//! is timed. A flush that reclaim defers is paid for by the next allocation of the frame. That may be one of the
//! prober's, although the prober is unrelated to the page's former user. A reviewer of LUF said that an unpredictable
//! latency is worse than a constant cost. So the 99th and 99.9th percentiles are shown beside the median. Beside each
//! fault the prober allocates a frame with interrupts off, as drivers do. Such an allocation may neither wait nor pay,
//! and is timed apart. The other of the two CPUs is left to background reclaim. Otherwise a probe would now and then
//! wait for reclaim's time slice to end, and those milliseconds would hide all other latencies.
//!
//! The probers wait until as many pages have been reclaimed as the memory has, and end with the last reader. Readers
//! that only move forward leave pages that all look alike. Once in each round through the memory, reclaim finds every
//! page used since its last look, and the allocation that triggered it waits while reclaim scans all of them in vain.
//! This is the longest latency. It grows with the memory, and is the same under every mechanism.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire::Platform;
use ceasefire_machine::config::{Linux, Node};
use ceasefire_machine::{Program, Simulation};
use ceasefire_memory::{FaultError, Frame, Machine, Pages, PAGE_BYTES};

use super::random::Random;
use super::stream::Stream;
use crate::experiment::{Experiment, Finished, Footprint, Mechanism, RunError, Setup, Started, LUF};
use crate::measurement::{Atomic, Latencies};
use crate::measurement::{Reference, Verdict};

/// The size of all files together, in multiples of the memory.
const TIMES_MEMORY: u64 = 10;
/// The number of pages after which a prober gives all back. It is several times the number of frames that a CPU keeps
/// for itself, so most pages come from the node, after use by other programs.
const RANGE: u64 = 1024;
/// The number of frames that a prober holds beside its pages: enough that a CPU must ask its node for frames twice.
const HELD: usize = 64;
/// The maximum time for which a prober computes between two probes: 4 us, in picoseconds.
const PAUSE: u64 = 4_000_000;

/// The experiments that run this workload.
pub(super) fn experiments() -> Vec<Experiment> {
    vec![EXPERIMENT]
}

const EXPERIMENT: Experiment = Experiment {
    name: "allocation-latency",
    paper: LUF,
    description: "the latencies of single allocations while other processes read ten times the memory",
    machines: &["1-socket", "4-node-48-cpu"],
    mechanisms: &[Mechanism::PerPage, Mechanism::Batched, Mechanism::Lazy],
    parameters: &[],
    kernel: Linux::V6_9,
    scale: 1.0 / 32.0,
    faithful_from: 0.0,
    repeats: 1,
    overview: None,
    nodes: 1,
    windowed: false,
    sweep: None,
    crowded: false,
    footprint: Footprint::WHOLE_MEMORY,
    fits: None,
    start: &start,
};

/// The state that the threads share.
#[derive(Debug)]
struct Test {
    /// The number of readers that still read.
    readers: Cell<usize>,
    /// The number of pages that they have read.
    pages: Cell<u64>,
    latencies: Latencies,
    /// The latencies of allocations that must not wait, and the number that failed.
    atomic: Latencies,
    failed: Cell<u64>,
    /// The results of comparing loads: the readers' and the probers'.
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
        let reference = Reference::new(number as u32, RANGE, contents);
        let mut random = Random::of_thread(setup.seed, number);
        let test = test.clone();
        let space = simulation.memory().new_space()?;
        simulation.spawn(format!("prober/{cpu}"), cpu, 0, &space, move |program| {
            while test.readers.get() > 0 && reclaimed(program) < frames {
                program.compute(PAUSE);
            }
            // The measurements of a prober that fails still count.
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

/// The CPUs of readers and of probers. Each node has one prober, and one CPU for the kernel if it has three or more
/// CPUs.
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

/// The number of pages reclaimed so far.
fn reclaimed(program: &Program) -> u64 {
    let statistics = program.memory().statistics();
    statistics.reclaimed_background + statistics.reclaimed_direct
}

/// Calls `probe` and adds its latency, including interrupts that came meanwhile.
fn time<R>(latencies: &Latencies, program: &Program, probe: impl FnOnce() -> R) -> R {
    let begun = program.now();
    let result = probe();
    latencies.add(program.now() - begun);
    result
}

/// The frames that a prober allocated with interrupts off.
struct Held(Vec<Frame>);

impl Held {
    /// Times the allocation of one more frame, and gives all frames back when there are enough.
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

/// Times stores to fresh pages, and allocations that must not wait, until the last reader ends.
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
    let base = program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(RANGE)));
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
            reference.load(program, address)?;
        }
        // The call fails only for a range that is not mapped, or is locked.
        let _ = program.system_call(|memory, space| memory.discard(space, base, Pages::new(RANGE)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gets_a_cpu_on_nodes_with_three_or_more() {
        let node = |cpus: &[u16]| Node { cpus: cpus.to_vec(), bytes: 4096, tier: 0 };
        assert_eq!(places(&[node(&[0])]), (vec![0], vec![0]));
        assert_eq!(places(&[node(&[0, 1])]), (vec![0], vec![1]));
        assert_eq!(places(&[node(&[0, 1, 2, 3])]), (vec![0, 1], vec![2]));
        let memory_alone = node(&[]);
        assert_eq!(places(&[node(&[0, 1, 2]), memory_alone, node(&[3])]), (vec![0, 3], vec![1, 3]));
    }
}
