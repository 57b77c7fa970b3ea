//! Starting a run of a workload: the machine, its processes and their threads.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

use ceasefire_machine::config::{Machine, MachineError};
use ceasefire_machine::{Options, Simulation};
use ceasefire_memory::Config;

use super::amount::Words;
use super::language::{Role, Workload};
use super::layout::Layout;
use super::pool::Pool;
use super::process::{Maker, Process};
use super::read::host;
use super::tally::Tally;
use super::thread::{Cursor, Run, Thread};
use crate::experiment::{Finished, RunError, Setup, Started};
use crate::measurement::PerProcess;
use crate::workloads::Random;

/// The machine of a run: with the memory that the workload asks for, or scaled.
pub(super) fn machine(workload: &Workload, machine: &Machine, scale: f64) -> Result<Machine, MachineError> {
    let bytes = machine.topology.bytes();
    let part = match &workload.memory {
        None => scale,
        Some(memory) => {
            let words = Words {
                memory: (bytes as f64 * scale) as u64,
                cpus: machine.topology.cpu_count().into(),
                processes: 1,
                threads: 1,
                chosen: 1,
                mappings: &[],
            };
            (memory.value(&words)? as f64 / bytes as f64).min(1.0)
        }
    };
    machine.scaled(part)
}

/// Sets up a run.
pub(super) fn start(workload: &'static Workload, setup: Setup) -> Result<Started, RunError> {
    let machine = machine(workload, &setup.machine, setup.scale).map_err(RunError::Machine)?;
    let layout =
        Layout::new(workload, &machine.topology, setup.threads.into()).map_err(RunError::Workload)?;
    let (kernel, chosen) = (workload.kernel, setup.options.configure);
    let configure = move |config: &mut Config| {
        let set = |value: Option<u32>, to: &mut u32| *to = value.unwrap_or(*to);
        set(kernel.read_ahead, &mut config.read_ahead);
        set(kernel.fault_around, &mut config.fault_around);
        chosen(config);
    };
    let simulation = Simulation::new(&machine, Options { configure: Box::new(configure), ..setup.options })?;
    let scaled = |time: u64| (time as f64 * setup.scale) as u64;
    let window = workload.measure.map(|measure| {
        let (warm_up, time) = (scaled(measure.warm_up), scaled(measure.time));
        (warm_up, warm_up + time)
    });
    let groups = &workload.groups;
    let running = groups.iter().zip(&layout.groups).map(|(group, placed)| match group.role {
        Role::ForkedBy(_) => Cell::new(0),
        Role::Own | Role::Inside(_) => Cell::new(placed.threads.iter().sum()),
    });
    let tally = Tally::new(window, running.collect());
    tally.planned.set(planned(workload, &layout));
    let run = Rc::new(Run { workload, layout, tally, cpus: machine.topology.cpu_count() });
    let maker = Maker {
        workload,
        layout: &run.layout,
        simulation: &simulation,
        tally: &run.tally,
        contents: setup.contents,
        number: Cell::new(0),
    };
    let mut processes: Vec<Vec<Rc<Process>>> = Vec::new();
    let mut spaces = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let (mut own, mut homes) = (Vec::new(), Vec::new());
        let count = if group.role == Role::Own { run.layout.groups[number].threads.len() } else { 0 };
        for at in 0..count {
            let mut process =
                maker.process(number, at, own.first().map(|it: &Rc<Process>| &**it), &processes)?;
            let inside =
                groups.iter().zip(&run.layout.groups).filter(|(it, _)| it.role == Role::Inside(number));
            process.threads = run.layout.groups[number].threads[at];
            process.threads += inside.map(|(_, placed)| placed.threads[at]).sum::<u64>();
            process.alive.set(process.threads);
            own.push(Rc::new(process));
            homes.push(simulation.memory().new_space()?);
        }
        processes.push(own);
        spaces.push(homes);
    }
    let (mut starts, mut staggered) = (Vec::new(), Random::new(setup.seed));
    for (number, group) in groups.iter().enumerate() {
        let placed = &run.layout.groups[number];
        if matches!(group.role, Role::ForkedBy(_)) {
            continue;
        }
        let (home, interval) = (host(groups, number), scaled(group.start_interval));
        let mut cpus = placed.cpus.iter().cycle();
        for (at, (process, threads)) in processes[home].iter().zip(&placed.threads).enumerate() {
            let start = if interval > 0 { at as u64 * interval + staggered.below(interval) } else { 0 };
            for index in 0..*threads {
                let cpu = cpus.next().copied().unwrap_or(0);
                let random = Random::of_thread(setup.seed, starts.len());
                let thread = thread(&maker, &run, (number, home, index), process, cpu, random)?;
                starts.push(start);
                let name = format!("{}/{at}/{index}", group.name);
                simulation.spawn(name, cpu, start, &spaces[home][at], move |program| thread.run(program))?;
            }
        }
    }
    let per_process = per_process(workload, &processes);
    let scale = setup.scale;
    let (progress, threads) = (run.clone(), starts.len() as u16);
    Ok(Started {
        simulation,
        starts,
        progress: Box::new(move |_| progress.tally.done()),
        finish: Box::new(move |_| finish(&run.tally, threads, scale, per_process)),
    })
}

