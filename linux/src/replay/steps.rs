//! What kernels are told, in the order of time.
//!
//! A flush on the kernel's account interrupts the CPUs that run the processes at its time, but its pages are known only
//! when they are freed. So the steps after such a flush wait until then.

use std::collections::VecDeque;

use crate::recording::Row;
use crate::replay::operations::{Place, Taking};
use crate::replay::pending::Answer;
use crate::shootdowns::{Cause, Purge};

/// What happens next.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// An event is about to have its effects. Only calls that wait need to know.
    Event(Row),
    /// A CPU runs a process, or the kernel or nothing (0).
    Runs { cpu: u32, process: u32, now_ns: u64 },
    /// A process ends.
    Ends { process: u32 },
    /// A page that was taken back is found again.
    Found { cpu: u32, frame: u64, now_ns: u64 },
    /// What the CPUs that the next flush asked told.
    Answers(Vec<Answer>),
    /// A program flushes.
    Flush(Flush),
    /// The kernel flushes ranges of its own.
    FlushKernel { cpu: u32, process: u32, now_ns: u64 },
    /// The kernel takes pages back.
    Take(Taking),
    /// A part of the recording ends.
    Part,
}

/// A flush that a program's call or fault needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flush {
    pub(super) cpu: u32,
    pub(super) thread: u32,
    pub(super) process: u32,
    /// The number of pages; none for all.
    pub(super) pages: Option<u64>,
    /// Whether page tables are freed.
    pub(super) tables: bool,
    pub(super) cause: Cause,
    pub(super) time_ns: u64,
    /// The pages that the call gives back, if this is its first flush.
    pub(super) purge: Option<Purge>,
}

/// The steps that no kernel was told yet.
#[derive(Debug, Default)]
pub(super) struct Steps {
    /// None for a step that is not known yet.
    steps: VecDeque<Option<Step>>,
    /// The number of the first of them.
    first: Place,
}

impl Steps {
    /// Adds a step.
    pub(super) fn push(&mut self, step: Step) {
        self.steps.push_back(Some(step));
    }

    /// Keeps a place for a step that is known later.
    pub(super) fn keep(&mut self) -> Place {
        self.steps.push_back(None);
        self.first + self.steps.len() as u64 - 1
    }

    /// A step is known.
    pub(super) fn fill(&mut self, place: Place, step: Step) {
        let index = place.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(slot) = index.and_then(|index| self.steps.get_mut(index)) {
            *slot = Some(step);
        }
    }

    /// The next step, if it is known.
    pub(super) fn next(&mut self) -> Option<Step> {
        let step = self.steps.front_mut()?.take()?;
        self.steps.pop_front();
        self.first += 1;
        Some(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_wait_for_those_before_them() {
        let mut steps = Steps::default();
        let mut told = Vec::new();
        let mut tell = |steps: &mut Steps| {
            while let Some(step) = steps.next() {
                match step {
                    Step::Ends { process } => told.push(process),
                    step => panic!("{step:?}"),
                }
            }
            told.clone()
        };
        steps.push(Step::Ends { process: 1 });
        let (second, third) = (steps.keep(), steps.keep());
        steps.push(Step::Ends { process: 4 });
        assert_eq!(tell(&mut steps), [1]);
        steps.fill(third, Step::Ends { process: 3 });
        assert_eq!(tell(&mut steps), [1]);
        steps.fill(second, Step::Ends { process: 2 });
        steps.push(Step::Ends { process: 5 });
        assert_eq!(tell(&mut steps), [1, 2, 3, 4, 5]);
    }
}
