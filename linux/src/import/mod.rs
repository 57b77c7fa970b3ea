//! Makes recordings of files that other programs recorded: perf.data of `perf record`, trace.dat of trace-cmd.
//!
//! Such a file has the kernel's own records and describes their formats, as tracefs does for the running kernel, so the
//! same `events` read them. `perf` and `trace_dat` find the records in a file, each CPU's in order, and `tracing_data`
//! reads the descriptions, which both kinds of files have alike. `cursor` notices where a file is cut off.

mod cursor;
mod error;
mod packed;
mod perf;
mod trace_dat;
mod tracing_data;

use std::io::{Read, Seek, Write};
use std::ops::Range;

use crate::events::{level_of, Event, Kind, Level, Lookup, Source, Spelled as _, Work, SOURCES};
use crate::import::cursor::Cursor;
use crate::kernel::symbols::Symbols;
use crate::kernel::threads::{Thread, Threads};
use crate::record::{Keeper, Recorded};
use crate::recording::{Count, Facts, Foreign, Loss, Writer, LATEST_NS, MOST_CPUS};
use crate::shootdowns::Answers;
use crate::tracefs::Format;

pub use error::ImportError;

/// The events that count interrupts, and the one that counts flushes.
const COUNTED: [&str; 2] = ["csd:csd_queue_cpu", "csd:csd_function_exit"];
const FLUSHED: &str = "tlb:tlb_flush";
/// The times of clocks that count from 1970, from 2006 to 2043. Of them, the first event is the beginning.
const SINCE_1970_NS: Range<u64> = LATEST_NS * 2..LATEST_NS * 4;

/// A file's events in the order of time.
trait Events {
    /// The next event. Learns of threads that no event tells.
    fn next(&mut self, lookup: &mut Lookup, threads: &mut Threads) -> Result<Option<Event>, ImportError>;

    /// Whether records of a format that the file describes may be in it, by what has been read so far.
    fn may_have(&self, format: &Format) -> bool;

    /// What was lost so far.
    fn lost(&self) -> Loss;
}

/// A symbol of the kernel that recorded, by which its symbols are recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Anchor {
    name: String,
    address: u64,
}

/// A file whose events can be read.
struct Opened {
    facts: Facts,
    formats: Vec<Format>,
    /// The text of `/proc/kallsyms`, if the file has it.
    symbols: Option<String>,
    anchor: Option<Anchor>,
    /// Threads with their processes and names.
    threads: Vec<(u32, u32, String)>,
    events: Box<dyn Events>,
}

/// Where the kernel's functions are, if the file does not say it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kallsyms<'a> {
    /// The text of `/proc/kallsyms` of the recorded machine, as the user gives it.
    pub given: Option<&'a str>,
    /// The running kernel's release, and the text of its `/proc/kallsyms`. It counts only if the file is of the same
    /// kernel, at the same addresses.
    pub running: Option<(&'a str, &'a str)>,
}

/// What an import made.
#[derive(Debug)]
pub struct Imported<W> {
    /// The recording.
    pub recorded: Recorded<W>,
    /// The events of a full recording that the file does not have. The kernel may not have them either.
    pub absent: Vec<String>,
}

