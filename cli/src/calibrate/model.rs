//! What the model charges for the measured work.

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;

use ceasefire_experiments::Schedule;
use ceasefire_machine::config::{Linux, Machine};
use ceasefire_machine::{Options, Simulation};
use ceasefire_memory::{Pages, PAGE_BYTES};

use super::formulas::{nanoseconds, Modelled};

/// Pages, and flushes, of which the mean is taken. It is a whole number of batches of the memory manager's lists, be they
/// of 15 pages or of 31.
const COUNT: u64 = 15 * 31;

/// The memory of the simulated machine, in bytes: more than the work needs, and less than a computer has, whose frames
/// would take a while to list.
const MEMORY: u64 = 256 << 20;

/// The times of the measured work on a simulated machine whose `fault` and `area_change` are 0.
pub(super) fn without_remainders(machine: &Machine) -> Result<Modelled, Box<dyn Error>> {
    let mut machine = machine.scaled((MEMORY as f64 / machine.topology.bytes() as f64).min(1.0))?;
    machine.costs.fault = 0;
    machine.costs.area_change = 0;
    simulated(&machine)
}

/// The times of the measured work on a simulated machine with its own Linux.
fn simulated(machine: &Machine) -> Result<Modelled, Box<dyn Error>> {
    let linux = machine.linux.unwrap_or(Linux::NEWEST);
    let options = Options {
        oracle: false,
        shadow: false,
        tick: 0,
        configure: Box::new(move |config| linux.configure(config)),
        ..Options::new(Schedule::Batched)
    };
    let simulation = Simulation::new(machine, options)?;
    let space = simulation.memory().new_space()?;
    let found = Rc::new(Cell::new(None));
    let told = Rc::clone(&found);
    simulation.spawn("calibration".to_owned(), 0, 0, &space, move |program| {
        let map = program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(COUNT)));
        let Ok(start) = map else { return };
        let page = |number: u64| start + number * PAGE_BYTES;
        // The first round brings the page tables.
        for round in 0..2 {
            let begun = program.now();
            if (0..COUNT).any(|number| program.store(page(number), 1, 1).is_err()) {
                return;
            }
            let fault = program.now() - begun;
            let mut advise = 0;
            for number in 0..COUNT {
                let begun = program.now();
                let call = |memory: &ceasefire_memory::Memory<_>, space: &_| {
                    memory.discard(space, page(number), Pages::new(1))
                };
                if program.system_call(call).is_err() {
                    return;
                }
                advise += program.now() - begun;
            }
            if round > 0 {
                let mean = |sum| nanoseconds(sum) / COUNT as f64;
                told.set(Some(Modelled { fault: mean(fault), advise: mean(advise) }));
            }
        }
    })?;
    simulation.run(|_, _| true)?;
    found.get().ok_or_else(|| "the simulated machine has too little memory".into())
}

#[cfg(test)]
mod tests {
    use ceasefire_linux::calibrate::{Figure, Notes, Quantity, Quartiles};
    use ceasefire_machine::config::HOST;

    use super::super::formulas::{costs, remainders};
    use super::*;

    /// The assumed computer with four CPUs.
    fn machine() -> Machine {
        let nodes = "[{ cpus = 4, memory = { value = 1, unit = 'GiB', source = 's' } }]";
        let text = format!("{HOST}\n[topology]\nsource = 's'\nnodes = {nodes}\n");
        Machine::from_toml("machine", &text, "".as_ref()).expect("valid")
    }

    fn figure(quantity: Quantity, median: f64) -> Figure {
        Figure { quantity, spread: Quartiles { median, low: median, high: median, rounds: 1 } }
    }

