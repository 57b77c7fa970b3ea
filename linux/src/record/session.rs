//! A recording from its beginning to its end.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::thread::ClockId;

use crate::events::{Decoder, Event, FlushReason, Kind, Level, Lookup, Names, Spelled as _, Wanted, Work};
use crate::kernel::interrupts;
use crate::kernel::symbols::Symbols;
use crate::kernel::threads::{Thread, Threads};
use crate::record::machine;
use crate::record::merge::Merge;
use crate::record::overhead;
use crate::record::row::{Counter, Reading};
use crate::record::spool::Spool;
use crate::recording::{Count, Facts, RecordingError, Row, Writer};
use crate::shootdowns::{Totals, Tracker};
use crate::tracefs::{Instance, Stream, Tracefs, Unavailable};

/// The time between two visits to the buffers. At the highest rates seen (a million records a second and CPU) some 5 MB
/// wait in each.
const PERIOD: Duration = Duration::from_millis(50);

/// The readings of the TLB row at each end.
const READINGS: usize = 12;

/// The largest part of the memory that all buffers take, and the largest buffer of one CPU.
const BUFFERS_PART: u64 = 32;
const BUFFER_KIB: u64 = 32 << 10;

/// What to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// How much.
    pub level: Level,
    /// Whether each interrupt comes with the kernel functions that led to it.
    pub stacks: bool,
    /// The arguments, for the recording's facts.
    pub command: Vec<String>,
}

/// How long to record.
#[derive(Debug)]
pub enum Length {
    /// Until the user ends it.
    Unlimited,
    /// So long.
    For(Duration),
    /// Until a program has ended.
    Program(Command),
}

/// A recording that could not be made.
#[derive(Debug)]
pub enum RecordError {
    /// The kernel's events cannot be read.
    Unavailable(Unavailable),
    /// The program could not be started.
    Program(io::Error),
    /// The pages of the buffers could not be kept.
    Spool(io::Error),
    /// The recording could not be written.
    Recording(RecordingError),
}

impl From<Unavailable> for RecordError {
    fn from(error: Unavailable) -> Self {
        Self::Unavailable(error)
    }
}

