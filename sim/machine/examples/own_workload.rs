//! A workload of one's own: the threads of a program read a file that is twice as large as the memory. It prints how
//! much faster they are when reclaim flushes once for a batch of pages than when it flushes for each page.

use std::error::Error;

use ceasefire::Schedule;
use ceasefire_machine::config::{builtin, Machine, Picoseconds};
use ceasefire_machine::{Options, Simulation};
use ceasefire_memory::{Pages, PAGE_BYTES};

/// The simulated time that the workload takes.
fn run(machine: &Machine, schedule: Schedule) -> Result<Picoseconds, Box<dyn Error>> {
    let simulation = Simulation::new(machine, Options::new(schedule))?;
    let pages = 2 * machine.topology.bytes() / PAGE_BYTES;
    let file = simulation.memory().create_file(pages as u32)?;
    let space = simulation.memory().new_space()?;
    for cpu in 0..machine.topology.cpu_count() {
        simulation.spawn(format!("reader/{cpu}"), cpu, 0, &space, move |program| {
            let map = program
                .system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(pages), false));
            let start = map.expect("room for the file");
            for page in 0..pages {
                program.load(start + page * PAGE_BYTES, 512).expect("a mapped page");
            }
        })?;
    }
    Ok(simulation.run(|_, _| true)?.elapsed)
}

fn main() -> Result<(), Box<dyn Error>> {
    let machine = builtin("1-socket").ok_or("no such machine")??.scaled(1.0 / 1024.0)?;
    let (per_page, batched) = (run(&machine, Schedule::PerPage)?, run(&machine, Schedule::Batched)?);
    println!("per-page takes {:.2} times as long as batched", per_page as f64 / batched as f64);
    Ok(())
}
