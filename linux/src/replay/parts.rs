//! The requests that were observed, in the parts of a recording.

use crate::events::Event;
use crate::recording::{Count, Facts};
use crate::replay::hardware::Asked;

/// The parts into which the time of a recording is divided, to see how much its figures vary.
const PARTS: u64 = 20;

/// Counts requests, and the interrupts that they took.
#[derive(Debug)]
pub(super) struct Parts {
    counted: Count,
    /// The ends of the parts that have not ended, the next one last.
    ends_ns: Vec<u64>,
    /// Those of each part until now.
    asked: Vec<Asked>,
}

impl Parts {
    pub(super) fn new(facts: &Facts) -> Self {
        let end = |part| facts.began_ns + facts.duration_ns() * part / PARTS;
        let ends_ns = (1..PARTS).rev().map(end).collect();
        Self { counted: facts.counted, ends_ns, asked: vec![Asked::default()] }
    }

    /// Counts an event. Where events do not tell which requests interrupt, all of them are taken to. Returns the number of
    /// parts that end before it.
    pub(super) fn add(&mut self, event: &Event, interrupts: bool) -> usize {
        let before = self.ends_ns.len();
        while self.ends_ns.last().is_some_and(|end| *end <= event.time_ns) {
            self.ends_ns.pop();
            self.asked.push(Asked::default());
        }
        let (requests, interrupts) = match self.counted {
            Count::Sent => (event.kind.asks(), interrupts),
            Count::Flushed => (self.counted.counts(&event.kind), true),
        };
        if let Some(part) = self.asked.last_mut().filter(|_| requests) {
            *part += Asked { requests: 1, interrupts: u64::from(interrupts) };
        }
        before - self.ends_ns.len()
    }

    /// Those of each part that has begun.
    pub(super) fn asked(self) -> Vec<Asked> {
        self.asked
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{FlushReason, Kind};

    #[test]
    fn an_event_at_the_end_of_a_part_belongs_to_the_next() {
        let facts = Facts { began_ns: 100, ended_ns: 300, counted: Count::Flushed, ..Facts::default() };
        let mut parts = Parts::new(&facts);
        let kind = Kind::Flush { reason: FlushReason::RemoteShootdown, pages: None };
        let mut add = |time_ns, kind| parts.add(&Event { time_ns, cpu: 0, thread: 1, kind }, false);
        assert_eq!((add(109, kind), add(110, kind), add(110, Kind::ThreadEnded)), (0, 1, 0));
        assert_eq!((add(139, kind), add(400, kind)), (2, 16));
        let requests: Vec<u64> = parts.asked().iter().map(|asked| asked.requests).collect();
        assert_eq!(requests, [vec![1, 1, 0, 1], vec![0; 15], vec![1]].concat());
    }
}
