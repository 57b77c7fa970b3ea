//! Puts the events of shootdowns together.

use foldhash::HashMap;

use crate::events::{Event, FlushReason, Kind, Name, Names, Work};
use crate::recording::Row;
use crate::shootdowns::cause::{Cause, Doing};
use crate::shootdowns::queues::Queues;

/// A flush that asked other CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shootdown {
    /// The thread that flushed.
    pub sender: Sender,
    /// The time of the flush.
    pub began_ns: u64,
    /// The time at which the sender could go on: its last request was answered. Without requests, that of the flush.
    pub ended_ns: u64,
    /// The function that the others ran.
    pub work: Work,
    /// The cause.
    pub cause: Cause,
    /// The number of pages: none inside for all, none outside if it is not known.
    pub pages: Option<Option<u64>>,
    /// The CPUs that it asked. There are none if every CPU could be left out.
    pub requests: Vec<Request>,
}

/// A thread that flushes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sender {
    /// Its CPU.
    pub cpu: u32,
    /// The thread.
    pub thread: u32,
    /// Its process.
    pub process: u32,
    /// Its name.
    pub program: Name,
}

/// A CPU is asked to flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The CPU.
    pub target: u32,
    /// The time at which it was asked.
    pub sent_ns: u64,
    /// Whether it was interrupted: no other request waited there.
    pub interrupts: bool,
    /// Its handler; none if the recording does not have it.
    pub victim: Option<Victim>,
}

/// The handler of a request, and the thread that it interrupted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Victim {
    /// The beginning of the handler.
    pub began_ns: u64,
    /// Its end.
    pub ended_ns: u64,
    /// The thread; 0 if the CPU was idle.
    pub thread: u32,
    /// The thread's process.
    pub process: u32,
    /// The thread's name.
    pub program: Name,
}

impl Shootdown {
    /// The time for which the sender waited, in nanoseconds.
    pub fn sender_ns(&self) -> u64 {
        self.ended_ns - self.began_ns
    }

    /// The interrupts that its requests took.
    pub fn interrupts(&self) -> u64 {
        self.requests.iter().filter(|request| request.interrupts).count() as u64
    }

    /// The time for which handlers ran, in nanoseconds.
    pub fn victim_ns(&self) -> u64 {
        self.requests
            .iter()
            .filter_map(|request| request.victim)
            .map(|victim| victim.handler_ns())
            .fold(0, u64::saturating_add)
    }
}

impl Victim {
    /// The time for which the handler ran, in nanoseconds.
    pub fn handler_ns(&self) -> u64 {
        self.ended_ns - self.began_ns
    }
}

/// Puts the events of shootdowns together.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    /// For each thread, what it is doing.
    doing: HashMap<u32, Doing>,
    /// For each CPU, its latest shootdown, until it is complete or the next one begins.
    open: Vec<Option<Open>>,
    /// For each call under way, its sender's CPU.
    senders: HashMap<u64, u32>,
    /// For each CPU, the call whose handler it runs, and the handler's beginning.
    handlers: Vec<Option<(u64, Victim)>>,
    queues: Queues,
    /// For each CPU, whether a stack belongs to its last event.
    sent: Vec<bool>,
}

/// A shootdown that is under way.
#[derive(Debug)]
struct Open {
    shootdown: Shootdown,
    calls: Vec<u64>,
    pending: usize,
}

impl Tracker {
    /// Learns from the next event, and calls `emit` with each shootdown that is complete. Returns the CPU whose
    /// shootdown's last request is now answered, if there is one.
    pub(crate) fn add(&mut self, row: &Row, names: &Names, mut emit: impl FnMut(&Shootdown)) -> Option<u32> {
        let event = &row.event;
        let cpu = event.cpu as usize;
        let mut complete = None;
        if self.open.len() <= cpu {
            self.open.resize_with(cpu + 1, || None);
            self.handlers.resize(cpu + 1, None);
            self.sent.resize(cpu + 1, false);
        }
        match event.kind {
            Kind::Flush { reason: FlushReason::RemoteSend, pages } => {
                self.begin(row, Work::Flush, names, &mut emit);
                if let Some(open) = &mut self.open[cpu] {
                    open.shootdown.pages = Some(pages);
                }
            }
            Kind::Sent {
                target,
                work: work @ (Work::Flush | Work::FlushAll | Work::FlushKernelRange),
                call,
                ..
            } => {
                if !self.joins(event, target, work) {
                    self.begin(row, work, names, &mut emit);
                }
                let interrupts = self.queues.add(target, call);
                if let Some(open) = &mut self.open[cpu] {
                    let request = Request { target, sent_ns: event.time_ns, interrupts, victim: None };
                    open.shootdown.requests.push(request);
                    open.calls.push(call);
                    open.pending += 1;
                }
                self.senders.insert(call, event.cpu);
            }
            Kind::HandlerBegan { call, .. } => {
                self.queues.take(event.cpu, call);
                let victim = Victim {
                    began_ns: event.time_ns,
                    ended_ns: event.time_ns,
                    thread: event.thread,
                    process: row.process,
                    program: row.program,
                };
                self.handlers[cpu] = Some((call, victim));
            }
            Kind::HandlerEnded { call, .. } => complete = self.handled(call, event),
            Kind::Stack { functions } => {
                let open = self.open[cpu].as_mut().filter(|_| self.sent[cpu]);
                if let (Some(open), Some(cause)) = (open, Cause::of_stack(names.get(functions))) {
                    open.shootdown.cause = cause;
                }
            }
            Kind::Lost { .. } => {
                // Whatever was under way on this CPU may have ended.
                if let Some(open) = self.open[cpu].take() {
                    emit(&open.shootdown);
                }
                self.handlers[cpu] = None;
                self.queues.lose(event.cpu);
            }
            Kind::ThreadBegan { thread, .. } => {
                self.doing.remove(&thread);
            }
            ref kind if Doing::is_told_by(kind) => self.doing(event.thread).learn(kind),
            _ => {}
        }
        self.sent[cpu] =
            matches!(event.kind, Kind::Sent { .. } | Kind::Flush { reason: FlushReason::RemoteSend, .. });
        complete
    }

