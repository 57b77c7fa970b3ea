//! Exports a recording in Perfetto's format.
//!
//! Each CPU has two lanes, which are `tracks` of the trace. The threads that it runs are slices of the first one, with
//! the calls, the reclaim and the migrations in which they are (`running`), and their shootdowns. The handlers of its
//! interrupts are slices of the second one. A flow leads from each request to its handler. `rate` is the
//! counter of requests. All is written in one pass, in the order of time, so memory is needed for what is under way
//! alone.

mod error;
mod rate;
mod running;
mod tracks;

use std::io::{self, Write};

use ceasefire_perfetto::{Argument, Slice};
use foldhash::HashMap;

use crate::events::{Event, FlushReason, Kind, Names, Spelled, Work};
use crate::kernel::threads::Threads;
use crate::observer::Observer;
use crate::recording::{Facts, Recording, Row};
pub use error::ExportError;
use rate::Rate;
use running::{Activity, Running};
use tracks::{Lane, Tracks};

/// Writes a recording in Perfetto's format, in small pieces: `to` should be buffered.
///
/// # Errors
/// If the recording cannot be read, or the trace cannot be written.
pub fn export(recording: &mut Recording, to: impl Write) -> Result<(), ExportError> {
    let mut exporter = Exporter::new(recording.facts().clone(), to);
    let mut names = Names::default();
    recording.each(&mut names, |row, names| exporter.add(&row, names))?;
    let lost = recording.lost();
    let arguments =
        vec![Argument::number("lost", lost.events), Argument::number("unreadable", lost.unreadable)];
    Ok(exporter.finish(arguments)?)
}

/// A request whose handler has not begun.
#[derive(Debug, Clone, Copy)]
struct Sent {
    flow: u64,
    cpu: u32,
    time_ns: u64,
}

/// Writes event after event.
struct Exporter<W> {
    facts: Facts,
    tracks: Tracks<W>,
    running: Running,
    observer: Observer<()>,
    /// The requests on their way, by their calls.
    sent: HashMap<u64, Sent>,
    flows: u64,
    /// For each CPU, whether it runs a handler.
    handles: Vec<bool>,
    rate: Rate,
    /// Whether the run's slice has begun.
    has_begun: bool,
    last_ns: u64,
}

impl<W: Write> Exporter<W> {
    fn new(facts: Facts, to: W) -> Self {
        let has_switches = facts.has_event("sched:sched_switch");
        Self {
            facts,
            tracks: Tracks::new(to),
            running: Running::new(has_switches),
            observer: Observer::new(Threads::default(), ()),
            sent: HashMap::default(),
            flows: 0,
            handles: Vec::new(),
            rate: Rate::default(),
            has_begun: false,
            last_ns: 0,
        }
    }

    /// Begins the run's slice, with the facts.
    fn begin(&mut self, time_ns: u64) -> io::Result<()> {
        self.has_begun = true;
        let facts = &self.facts;
        let mut arguments = vec![
            Argument::text("ceasefire", &facts.ceasefire),
            Argument::text("command", facts.command.join(" ")),
            Argument::text("kernel", &facts.kernel),
            Argument::text("architecture", &facts.architecture),
            Argument::text("processor", &facts.processor),
            Argument::number("cpus", facts.cpus.len() as u64),
            Argument::number("requests", facts.answered),
        ];
        arguments.extend(facts.imported.map(|kind| Argument::text("imported", kind.name())));
        arguments.extend(facts.tlb_row.map(|row| Argument::number("tlb_row", row)));
        arguments.extend(facts.asked.map(|asked| Argument::number("asked", asked)));
        self.tracks.begin_run(time_ns, arguments)
    }

    fn add(&mut self, row: &Row, names: &Names) -> Result<(), ExportError> {
        let event = &row.event;
        if !self.has_begun {
            self.begin(event.time_ns.min(self.facts.began_ns))?;
        }
        self.last_ns = event.time_ns;
        self.rate_at(event.time_ns)?;
        if self.facts.counted.counts(&event.kind) {
            self.rate.add();
        }
        let complete = self.observer.add(row, names);
        let cpu = event.cpu as usize;
        if self.handles.len() <= cpu {
            self.handles.resize(cpu + 1, false);
        }
        if tells_thread(&event.kind) {
            self.running
                .runs(event, &mut self.tracks, &|thread| of_run(thread, &self.observer.threads, names))?;
        }
        self.draw(event, names)?;
        if let Some(sender) = complete {
            self.end_shootdown(sender, names)?;
        }
        Ok(())
    }

