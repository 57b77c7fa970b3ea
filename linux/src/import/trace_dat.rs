//! Files of trace-cmd: trace-cmd.dat.v6(5) and trace-cmd.dat.v7(5) describe them.

use std::collections::HashMap;
use std::io::{self, Read, Seek};

use ruzstd::decoding::StreamingDecoder;

use crate::events::{Decoder, Event, Lookup, SOURCES};
use crate::import::cursor::{text, Cursor};
use crate::import::error::ImportError;
use crate::import::tracing_data::{ftrace, head, layout, long_text, short_text, systems};
use crate::import::{Events, Opened};
use crate::kernel::threads::Threads;
use crate::recording::{Facts, Foreign, Loss, MOST_CPUS};
use crate::tracefs::{Format, Layout};
use crate::tracing::{Merge, Pages};

/// The most bytes that a compressed part may have.
const LARGEST: u64 = 1 << 28;
/// The most parts with options.
const MOST_OPTIONS: usize = 1 << 10;
/// The clocks that count nanoseconds (Documentation/trace/ftrace.rst). Old files name none where it is the first.
const CLOCKS: [&str; 8] = ["", "local", "global", "perf", "mono", "mono_raw", "boot", "tai"];

/// The numbers of options, and of the parts of version 7 to which they point.
mod option {
    pub(super) const DONE: u16 = 0;
    pub(super) const CPU_STATISTICS: u16 = 2;
    pub(super) const BUFFER: u16 = 3;
    pub(super) const CLOCK: u16 = 4;
    pub(super) const UNAME: u16 = 5;
    pub(super) const CPU_COUNT: u16 = 8;
    pub(super) const LAYOUT: u16 = 16;
    pub(super) const FTRACE: u16 = 17;
    pub(super) const FORMATS: u16 = 18;
    pub(super) const SYMBOLS: u16 = 19;
    pub(super) const NAMES: u16 = 21;
    pub(super) const PROCESSES: u16 = 23;
}

/// Whether parts of a file are compressed, by the name of the way.
fn is_packed(name: &str) -> Result<bool, ImportError> {
    match name {
        "none" => Ok(false),
        "zstd" => Ok(true),
        _ => Err(ImportError::Compressed {
            by: name.to_owned(),
            remedy: "use 'trace-cmd convert --compression none -i FILE -o NEW'",
        }),
    }
}

/// The next compressed bytes, as they were before.
fn unpack<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<Vec<u8>, ImportError> {
    let at = cursor.at();
    let damaged = || ImportError::Unreadable { part: "a compressed part", at };
    let (packed, count) = (cursor.u32()?, u64::from(cursor.u32()?));
    let packed = cursor.bytes(packed.into())?;
    if count > LARGEST {
        return Err(damaged());
    }
    let unpacked = StreamingDecoder::new(&packed[..]).map_err(|_| damaged())?;
    let mut bytes = Vec::new();
    unpacked.take(count).read_to_end(&mut bytes).map_err(|_| damaged())?;
    if bytes.len() as u64 == count {
        Ok(bytes)
    } else {
        Err(damaged())
    }
}

/// The pages of one CPU.
#[derive(Debug)]
struct Stream {
    cpu: u32,
    at: u64,
    end: u64,
    /// The compressed pieces that were not read yet, once their number is known.
    pieces: Option<u32>,
    /// Pages of a piece.
    ready: Cursor<io::Cursor<Vec<u8>>>,
}

/// The pages of all CPUs.
#[derive(Debug)]
struct Buffer<R> {
    cursor: Cursor<R>,
    page_bytes: u64,
    is_packed: bool,
    streams: Vec<Stream>,
    /// The CPUs whose pages end too early.
    cut: u64,
}

impl<R: Read + Seek> Buffer<R> {
    /// Reads the next page of a stream. A part that cannot be read ends the stream.
    fn page(&mut self, stream: usize, page: &mut Vec<u8>) -> Result<bool, ImportError> {
        let Self { cursor, page_bytes, streams, is_packed, .. } = self;
        let Stream { at, end, pieces, ready, .. } = &mut streams[stream];
        if !*is_packed {
            let count = (*page_bytes).min(end.saturating_sub(*at));
            if count > 0 {
                cursor.go(*at)?;
                cursor.fill(page, count)?;
                *at += count;
            }
            return Ok(count > 0);
        }
        while ready.left() == 0 {
            cursor.go(*at)?;
            let left = match *pieces {
                None if *at >= *end => 0,
                None => cursor.u32()?,
                Some(left) => left,
            };
            let Some(rest) = left.checked_sub(1) else { return Ok(false) };
            *ready = Cursor::new(io::Cursor::new(unpack(cursor)?))?;
            *pieces = Some(rest);
            *at = cursor.at();
        }
        ready.fill(page, (*page_bytes).min(ready.left()))?;
        Ok(true)
    }
}