impl From<RecordingError> for RecordError {
    fn from(error: RecordingError) -> Self {
        Self::Recording(error)
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable(error) => error.fmt(f),
            Self::Program(error) => write!(f, "the program cannot be started: {error}"),
            Self::Spool(error) => write!(f, "the events cannot be kept: {error}"),
            Self::Recording(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RecordError {}

/// A recording that was made.
#[derive(Debug)]
pub struct Recorded<W> {
    /// The facts that it has.
    pub facts: Facts,
    /// Its shootdowns.
    pub totals: Totals,
    /// The names to which the totals refer.
    pub names: Names,
    /// Where it was written.
    pub to: W,
}

/// Records the running kernel, and writes the recording to `to`. Pages are kept in the folder `beside` meanwhile. Ends
/// early, with a whole recording, when `is_stopped` says so.
///
/// # Errors
/// If events cannot be read, the program cannot be started, or the recording cannot be written. Tracing is as before
/// then.
pub fn record<W: Write + Send>(
    options: &Options,
    length: Length,
    beside: &Path,
    to: W,
    is_stopped: impl Fn() -> bool,
) -> Result<Recorded<W>, RecordError> {
    let tracefs = Tracefs::find()?;
    let (decoder, wanted) = Decoder::of_kernel(&tracefs, options.level)?;
    let layout = tracefs.layout()?;
    let mut lookup = Lookup::new(Symbols::of_kernel().unwrap_or_default());
    let counts = if wanted.iter().any(|wanted| wanted.of_flushes) { Count::Sent } else { Count::Flushed };
    if counts == Count::Sent && lookup.symbols.is_empty() {
        return Err(Unavailable::NoSymbols.into());
    }
    let mut facts = Facts {
        command: options.command.clone(),
        light: options.level == Level::Light,
        events: wanted.iter().map(|wanted| wanted.name.clone()).collect(),
        counted: counts,
        ..machine::facts()
    };
    let instance = tracefs.instance()?;
    let mut tracing = Tracing::begin(&instance, options, &wanted, &lookup.symbols, &facts, beside)?;
    // From here on events tell of new threads.
    let mut threads = Threads::of_kernel(&mut lookup.names);
    let record_ns = overhead::record_ns(&instance);
    let used = overhead::used();
    let begin = Instant::now();
    facts.began_ns = now_ns();
    facts.began_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    let mut readings = read_rows();
    let ended = tracing.run(length, begin, is_stopped);
    readings.extend(read_rows());
    facts.ended_ns = now_ns();
    let processor_s = overhead::used().saturating_sub(used).as_secs_f64();
    let wall_s = begin.elapsed().as_secs_f64();
    // The pages that were kept become a recording even if the last of them could not be.
    let spool = tracing.end();
    drop(instance);
    let (cpus, spooled) = spool.map_err(RecordError::Spool)?;
    ended?;

    let mut events =
        Merge::new(&spooled, layout, &decoder, &cpus, &mut lookup).map_err(RecordError::Spool)?;
    let mut writer = Writer::new(to)?;
    let mut counter = Counter::new(readings, counts);
    let (mut tracker, mut totals) = (Tracker::default(), Totals::default());
    let (mut asked, mut count) = (0, 0_u64);
    for (thread, is) in threads.all() {
        let kind = Kind::ThreadNamed { thread, name: is.name };
        let event = Event { time_ns: facts.began_ns, cpu: 0, thread, kind };
        writer.add(&Row { event, process: is.process, program: is.name }, &mut lookup.names)?;
    }
    while let Some(event) = events.next(&mut lookup).map_err(RecordError::Spool)? {
        count += 1;
        threads.learn(&event);
        counter.add(&event);
        asked += u64::from(matches!(event.kind, Kind::Flush { reason: FlushReason::RemoteSend, .. }));
        let names = &mut lookup.names;
        let unknown = || Thread { process: event.thread, name: names.add("") };
        let Thread { process, name } = threads.get(event.thread).unwrap_or_else(unknown);
        let row = Row { event, process, program: name };
        tracker.add(&row, names, |shootdown| totals.add(shootdown));
        writer.add(&row, names)?;
    }
    tracker.finish(|shootdown| totals.add(shootdown));
    facts.lost = events.lost.clone();
    let compared = counter.compare(READINGS);
    facts.interrupts = compared.interrupts;
    facts.tlb_row = compared.row;
    facts.tlb_row_unsure = compared.unsure;
    facts.asked = facts.events.iter().any(|event| event == "tlb:tlb_flush").then_some(asked);
    let tracing_s = (count + facts.lost.events) as f64 * record_ns / 1e9;
    facts.overhead = (processor_s + tracing_s) / (wall_s * facts.cpus.len().max(1) as f64);
    let to = writer.finish(&facts, &lookup.names)?;
    Ok(Recorded { facts, totals, names: lookup.names, to })
}

/// The time on the kernel's monotonic clock.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Several readings of the TLB row.
fn read_rows() -> Vec<Reading> {
    let read = || {
        let before_ns = now_ns();
        let sum = interrupts::tlb_sum().ok().flatten();
        Reading { before_ns, after_ns: now_ns(), sum }
    };
    (0..READINGS).map(|_| read()).collect()
}

/// Tracing that is under way.
struct Tracing<'a> {
    instance: &'a Instance,
    streams: Vec<Stream>,
    spool: Spool,
    failed: Option<io::Error>,
}

impl<'a> Tracing<'a> {
    fn begin(
        instance: &'a Instance,
        options: &Options,
        wanted: &[Wanted],
        symbols: &Symbols,
        facts: &Facts,
        beside: &Path,
    ) -> Result<Self, RecordError> {
        // The clock of the events is that of the readings.
        instance.set("trace_clock", "mono")?;
        let cpus = facts.cpus.len().max(1) as u64;
        let kib = (facts.memory_bytes / 1024 / BUFFERS_PART / cpus).clamp(1024, BUFFER_KIB);
        instance.set("buffer_size_kb", &kib.to_string())?;
        // Names of threads come from events of our own.
        let _ = instance.set("options/record-cmd", "0");
        let known = Work::WORDS.iter().filter_map(|(_, name)| symbols.address(name));
        let known: Vec<String> = known.map(|address| format!("func == {address:#x}")).collect();
        let filter = format!("csd != 0 && ({})", known.join(" || "));
        for wanted in wanted {
            let folder = format!("events/{}", wanted.folder);
            if wanted.of_flushes {
                instance.set(&format!("{folder}/filter"), &filter)?;
            }
            if options.stacks && (wanted.name == "csd:csd_queue_cpu" || wanted.name == "tlb:tlb_flush") {
                instance.set(&format!("{folder}/trigger"), "stacktrace")?;
            }
            instance.set(&format!("{folder}/enable"), "1")?;
        }
        let streams = instance.streams()?;
        let spool = Spool::new(beside, streams.len(), instance.page_bytes()).map_err(RecordError::Spool)?;
        Ok(Self { instance, streams, spool, failed: None })
    }

    /// Records until the end.
    fn run(
        &mut self,
        length: Length,
        begin: Instant,
        is_stopped: impl Fn() -> bool,
    ) -> Result<(), RecordError> {
        let (mut program, limit) = match length {
            Length::Unlimited => (None, None),
            Length::For(time) => (None, Some(time)),
            Length::Program(mut command) => (Some(command.spawn().map_err(RecordError::Program)?), None),
        };
        loop {
            let has_ended = |program: &mut Child| !matches!(program.try_wait(), Ok(None));
            if program.as_mut().is_some_and(has_ended) || limit.is_some_and(|limit| begin.elapsed() >= limit)
            {
                return Ok(());
            }
            if is_stopped() && program.is_none() {
                return Ok(());
            }
            if let (true, Some(program)) = (is_stopped(), program.as_mut()) {
                // Ctrl-C reaches the program too. A recording ends when it has.
                let _ = program.wait();
                return Ok(());
            }
            self.drain();
            if self.failed.is_some() {
                if let Some(mut program) = program {
                    let _ = program.wait();
                }
                return Ok(());
            }
            let left = limit.map_or(PERIOD, |limit| limit.saturating_sub(begin.elapsed()));
            thread::sleep(left.min(PERIOD));
        }
    }

    /// Moves what there is to the spool.
    fn drain(&mut self) {
        for (number, stream) in self.streams.iter_mut().enumerate() {
            while self.failed.is_none() {
                match self.spool.add(number, |page| stream.read(page)) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => self.failed = Some(error),
                }
            }
        }
    }

    /// Ends tracing, and gives the pages with the CPUs of their streams.
    fn end(mut self) -> io::Result<(Vec<u32>, super::spool::Spooled)> {
        let _ = self.instance.set("tracing_on", "0");
        self.drain();
        if let Some(error) = self.failed {
            return Err(error);
        }
        let cpus = self.streams.iter().map(|stream| stream.cpu).collect();
        Ok((cpus, self.spool.finish()?))
    }
}