    /// The latest shootdown of a CPU, unless it was emitted.
    pub(crate) fn latest(&self, cpu: u32) -> Option<&Shootdown> {
        self.open.get(cpu as usize)?.as_ref().map(|open| &open.shootdown)
    }

    /// What a thread is doing.
    pub(crate) fn doing(&mut self, thread: u32) -> &mut Doing {
        self.doing.entry(thread).or_default()
    }

    /// Whether a thread has ended, and no other got its number.
    pub(crate) fn has_ended(&self, thread: u32) -> bool {
        self.doing.get(&thread).is_some_and(Doing::has_ended)
    }

    /// Calls `emit` with the shootdowns that were handled before a time. A request that belongs to one of them would
    /// have been sent before.
    pub(crate) fn settle(&mut self, before_ns: u64, mut emit: impl FnMut(&Shootdown)) {
        for slot in &mut self.open {
            if let Some(open) = slot.take_if(|open| open.pending == 0 && open.shootdown.ended_ns < before_ns)
            {
                emit(&open.shootdown);
            }
        }
    }

    /// Ends: calls `emit` with the shootdowns that are not complete.
    pub(crate) fn finish(&mut self, mut emit: impl FnMut(&Shootdown)) {
        for open in self.open.drain(..).flatten() {
            emit(&open.shootdown);
        }
    }

    /// Forgets the threads that are not known any more.
    pub(crate) fn keep_threads(&mut self, is_known: impl Fn(u32) -> bool) {
        self.doing.retain(|thread, _| is_known(*thread));
    }

    /// Whether a request belongs to the shootdown that its CPU has under way. The sender waits for all handlers, so
    /// a shootdown that is complete takes no more, and none has a target twice.
    fn joins(&self, event: &Event, target: u32, work: Work) -> bool {
        let Some(Some(open)) = self.open.get(event.cpu as usize) else { return false };
        let Shootdown { sender, requests, .. } = &open.shootdown;
        sender.thread == event.thread
            && open.shootdown.work == work
            && (requests.is_empty() || open.pending > 0)
            && requests.iter().all(|request| request.target != target)
    }

    fn begin(&mut self, row: &Row, work: Work, names: &Names, emit: &mut impl FnMut(&Shootdown)) {
        let Row { event, process, program } = *row;
        let cpu = event.cpu as usize;
        let doing = self.doing.get(&event.thread).copied().unwrap_or_default();
        let cause = doing.cause(work, names.get(program));
        let sender = Sender { cpu: event.cpu, thread: event.thread, process, program };
        let mut open = self.open[cpu].take().map_or_else(
            || Open {
                shootdown: Shootdown {
                    sender,
                    began_ns: 0,
                    ended_ns: 0,
                    work,
                    cause,
                    pages: None,
                    requests: Vec::new(),
                },
                calls: Vec::new(),
                pending: 0,
            },
            |open| {
                emit(&open.shootdown);
                open
            },
        );
        open.calls.clear();
        open.pending = 0;
        open.shootdown.requests.clear();
        open.shootdown.sender = sender;
        (open.shootdown.work, open.shootdown.cause, open.shootdown.pages) = (work, cause, None);
        (open.shootdown.began_ns, open.shootdown.ended_ns) = (event.time_ns, event.time_ns);
        self.open[cpu] = Some(open);
    }