impl<R: Read + Seek> Pages for Buffer<R> {
    fn next(&mut self, stream: usize, page: &mut Vec<u8>) -> io::Result<bool> {
        match self.page(stream, page) {
            Err(ImportError::Io(error)) => Err(error),
            Err(_) => {
                self.cut += 1;
                let Stream { at, end, pieces, .. } = &mut self.streams[stream];
                (*at, *pieces) = (*end, Some(0));
                Ok(false)
            }
            Ok(is_there) => Ok(is_there),
        }
    }
}

/// The events of a file.
struct Merged<R> {
    merge: Merge<Buffer<R>>,
    /// The events that the kernel counts as lost.
    lost: u64,
    has_begun: bool,
    /// Whether the file describes events of which no recording is made.
    describes_all: bool,
}

impl<R: Read + Seek> Events for Merged<R> {
    fn next(&mut self, lookup: &mut Lookup, _: &mut Threads) -> Result<Option<Event>, ImportError> {
        if !self.has_begun {
            self.has_begun = true;
            self.merge.read_on(lookup)?;
        }
        Ok(self.merge.next(u64::MAX, lookup)?)
    }

    /// A file of `trace-cmd extract` describes every event of the kernel, recorded or not.
    fn may_have(&self, format: &Format) -> bool {
        !self.describes_all || self.merge.decoder().has_met(format)
    }

    fn lost(&self) -> Loss {
        let (Loss { events, uncounted, unreadable }, cut) = (self.merge.lost.clone(), self.merge.pages().cut);
        // The pages and the kernel's statistics count the same events.
        Loss { events: events.max(self.lost), uncounted: uncounted || cut > 0, unreadable: unreadable + cut }
    }
}

/// What the options say, and the parts to which they point.
#[derive(Debug, Default)]
struct Contents {
    layout: Option<Layout>,
    formats: Vec<Format>,
    symbols: Option<String>,
    /// The names of threads, and their processes, a line each.
    names: String,
    processes: String,
    clock: Option<String>,
    uname: String,
    cpu_count: u32,
    lost: u64,
}

impl Contents {
    /// Reads an option that both versions have.
    fn option(&mut self, id: u16, value: &[u8]) {
        match id {
            option::CPU_STATISTICS => self.lost = self.lost.saturating_add(lost(&text(value))),
            option::CLOCK => self.clock = Some(chosen(&text(value))),
            option::UNAME => self.uname = text(value),
            option::CPU_COUNT => {
                self.cpu_count = value.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
            }
            _ => {}
        }
    }

    fn facts(&self, streams: &[Stream]) -> Facts {
        // The system's name, the network's, the release and the architecture.
        let words: Vec<&str> = self.uname.split_whitespace().collect();
        let word = |at: usize| words.get(at).copied().unwrap_or_default();
        let count = if self.cpu_count > MOST_CPUS { 0 } else { self.cpu_count };
        let mut cpus: Vec<u32> = (0..count).chain(streams.iter().map(|stream| stream.cpu)).collect();
        cpus.sort_unstable();
        cpus.dedup();
        Facts {
            imported: Some(Foreign::TraceDat),
            kernel: format!("{} {}", word(0), word(2)),
            architecture: word(words.len().saturating_sub(1)).to_owned(),
            cpus: cpus.into_iter().map(|cpu| (cpu, 0)).collect(),
            ..Facts::default()
        }
    }
}