    fn rate_at(&mut self, time_ns: u64) -> io::Result<()> {
        for (since_ns, rate) in self.rate.at(time_ns) {
            self.tracks.rate(since_ns, rate)?;
        }
        Ok(())
    }

    /// Draws an event that the observer knows.
    fn draw(&mut self, event: &Event, names: &Names) -> io::Result<()> {
        let Event { time_ns, cpu, thread, kind } = *event;
        let tracks = &mut self.tracks;
        match kind {
            Kind::Sent { target, work, call, site } => {
                let first = self.observer.latest(cpu).is_some_and(|latest| latest.requests.len() == 1);
                if work != Work::Other && first {
                    self.running.begin_shootdown(time_ns, cpu, tracks)?;
                }
                self.flows += 1;
                self.sent.insert(call, Sent { flow: self.flows, cpu, time_ns });
                let arguments = vec![
                    Argument::number("target", target.into()),
                    Argument::text("function", work.word()),
                    Argument::text("site", names.get(site)),
                ];
                let slice = Slice { arguments, flows: vec![self.flows], ..named("request sent") };
                tracks.instant(time_ns, cpu, Lane::Threads, slice)
            }
            Kind::HandlerBegan { work, call } => {
                self.end_handler(time_ns, cpu)?;
                let mut slice = named(work.word());
                if let Some(sent) = self.sent.remove(&call) {
                    slice.ending_flows.push(sent.flow);
                    slice.arguments = vec![
                        Argument::number("sender", sent.cpu.into()),
                        Argument::number("delivery_ns", time_ns - sent.time_ns),
                    ];
                }
                self.handles[cpu as usize] = true;
                self.tracks.begin(time_ns, cpu, Lane::Interrupts, slice)
            }
            Kind::HandlerEnded { .. } => self.end_handler(time_ns, cpu),
            Kind::Flush { reason, pages } => {
                let lane = match reason {
                    FlushReason::RemoteShootdown | FlushReason::WrongCpu => Lane::Interrupts,
                    _ => Lane::Threads,
                };
                let slice = Slice { arguments: vec![of_pages(pages)], ..named(reason.word()) };
                tracks.instant(time_ns, cpu, lane, slice)
            }
            Kind::Switch { next } => {
                let threads = &self.observer.threads;
                self.running.switch(time_ns, cpu, next, tracks, &|thread| of_run(thread, threads, names))
            }
            Kind::Collapsed { done } => {
                let slice =
                    Slice { arguments: vec![Argument::number("done", done.into())], ..named("collapse") };
                tracks.instant(time_ns, cpu, Lane::Threads, slice)
            }
            Kind::ThreadBegan { thread, .. } => self.running.is_made(time_ns, thread, tracks),
            Kind::ThreadEnded => {
                self.running.has_ended(thread);
                Ok(())
            }
            Kind::Lost { events } => {
                self.end_handler(time_ns, cpu)?;
                self.running.leave(time_ns, cpu, &mut self.tracks)?;
                let slice = Slice { arguments: vec![Argument::number("events", events)], ..named("lost") };
                self.tracks.instant(time_ns, cpu, Lane::Threads, slice)
            }
            Kind::CallBegan { .. }
            | Kind::CallEnded { .. }
            | Kind::MigrationBegan { .. }
            | Kind::MigrationEnded { .. }
            | Kind::ReclaimBegan
            | Kind::ReclaimEnded { .. }
            | Kind::WaitBegan { .. }
            | Kind::WaitEnded { .. } => self.draw_activity(event),
            Kind::Fault { .. }
            | Kind::Allocated { .. }
            | Kind::Freed { .. }
            | Kind::Cached { .. }
            | Kind::Uncached { .. }
            | Kind::FileMapped { .. }
            | Kind::Mapped { .. }
            | Kind::ThreadNamed { .. }
            | Kind::Stack { .. } => Ok(()),
        }
    }

