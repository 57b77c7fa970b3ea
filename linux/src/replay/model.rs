//! One kernel with one mechanism.

use std::collections::{BTreeMap, HashMap};

use ceasefire::Schedule;

use crate::replay::kernel::Kernel;
use crate::replay::masks::Masks;
use crate::replay::operations::Operation;
use crate::shootdowns::Cause;

/// How a kernel flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mechanism {
    /// The schedule of flushes in reclaim.
    pub reclaim: Schedule,
    /// The schedule of flushes in migration.
    pub migration: Schedule,
    /// Whether the hardware carries flushes to other CPUs for processes that several CPUs run.
    pub broadcasts: bool,
    /// Whether a batch interrupts CPUs that ran one of its processes before and run another now, as Linux does since
    /// 6.13. The engine does not.
    pub keeps_masks: bool,
    /// The number of a program's calls of munmap or madvise that are flushed together; 1 if each is.
    pub batch: u64,
}

impl Mechanism {
    /// One schedule for reclaim and migration.
    pub const fn new(schedule: Schedule, broadcasts: bool) -> Self {
        Self { reclaim: schedule, migration: schedule, broadcasts, keeps_masks: false, batch: 1 }
    }

    /// That of a Linux kernel on x86, by its release such as `6.12.43+deb13`. Reclaim has had batches since 4.8
    /// (72b252aed506) and migration since 6.3 (7e12beb8ca2a).
    pub fn of_linux(release: &str) -> Self {
        let mut numbers =
            release.split(|c: char| !c.is_ascii_digit()).map_while(|number| number.parse::<u32>().ok());
        let version = (numbers.next().unwrap_or(u32::MAX), numbers.next().unwrap_or(0));
        let since = |first| if version >= first { Schedule::Batched } else { Schedule::PerPage };
        Self {
            reclaim: since((4, 8)),
            migration: since((6, 3)),
            broadcasts: false,
            keeps_masks: version >= (6, 13),
            batch: 1,
        }
    }
}

/// What a mechanism would have done.
#[derive(Debug, Clone, PartialEq)]
pub struct Predicted {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The interrupts.
    pub interrupts: u64,
    /// By cause.
    pub causes: BTreeMap<Cause, u64>,
    /// By the CPU that received them.
    pub received: Vec<u64>,
    /// The interrupts in each part of the recording.
    pub parts: Vec<u64>,
}

/// A kernel with a mechanism.
#[derive(Debug)]
pub(super) struct Model {
    mechanism: Mechanism,
    kernel: Kernel,
    masks: Option<Masks>,
    /// The interrupts that masks add, by CPU.
    passed_over: BTreeMap<u32, u64>,
    causes: BTreeMap<Cause, u64>,
    /// The calls of each process that are not flushed yet.
    waiting: HashMap<u32, u64>,
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
            waiting: HashMap::new(),
            parts: Vec::new(),
        }
    }

    pub(super) fn runs(&mut self, cpu: u32, process: u32, now_ns: u64) {
        self.kernel.runs(cpu, process, now_ns);
        if let Some(masks) = &mut self.masks {
            masks.runs(cpu, process);
        }
    }

    pub(super) fn ends(&mut self, process: u32) {
        self.waiting.remove(&process);
        self.kernel.ends(process);
        if let Some(masks) = &mut self.masks {
            masks.ends(process);
        }
    }

    pub(super) fn is_found(&mut self, cpu: u32, frame: u64, now_ns: u64) {
        self.counted(Cause::Reclaim, |kernel| kernel.is_found(cpu, frame, now_ns));
    }

    /// A program's own flush.
    pub(super) fn flush(&mut self, cpu: u32, process: u32, pages: Option<u64>, cause: Cause, now_ns: u64) {
        let mut pages = pages;
        if self.mechanism.batch > 1 && matches!(cause, Cause::Munmap | Cause::Madvise) {
            let waiting = self.waiting.entry(process).or_default();
            *waiting += 1;
            if *waiting < self.mechanism.batch {
                return;
            }
            *waiting = 0;
            // They lie apart, as far as is known.
            pages = None;
        }
        self.counted(cause, |kernel| kernel.flush(cpu, process, pages, now_ns));
    }

    /// The kernel takes pages back.
    pub(super) fn take(&mut self, operation: &Operation) {
        let Operation { cpu, time_ns, cause, .. } = *operation;
        let schedule =
            if operation.is_migration() { self.mechanism.migration } else { self.mechanism.reclaim };
        if schedule == Schedule::PerPage {
            for page in operation.flushes.iter().flatten() {
                self.counted(cause, |kernel| kernel.take(cpu, std::slice::from_ref(page), time_ns));
            }
            return;
        }
        let all = operation.all();
        let batches = if operation.is_per_page() { vec![&all[..]] } else { operation.batches() };
        for batch in batches {
            self.counted(cause, |kernel| kernel.take(cpu, batch, time_ns));
            for target in self
                .masks
                .iter()
                .flat_map(|masks| masks.passed_over(cpu, batch, |cpu| self.kernel.running(cpu)))
            {
                *self.passed_over.entry(target).or_default() += 1;
                *self.causes.entry(cause).or_default() += 1;
            }
        }
    }

    fn counted(&mut self, cause: Cause, body: impl FnOnce(&mut Kernel)) {
        let before = self.kernel.interrupts();
        body(&mut self.kernel);
        let sent = self.kernel.interrupts() - before;
        if sent > 0 {
            *self.causes.entry(cause).or_default() += sent;
        }
    }

    /// A part of the recording ends.
    pub(super) fn part(&mut self) {
        let before: u64 = self.parts.iter().sum();
        self.parts.push(self.interrupts() - before);
    }

    fn interrupts(&self) -> u64 {
        self.kernel.interrupts() + self.passed_over.values().sum::<u64>()
    }

    pub(super) fn predicted(self) -> Predicted {
        let mut received = self.kernel.received();
        for (cpu, count) in &self.passed_over {
            if let Some(received) = received.get_mut(*cpu as usize) {
                *received += count;
            }
        }
        Predicted {
            mechanism: self.mechanism,
            interrupts: self.interrupts(),
            causes: self.causes,
            received,
            parts: self.parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_has_batches_from_its_versions_on() {
        let schedules = |release| {
            let mechanism = Mechanism::of_linux(release);
            (mechanism.reclaim, mechanism.migration)
        };
        assert_eq!(schedules("6.1.0-44-cloud-amd64"), (Schedule::Batched, Schedule::PerPage));
        assert_eq!(schedules("6.12.43+deb13"), (Schedule::Batched, Schedule::Batched));
        assert_eq!(schedules("7.2.1"), (Schedule::Batched, Schedule::Batched));
        assert_eq!(schedules("4.4.0"), (Schedule::PerPage, Schedule::PerPage));
    }

    #[test]
    fn a_batch_of_calls_is_flushed_once() {
        let mechanism = Mechanism { batch: 4, ..Mechanism::new(Schedule::Batched, false) };
        let mut model = Model::new(mechanism, 2, 100);
        for cpu in 0..2 {
            model.runs(cpu, 7, 0);
        }
        for time in 0..10 {
            model.flush(0, 7, Some(1), Cause::Madvise, time);
        }
        model.flush(0, 7, Some(1), Cause::Mprotect, 20);
        let predicted = model.predicted();
        assert_eq!((predicted.causes[&Cause::Madvise], predicted.causes[&Cause::Mprotect]), (2, 1));
    }
}
