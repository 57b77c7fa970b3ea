//! `mmap-read`: reading ten times the memory through mmap (BATCH-RECLAIM; vm-scalability `lru-file-mmap-read`).
//!
//! As many single-threaded processes as CPUs. Each maps a sparse file of its own, shared and read-only, and loads every
//! eighth byte of it once, in order. The files are holes, so no device is involved: the time goes into faults, the page
//! cache, zeroing and reclaim. Together the files are ten times the machine's memory, so nine pages of ten are reclaimed
//! from under a process that runs on another CPU.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire_machine::{Options, Simulation};
use ceasefire_memory::{Config, PAGE_BYTES};

use crate::experiment::Experiment;
use crate::mechanism::Mechanism;
use crate::plan::{Finished, Plan, RunError, Started};
use crate::random::Random;
use crate::reference::Verdict;

/// How much is read, in multiples of the memory.
const TIMES_MEMORY: u64 = 10;
/// Loads from each page: 4096 bytes in steps of 8.
const LOADS: u32 = 512;
/// The shell starts one process after the other; about a millisecond each at full size, which the scale shrinks along
/// with everything else.
const START_INTERVAL: u64 = 1_000_000_000;
/// Pages that a CPU of Linux 4.2 collects before it lists them (`PAGEVEC_SIZE`).
const PAGEVEC: usize = 14;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mmap-read",
    paper: "BATCH-RECLAIM: M. Gorman, 2015, Linux commit 72b252aed506",
    description: "one process a CPU, together reading ten times the memory through mmap",
    machines: &["4-node-48-cpu", "1-socket"],
    mechanisms: &[Mechanism::PerPage, Mechanism::Batched],
    scale: 1.0 / 16.0,
    nodes: 1,
    windowed: false,
    bytes_per_cpu: 2 << 20,
    bytes_per_node: 0,
    contents_bytes: |plan| (plan.machine.topology.bytes() as f64 * plan.scale) as u64,
    start,
};

fn start(plan: &Plan) -> Result<Started, RunError> {
    let machine = plan.scaled_machine()?;
    let cpus = machine.topology.cpu_count();
    let simulation = Simulation::new(
        &machine,
        Options {
            oracle: plan.oracle,
            contents: plan.keeps_contents(),
            trace: plan.open_trace()?,
            configure: Box::new(|config: &mut Config| config.lru_batch = PAGEVEC),
            ..Options::new(plan.mechanism.schedule())
        },
    )?;
    let memory = simulation.memory();
    let pages = TIMES_MEMORY * machine.topology.bytes() / PAGE_BYTES / u64::from(cpus);
    let mut random = Random::new(plan.seed);
    let interval = (START_INTERVAL as f64 * plan.scale) as u64;
    let mut starts = Vec::new();
    let verdict = Rc::new(Cell::new(Verdict::default()));
    for cpu in 0..cpus {
        let file = memory.create_file(pages as u32)?;
        let space = memory.new_space()?;
        let start = u64::from(cpu) * interval + random.below(interval.max(1));
        starts.push(start);
        let loads = verdict.clone();
        simulation.spawn(format!("reader/{cpu}"), cpu, start, &space, move |program| {
            let Ok(base) =
                program.system_call(|memory, space| memory.map_shared(space, file, 0, pages, false))
            else {
                return;
            };
            for page in 0..pages {
                // A hole reads as zeros.
                let compare = |value| {
                    loads.set(Verdict {
                        compared: loads.get().compared + 1,
                        wrong: loads.get().wrong + u64::from(value != 0),
                    });
                };
                if program.load_then(base + page * PAGE_BYTES, LOADS, compare).is_err() {
                    return;
                }
            }
            program.system_call(|memory, space| memory.exit(space.clone()));
        })?;
    }
    let planned = pages * u64::from(cpus) * u64::from(LOADS);
    Ok(Started {
        simulation,
        starts,
        progress: Box::new(move |accesses| accesses as f64 / planned as f64),
        finish: Box::new(move |outcome| {
            if outcome.reading.accesses < planned {
                return Err(RunError::Unfinished {
                    done: outcome.reading.accesses / u64::from(LOADS),
                    planned: planned / u64::from(LOADS),
                });
            }
            Ok(Finished { operations: planned / u64::from(LOADS), window: None, verdict: verdict.get() })
        }),
    })
}