/// Opens a file of either version.
pub(super) fn open<R: Read + Seek + 'static>(mut cursor: Cursor<R>) -> Result<Opened, ImportError> {
    let head = head(&mut cursor)?;
    let mut contents = Contents::default();
    let mut buffer = match head.version.as_str() {
        "6" => version_6(cursor, head.page_bytes, &mut contents)?,
        "7" => version_7(cursor, &mut contents)?,
        _ => return Err(ImportError::Version(head.version)),
    };
    if let Some(clock) = contents.clock.take_if(|clock| !CLOCKS.contains(&clock.as_str())) {
        return Err(ImportError::Clock(clock));
    }
    buffer.streams.retain(|stream| stream.end > stream.at);
    if buffer.streams.iter().any(|stream| stream.cpu >= MOST_CPUS) {
        return Err(ImportError::Unreadable { part: "the list of CPUs", at: buffer.cursor.at() });
    }
    let facts = contents.facts(&buffer.streams);
    let layout = contents.layout.ok_or(ImportError::Lacks {
        part: "layout of pages",
        remedy: "record with 'trace-cmd record -e EVENT', not as text",
    })?;
    let decoder = Decoder::of_formats(&contents.formats)?.ok_or(ImportError::NoEvents)?;
    let cpus: Vec<u32> = buffer.streams.iter().map(|stream| stream.cpu).collect();
    let merge = Merge::new(buffer, layout, decoder, &cpus);
    let is_ours = |format: &Format| {
        let system = format.system();
        system == "syscalls" || SOURCES.iter().any(|source| source.system == system)
    };
    let describes_all = !contents.formats.iter().all(is_ours);
    let pair = |line: &str| -> Option<(u32, String)> {
        let (thread, rest) = line.trim().split_once(' ')?;
        Some((thread.parse().ok()?, rest.to_owned()))
    };
    let processes = contents.processes.lines().filter_map(pair);
    let processes: HashMap<u32, u32> =
        processes.filter_map(|(thread, process)| Some((thread, process.trim().parse().ok()?))).collect();
    let threads = contents.names.lines().filter_map(pair);
    let threads = threads
        .map(|(thread, name)| (thread, processes.get(&thread).copied().unwrap_or(thread), name))
        .collect();
    Ok(Opened {
        facts,
        formats: contents.formats,
        symbols: contents.symbols,
        anchor: None,
        threads,
        events: Box::new(Merged { merge, lost: contents.lost, has_begun: false, describes_all }),
    })
}

fn version_6<R: Read + Seek>(
    mut cursor: Cursor<R>,
    page_bytes: u32,
    contents: &mut Contents,
) -> Result<Buffer<R>, ImportError> {
    contents.layout = Some(layout(&mut cursor)?);
    contents.formats = ftrace(&mut cursor)?;
    contents.formats.extend(systems(&mut cursor)?);
    contents.symbols = Some(short_text(&mut cursor)?);
    short_text(&mut cursor)?;
    contents.names = long_text(&mut cursor)?;
    let count = cursor.u32()?;
    let mut named = Vec::new();
    let mut part = text(&cursor.bytes(10)?);
    if part == "options  " {
        loop {
            let id = cursor.u16()?;
            if id == option::DONE {
                break;
            }
            let bytes = cursor.u32()?;
            let value = cursor.bytes(bytes.into())?;
            if let (option::BUFFER, Some(place)) = (id, value.first_chunk()) {
                named.push(u64::from_ne_bytes(*place));
            }
            contents.option(id, &value);
        }
        part = text(&cursor.bytes(10)?);
    }
    let mut streams = Vec::new();
    let mut list = |cursor: &mut Cursor<R>, part: &str| -> Result<(), ImportError> {
        if part != "flyrecord" {
            return Err(ImportError::Unreadable { part: "the list of pages", at: cursor.at() });
        }
        for cpu in 0..count {
            let (at, bytes) = (cursor.u64()?, cursor.u64()?);
            streams.push(stream(cpu, at, bytes)?);
        }
        Ok(())
    };
    list(&mut cursor, &part)?;
    for place in named {
        cursor.go(place)?;
        let part = text(&cursor.bytes(10)?);
        list(&mut cursor, &part)?;
    }
    buffer(cursor, page_bytes, false, streams)
}