    /// A handler ends. Returns the CPU that asked, if no other request of the shootdown is left.
    fn handled(&mut self, call: u64, event: &Event) -> Option<u32> {
        let began = self.handlers[event.cpu as usize].take().filter(|(began, _)| *began == call);
        let sender = self.senders.remove(&call)?;
        let open = self.open.get_mut(sender as usize)?.as_mut()?;
        let at = open.calls.iter().position(|of_call| *of_call == call)?;
        open.pending -= 1;
        let shootdown = &mut open.shootdown;
        shootdown.ended_ns = shootdown.ended_ns.max(event.time_ns);
        let victim = began.map(|(_, victim)| Victim { ended_ns: event.time_ns, ..victim });
        shootdown.requests[at].victim = victim;
        (open.pending == 0).then_some(sender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::SystemCall;

    struct World {
        tracker: Tracker,
        names: Names,
        done: Vec<Shootdown>,
    }

    impl World {
        fn new() -> Self {
            Self { tracker: Tracker::default(), names: Names::default(), done: Vec::new() }
        }

        fn at(&mut self, time_ns: u64, cpu: u32, thread: u32, kind: Kind) {
            let program = self.names.add("program");
            let event = Event { time_ns, cpu, thread, kind };
            let row = Row { event, process: thread / 10, program };
            self.tracker.add(&row, &self.names, |shootdown| self.done.push(shootdown.clone()));
        }

        fn finish(mut self) -> Vec<Shootdown> {
            self.tracker.finish(|shootdown| self.done.push(shootdown.clone()));
            self.done
        }
    }

    fn flush(pages: u64) -> Kind {
        Kind::Flush { reason: FlushReason::RemoteSend, pages: Some(pages) }
    }

    fn sent(names: &mut Names, target: u32, call: u64) -> Kind {
        Kind::Sent { target, work: Work::Flush, call, site: names.add("site") }
    }

    const fn began(call: u64) -> Kind {
        Kind::HandlerBegan { work: Work::Flush, call }
    }

    const fn ended(call: u64) -> Kind {
        Kind::HandlerEnded { work: Work::Flush, call }
    }

    #[test]
    fn a_shootdown_has_its_interrupts_its_victims_and_its_cause() {
        let mut world = World::new();
        let [to_1, to_2] = [(1, 101), (2, 102)].map(|(target, call)| sent(&mut world.names, target, call));
        world.at(90, 0, 11, Kind::CallBegan { call: SystemCall::Munmap, address: 0, bytes: 0, flags: 0 });
        world.at(100, 0, 11, flush(3));
        world.at(101, 0, 11, to_1);
        world.at(102, 0, 11, to_2);
        world.at(110, 2, 21, began(102));
        world.at(111, 1, 12, began(101));
        world.at(115, 2, 21, ended(102));
        world.at(120, 1, 12, ended(101));
        let done = world.finish();
        assert_eq!(done.len(), 1);
        let shootdown = &done[0];
        assert_eq!((shootdown.sender.process, shootdown.cause), (1, Cause::Munmap));
        assert_eq!((shootdown.began_ns, shootdown.ended_ns, shootdown.pages), (100, 120, Some(Some(3))));
        let victims: Vec<_> =
            shootdown.requests.iter().map(|request| request.victim.expect("handled")).collect();
        let times: Vec<_> =
            victims.iter().map(|victim| (victim.process, victim.began_ns, victim.ended_ns)).collect();
        assert_eq!(times, [(1, 111, 120), (2, 110, 115)]);
    }

    #[test]
    fn without_flushes_a_new_shootdown_begins_when_the_last_one_is_handled() {
        let mut world = World::new();
        let to_1 = sent(&mut world.names, 1, 101);
        for time in [100, 200, 300] {
            world.at(time, 0, 11, to_1);
            world.at(time + 10, 1, 12, began(101));
            world.at(time + 20, 1, 12, ended(101));
        }
        let times: Vec<_> = world.finish().iter().map(|done| (done.began_ns, done.ended_ns)).collect();
        assert_eq!(times, [(100, 120), (200, 220), (300, 320)]);
    }

    #[test]
    fn a_flush_without_interrupts_is_a_shootdown_that_cost_nothing() {
        let mut world = World::new();
        world.at(100, 0, 11, flush(1));
        world.at(200, 0, 11, flush(2));
        let done = world.finish();
        assert!(done.iter().all(|done| done.requests.is_empty() && done.ended_ns == done.began_ns));
        assert_eq!(done.len(), 2);
    }

    #[test]
    fn lost_events_leave_interrupts_without_victims() {
        let mut world = World::new();
        let to_1 = sent(&mut world.names, 1, 101);
        world.at(100, 0, 11, to_1);
        world.at(105, 1, 12, began(101));
        world.at(106, 1, 0, Kind::Lost { events: 4 });
        world.at(120, 1, 12, ended(7));
        world.at(200, 0, 11, to_1);
        let victims: Vec<_> = world.finish().iter().map(|done| done.requests[0].victim).collect();
        assert_eq!(victims, [None, None]);
    }
}
