//! One kernel with one mechanism.

use std::collections::{BTreeMap, BTreeSet};

use ceasefire::Schedule;

use crate::recording::Row;
use crate::replay::calls::Waiting;
use crate::replay::hardware::Asked;
use crate::replay::kernel::{Kernel, OwnFlush};
use crate::replay::masks::Masks;
use crate::replay::mechanism::Mechanism;
use crate::replay::operations::Taking;
use crate::replay::pending::Answer;
use crate::replay::steps::{Flush, Step};
use crate::shootdowns::Cause;

/// What a mechanism would have done.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Its requests and its interrupts.
    pub asked: Asked,
    /// By cause.
    pub causes: BTreeMap<Cause, Asked>,
    /// The requests by the process that sent them; 0 for the kernel.
    pub processes: BTreeMap<u32, u64>,
    /// By the CPU that sent them.
    pub sent: Vec<u64>,
    /// By the CPU that received them.
    pub received: Vec<u64>,
    /// The requests and the interrupts in each part of the recording.
    pub parts: Vec<Asked>,
    /// The most pages that programs would have kept longer than they did, at one time.
    pub most_kept_pages: u64,
}

/// A kernel with a mechanism.
#[derive(Debug)]
pub(super) struct Model {
    mechanism: Mechanism,
    kernel: Kernel,
    masks: Option<Masks>,
    causes: BTreeMap<Cause, Asked>,
    processes: BTreeMap<u32, u64>,
    waiting: Waiting,
    /// The CPUs that the recorded kernel asked by the flush that is made now.
    recorded: Vec<u32>,
    parts: Vec<Asked>,
    /// At the end of the part before.
    before: Asked,
}

impl Model {
    pub(super) fn new(mechanism: Mechanism, cpus: usize, frames: u64) -> Self {
        let schedule =
            if Schedule::PerPage == mechanism.reclaim { mechanism.migration } else { mechanism.reclaim };
        Self {
            mechanism,
            kernel: Kernel::new(cpus, frames, schedule, mechanism.broadcasts),
            masks: mechanism.keeps_masks.then(Masks::default),
            causes: BTreeMap::new(),
            processes: BTreeMap::new(),
            waiting: Waiting::new(mechanism.calls),
            recorded: Vec::new(),
            parts: Vec::new(),
            before: Asked::default(),
        }
    }

    /// The next thing happens.
    pub(super) fn step(&mut self, step: &Step) {
        match *step {
            Step::Event(ref row) => self.learn(row),
            Step::Runs { cpu, process, now_ns } => self.runs(cpu, process, now_ns),
            Step::Ends { process } => self.ends(process),
            Step::Found { cpu, frame, now_ns } => self.is_found(cpu, frame, now_ns),
            Step::Answers(ref answers) => self.answers(answers),
            Step::Flush(flush) => self.flush(flush),
            Step::FlushKernel { cpu, process, now_ns } => self.flush_kernel(cpu, process, now_ns),
            Step::Take(ref taking) => self.take(taking),
            Step::Part => self.part(),
        }
        if matches!(step, Step::Flush(_) | Step::FlushKernel { .. } | Step::Take(_)) {
            // The answers were of this flush.
            self.kernel.tell(&[]);
        }
    }

    /// The CPUs that the next flush asked told what they ran, and when they took its requests.
    fn answers(&mut self, answers: &[Answer]) {
        for answer in answers {
            if let Some(process) = answer.ran {
                self.runs(answer.cpu, process, answer.sent_ns);
            }
        }
        self.kernel.tell(answers);
        self.recorded.clear();
        self.recorded.extend(answers.iter().map(|answer| answer.cpu));
    }

    /// An event is about to have its effects.
    fn learn(&mut self, row: &Row) {
        for flush in self.waiting.learn(row) {
            self.flush_now(flush);
        }
    }

    /// Ticks that are due come first: what they ask for is the kernel's own, for pages that it took back.
    fn tick(&mut self, now_ns: u64) {
        self.counted(Cause::Reclaim, 0, |model| model.kernel.tick(now_ns));
    }

    fn runs(&mut self, cpu: u32, process: u32, now_ns: u64) {
        self.tick(now_ns);
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
        self.counted(Cause::Reclaim, 0, |model| model.kernel.is_found(cpu, frame, now_ns));
    }

    /// A program's own flush.
    fn flush(&mut self, flush: Flush) {
        if let Some(flush) = self.waiting.flush(flush) {
            self.flush_now(flush);
        }
    }

    fn flush_now(&mut self, flush: Flush) {
        let Flush { cpu, process, pages, tables, cause, time_ns, .. } = flush;
        self.tick(time_ns);
        self.counted(cause, process, |model| {
            // The engine changes which CPUs are idle with the process.
            let running = |cpu| model.kernel.running(cpu);
            let masks = model.masks.as_mut().filter(|_| tables);
            let passed_over = masks.map(|masks| masks.frees_tables(cpu, process, running));
            model.kernel.flush(cpu, process, OwnFlush { pages, tables }, time_ns);
            model.passes_over(cpu, passed_over);
        });
    }

    /// The kernel flushes ranges of its own.
    fn flush_kernel(&mut self, cpu: u32, process: u32, now_ns: u64) {
        self.tick(now_ns);
        self.counted(Cause::KernelRange, process, |model| model.kernel.flush_kernel(cpu, now_ns));
    }

    /// The kernel takes pages back.
    fn take(&mut self, taking: &Taking) {
        let Taking { cpu, time_ns, cause, process, ref pages, ref batch } = *taking;
        self.tick(time_ns);
        self.counted(cause, process, |model| {
            if model.mechanism.of(taking.is_migration()) == Schedule::PerPage {
                for page in pages {
                    model.kernel.take(cpu, std::slice::from_ref(page), time_ns);
                }
            } else if !batch.is_empty() {
                model.kernel.take(cpu, batch, time_ns);
                let running = |cpu| model.kernel.running(cpu);
                let passed_over = model.masks.as_ref().map(|masks| masks.passed_over(cpu, batch, running));
                model.passes_over(cpu, passed_over);
            }
        });
        let running = |cpu| self.kernel.running(cpu);
        if let Some(masks) = &mut self.masks {
            masks.learn(batch, &self.recorded, running);
        }
    }

    /// A flush asks CPUs that the engine would pass over.
    fn passes_over(&self, sender: u32, targets: Option<BTreeSet<u32>>) {
        for target in targets.into_iter().flatten() {
            self.kernel.ask(sender, target);
        }
    }

    fn counted(&mut self, cause: Cause, process: u32, body: impl FnOnce(&mut Self)) {
        let before = self.kernel.requests();
        self.kernel.works_for(cause);
        body(self);
        let requests = self.kernel.requests() - before;
        if requests > 0 {
            self.causes.entry(cause).or_default().requests += requests;
            *self.processes.entry(process).or_default() += requests;
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
        let asked = self.kernel.asked();
        self.parts.push(asked - self.before);
        self.before = asked;
    }

    pub(super) fn predicted(mut self) -> Predicted {
        for (cause, interrupts) in self.kernel.interrupts() {
            self.causes.entry(cause).or_default().interrupts = interrupts;
        }
        Predicted {
            mechanism: self.mechanism,
            asked: self.kernel.asked(),
            causes: self.causes,
            processes: self.processes,
            sent: self.kernel.sent(),
            received: self.kernel.received(),
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
        let requests = |cause| predicted.causes[&cause].requests;
        assert_eq!((requests(Cause::Madvise), requests(Cause::Mprotect)), (2, 1));
    }
}
