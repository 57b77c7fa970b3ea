//! One kernel with one mechanism.

use std::collections::{BTreeMap, BTreeSet};

use ceasefire::Schedule;

use crate::recording::Row;
use crate::replay::calls::Waiting;
use crate::replay::kernel::{Kernel, OwnFlush};
use crate::replay::masks::Masks;
use crate::replay::mechanism::Mechanism;
use crate::replay::operations::Taking;
use crate::replay::steps::{Flush, Step};
use crate::shootdowns::Cause;

/// What a mechanism would have done.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The interrupts.
    pub interrupts: u64,
    /// By cause.
    pub causes: BTreeMap<Cause, u64>,
    /// By the process that sent them; 0 for the kernel.
    pub processes: BTreeMap<u32, u64>,
    /// By the CPU that sent them.
    pub sent: Vec<u64>,
    /// By the CPU that received them.
    pub received: Vec<u64>,
    /// The interrupts in each part of the recording.
    pub parts: Vec<u64>,
    /// The most pages that programs would have kept longer than they did, at one time.
    pub most_kept_pages: u64,
}

/// A kernel with a mechanism.
#[derive(Debug)]
pub(super) struct Model {
    mechanism: Mechanism,
    kernel: Kernel,
    masks: Option<Masks>,
    /// The interrupts that masks add, by sender and receiver.
    passed_over: BTreeMap<(u32, u32), u64>,
    causes: BTreeMap<Cause, u64>,
    processes: BTreeMap<u32, u64>,
    waiting: Waiting,
    parts: Vec<u64>,
}

impl Model {
    pub(super) fn new(mechanism: Mechanism, cpus: usize, frames: u64) -> Self {
        let schedule =
            if Schedule::PerPage == mechanism.reclaim { mechanism.migration } else { mechanism.reclaim };
        Self {
            mechanism,
            kernel: Kernel::new(cpus, frames, schedule, mechanism.broadcasts),
            masks: mechanism.keeps_masks.then(Masks::default),
            passed_over: BTreeMap::new(),
            causes: BTreeMap::new(),
            processes: BTreeMap::new(),
            waiting: Waiting::new(mechanism.calls),
            parts: Vec::new(),
        }
    }

    /// The next thing happens.
    pub(super) fn step(&mut self, step: &Step) {
        match *step {
            Step::Event(ref row) => self.learn(row),
            Step::Runs { cpu, process, now_ns } => self.runs(cpu, process, now_ns),
            Step::Ends { process } => self.ends(process),
            Step::Found { cpu, frame, now_ns } => self.is_found(cpu, frame, now_ns),
            Step::Flush(flush) => self.flush(flush),
            Step::Take(ref taking) => self.take(taking),
            Step::Part => self.part(),
        }
    }

    /// An event is about to have its effects.
    fn learn(&mut self, row: &Row) {
        for flush in self.waiting.learn(row) {
            self.flush_now(flush);
        }
    }

    fn runs(&mut self, cpu: u32, process: u32, now_ns: u64) {
        self.kernel.runs(cpu, process, now_ns);
        if let Some(masks) = &mut self.masks {
            masks.runs(cpu, process);
        }
    }

    fn ends(&mut self, process: u32) {
        self.waiting.ends(process);
        self.kernel.ends(process);
        if let Some(masks) = &mut self.masks {
            masks.ends(process);
        }
    }

    fn is_found(&mut self, cpu: u32, frame: u64, now_ns: u64) {
        self.counted(Cause::Reclaim, 0, |kernel| kernel.is_found(cpu, frame, now_ns));
    }

    /// A program's own flush.
    fn flush(&mut self, flush: Flush) {
        if let Some(flush) = self.waiting.flush(flush) {
            self.flush_now(flush);
        }
    }

    fn flush_now(&mut self, flush: Flush) {
        let Flush { cpu, process, pages, tables, cause, time_ns, .. } = flush;
        let own = OwnFlush { pages, tables };
        self.counted(cause, process, |kernel| kernel.flush(cpu, process, own, time_ns));
        let running = |cpu| self.kernel.running(cpu);
        if let Some(masks) = self.masks.as_mut().filter(|_| tables) {
            let targets = masks.frees_tables(cpu, process, running);
            self.passes_over(cause, process, cpu, targets);
        }
    }

    /// A flush interrupts CPUs that the engine would pass over.
    fn passes_over(&mut self, cause: Cause, process: u32, sender: u32, targets: BTreeSet<u32>) {
        for target in targets {
            *self.passed_over.entry((sender, target)).or_default() += 1;
            self.count(cause, process, 1);
        }
    }

    /// The kernel takes pages back.
    fn take(&mut self, taking: &Taking) {
        let Taking { cpu, time_ns, cause, process, ref pages, ref batch } = *taking;
        if self.mechanism.of(taking.is_migration()) == Schedule::PerPage {
            for page in pages {
                self.counted(cause, process, |kernel| kernel.take(cpu, std::slice::from_ref(page), time_ns));
            }
        } else if !batch.is_empty() {
            self.counted(cause, process, |kernel| kernel.take(cpu, batch, time_ns));
            let running = |cpu| self.kernel.running(cpu);
            let targets = self.masks.as_ref().map(|masks| masks.passed_over(cpu, batch, running));
            self.passes_over(cause, process, cpu, targets.unwrap_or_default());
        }
    }

    fn counted(&mut self, cause: Cause, process: u32, body: impl FnOnce(&mut Kernel)) {
        let before = self.kernel.interrupts();
        body(&mut self.kernel);
        self.count(cause, process, self.kernel.interrupts() - before);
    }

    fn count(&mut self, cause: Cause, process: u32, interrupts: u64) {
        if interrupts > 0 {
            *self.causes.entry(cause).or_default() += interrupts;
            *self.processes.entry(process).or_default() += interrupts;
        }
    }

    /// The recording ends.
    pub(super) fn finish(&mut self) {
        for flush in self.waiting.finish() {
            self.flush_now(flush);
        }
        self.part();
    }

    /// A part of the recording ends.
    fn part(&mut self) {
        let before: u64 = self.parts.iter().sum();
        self.parts.push(self.interrupts() - before);
    }

    fn interrupts(&self) -> u64 {
        self.kernel.interrupts() + self.passed_over.values().sum::<u64>()
    }

    pub(super) fn predicted(self) -> Predicted {
        let (mut sent, mut received) = (self.kernel.sent(), self.kernel.received());
        for ((sender, target), count) in &self.passed_over {
            for (counts, cpu) in [(&mut sent, sender), (&mut received, target)] {
                if let Some(of_cpu) = counts.get_mut(*cpu as usize) {
                    *of_cpu += count;
                }
            }
        }
        Predicted {
            mechanism: self.mechanism,
            interrupts: self.interrupts(),
            causes: self.causes,
            processes: self.processes,
            sent,
            received,
            parts: self.parts,
            most_kept_pages: self.waiting.most_pages(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::calls::Calls;
    use crate::replay::testing::purge;

    #[test]
    fn a_batch_of_calls_is_flushed_once() {
        let mechanism = Mechanism { calls: Calls::Together(4), ..Mechanism::new(Schedule::Batched, false) };
        let mut model = Model::new(mechanism, 2, 100);
        for cpu in 0..2 {
            model.runs(cpu, 7, 0);
        }
        for time in 0..10 {
            model.flush(purge(time, 0..1));
        }
        model.flush(Flush { cause: Cause::Mprotect, ..purge(20, 0..1) });
        let predicted = model.predicted();
        assert_eq!((predicted.causes[&Cause::Madvise], predicted.causes[&Cause::Mprotect]), (2, 1));
    }
}