/// A thread of a group, given with the group of its process and its number there.
fn thread(
    maker: &Maker<'_>,
    run: &Rc<Run>,
    (group, home, index): (usize, usize, u64),
    process: &Rc<Process>,
    cpu: u16,
    random: Random,
) -> Result<Thread, RunError> {
    let shared = process.slots.iter().enumerate();
    let slots = shared
        .map(|(mapping, slot)| match slot {
            Some(slot) => Ok(slot.clone()),
            None => Ok(super::process::Slot::One(maker.range(home, mapping)?)),
        })
        .collect::<Result<Vec<_>, RunError>>()?;
    let allocators = &run.layout.groups[home].allocators;
    let pools: Vec<Rc<Pool>> = allocators
        .iter()
        .zip(&process.pools)
        .map(|(allocator, pool)| match pool {
            Some(pool) => pool.clone(),
            None => Rc::new(Pool::new(allocator, slots[allocator.mapping].ranges()[0].clone())),
        })
        .collect();
    Ok(Thread {
        run: run.clone(),
        process: process.clone(),
        group,
        home,
        index,
        cpu,
        random,
        cursors: Cursor::for_all(&slots),
        slots,
        held: vec![VecDeque::new(); pools.len()],
        pools,
    })
}

/// The planned number of rounds that count, if all phases that count have a number of rounds.
fn planned(workload: &Workload, layout: &Layout) -> Option<u64> {
    let mut planned = 0u64;
    for (group, placed) in workload.groups.iter().zip(&layout.groups) {
        for phase in placed.phases.iter().filter(|phase| phase.counts) {
            let threads = match group.role {
                Role::ForkedBy(_) => return None,
                Role::Own | Role::Inside(_) => placed.threads.iter().sum(),
            };
            planned = planned.saturating_add(phase.times?.saturating_mul(threads));
        }
    }
    Some(planned).filter(|planned| *planned > 0)
}

/// The processes whose operations are reported, if the workload measures a time and says how many processes it has.
fn per_process(workload: &Workload, processes: &[Vec<Rc<Process>>]) -> Option<Vec<Rc<Process>>> {
    let many =
        workload.groups.iter().position(|group| group.processes.is_some() || group.threads_in_all.is_some());
    many.filter(|_| workload.measure.is_some()).map(|group| processes[group].clone())
}

fn finish(
    tally: &Tally,
    threads: u16,
    scale: f64,
    per_process: Option<Vec<Rc<Process>>>,
) -> Result<Finished, RunError> {
    let done = tally.operations.get();
    if let Some((failed, error)) = tally.failed.get() {
        return Err(match tally.planned.get().filter(|planned| done < *planned) {
            Some(planned) if error == ceasefire_memory::FaultError::OutOfMemory => {
                RunError::Unfinished { done, planned }
            }
            _ => RunError::ThreadsFailed { failed, threads, error },
        });
    }
    let (window, operations) = match tally.window() {
        Some((window, operations)) => (Some(window), operations),
        None if tally.is_windowed() => (None, 0),
        None => (None, done),
    };
    if operations == 0 {
        return Err(RunError::NothingMeasured { scale });
    }
    let latency = Some(tally.latencies.summary()).filter(|latency| latency.count > 0);
    let per_process =
        per_process.map(|all| PerProcess::of(all.iter().map(|process| process.operations.get())));
    Ok(Finished { window, latency, per_process, ..Finished::new(operations, tally.verdict()) })
}
