//! The CPUs that Linux interrupts though they run another program.
//!
//! Linux notes in a process's mask each CPU that runs it. Since 6.13 a CPU that goes on to another process keeps its
//! place there (209954cbc7d0). A flush of one process passes over such a CPU. A batch is of several processes and
//! interrupts every CPU of their masks that is not idle (`should_flush_tlb`, arch/x86/mm/tlb.c). The engine looks at each
//! process instead. So a replay of Linux itself counts these interrupts too.

use std::collections::BTreeSet;

use foldhash::HashMap;

use crate::replay::kernel::Taken;

/// The masks of processes.
#[derive(Debug, Default)]
pub(super) struct Masks {
    cpus: HashMap<u32, BTreeSet<u32>>,
}

impl Masks {
    /// A CPU runs a process, or the kernel or nothing (0).
    pub(super) fn runs(&mut self, cpu: u32, process: u32) {
        if process != 0 {
            self.cpus.entry(process).or_default().insert(cpu);
        }
    }

    /// A process ends.
    pub(super) fn ends(&mut self, process: u32) {
        self.cpus.remove(&process);
    }

    /// The CPUs that a batch interrupts though they run none of its processes. `running` is what a CPU runs; none for
    /// the kernel or nothing.
    pub(super) fn passed_over(
        &self,
        sender: u32,
        batch: &[Taken],
        running: impl Fn(u32) -> Option<u32>,
    ) -> BTreeSet<u32> {
        let users = batch.iter().flat_map(|page| &page.users).map(|user| user.process);
        let processes: BTreeSet<u32> = users.collect();
        let cpus = processes.iter().filter_map(|process| self.cpus.get(process)).flatten().copied();
        let runs_another =
            |cpu: &u32| *cpu != sender && running(*cpu).is_some_and(|process| !processes.contains(&process));
        cpus.filter(runs_another).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::frames::User;

    #[test]
    fn a_batch_interrupts_busy_cpus_that_ran_its_processes_before() {
        let mut masks = Masks::default();
        // CPU 1 ran process 7 before 8; CPU 2 ran it and is idle; CPU 3 never did.
        for (cpu, process) in [(0, 7), (1, 7), (1, 8), (2, 7), (2, 0), (3, 8)] {
            masks.runs(cpu, process);
        }
        let running = |cpu: u32| [Some(7), Some(8), None, Some(8)][cpu as usize];
        let batch = |process| vec![Taken { frame: 1, users: vec![User { process, page: 1, stores: false }] }];
        assert_eq!(masks.passed_over(0, &batch(7), running), BTreeSet::from([1]));
        assert_eq!(masks.passed_over(0, &batch(8), running), BTreeSet::new());
        masks.ends(7);
        assert_eq!(masks.passed_over(0, &batch(7), running), BTreeSet::new());
    }
}
