//! The interrupts that were observed, in the parts of a recording.

use crate::events::{Event, Kind, Work};
use crate::recording::{Count, Facts};

/// The parts into which the time of a recording is divided, to see how much its figures vary.
const PARTS: u64 = 20;

/// Counts interrupts.
#[derive(Debug)]
pub(super) struct Parts {
    counted: Count,
    /// The ends of the parts that have not ended, the next one last.
    ends_ns: Vec<u64>,
    /// The interrupts of each part until now.
    interrupts: Vec<u64>,
}

impl Parts {
    pub(super) fn new(facts: &Facts) -> Self {
        let end_ns = |part| facts.began_ns + facts.duration_ns() * part / PARTS;
        Self { counted: facts.counted, ends_ns: (1..PARTS).rev().map(end_ns).collect(), interrupts: vec![0] }
    }

    /// Counts an event. Returns the number of parts that end before it.
    pub(super) fn add(&mut self, event: &Event) -> usize {
        let before = self.ends_ns.len();
        while self.ends_ns.last().is_some_and(|end| *end <= event.time_ns) {
            self.ends_ns.pop();
            self.interrupts.push(0);
        }
        let interrupts = u64::from(self.counts(&event.kind));
        if let Some(part) = self.interrupts.last_mut() {
            *part += interrupts;
        }
        before - self.ends_ns.len()
    }

    /// Whether an event is an interrupt of the recorded kernel.
    fn counts(&self, kind: &Kind) -> bool {
        match self.counted {
            Count::Sent => matches!(kind, Kind::Sent { work: Work::Flush, .. }),
            Count::Flushed => self.counted.counts(kind),
        }
    }

    /// The interrupts of each part that has begun.
    pub(super) fn interrupts(self) -> Vec<u64> {
        self.interrupts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::FlushReason;

    #[test]
    fn an_event_at_the_end_of_a_part_belongs_to_the_next() {
        let facts = Facts { began_ns: 100, ended_ns: 300, counted: Count::Flushed, ..Facts::default() };
        let mut parts = Parts::new(&facts);
        let kind = Kind::Flush { reason: FlushReason::RemoteShootdown, pages: None };
        let mut add = |time_ns, kind| parts.add(&Event { time_ns, cpu: 0, thread: 1, kind });
        assert_eq!((add(109, kind), add(110, kind), add(110, Kind::ThreadEnded)), (0, 1, 0));
        assert_eq!((add(139, kind), add(400, kind)), (2, 16));
        assert_eq!(parts.interrupts(), [vec![1, 1, 0, 1], vec![0; 15], vec![1]].concat());
    }
}
