//! A recording from its beginning to its end.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::{kill_process, Pid, Signal};

use crate::events::{Level, Lookup};
use crate::kernel::interrupts;
use crate::kernel::mappings::Mappings;
use crate::record::keep::{Keeper, Recorded};
use crate::record::row::{Counter, Reading};
use crate::record::spool::{Spool, Spooled};
use crate::recording::{Facts, RecordingError, Writer};
use crate::tracefs::{Instance, Stream, Unavailable};
use crate::tracing::{now_ns, overhead, Merge, Tracing};

/// The time between two visits to the buffers. At the highest rates seen (a million records a second and CPU) some 5 MB
/// wait in each.
const PERIOD: Duration = Duration::from_millis(50);

/// The readings of the TLB row at each end.
const READINGS: usize = 12;

/// What to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// How much.
    pub level: Level,
    /// Whether each interrupt comes with the kernel functions that led to it.
    pub stacks: bool,
    /// Whether the recording is not to tell which programs ran.
    pub anonymous: bool,
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

/// Records the running kernel, and writes the recording to `to`. Pages are kept in the folder `beside` meanwhile. Ends
/// early, with a whole recording, when `is_stopped` says so; a program is asked to end then, and waited for. While the
/// recording is written, `show` is told how many pages of events are, and of how many. Returns how the program ended,
/// too.
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
    mut show: impl FnMut(u64, u64),
) -> Result<(Recorded<W>, Option<ExitStatus>), RecordError> {
    let tracing = Tracing::begin(options.level, options.stacks)?;
    let Tracing { instance, streams, decoder, layout, mut lookup, mut threads, facts } = tracing;
    let mut facts = Facts { command: options.command.clone(), ..facts };
    let cpus: Vec<u32> = streams.iter().map(|stream| stream.cpu).collect();
    let mut recorder = Recorder::new(streams, instance.page_bytes(), beside).map_err(RecordError::Spool)?;
    let record_ns = overhead::record_ns(&instance);
    let used = overhead::used();
    // The last thing before the recording begins: from then on, events tell it.
    let mappings = if options.level == Level::Full { Mappings::of_kernel() } else { Mappings::default() };
    facts.skipped_pages = mappings.skipped;
    let begin = Instant::now();
    facts.began_ns = now_ns();
    facts.began_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
    let mut readings = read_rows();
    let ended = recorder.run(length, begin, is_stopped);
    readings.extend(read_rows());
    facts.ended_ns = now_ns();
    let processor_s = overhead::used().saturating_sub(used).as_secs_f64();
    let wall_s = begin.elapsed().as_secs_f64();
    // The pages that were kept become a recording even if the last of them could not be.
    let spooled = recorder.end(&instance);
    drop(instance);
    let spooled = spooled.map_err(RecordError::Spool)?;
    let ended = ended?;

    let mut events = Merge::new(spooled, layout, decoder, &cpus);
    events.read_on(&mut lookup).map_err(RecordError::Spool)?;
    let mut counter = Counter::new(readings, facts.counted);
    let mut shown = None;
    let mut next = |lookup: &mut Lookup| {
        let event = events.next(u64::MAX, lookup).map_err(RecordError::Spool);
        let progress = events.pages().progress();
        if shown.replace(progress) != Some(progress) {
            show(progress.0, progress.1);
        }
        event
    };
    // Kinds of events begin one after the other, and last until all are read. A recording has the time with all of them.
    let mut event = next(&mut lookup)?;
    while let Some(early) = event.filter(|event| event.time_ns < facts.began_ns) {
        counter.add(&early);
        threads.learn(&early);
        event = next(&mut lookup)?;
    }
    let writer = if options.anonymous { Writer::anonymous(to)? } else { Writer::new(to)? };
    let mut keeper = Keeper::new(writer, threads, &mappings.mapped, facts.began_ns, &mut lookup.names)?;
    while let Some(now) = event {
        counter.add(&now);
        if now.time_ns <= facts.ended_ns {
            keeper.add(now, &mut lookup.names)?;
        }
        event = next(&mut lookup)?;
    }
    facts.lost = events.lost.clone();
    let compared = counter.compare(READINGS);
    facts.answered = compared.requests;
    (facts.unseen, facts.unsent) = (compared.unseen, compared.unsent);
    facts.tlb_row = compared.row;
    facts.tlb_row_unsure = compared.unsure;
    let tracing_s = (keeper.count + facts.lost.events) as f64 * record_ns / 1e9;
    facts.overhead = Some((processor_s + tracing_s) / (wall_s * facts.cpus.len().max(1) as f64));
    Ok((keeper.finish(facts, lookup.names)?, ended))
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

/// A recording that is under way.
struct Recorder {
    streams: Vec<Stream>,
    spool: Spool,
    failed: Option<io::Error>,
}

impl Recorder {
    fn new(streams: Vec<Stream>, page_bytes: usize, beside: &Path) -> io::Result<Self> {
        let spool = Spool::new(beside, streams.len(), page_bytes)?;
        Ok(Self { streams, spool, failed: None })
    }

    /// Records until the end, and tells how the program ended.
    fn run(
        &mut self,
        length: Length,
        begin: Instant,
        is_stopped: impl Fn() -> bool,
    ) -> Result<Option<ExitStatus>, RecordError> {
        let (mut program, limit) = match length {
            Length::Unlimited => (None, None),
            Length::For(time) => (None, Some(time)),
            Length::Program(mut command) => (Some(command.spawn().map_err(RecordError::Program)?), None),
        };
        let mut is_asked_to_end = false;
        loop {
            if limit.is_some_and(|limit| begin.elapsed() >= limit) {
                return Ok(None);
            }
            match program.as_mut().map(Child::try_wait) {
                None if is_stopped() => return Ok(None),
                None | Some(Ok(None)) => {}
                Some(ended) => return Ok(ended.ok().flatten()),
            }
            if let Some(program) = program.as_ref().filter(|_| is_stopped() && !is_asked_to_end) {
                // The recording lasts until the program has ended. Ctrl-C reaches both, other signals one of them.
                let _ = kill_process(Pid::from_child(program), Signal::TERM);
                is_asked_to_end = true;
            }
            self.drain();
            if self.failed.is_some() {
                return Ok(program.and_then(|mut program| program.wait().ok()));
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

    /// Ends tracing, and gives the pages.
    fn end(mut self, instance: &Instance) -> io::Result<Spooled> {
        let _ = instance.set("tracing_on", "0");
        self.drain();
        match self.failed {
            Some(error) => Err(error),
            None => self.spool.finish(),
        }
    }
}