    /// Draws what a thread begins or ends.
    fn draw_activity(&mut self, event: &Event) -> io::Result<()> {
        let Event { time_ns, thread, kind, .. } = *event;
        let (running, tracks) = (&mut self.running, &mut self.tracks);
        let (activity, slice) = match kind {
            Kind::CallBegan { call, address, bytes, flags } => {
                let arguments = vec![
                    Argument::text("address", format!("{address:#x}")),
                    Argument::number("bytes", bytes),
                    Argument::number("flags", flags),
                ];
                (Activity::Call, Slice { arguments, ..named(call.word()) })
            }
            Kind::MigrationBegan { reason } => {
                let arguments = vec![Argument::text("reason", reason.word())];
                (Activity::Migration, Slice { arguments, ..named("migration") })
            }
            Kind::ReclaimBegan => (Activity::Reclaim, named("reclaim")),
            Kind::WaitBegan { lock, kind } => {
                let arguments = vec![Argument::text("lock", format!("{lock:#x}"))];
                (Activity::Wait, Slice { arguments, ..named(&format!("waits: {}", kind.word())) })
            }
            _ => {
                let (activity, arguments) = match kind {
                    Kind::CallEnded { result, .. } => {
                        (Activity::Call, vec![Argument::signed("result", result)])
                    }
                    Kind::MigrationEnded { moved, failed, .. } => {
                        let arguments =
                            vec![Argument::number("moved", moved), Argument::number("failed", failed)];
                        (Activity::Migration, arguments)
                    }
                    Kind::ReclaimEnded { frames } => {
                        (Activity::Reclaim, vec![Argument::number("frames", frames)])
                    }
                    Kind::WaitEnded { result, .. } => {
                        (Activity::Wait, vec![Argument::signed("result", result)])
                    }
                    _ => return Ok(()),
                };
                return running.end(time_ns, thread, activity, arguments, tracks);
            }
        };
        running.begin(time_ns, thread, activity, slice, tracks)
    }

    /// Ends the handler that a CPU runs, if it runs one.
    fn end_handler(&mut self, time_ns: u64, cpu: u32) -> io::Result<()> {
        if std::mem::take(&mut self.handles[cpu as usize]) {
            self.tracks.end(time_ns, cpu, Lane::Interrupts, Vec::new())?;
        }
        Ok(())
    }

    /// Ends the shootdown of a CPU, which is complete.
    fn end_shootdown(&mut self, cpu: u32, names: &Names) -> io::Result<()> {
        let Some(shootdown) = self.observer.latest(cpu) else { return Ok(()) };
        let first = self.observer.threads.get(shootdown.sender.process);
        let program = first.map_or(shootdown.sender.program, |first| first.name);
        let mut arguments = vec![
            Argument::text("program", names.get(program)),
            Argument::number("process", shootdown.sender.process.into()),
            Argument::text("cause", shootdown.cause.name()),
            Argument::number("requests", shootdown.requests.len() as u64),
            Argument::number("interrupts", shootdown.interrupts()),
        ];
        arguments.extend(shootdown.pages.map(of_pages));
        self.running.end_shootdown(self.last_ns, cpu, arguments, &mut self.tracks)
    }

    fn finish(mut self, arguments: Vec<Argument>) -> io::Result<()> {
        if !self.has_begun {
            self.begin(self.facts.began_ns)?;
        }
        let ended_ns = self.facts.ended_ns.max(self.facts.began_ns).max(self.last_ns);
        self.rate_at(ended_ns)?;
        for cpu in 0..self.handles.len() as u32 {
            self.end_handler(ended_ns, cpu)?;
            self.running.leave(ended_ns, cpu, &mut self.tracks)?;
        }
        self.tracks.end_run(ended_ns, arguments)
    }
}

/// Whether an event's thread is the one that runs. A switch flushes after its event, and still as the thread before.
fn tells_thread(kind: &Kind) -> bool {
    !matches!(
        kind,
        Kind::ThreadNamed { .. }
            | Kind::Lost { .. }
            | Kind::Stack { .. }
            | Kind::Flush { reason: FlushReason::TaskSwitch, .. }
    )
}

fn named(name: &str) -> Slice {
    Slice { name: name.to_owned(), ..Slice::default() }
}

/// The number of pages of a flush.
fn of_pages(pages: Option<u64>) -> Argument {
    pages.map_or_else(|| Argument::text("pages", "all"), |pages| Argument::number("pages", pages))
}

/// The slice of a thread that runs.
fn of_run(thread: u32, threads: &Threads, names: &Names) -> Slice {
    let is = threads.get(thread);
    let name = is.map(|is| names.get(is.name)).filter(|name| !name.is_empty());
    let mut arguments = vec![Argument::number("thread", thread.into())];
    arguments.extend(is.map(|is| Argument::number("process", is.process.into())));
    let name = name.map_or_else(|| format!("thread {thread}"), str::to_owned);
    Slice { name, arguments, ..Slice::default() }
}
