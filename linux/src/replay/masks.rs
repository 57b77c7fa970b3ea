//! The CPUs that Linux interrupts though they do not run the process.
//!
//! Linux notes in a process's mask each CPU that runs it. Since 6.13 a CPU that goes on to another process keeps its
//! place there (209954cbc7d0). A flush of one process passes over such a CPU, unless it frees page tables: then every CPU
//! of the mask is interrupted, and one that has something else loaded leaves the mask. A batch is of several processes
//! and interrupts every CPU of their masks that is not lazy. An idle CPU is lazy: it keeps the process that it ran. But
//! if it is interrupted then, it loads the kernel's own space, is lazy no more, and each batch interrupts it until it
//! runs a process again (`should_flush_tlb`, `flush_tlb_func`, arch/x86/mm/tlb.c).
//!
//! The engine looks at each process instead. So a replay of Linux itself counts these requests too. What masks held before
//! the recording began is learned from the CPUs that batches ask.

use std::collections::BTreeSet;

use foldhash::HashMap;

use crate::replay::kernel::Taken;

/// The masks of processes.
#[derive(Debug, Default)]
pub(super) struct Masks {
    cpus: HashMap<u32, BTreeSet<u32>>,
    /// The process that each CPU has loaded: that which it runs or ran last. None for the kernel's own space.
    loaded: HashMap<u32, Option<u32>>,
}

impl Masks {
    /// A CPU runs a process, or the kernel or nothing (0).
    pub(super) fn runs(&mut self, cpu: u32, process: u32) {
        if process != 0 {
            self.cpus.entry(process).or_default().insert(cpu);
            self.loaded.insert(cpu, Some(process));
        }
    }

    /// A process ends.
    pub(super) fn ends(&mut self, process: u32) {
        self.cpus.remove(&process);
    }

    /// A process frees page tables. Returns the CPUs that it interrupts though they have something else loaded.
    /// `running` is what a CPU runs; none for the kernel or nothing.
    pub(super) fn frees_tables(
        &mut self,
        sender: u32,
        process: u32,
        running: impl Fn(u32) -> Option<u32>,
    ) -> BTreeSet<u32> {
        let Some(cpus) = self.cpus.get_mut(&process) else { return BTreeSet::new() };
        let mut others = BTreeSet::new();
        for cpu in cpus.iter().copied().filter(|cpu| *cpu != sender) {
            match self.loaded.get_mut(&cpu) {
                Some(loaded) if *loaded == Some(process) => {
                    if running(cpu).is_none() {
                        *loaded = None;
                    }
                }
                _ => {
                    others.insert(cpu);
                }
            }
        }
        cpus.retain(|cpu| !others.contains(cpu));
        others
    }

    /// Learns from the CPUs that the recorded kernel asked by a batch: one that runs none of its processes was in their
    /// masks before the recording began. If it is idle, it had loaded the kernel's own space.
    pub(super) fn learn(&mut self, batch: &[Taken], asked: &[u32], running: impl Fn(u32) -> Option<u32>) {
        let processes = processes_of(batch);
        for cpu in asked.iter().copied() {
            match running(cpu) {
                Some(process) if processes.contains(&process) => continue,
                Some(_) => {}
                // It may have become idle since it was asked.
                None if self.loaded.contains_key(&cpu) => continue,
                None => {
                    self.loaded.insert(cpu, None);
                }
            }
            for process in &processes {
                self.cpus.entry(*process).or_default().insert(cpu);
            }
        }
    }

    /// The CPUs that a batch interrupts though they run none of its processes. `running` is what a CPU runs; none for
    /// the kernel or nothing.
    pub(super) fn passed_over(
        &self,
        sender: u32,
        batch: &[Taken],
        running: impl Fn(u32) -> Option<u32>,
    ) -> BTreeSet<u32> {
        let processes = processes_of(batch);
        let cpus = processes.iter().filter_map(|process| self.cpus.get(process)).flatten().copied();
        let is_asked = |cpu: &u32| match running(*cpu) {
            _ if *cpu == sender => false,
            Some(process) => !processes.contains(&process),
            None => self.loaded.get(cpu) == Some(&None),
        };
        cpus.filter(is_asked).collect()
    }
}

/// The processes that use the pages of a batch.
fn processes_of(batch: &[Taken]) -> BTreeSet<u32> {
    batch.iter().flat_map(|page| &page.users).map(|user| user.process).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::frames::User;

    fn batch(process: u32) -> Vec<Taken> {
        vec![Taken { frame: 1, users: vec![User { process, page: 1, stores: false }] }]
    }

    #[test]
    fn a_batch_interrupts_busy_cpus_that_ran_its_processes_before() {
        let mut masks = Masks::default();
        // CPU 1 ran process 7 before 8; CPU 2 ran it and is idle; CPU 3 never did.
        for (cpu, process) in [(0, 7), (1, 7), (1, 8), (2, 7), (2, 0), (3, 8)] {
            masks.runs(cpu, process);
        }
        let running = |cpu: u32| [Some(7), Some(8), None, Some(8)][cpu as usize];
        assert_eq!(masks.passed_over(0, &batch(7), running), BTreeSet::from([1]));
        assert_eq!(masks.passed_over(0, &batch(8), running), BTreeSet::new());
        masks.ends(7);
        assert_eq!(masks.passed_over(0, &batch(7), running), BTreeSet::new());
    }

    #[test]
    fn a_batch_interrupts_idle_cpus_that_were_interrupted_while_they_idled() {
        let mut masks = Masks::default();
        for (cpu, process) in [(0, 7), (1, 7), (1, 0), (2, 8), (2, 7), (2, 8), (3, 7)] {
            masks.runs(cpu, process);
        }
        let running = |cpu: u32| [Some(7), None, Some(8), Some(7)][cpu as usize];
        // CPU 1 is lazy; CPU 2 runs another process.
        assert_eq!(masks.passed_over(0, &batch(7), running), BTreeSet::from([2]));
        assert_eq!(masks.frees_tables(0, 7, running), BTreeSet::from([2]));
        // CPU 1 has loaded the kernel's own space; CPU 2 has left the mask.
        assert_eq!(masks.passed_over(0, &batch(7), running), BTreeSet::from([1]));
        assert_eq!(masks.frees_tables(0, 7, running), BTreeSet::from([1]));
        // Now CPU 1 has left it too.
        assert_eq!(masks.frees_tables(0, 7, running), BTreeSet::new());
        // When it runs the process again, it is lazy when it idles.
        masks.runs(1, 7);
        masks.runs(1, 0);
        assert_eq!(masks.passed_over(0, &batch(7), running), BTreeSet::new());
    }

    #[test]
    fn cpus_that_were_in_a_mask_before_the_recording_are_known_from_the_first_batch_that_asks_them() {
        let mut masks = Masks::default();
        for (cpu, process) in [(0, 7), (1, 8), (2, 7), (2, 0)] {
            masks.runs(cpu, process);
        }
        let running = |cpu: u32| [Some(7), Some(8), None, None][cpu as usize];
        assert_eq!(masks.passed_over(0, &batch(7), running), BTreeSet::new());
        masks.learn(&batch(7), &[0, 1, 2, 3], running);
        // CPU 2 may have become idle meanwhile.
        assert_eq!(masks.passed_over(0, &batch(7), running), BTreeSet::from([1, 3]));
        assert_eq!(masks.passed_over(0, &batch(8), running), BTreeSet::new());
    }
}
