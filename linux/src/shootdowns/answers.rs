//! Counts answered requests as the TLB row of `/proc/interrupts` does.
//!
//! A request has an event where it is sent, one where its handler begins and one where it ends. A kernel may lack one
//! side: Linux 6.18 under Firecracker keeps no events of idle loops but for that of the first CPU, and idle loops run
//! handlers too. A request whose handler has no events was answered all the same, since its sender waits for it. So it
//! is known to be answered when its call's number is used again.

use foldhash::HashMap;

use crate::events::{Event, Kind, Work};
use crate::recording::Count;

/// The requests that are answered.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    counted: Count,
    /// The requests without a handler yet: the times at which they were sent, by call.
    waiting: HashMap<u64, u64>,
    /// The CPUs that run a handler, and the times at which it began.
    running: HashMap<u32, u64>,
    /// Answered requests without events of their handler.
    pub(crate) unseen: u64,
    /// Answered requests without an event where they were sent.
    pub(crate) unsent: u64,
}

/// The time in which a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) from_ns: u64,
    pub(crate) to_ns: u64,
}

impl Answers {
    /// None yet, of a kernel whose requests are counted in this way.
    pub(crate) fn new(counted: Count) -> Self {
        Self { counted, ..Self::default() }
    }

    /// Learns from an event. Returns the request that it shows to be answered.
    pub(crate) fn add(&mut self, event: &Event) -> Option<Answered> {
        let Event { time_ns, cpu, ref kind, .. } = *event;
        if self.counted == Count::Flushed {
            return self.counted.counts(kind).then_some(Answered { from_ns: time_ns, to_ns: time_ns });
        }
        match *kind {
            Kind::Sent { work: Work::Flush, call, .. } => {
                let sent_ns = self.waiting.insert(call, time_ns)?;
                self.unseen += 1;
                Some(Answered { from_ns: sent_ns, to_ns: sent_ns })
            }
            Kind::HandlerBegan { work: Work::Flush, .. } => {
                self.running.insert(cpu, time_ns);
                None
            }
            Kind::HandlerEnded { work: Work::Flush, call } => {
                self.unsent += u64::from(self.waiting.remove(&call).is_none());
                let from_ns = self.running.remove(&cpu).unwrap_or(time_ns);
                Some(Answered { from_ns, to_ns: time_ns })
            }
            _ => None,
        }
    }

    /// Ends: the requests that are left were answered too.
    pub(crate) fn finish(&mut self) -> Vec<Answered> {
        self.unseen += self.waiting.len() as u64;
        self.waiting.drain().map(|(_, sent_ns)| Answered { from_ns: sent_ns, to_ns: sent_ns }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Names;

    #[test]
    fn a_request_is_answered_whether_its_two_sides_have_events_or_one() {
        let site = Names::default().add("site");
        let sent = |call| Kind::Sent { target: 1, work: Work::Flush, call, site };
        let began = |call| Kind::HandlerBegan { work: Work::Flush, call };
        let ended = |call| Kind::HandlerEnded { work: Work::Flush, call };
        let mut answers = Answers::new(Count::Sent);
        let kinds = [sent(5), began(5), ended(5), sent(6), sent(6), began(7), ended(7), sent(5)];
        let mut answered = Vec::new();
        for (time_ns, kind) in (10..).zip(kinds) {
            answered.extend(answers.add(&Event { time_ns, cpu: 1, thread: 0, kind }));
        }
        let times = |answered: &[Answered]| -> Vec<(u64, u64)> {
            answered.iter().map(|answered| (answered.from_ns, answered.to_ns)).collect()
        };
        assert_eq!(times(&answered), [(11, 12), (13, 13), (15, 16)]);
        let mut left = times(&answers.finish());
        left.sort_unstable();
        assert_eq!(
            (left.as_slice(), answers.unseen, answers.unsent),
            ([(14, 14), (17, 17)].as_slice(), 3, 1)
        );
    }
}
