//! Flushes whose requests are under way.
//!
//! What an asked CPU ran is not always known when it is asked: a kernel may not tell that a CPU left the idle loop. It is
//! known when the CPU answers, at the latest. So the steps from a flush on wait until its sender goes on.

use foldhash::HashMap;

use crate::events::{Event, Kind, Work};
use crate::recording::Row;
use crate::replay::operations::Place;
use crate::replay::pending::Answer;
use crate::replay::steps::{Step, Steps};
use crate::shootdowns::Queues;

/// A flush that asks CPUs.
#[derive(Debug)]
struct Asked {
    thread: u32,
    /// The places of the step that tells the answers, and of the flush.
    answers_at: Place,
    flush: Option<(Place, Step)>,
    /// Whether it is known what the flush is.
    is_sure: bool,
    requests: Vec<(u64, Answer)>,
}

/// The flushes under way, by the CPU that sends.
#[derive(Debug, Default)]
pub(super) struct UnderWay {
    open: Vec<Option<Asked>>,
    /// The sender of each call.
    senders: HashMap<u64, u32>,
    queues: Queues,
}

impl UnderWay {
    /// A thread begins to flush. Keeps a place for what the CPUs that it asks will tell, and gives `flush` its own after
    /// it. A flush whose pages become known later has none: its place is the next that is kept. With a flush comes whether
    /// it is sure that page tables were freed, or were not: if not, an idle CPU that was asked shows that they were.
    pub(super) fn begin(&mut self, row: &Row, flush: Option<(Step, bool)>, steps: &mut Steps) {
        let Event { cpu, thread, .. } = row.event;
        self.end(cpu, steps);
        let answers_at = steps.keep();
        let is_sure = flush.as_ref().is_none_or(|(_, is_sure)| *is_sure);
        let flush = flush.map(|(flush, _)| (steps.keep(), flush));
        if self.open.len() <= cpu as usize {
            self.open.resize_with(cpu as usize + 1, || None);
        }
        self.open[cpu as usize] = Some(Asked { thread, answers_at, flush, is_sure, requests: Vec::new() });
    }

    /// Learns from an event. `ran` is the process that the event's CPU is seen to run, if that is news, and `is_idle` says
    /// what is known of the CPU that a request asks.
    pub(super) fn add(&mut self, row: &Row, ran: Option<u32>, is_idle: bool, steps: &mut Steps) {
        let Event { time_ns, cpu, thread, kind } = row.event;
        if let Some(process) = ran {
            for call in self.queues.waiting(cpu) {
                if let Some(answer) = answer_of(&self.senders, &mut self.open, call) {
                    answer.ran = Some(process);
                    answer.is_idle = false;
                }
            }
        }
        match kind {
            Kind::Sent { target, work, call, .. } if work != Work::Other => {
                let interrupts = self.queues.add(target, call);
                let open = self.open.get_mut(cpu as usize).and_then(Option::as_mut);
                if let Some(open) = open.filter(|open| open.thread == thread) {
                    let answer = Answer {
                        cpu: target,
                        sent_ns: time_ns,
                        interrupts,
                        is_idle,
                        taken_ns: None,
                        ran: None,
                    };
                    open.requests.push((call, answer));
                    self.senders.insert(call, cpu);
                }
            }
            Kind::HandlerBegan { call, .. } => {
                if let Some(answer) = answer_of(&self.senders, &mut self.open, call) {
                    answer.is_idle &= thread == 0;
                }
                for call in self.queues.take(cpu, call) {
                    if let Some(answer) = answer_of(&self.senders, &mut self.open, call) {
                        answer.taken_ns = Some(time_ns);
                    }
                }
            }
            Kind::Lost { .. } => {
                self.queues.lose(cpu);
                self.end(cpu, steps);
            }
            // A thread that waits for answers does none of these.
            Kind::Switch { .. }
            | Kind::Fault { .. }
            | Kind::CallBegan { .. }
            | Kind::CallEnded { .. }
            | Kind::MigrationEnded { .. }
            | Kind::ReclaimEnded { .. }
            | Kind::ThreadEnded => self.end(cpu, steps),
            _ => {}
        }
    }

    /// The sender of a flush goes on.
    fn end(&mut self, cpu: u32, steps: &mut Steps) {
        let Some(asked) = self.open.get_mut(cpu as usize).and_then(Option::take) else { return };
        let answers: Vec<Answer> = asked.requests.into_iter().map(|(_, answer)| answer).collect();
        let asked_idle = answers.iter().any(|answer| answer.is_idle);
        steps.fill(asked.answers_at, Step::Answers(answers));
        if let Some((place, mut flush)) = asked.flush {
            if let (Step::Flush(flush), false) = (&mut flush, asked.is_sure) {
                flush.tables = asked_idle;
            }
            steps.fill(place, flush);
        }
    }

    /// The recording ends.
    pub(super) fn finish(&mut self, steps: &mut Steps) {
        for cpu in 0..self.open.len() {
            self.end(cpu as u32, steps);
        }
    }
}

/// The answer to a call.
fn answer_of<'a>(
    senders: &HashMap<u64, u32>,
    open: &'a mut [Option<Asked>],
    call: u64,
) -> Option<&'a mut Answer> {
    let asked = open.get_mut(*senders.get(&call)? as usize)?.as_mut()?;
    asked.requests.iter_mut().find(|(of, _)| *of == call).map(|(_, answer)| answer)
}
