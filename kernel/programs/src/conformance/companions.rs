//! The address spaces to which CPUs switch: a process on each CPU, which only gives way.

use core::sync::atomic::Ordering::SeqCst;

use crate::call;
use crate::memory::Mapping;
use crate::thread::{wait_until, Crew};

/// The words of the page that the processes share: how many run, and whether they are to end.
const RUNNING: u64 = 0;
const OVER: u64 = 1;

/// The processes. They run whenever their CPU's other threads let them.
#[derive(Debug)]
pub(super) struct Companions {
    file: u64,
    shared: Mapping,
    crew: Crew,
}

impl Companions {
    /// Starts one on each CPU, and waits until all run: from then on a thread that gives way leaves its space.
    pub(super) fn start(cpus: u64) -> Self {
        let file = call::create_file(1).expect("no file for the companions' page");
        let shared = Mapping::shared(file, 1, true).expect("the companions' page cannot be mapped");
        let mut crew = Crew::new();
        for cpu in 0..cpus {
            crew.process(keep, file, cpu);
        }
        wait_until(|| shared.word(RUNNING).load(SeqCst) == cpus);
        Self { file, shared, crew }
    }

    /// Ends them.
    pub(super) fn end(self) {
        self.shared.word(OVER).store(1, SeqCst);
        self.crew.wait();
        self.shared.unmap().expect("the companions' page stays mapped");
        call::delete_file(self.file).expect("the companions' file stays");
    }
}

/// A companion.
extern "C" fn keep(file: u64) -> ! {
    let shared = Mapping::shared(file, 1, true).expect("a companion cannot map its page");
    shared.word(RUNNING).fetch_add(1, SeqCst);
    while shared.word(OVER).load(SeqCst) == 0 {
        call::give_way();
    }
    shared.unmap().expect("a companion's page stays mapped");
    call::exit(0)
}