fn version_7<R: Read + Seek>(
    mut cursor: Cursor<R>,
    contents: &mut Contents,
) -> Result<Buffer<R>, ImportError> {
    is_packed(&cursor.word()?)?;
    let _version = cursor.word()?;
    let mut next = cursor.u64()?;
    let (mut found, mut streams) = (None, Vec::new());
    for _ in 0..MOST_OPTIONS {
        if next == 0 {
            break;
        }
        let mut options = section(&mut cursor, next)?;
        next = 0;
        while options.left() > 0 {
            let (id, bytes) = (options.u16()?, options.u32()?);
            let value = options.bytes(bytes.into())?;
            let place = value.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            let mut part = || section(&mut cursor, place);
            match id {
                option::DONE => {
                    next = place;
                    break;
                }
                option::LAYOUT => contents.layout = Some(layout(&mut part()?)?),
                option::FTRACE => contents.formats.extend(ftrace(&mut part()?)?),
                option::FORMATS => contents.formats.extend(systems(&mut part()?)?),
                option::SYMBOLS => contents.symbols = Some(short_text(&mut part()?)?),
                option::NAMES => contents.names = long_text(&mut part()?)?,
                option::PROCESSES => contents.processes = long_text(&mut part()?)?,
                option::BUFFER => {
                    let mut value = Cursor::new(io::Cursor::new(value))?;
                    value.u64()?;
                    let _name = value.word()?;
                    let clock = value.word()?;
                    let page_bytes = value.u32()?;
                    let before = streams.len();
                    for _ in 0..value.u32()? {
                        let (cpu, at, bytes) = (value.u32()?, value.u64()?, value.u64()?);
                        streams.push(stream(cpu, at, bytes)?);
                    }
                    let is_empty = streams[before..].iter().all(|stream| stream.at == stream.end);
                    cursor.go(place)?;
                    let form = (clock, page_bytes, section_head(&mut cursor)?.0);
                    match &found {
                        Some((_, false)) if is_empty => {}
                        Some((known, false)) if *known != form => {
                            return Err(ImportError::Lacks {
                                part: "common clock of its buffers",
                                remedy: "record without -B",
                            });
                        }
                        // A file without -B has the events here. With it, this one may be empty, and of another clock.
                        _ => found = Some((form, is_empty)),
                    }
                }
                _ => contents.option(id, &value),
            }
        }
    }
    let ((clock, page_bytes, is_packed), _) =
        found.ok_or(ImportError::Lacks { part: "events", remedy: "let trace-cmd end by itself" })?;
    contents.clock = Some(clock);
    buffer(cursor, page_bytes, is_packed, streams)
}

/// Reads the head of a part of version 7: whether it is compressed, and how many bytes follow.
fn section_head<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<(bool, u64), ImportError> {
    let (_id, flags, _description) = (cursor.u16()?, cursor.u16()?, cursor.u32()?);
    Ok((flags & 1 != 0, cursor.u64()?))
}

/// A part of a file of version 7.
fn section<R: Read + Seek>(
    cursor: &mut Cursor<R>,
    at: u64,
) -> Result<Cursor<io::Cursor<Vec<u8>>>, ImportError> {
    cursor.go(at)?;
    let bytes = match section_head(cursor)? {
        (true, _) => unpack(cursor)?,
        (false, bytes) => cursor.bytes(bytes)?,
    };
    Cursor::new(io::Cursor::new(bytes))
}

fn stream(cpu: u32, at: u64, bytes: u64) -> Result<Stream, ImportError> {
    let end = at.checked_add(bytes).ok_or(ImportError::Unreadable { part: "the list of pages", at })?;
    Ok(Stream { cpu, at, end, pieces: None, ready: Cursor::new(io::Cursor::new(Vec::new()))? })
}

fn buffer<R: Read + Seek>(
    cursor: Cursor<R>,
    page_bytes: u32,
    is_packed: bool,
    streams: Vec<Stream>,
) -> Result<Buffer<R>, ImportError> {
    // Less than the head of a page would never end.
    if page_bytes < 16 {
        return Err(ImportError::Unreadable { part: "the size of a page", at: cursor.at() });
    }
    Ok(Buffer { cursor, page_bytes: page_bytes.into(), is_packed, streams, cut: 0 })
}

/// The clock in a text of `trace_clock`, which marks it with brackets, or the whole.
fn chosen(text: &str) -> String {
    let marked = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    marked.map_or(text.trim(), |(clock, _)| clock).to_owned()
}

/// The events that a CPU lost, in the text of its `stats`.
fn lost(text: &str) -> u64 {
    let count = |line: &str| {
        let (name, count) = line.split_once(':')?;
        let is_loss = matches!(name, "overrun" | "commit overrun" | "dropped events");
        count.trim().parse::<u64>().ok().filter(|_| is_loss)
    };
    text.lines().filter_map(count).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_counts_what_it_lost() {
        let text = "CPU: 0\nentries: 9\noverrun: 3\ncommit overrun: 0\ndropped events: 2\nread events: 54\n";
        assert_eq!(lost(text), 5);
    }

    #[test]
    fn the_clock_is_the_one_in_brackets() {
        assert_eq!(chosen("local global [mono] boot\n"), "mono");
        assert_eq!(chosen("local"), "local");
    }
}
