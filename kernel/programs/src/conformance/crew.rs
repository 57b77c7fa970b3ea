//! A scenario on all CPUs.

use ceasefire_conformance::{Ability, Job, Kernel};

use super::cpu::Thread;
use crate::call;
use crate::thread::Crew;

/// This kernel: a thread on each CPU of one process.
#[derive(Debug)]
pub(super) struct Threads {
    pub(super) cpus: u64,
}

impl Kernel for Threads {
    type Cpu = Thread;

    fn cpus(&self) -> usize {
        self.cpus as usize
    }

    /// A program cannot turn interrupts off. Its own memory is written out before it is taken, which `stale` tests.
    fn lacks(&self, ability: Ability) -> bool {
        matches!(ability, Ability::InterruptsOff | Ability::Evict)
    }

    /// Starts new threads for each job. The thread that waits for them leaves its CPU idle.
    fn run(&self, job: Job<Thread>) {
        let mut crew = Crew::new();
        for cpu in 0..self.cpus {
            crew.thread(play, &raw const job as u64, cpu);
        }
        crew.wait();
    }
}

/// A thread.
extern "C" fn play(job: u64) -> ! {
    // SAFETY: `run` passes the address of a value that it keeps until all threads have ended, and that no one changes.
    let job = unsafe { *(job as *const Job<Thread>) };
    job.run(&Thread::here());
    call::exit(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_scenarios_run_but_two() {
        let kernel = Threads { cpus: 4 };
        let scenarios = ceasefire_conformance::scenarios::<Thread>();
        let is_left_out = |needs: &[Ability]| needs.iter().any(|&ability| kernel.lacks(ability));
        let left_out = scenarios.iter().filter(|scenario| is_left_out(scenario.needs));
        assert_eq!(left_out.map(|scenario| scenario.name).collect::<Vec<_>>(), ["interrupts-off", "evicted"]);
    }
}
