//! The trace of a run: its flushes, and the interrupts that they send, in the order of their times.
//!
//! CPUs report events as they have their turns, and a CPU has done work of some time when others notice it. So the
//! recorder holds events back until no CPU can report an earlier one ([`order`]). A [`TraceFormat`] writes them.

mod event;
mod order;
mod output;
mod perfetto;
mod text;

use std::cell::{RefCell, RefMut};
use std::fmt;
use std::io;

use ceasefire::{FlushEvent, Reason};

use self::event::{Event, Format, Lane, Record};
use self::order::Order;
pub use self::output::{TraceFormat, TraceOutput};
use crate::config::{Machine, Picoseconds};

/// The trace, if the run has one.
#[derive(Default)]
pub(crate) struct Trace(Option<RefCell<Recorder>>);

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Trace").field(&self.0.is_some()).finish()
    }
}

impl Trace {
    pub(crate) fn to(output: Option<TraceOutput>, machine: &Machine) -> Self {
        Self(output.map(|output| RefCell::new(Recorder::new(output, machine))))
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The recorder, if there is a trace and a run is under way. Events while the machine is set up or comes to rest
    /// are not part of the trace.
    pub(crate) fn recorder(&self) -> Option<RefMut<'_, Recorder>> {
        let recorder = self.0.as_ref()?.borrow_mut();
        recorder.open.then_some(recorder)
    }

    /// Begins a run.
    pub(crate) fn open(&self) {
        if let Some(recorder) = &self.0 {
            recorder.borrow_mut().begin();
        }
    }

    /// Writes all events that are held back, and ends the run.
    ///
    /// # Errors
    /// The first error in writing.
    pub(crate) fn finish(&self) -> io::Result<()> {
        self.0.as_ref().map_or(Ok(()), |recorder| recorder.borrow_mut().finish())
    }
}

/// A request that a CPU has sent to others, up to its last answer.
#[derive(Debug)]
struct Request {
    sent: Picoseconds,
    event: FlushEvent,
    /// The interrupts that it caused.
    flows: Vec<u64>,
}

/// The recorder's notes on a CPU.
#[derive(Debug, Default)]
struct Notes {
    request: Option<Request>,
    /// The time of the last answer to its last request.
    answered: Picoseconds,
    /// The interrupts under way to it.
    arriving: Vec<u64>,
    /// Whether it handles an interrupt or a tick.
    handles: bool,
    /// The beginning and the end of its last invalidation or wait for broadcasts.
    work: Option<(Picoseconds, Picoseconds)>,
}

/// The recorder of a run's events.
pub(crate) struct Recorder {
    format: Box<dyn Format>,
    order: Order,
    cpus: Vec<Notes>,
    /// The number of interrupts sent.
    interrupts: u64,
    /// Whether a run is under way.
    open: bool,
    /// The time of the last event that was written.
    written: Picoseconds,
    /// The first error in writing.
    error: Option<io::Error>,
}

impl Recorder {
    fn new(output: TraceOutput, machine: &Machine) -> Self {
        let about = output.circumstances(machine);
        let cpus = usize::from(machine.topology.cpu_count());
        Self {
            format: match output.format {
                TraceFormat::Text => Box::new(text::Text::new(output.out, about)),
                TraceFormat::Perfetto => Box::new(perfetto::Perfetto::new(output.out, about)),
            },
            order: Order::default(),
            cpus: (0..cpus).map(|_| Notes::default()).collect(),
            interrupts: 0,
            open: false,
            written: 0,
            error: None,
        }
    }

    fn push(&mut self, time: Picoseconds, cpu: usize, event: Event) {
        self.order.push(Record { time, cpu, event });
    }

    /// A CPU has invalidated entries of its own TLB, or waited for its broadcasts, from `begun` to `ended`. The reason
    /// follows.
    pub(crate) fn worked(&mut self, cpu: usize, begun: Picoseconds, ended: Picoseconds) {
        self.cpus[cpu].work = Some((begun, ended));
    }