/// Makes a recording of a file, and writes it to `to`. A file that is cut off behind its descriptions gives the events
/// before. `perf record --threads` writes `others` beside it, one for each CPU.
///
/// # Errors
/// If the file cannot be read, is of no kind that is known, or lacks what is needed to count shootdowns; or if the
/// recording cannot be written.
pub fn import<R: Read + Seek + 'static, W: Write + Send>(
    from: R,
    others: Vec<R>,
    kallsyms: Kallsyms,
    command: Vec<String>,
    to: W,
) -> Result<Imported<W>, ImportError> {
    let mut cursor = Cursor::new(from)?;
    let beginning = cursor.bytes(cursor.left().min(Foreign::BEGINNING))?;
    cursor.go(0)?;
    let opened = match Foreign::of(&beginning) {
        Some(Foreign::PerfData) => {
            let others: Result<Vec<Cursor<R>>, ImportError> = others.into_iter().map(Cursor::new).collect();
            perf::open(cursor, others?)?
        }
        Some(Foreign::TraceDat) => trace_dat::open(cursor)?,
        None => return Err(ImportError::Unknown),
    };
    let Opened { facts, formats, symbols, anchor, threads: named, mut events } = opened;
    let describes = |name: &str| formats.iter().any(|format| format.name() == name);
    let describes_sent = COUNTED.iter().all(|name| describes(name));
    if !describes_sent && !describes(FLUSHED) {
        return Err(ImportError::NoEvents);
    }
    let text = kallsyms.given.or(symbols.as_deref()).or_else(|| {
        let (release, text) = kallsyms.running?;
        (facts.kernel == format!("Linux {release}") && has_symbol(text, anchor.as_ref()?)).then_some(text)
    });
    let symbols = Symbols::parse(text.unwrap_or_default());
    if describes_sent && symbols.address(Work::Flush.word()).is_none() {
        return Err(ImportError::NoSymbols);
    }
    let mut lookup = Lookup::new(symbols);
    let mut threads = Threads::default();
    for (thread, process, name) in named {
        threads.add(thread, Thread { process, name: lookup.names.add(&name) });
    }
    let idle = Thread { process: 0, name: lookup.names.add("swapper") };
    threads.add(0, idle);
    let mut impossible = 0;
    let mut next = events.next(&mut lookup, &mut threads)?;
    let origin_ns = next.map_or(0, |event| event.time_ns);
    let origin_ns = if SINCE_1970_NS.contains(&origin_ns) { origin_ns } else { 0 };
    // One before the first becomes impossible.
    let timed = |event: Event| Event { time_ns: event.time_ns.wrapping_sub(origin_ns), ..event };
    next = next.map(timed);
    while next.is_some_and(|event| !is_possible(&event)) {
        impossible += 1;
        next = events.next(&mut lookup, &mut threads)?.map(timed);
    }
    let began_ns = next.ok_or(ImportError::Empty)?.time_ns;
    let began_unix_s =
        if facts.began_unix_s == 0.0 { 0.0 } else { facts.began_unix_s + began_ns as f64 / 1e9 };
    let mut facts = Facts {
        ceasefire: env!("CARGO_PKG_VERSION").to_owned(),
        command,
        began_ns,
        ended_ns: began_ns,
        began_unix_s,
        ..facts
    };
    let (mut sent, mut flushed) = (0, 0);
    let mut answers = Answers::new(Count::Sent);
    let mut keeper = Keeper::new(Writer::new(to)?, threads, &[], began_ns, &mut lookup.names)?;
    while let Some(event) = next {
        if is_possible(&event) {
            facts.ended_ns = event.time_ns;
            sent += u64::from(answers.add(&event).is_some());
            flushed += u64::from(Count::Flushed.counts(&event.kind));
            keeper.add(event, &mut lookup.names)?;
        } else {
            impossible += 1;
        }
        next = events.next(&mut lookup, keeper.threads())?.map(timed);
    }
    let levels: Vec<(String, Level)> = formats
        .iter()
        .filter(|format| events.may_have(format))
        .filter_map(|format| Some((format.name(), level_of(format)?)))
        .collect();
    let has = |name: &str| levels.iter().any(|(of, _)| of == name);
    // Nothing that counts was met: the file may have had any of it.
    let counts_sent = describes_sent && (COUNTED.iter().all(|name| has(name)) || !has(FLUSHED));
    sent += answers.finish().len() as u64;
    if counts_sent {
        (facts.unseen, facts.unsent) = (answers.unseen, answers.unsent);
    }
    (facts.counted, facts.answered) =
        if counts_sent { (Count::Sent, sent) } else { (Count::Flushed, flushed) };
    facts.light = levels.iter().all(|(_, level)| *level == Level::Light);
    facts.lost = events.lost();
    facts.lost.unreadable += impossible;
    let absent = absent(&levels, facts.imported);
    let events = levels.into_iter().map(|(name, _)| name);
    facts.events = events.filter(|name| !name.starts_with("ftrace:")).collect();
    Ok(Imported { recorded: keeper.finish(facts, lookup.names)?, absent })
}

/// Whether there can be such CPUs, and a recording such a time.
fn is_possible(event: &Event) -> bool {
    let is_cpu = |cpu: u32| cpu < MOST_CPUS;
    event.time_ns < LATEST_NS
        && is_cpu(event.cpu)
        && !matches!(event.kind, Kind::Sent { target, .. } if !is_cpu(target))
}

/// The events of a full recording that are not among these. A system of which there is none has an asterisk for all.
fn absent(levels: &[(String, Level)], kind: Option<Foreign>) -> Vec<String> {
    let is_there = |name: &str| levels.iter().any(|(of, _)| of.starts_with(name));
    let mut absent = Vec::new();
    for source in SOURCES {
        let Source { system, event, .. } = *source;
        // Stacks come with other events, and perf tells of threads in its own way.
        let of_threads = system == "task" || event == "sched_process_exit";
        if system == "ftrace" || of_threads && kind == Some(Foreign::PerfData) {
            continue;
        }
        if !is_there(&format!("{system}:")) {
            absent.push(format!("{system}:*"));
        } else if !is_there(&format!("{system}:{event}")) {
            absent.push(format!("{system}:{event}"));
        }
    }
    if !is_there("syscalls:") {
        absent.push("syscalls:*".to_owned());
    }
    absent.sort_unstable();
    absent.dedup();
    absent
}

/// Whether a text of `/proc/kallsyms` has a symbol at its address.
fn has_symbol(text: &str, anchor: &Anchor) -> bool {
    text.lines().any(|line| {
        let mut words = line.split_whitespace();
        let address = words.next().and_then(|address| u64::from_str_radix(address, 16).ok());
        (address, words.nth(1)) == (Some(anchor.address), Some(anchor.name.as_str()))
    })
}