    /// The simulated time of a flush of one page beside other threads, and of the interruption of the first of them.
    fn flush(machine: &Machine, others: u16) -> (f64, f64) {
        const STEP: u64 = 50_000;
        let options = Options { oracle: false, shadow: false, tick: 0, ..Options::new(Schedule::Batched) };
        let simulation = Simulation::new(machine, options).expect("a machine");
        let space = simulation.memory().new_space().expect("memory");
        let done = Rc::new(Cell::new(0_u64));
        let longest = Rc::new(Cell::new(0));
        for cpu in 1..=others {
            let (done, longest) = (Rc::clone(&done), Rc::clone(&longest));
            let run = move |program: &ceasefire_machine::Program| {
                while done.get() == 0 {
                    let begun = program.now();
                    program.compute(STEP);
                    // The first step brings the thread to its CPU.
                    if cpu == 1 && begun > 20_000_000 {
                        longest.set(longest.get().max(program.now() - begun - STEP));
                    }
                }
            };
            simulation.spawn(format!("other/{cpu}"), cpu, 0, &space, run).expect("a thread");
        }
        let told = Rc::clone(&done);
        let run = move |program: &ceasefire_machine::Program| {
            let map = program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(2)));
            let start = map.expect("memory");
            program.store(start, 1, 1).expect("a page");
            program.compute(50_000_000);
            let begun = program.now();
            program.system_call(|memory, space| memory.discard(space, start, Pages::new(1))).expect("a page");
            told.set(program.now() - begun);
        };
        simulation.spawn("flush".to_owned(), 0, 0, &space, run).expect("a thread");
        simulation.run(|_, _| true).expect("a run");
        (nanoseconds(done.get()), nanoseconds(longest.get()))
    }

    #[test]
    fn the_formulas_of_interrupts_give_back_the_costs_of_the_model() {
        let machine = machine();
        let given = [
            ("interrupt_send", machine.costs.interrupt_send),
            ("interrupt_handle", machine.costs.interrupt_handle),
            ("interrupt_deliver", machine.costs.interrupt_deliver),
        ];
        let mut notes = Notes::default();
        for threads in 0..=3_u16 {
            let (time, interruption) = flush(&machine, threads);
            let threads = usize::from(threads);
            notes.figures.push(figure(Quantity::Advise { threads }, time));
            if threads > 0 {
                notes.figures.push(figure(Quantity::Interruption { threads }, interruption));
            }
        }
        let found = costs(&notes, &machine);
        for (key, expected) in given {
            let cost = found.iter().find(|cost| cost.key == key).expect("measured");
            assert!((cost.value - nanoseconds(expected)).abs() < 1.0, "{expected} ps, not {cost:?}");
        }
    }

    #[test]
    fn the_remainders_give_back_the_measured_times() {
        let mut machine = machine();
        let modelled = without_remainders(&machine).expect("a run");
        let mut notes = Notes::default();
        notes.figures.push(figure(Quantity::Fault { node: 0 }, 2000.0));
        notes.figures.push(figure(Quantity::Advise { threads: 0 }, 1500.0));
        let found = remainders(&notes, modelled);
        let cost = |key| (found.iter().find(|cost| cost.key == key).expect("measured").value * 1000.0) as u64;
        (machine.costs.fault, machine.costs.area_change) = (cost("fault"), cost("area_change"));
        let Modelled { fault, advise } = simulated(&machine).expect("a run");
        assert!((fault - 2000.0).abs() < 1.0 && (advise - 1500.0).abs() < 1.0, "{fault} {advise}");
    }

    #[test]
    fn a_measured_time_below_that_of_its_parts_leaves_the_assumption() {
        let modelled = without_remainders(&machine()).expect("a run");
        let mut notes = Notes::default();
        notes.figures.push(figure(Quantity::Fault { node: 0 }, 1.0));
        assert_eq!(remainders(&notes, modelled), []);
    }

    #[test]
    fn without_a_third_cpu_sending_stays_assumed() {
        let mut notes = Notes::default();
        for threads in 0..=1 {
            notes.figures.push(figure(Quantity::Advise { threads }, 1000.0 + 4000.0 * threads as f64));
        }
        notes.figures.push(figure(Quantity::Interruption { threads: 1 }, 2000.0));
        let found = costs(&notes, &machine());
        let keys: Vec<&str> = found.iter().map(|cost| cost.key).collect();
        assert_eq!(keys, ["interrupt_handle", "interrupt_deliver"]);
    }
}