    /// A CPU reports a flush.
    pub(crate) fn flush(&mut self, cpu: usize, now: Picoseconds, event: FlushEvent) {
        if event.reason == Reason::RemoteSend {
            self.answered(cpu, now);
            self.cpus[cpu].request = Some(Request { sent: now, event, flows: Vec::new() });
            return;
        }
        let notes = &mut self.cpus[cpu];
        let lane = if notes.handles { Lane::Interrupts } else { Lane::Flushes };
        // A flush that had nothing to do follows no work.
        let begun = notes.work.take().filter(|&(_, ended)| ended == now).map_or(now, |(begun, _)| begun);
        self.push(begun, cpu, Event::Flushes(lane, event));
        self.push(now, cpu, Event::Flushed(lane, event));
    }

    /// A CPU interrupts another for its request.
    pub(crate) fn interrupts(&mut self, cpu: usize, target: usize) {
        self.interrupts += 1;
        if let Some(request) = &mut self.cpus[cpu].request {
            request.flows.push(self.interrupts);
            self.cpus[target].arriving.push(self.interrupts);
        }
    }

    /// The last answer to a CPU's request, if it has one, arrives.
    pub(crate) fn answered(&mut self, cpu: usize, time: Picoseconds) {
        if let Some(sent) = self.send(cpu) {
            let answered = time.max(sent);
            self.push(answered, cpu, Event::Answered);
            self.cpus[cpu].answered = answered;
        }
    }

    /// Records a CPU's request, whose interrupts are all known. Returns its time. It is not before the answer to an
    /// earlier one: the engine sends one after the other.
    fn send(&mut self, cpu: usize) -> Option<Picoseconds> {
        let Request { sent, event, flows } = self.cpus[cpu].request.take()?;
        let sent = sent.max(self.cpus[cpu].answered);
        self.push(sent, cpu, Event::Asks(event, flows));
        Some(sent)
    }

    /// A CPU takes an interrupt.
    pub(crate) fn interrupted(&mut self, cpu: usize, time: Picoseconds) {
        let flows = std::mem::take(&mut self.cpus[cpu].arriving);
        self.push(time, cpu, Event::Interrupted(flows));
        self.handles(cpu, true);
    }

    /// It returns from the interrupt.
    pub(crate) fn returns(&mut self, cpu: usize, time: Picoseconds) {
        self.handles(cpu, false);
        self.push(time, cpu, Event::Returns);
    }

    /// Whether a CPU handles an interrupt or a tick from now on. The handler's flushes are part of it.
    pub(crate) fn handles(&mut self, cpu: usize, handles: bool) {
        self.cpus[cpu].handles = handles;
    }

    /// Whether so many events are held back that it is worth while to [`release`](Self::release) some.
    pub(crate) fn is_full(&self) -> bool {
        self.order.is_full()
    }

    /// Writes the events before `time`, before which no CPU reports another one.
    pub(crate) fn release(&mut self, time: Picoseconds) {
        // A request is recorded when it is answered, with the time at which it was sent.
        let sent = self.cpus.iter().filter_map(|notes| notes.request.as_ref()).map(|request| request.sent);
        self.write_before(sent.fold(time, Picoseconds::min));
    }

    fn write_before(&mut self, time: Picoseconds) {
        for record in self.order.before(time) {
            self.written = record.time;
            let written = self.format.record(&record);
            self.keep_error(written);
        }
    }

    fn keep_error(&mut self, result: io::Result<()>) {
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }

    fn begin(&mut self) {
        self.open = true;
        let begun = self.format.begin(self.written);
        self.keep_error(begun);
    }

    fn finish(&mut self) -> io::Result<()> {
        self.open = false;
        for cpu in 0..self.cpus.len() {
            self.send(cpu);
        }
        self.write_before(Picoseconds::MAX);
        let ended = self.format.end(self.written);
        self.keep_error(ended);
        self.error.take().map_or(Ok(()), Err)
    }
}
