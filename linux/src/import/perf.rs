//! Files of `perf record`: `tools/perf/Documentation/perf.data-file-format.txt` of Linux describes them, and
//! `perf_event_open(2)` the records.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::io::{Read, Seek};

use byteorder::NativeEndian;
use linux_perf_event_reader::{
    get_record_id, AttrFlags, CommOrExecRecord, CommonData, Endianness, ForkOrExitRecord, LostRecord,
    MmapRecord, PerfEventAttr, PerfEventType, RawData, RawEventRecord, RecordParseInfo, RecordType,
    SampleFormat, SamplingPolicy,
};

use crate::events::{level_of, Decoder, Event, Kind, Lookup};
use crate::import::cursor::{text, Cursor};
use crate::import::error::ImportError;
use crate::import::packed::Frame;
use crate::import::tracing_data::{ftrace, head, layout, short_text, systems};
use crate::import::{Anchor, Events, Opened};
use crate::kernel::machine::list;
use crate::kernel::threads::{Thread, Threads};
use crate::recording::{Facts, Foreign, Loss, MOST_CPUS};
use crate::tracefs::Format;

/// The bytes of the header of a file; that of a stream has 16.
const HEADER: u64 = 104;
/// The bytes of a place and a length.
const SECTION: u64 = 16;
/// The bytes of a record's head.
const HEAD: u64 = 8;
/// The number of bits of the set of features.
const FEATURES: usize = 256;
/// The most records before the kernel's own mapping.
const BEGINNING: usize = 64;
/// The thread of the kernel that makes its other threads.
const KTHREADD: i32 = 2;
/// Samples that a filter left out, not lost ones (`PERF_RECORD_MISC_LOST_SAMPLES_BPF`).
const LEFT_OUT: u16 = 1 << 15;

/// The numbers of parts that say more (`tools/perf/util/header.h`).
mod feature {
    pub(super) const TRACING_DATA: usize = 1;
    pub(super) const RELEASE: usize = 4;
    pub(super) const ARCHITECTURE: usize = 6;
    pub(super) const CPU_COUNT: usize = 7;
    pub(super) const PROCESSOR: usize = 8;
    pub(super) const MEMORY: usize = 10;
    pub(super) const NODES: usize = 14;
    pub(super) const DIRECTORY: usize = 24;
    pub(super) const CLOCK: usize = 29;
}

/// The numbers of perf's own records (`tools/lib/perf/include/perf/event.h`), all from 64 on.
mod own {
    pub(super) const ATTRIBUTES: u32 = 64;
    pub(super) const TRACING_DATA: u32 = 66;
    pub(super) const FINISHED_ROUND: u32 = 68;
    pub(super) const AUXTRACE: u32 = 71;
    pub(super) const FEATURE: u32 = 80;
    pub(super) const COMPRESSED: u32 = 81;
    pub(super) const COMPRESSED2: u32 = 83;
}

/// The events of a file.
struct Records<R> {
    cursor: Cursor<R>,
    /// The end of the records.
    end: u64,
    /// The other files of a directory, the next one last.
    others: Vec<Cursor<R>>,
    is_over: bool,
    packed: Frame,
    /// The rounds of which compressed records were not read yet: how many bytes come before the end of each.
    rounds: VecDeque<u64>,
    layouts: Layouts,
    decoder: Decoder,
    /// Events by time and number.
    queue: BTreeMap<(u64, u64), Event>,
    count: u64,
    /// The time up to which every event is in the queue.
    sure_ns: u64,
    /// The latest time at the end of the last round, and the latest so far.
    round_ns: u64,
    latest_ns: u64,
    /// The time of the last event that was given out.
    given_ns: u64,
    record: Vec<u8>,
    lost: Loss,
    /// Samples that perf counts as lost, each of which may be among the lost events.
    lost_samples: u64,
    /// The CPUs that have samples, if they may be more than the files.
    met: Option<BTreeSet<u32>>,
}

/// The bits of `read_format` (`perf_event_open(2)`).
mod values {
    pub(super) const TIMES: u64 = 0b11;
    pub(super) const ID: u64 = 1 << 2;
    pub(super) const GROUP: u64 = 1 << 3;
    pub(super) const LOST: u64 = 1 << 4;
    /// The place of the word in `perf_event_attr`.
    pub(super) const AT: usize = 32;
}

/// The layout of an event's records.
#[derive(Clone, Copy)]
struct Shape {
    info: RecordParseInfo,
    read_format: u64,
}

/// The layouts of records, which differ by the event to which they belong.
#[derive(Default)]
struct Layouts {
    all: Vec<Shape>,
    by_id: HashMap<u64, usize>,
    /// Which records of each tracepoint the file has, by the number of its format.
    kept: HashMap<u64, SamplingPolicy>,
    /// The most numbers that one event has, one for each CPU.
    cpus: usize,
    /// Whether the newest records come first, and those about the threads last.
    is_backward: bool,
}

impl Layouts {
    /// Reads the list of events.
    fn read<R: Read + Seek>(
        &mut self,
        cursor: &mut Cursor<R>,
        (at, bytes): Section,
        entry: u64,
    ) -> Result<(), ImportError> {
        let damaged = ImportError::Unreadable { part: "the list of events", at };
        let count = bytes.checked_div(entry).filter(|_| entry > SECTION).ok_or(damaged)?;
        cursor.go(at)?;
        for _ in 0..count {
            let at = cursor.at();
            let attributes = cursor.bytes(entry - SECTION)?;
            let (ids_at, ids_bytes) = section(cursor)?;
            let next = cursor.at();
            cursor.go(ids_at)?;
            let ids: Result<Vec<u64>, ImportError> = (0..ids_bytes / 8).map(|_| cursor.u64()).collect();
            self.add(&attributes, at, ids?)?;
            cursor.go(next)?;
        }
        Ok(())
    }

    /// Adds an event.
    fn add(
        &mut self,
        attributes: &[u8],
        at: u64,
        ids: impl IntoIterator<Item = u64>,
    ) -> Result<(), ImportError> {
        let damaged = || ImportError::Unreadable { part: "the list of events", at };
        let parsed = PerfEventAttr::parse::<_, NativeEndian>(attributes);
        let read_format = attributes.get(values::AT..).and_then(|rest| rest.first_chunk());
        let read_format = u64::from_ne_bytes(*read_format.ok_or_else(damaged)?);
        let (attributes, _) = parsed.map_err(|_| damaged())?;
        self.is_backward |= attributes.flags.contains(AttrFlags::WRITE_BACKWARD);
        if let PerfEventType::Tracepoint(format) = attributes.type_ {
            self.kept.insert(format, attributes.sampling_policy);
        }
        let known = self.by_id.len();
        self.by_id.extend(ids.into_iter().map(|id| (id, self.all.len())));
        self.cpus = self.cpus.max(self.by_id.len() - known);
        self.all.push(Shape { info: RecordParseInfo::new(&attributes, Endianness::NATIVE), read_format });
        Ok(())
    }

    /// The layout of a record. If layouts differ, all have the event's number at the same place.
    fn of(&self, kind: RecordType, body: &[u8]) -> Option<&Shape> {
        let first = self.all.first()?;
        let id = get_record_id::<NativeEndian>(kind, body.into(), &first.info.id_parse_info);
        id.and_then(|id| self.all.get(*self.by_id.get(&id)?)).or(Some(first))
    }

    /// Leaves the formats of the events that the file has records of. One that is counted with another has none.
    fn keep(&self, formats: &mut Vec<Format>) -> Result<(), ImportError> {
        formats.retain(|format| !matches!(self.policy(format), None | Some(SamplingPolicy::NoSampling)));
        for format in formats.iter().filter(|format| level_of(format).is_some()) {
            let rate = match self.policy(format) {
                Some(SamplingPolicy::Period(every)) if every.get() > 1 => format!("one in {every}"),
                Some(SamplingPolicy::Frequency(times)) => format!("at most {times} a second"),
                _ => continue,
            };
            return Err(ImportError::Sampled { event: format.name(), rate });
        }
        Ok(())
    }

    fn policy(&self, format: &Format) -> Option<&SamplingPolicy> {
        self.kept.get(&u64::from(format.id()))
    }
}

/// The bytes of the values that a sample has of its event, or of all events of its group.
fn values(read_format: u64, rest: &[u8]) -> Option<usize> {
    let words = |mask: u64| (read_format & mask).count_ones() as usize;
    let each = 1 + words(values::ID | values::LOST);
    let count = if read_format & values::GROUP == 0 {
        words(values::TIMES) + each
    } else {
        let events = usize::try_from(u64::from_ne_bytes(*rest.first_chunk()?)).ok()?;
        events.checked_mul(each)?.checked_add(1 + words(values::TIMES))?
    };
    count.checked_mul(8)
}

/// The tracepoint's record in a sample: all before it has a length that the layout tells, but for values and the stack.
fn raw<'a>(layout: &Shape, body: &'a [u8]) -> Option<&'a [u8]> {
    let format = layout.info.sample_format;
    if !format.contains(SampleFormat::RAW) {
        return None;
    }
    let before = SampleFormat::IDENTIFIER
        | SampleFormat::IP
        | SampleFormat::TID
        | SampleFormat::TIME
        | SampleFormat::ADDR
        | SampleFormat::ID
        | SampleFormat::STREAM_ID
        | SampleFormat::CPU
        | SampleFormat::PERIOD;
    let mut rest = body.get(format.intersection(before).bits().count_ones() as usize * 8..)?;
    if format.contains(SampleFormat::READ) {
        rest = rest.get(values(layout.read_format, rest)?..)?;
    }
    if format.contains(SampleFormat::CALLCHAIN) {
        let depth = usize::try_from(u64::from_ne_bytes(*rest.first_chunk()?)).ok()?;
        rest = rest.get(depth.checked_add(1)?.checked_mul(8)?..)?;
    }
    let bytes = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
    rest.get(4..)?.get(..bytes)
}

fn number(value: i32) -> u32 {
    value.cast_unsigned()
}

impl<R: Read + Seek> Records<R> {
    /// Reads the next record, or finds that there is none.
    fn read(&mut self, lookup: &mut Lookup, threads: &mut Threads) -> Result<(), ImportError> {
        let at = self.cursor.at();
        let damaged = |_| ImportError::Unreadable { part: "a compressed record", at };
        if self.rounds.front().is_some_and(|before| *before <= self.packed.taken()) {
            self.rounds.pop_front();
            // What comes later is not older than the latest of the round before.
            self.sure_ns = self.round_ns;
            self.round_ns = self.latest_ns;
            return Ok(());
        }
        if let Some((kind, misc)) = self.packed.next(&mut self.record).map_err(damaged)? {
            self.queue(RecordType(kind), misc, lookup, threads);
            return Ok(());
        }
        if at >= self.end {
            self.end_file();
            return Ok(());
        }
        let (kind, misc) = record(&mut self.cursor, &mut self.record)?;
        match kind {
            own::FINISHED_ROUND => self.rounds.push_back(self.packed.decoded()),
            own::COMPRESSED => self.packed.add(&self.record).map_err(damaged)?,
            // A length comes first.
            own::COMPRESSED2 => {
                let (bytes, piece) = self.record.split_first_chunk().unwrap_or((&[0; 8], &[]));
                let bytes = u64::from_ne_bytes(*bytes).min(piece.len() as u64);
                self.packed.add(&piece[..bytes as usize]).map_err(damaged)?;
            }
            _ => {
                skip(&mut self.cursor, kind, &self.record)?;
                self.queue(RecordType(kind), misc, lookup, threads);
            }
        }
        Ok(())
    }

    /// Goes on behind the last record of a file.
    fn end_file(&mut self) {
        if self.packed.end() {
            return;
        }
        if self.packed.is_cut() {
            self.lost.uncounted = true;
            self.lost.unreadable += 1;
        }
        if let Some(other) = self.others.pop() {
            (self.end, self.cursor) = (other.left(), other);
        } else {
            self.is_over = true;
            if self.met.as_ref().is_some_and(|met| met.len() < self.layouts.cpus) {
                // perf writes a file for each CPU, or for some of them. One is missing, or these did nothing.
                self.lost.uncounted = true;
                self.lost.unreadable += 1;
            }
        }
        self.packed = Frame::default();
        self.rounds.clear();
    }

    /// Queues the event of a record, or counts it.
    fn queue(&mut self, kind: RecordType, misc: u16, lookup: &mut Lookup, threads: &mut Threads) {
        if self.event(kind, misc, lookup, threads).is_none() {
            self.lost.unreadable += 1;
        }
    }

    /// Queues the event of a record. None if the record cannot be read.
    fn event(
        &mut self,
        kind: RecordType,
        misc: u16,
        lookup: &mut Lookup,
        threads: &mut Threads,
    ) -> Option<()> {
        let body = self.record.as_slice();
        let data = RawData::from(body);
        let layout = self.layouts.of(kind, body)?;
        let common = || -> Option<CommonData> {
            RawEventRecord::new(kind, misc, data, layout.info).common_data().ok()
        };
        let event = match kind {
            RecordType::SAMPLE => {
                let common = common()?;
                let (time_ns, cpu) = (common.timestamp?, common.cpu?);
                let (process, thread) = (number(common.pid?), number(common.tid?));
                self.met.as_mut().map(|met| met.insert(cpu));
                if threads.get(thread).is_none() {
                    threads.add(thread, Thread { process, name: lookup.names.add("") });
                }
                let record = raw(layout, body).unwrap_or_default();
                let Some(event) = self.decoder.event(cpu, time_ns, record, lookup) else { return Some(()) };
                event
            }
            RecordType::LOST => {
                let events = LostRecord::parse::<NativeEndian>(data).ok()?.count;
                self.lost.events = self.lost.events.saturating_add(events);
                let common = common()?;
                let cpu = common.cpu?;
                Event { time_ns: common.timestamp?, cpu, thread: 0, kind: Kind::Lost { events } }
            }
            RecordType::LOST_SAMPLES => {
                let events = u64::from_ne_bytes(*body.first_chunk()?);
                if misc & LEFT_OUT == 0 {
                    self.lost_samples = self.lost_samples.saturating_add(events);
                }
                return Some(());
            }
            RecordType::COMM => {
                let comm = CommOrExecRecord::parse::<NativeEndian>(data, misc).ok()?;
                let (process, thread) = (number(comm.pid), number(comm.tid));
                let name = lookup.names.add(&text(&comm.name.as_slice()));
                let time_ns = common()?.timestamp.unwrap_or(0);
                if time_ns == 0 {
                    // perf lists those that ran before.
                    let process = threads.get(thread).map_or(process, |known| known.process);
                    threads.add(thread, Thread { process, name });
                    return Some(());
                }
                let cpu = common()?.cpu.unwrap_or(0);
                Event { time_ns, cpu, thread, kind: Kind::ThreadNamed { thread, name } }
            }
            RecordType::FORK => {
                let fork = ForkOrExitRecord::parse::<NativeEndian>(data).ok()?;
                let thread = number(fork.tid);
                let time_ns = common()?.timestamp.unwrap_or(0);
                let maker = threads.get(number(fork.ptid));
                let name = maker.map_or_else(|| lookup.names.add(""), |maker| maker.name);
                if time_ns == 0 {
                    let is_of_kernel = fork.pid == KTHREADD || fork.ppid == KTHREADD;
                    let process = if is_of_kernel { 0 } else { number(fork.pid) };
                    threads.add(thread, Thread { process, name });
                    return Some(());
                }
                let cpu = common()?.cpu.unwrap_or(0);
                let same_process = fork.pid == fork.ppid;
                let kind = Kind::ThreadBegan { thread, same_process, name };
                Event { time_ns, cpu, thread: number(fork.ptid), kind }
            }
            RecordType::EXIT => {
                let exit = ForkOrExitRecord::parse::<NativeEndian>(data).ok()?;
                let common = common()?;
                let cpu = common.cpu.unwrap_or(0);
                Event { time_ns: common.timestamp?, cpu, thread: number(exit.tid), kind: Kind::ThreadEnded }
            }
            _ => return Some(()),
        };
        self.latest_ns = self.latest_ns.max(event.time_ns);
        self.queue.insert((event.time_ns, self.count), event);
        self.count += 1;
        Some(())
    }

    /// Ends a file with what was read. One that is cut off, or damaged, has lost the rest.
    fn stop(&mut self) {
        self.lost.uncounted = true;
        self.lost.unreadable += 1;
        self.end = 0;
    }
}

impl<R: Read + Seek> Events for Records<R> {
    fn next(&mut self, lookup: &mut Lookup, threads: &mut Threads) -> Result<Option<Event>, ImportError> {
        loop {
            if let Some(first) = self.queue.first_entry() {
                if self.is_over || first.key().0 <= self.sure_ns {
                    // A record that comes too late takes the time of the one before.
                    self.given_ns = self.given_ns.max(first.key().0);
                    return Ok(Some(Event { time_ns: self.given_ns, ..first.remove() }));
                }
            } else if self.is_over {
                return Ok(None);
            }
            match self.read(lookup, threads) {
                Err(ImportError::Cut { .. } | ImportError::Unreadable { .. }) => self.stop(),
                done => done?,
            }
        }
    }

    fn may_have(&self, _: &Format) -> bool {
        true
    }

    fn lost(&self) -> Loss {
        // Both count the same.
        Loss { events: self.lost.events.max(self.lost_samples), ..self.lost.clone() }
    }
}

/// A part of a file: its place and its length.
type Section = (u64, u64);

fn section<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<Section, ImportError> {
    Ok((cursor.u64()?, cursor.u64()?))
}

/// Reads a record: its kind, its flags, and its body.
fn record<R: Read + Seek>(cursor: &mut Cursor<R>, body: &mut Vec<u8>) -> Result<(u32, u16), ImportError> {
    let at = cursor.at();
    let (kind, misc, bytes) = (cursor.u32()?, cursor.u16()?, cursor.u16()?);
    let bytes = u64::from(bytes).checked_sub(HEAD);
    cursor.fill(body, bytes.ok_or(ImportError::Unreadable { part: "a record", at })?)?;
    Ok((kind, misc))
}

/// Goes behind what follows a record.
fn skip<R: Read + Seek>(cursor: &mut Cursor<R>, kind: u32, body: &[u8]) -> Result<(), ImportError> {
    let bytes = match kind {
        own::AUXTRACE => body.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)),
        own::TRACING_DATA => body.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes).into()),
        _ => return Ok(()),
    };
    cursor.go(cursor.at().saturating_add(bytes))
}

/// What stands outside the kernel's own records.
struct Described {
    layouts: Layouts,
    formats: Option<Vec<Format>>,
    facts: Facts,
    /// The place of the records, and their end.
    records: Section,
    /// Whether the records of the CPUs are in other files.
    is_directory: bool,
}

impl Described {
    fn new(records: Section) -> Self {
        Self {
            layouts: Layouts::default(),
            formats: None,
            facts: Facts { imported: Some(Foreign::PerfData), ..Facts::default() },
            records,
            is_directory: false,
        }
    }

    /// Reads a file with a list of its parts.
    fn file<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<Self, ImportError> {
        let entry = cursor.u64()?;
        let attributes = section(cursor)?;
        let (at, bytes) = section(cursor)?;
        section(cursor)?;
        let set = cursor.bytes(FEATURES as u64 / 8)?;
        if bytes == 0 {
            return Err(ImportError::Lacks {
                part: "list of parts",
                remedy: "let perf record end by itself, or by Ctrl-C",
            });
        }
        let end = at.checked_add(bytes);
        let end = end.ok_or(ImportError::Unreadable { part: "the place of the records", at })?;
        let mut described = Self::new((at, end));
        described.layouts.read(cursor, attributes, entry)?;
        let words = set.as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
        let bits = words.flat_map(|word| (0..64).map(move |bit| word >> bit & 1 != 0));
        let mut features = HashMap::new();
        cursor.go(end)?;
        for (number, _) in bits.enumerate().filter(|(_, is_there)| *is_there) {
            features.insert(number, section(cursor)?);
        }
        if let Some((at, _)) = features.remove(&feature::TRACING_DATA) {
            cursor.go(at)?;
            described.formats = Some(tracing_data(cursor)?);
        }
        described.is_directory = features.contains_key(&feature::DIRECTORY);
        for (number, (at, bytes)) in features {
            cursor.go(at)?;
            // A part that cannot be read is absent.
            let _ = fact(cursor, number, bytes, &mut described.facts);
        }
        Ok(described)
    }

    /// Reads the beginning of a stream, which has its parts among the records, before the first one of an event.
    fn stream<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<Self, ImportError> {
        let at = cursor.at();
        let mut described = Self::new((at, at + cursor.left()));
        let mut body = Vec::new();
        while cursor.left() > 0 {
            let at = cursor.at();
            let (kind, _) = record(cursor, &mut body)?;
            let next = cursor.at();
            match kind {
                own::ATTRIBUTES => {
                    let bytes = body.get(4..).and_then(|rest| rest.first_chunk());
                    let bytes = bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes) as usize);
                    let Some((attributes, ids)) = body.split_at_checked(bytes) else {
                        return Err(ImportError::Unreadable { part: "the list of events", at });
                    };
                    let ids = ids.as_chunks().0.iter().map(|id| u64::from_ne_bytes(*id));
                    described.layouts.add(attributes, at, ids)?;
                }
                own::TRACING_DATA => {
                    described.formats = Some(tracing_data(cursor)?);
                    cursor.go(next)?;
                }
                own::FEATURE => {
                    cursor.go(at + HEAD)?;
                    let number = cursor.u64()?;
                    // As in a file.
                    let _ =
                        fact(cursor, number as usize, next.saturating_sub(cursor.at()), &mut described.facts);
                    cursor.go(next)?;
                }
                own::COMPRESSED | own::COMPRESSED2 => break,
                kind if RecordType(kind) == RecordType::SAMPLE => break,
                _ => {}
            }
            skip(cursor, kind, &body)?;
        }
        if described.layouts.all.is_empty() {
            return Err(ImportError::Lacks {
                part: "list of events at its beginning",
                remedy: "use 'perf record -o FILE', not '-o -', or neither --overwrite nor --tail-synthesize",
            });
        }
        Ok(described)
    }
}

/// Reads the formats of events.
fn tracing_data<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<Vec<Format>, ImportError> {
    head(cursor)?;
    layout(cursor)?;
    ftrace(cursor)?;
    systems(cursor)
}

/// Opens a file, and those beside it if it is one of a directory.
pub(super) fn open<R: Read + Seek + 'static>(
    mut cursor: Cursor<R>,
    mut others: Vec<Cursor<R>>,
) -> Result<Opened, ImportError> {
    let native = if cfg!(target_endian = "big") { b"2ELIFREP" } else { b"PERFILE2" };
    if cursor.bytes(native.len() as u64)? != native {
        return Err(ImportError::OtherMachine);
    }
    let is_stream = cursor.u64()? < HEADER;
    let described = if is_stream { Described::stream(&mut cursor)? } else { Described::file(&mut cursor)? };
    let Described { layouts, formats, facts, records: (at, end), is_directory } = described;
    let mut formats = formats.ok_or(ImportError::NoEvents)?;
    if is_directory && others.is_empty() {
        return Err(ImportError::Lacks {
            part: "records of its CPUs, which perf record --threads writes beside it",
            remedy: "import its directory",
        });
    }
    layouts.keep(&mut formats)?;
    // perf has records of its own for the threads.
    formats.retain(|format| format.system() != "task" && format.name() != "sched:sched_process_exit");
    cursor.go(at)?;
    let mut notes = Notes::default();
    // What cannot be read here is met again, and counted.
    let _ = notes.read(&mut cursor, end, layouts.is_backward);
    let Notes { anchor, threads } = notes;
    cursor.go(at)?;
    let met = (is_directory && others.len() < layouts.cpus).then(BTreeSet::new);
    others.reverse();
    let decoder = Decoder::of_formats(&formats)?.ok_or(ImportError::NoEvents)?;
    let events = Records {
        cursor,
        end,
        others,
        is_over: false,
        packed: Frame::default(),
        rounds: VecDeque::new(),
        layouts,
        decoder,
        queue: BTreeMap::new(),
        count: 0,
        sure_ns: 0,
        round_ns: 0,
        latest_ns: 0,
        given_ns: 0,
        record: Vec::new(),
        lost: Loss::default(),
        lost_samples: 0,
        met,
    };
    Ok(Opened { facts, formats, symbols: None, anchor, threads, events: Box::new(events) })
}

/// Reads what a part says about the machine.
fn fact<R: Read + Seek>(
    cursor: &mut Cursor<R>,
    number: usize,
    bytes: u64,
    facts: &mut Facts,
) -> Result<(), ImportError> {
    match number {
        feature::RELEASE => facts.kernel = format!("Linux {}", short_text(cursor)?),
        feature::ARCHITECTURE => facts.architecture = short_text(cursor)?,
        feature::PROCESSOR => facts.processor = short_text(cursor)?,
        feature::MEMORY => facts.memory_bytes = cursor.u64()?.saturating_mul(1024),
        feature::CPU_COUNT => {
            let (_available, online) = (cursor.u32()?, cursor.u32()?);
            for cpu in 0..online.min(MOST_CPUS) {
                place(&mut facts.cpus, cpu, None);
            }
        }
        feature::NODES => {
            for _ in 0..cursor.u32()? {
                let (node, _total, _free) = (cursor.u32()?, cursor.u64()?, cursor.u64()?);
                for cpu in list(&short_text(cursor)?) {
                    place(&mut facts.cpus, cpu, Some(node));
                }
            }
        }
        feature::CLOCK if bytes >= 24 => {
            let (_version, _clock) = (cursor.u32()?, cursor.u32()?);
            let (unix_ns, clock_ns) = (cursor.u64()?, cursor.u64()?);
            // The time at which the clock began, to which the beginning of the recording is added.
            facts.began_unix_s = (unix_ns as f64 - clock_ns as f64) / 1e9;
        }
        _ => {}
    }
    Ok(())
}

/// Adds a CPU to the sorted list, or its node, if it is known.
fn place(cpus: &mut Vec<(u32, u32)>, cpu: u32, node: Option<u32>) {
    match cpus.binary_search_by_key(&cpu, |(cpu, _)| *cpu) {
        Ok(at) => cpus[at].1 = node.unwrap_or(cpus[at].1),
        Err(at) if cpu < MOST_CPUS => cpus.insert(at, (cpu, node.unwrap_or(0))),
        Err(_) => {}
    }
}

/// What perf notes about the machine among the records: the symbol of the kernel whose address comes with the kernel's own
/// mapping, and the threads that ran.
#[derive(Default)]
struct Notes {
    anchor: Option<Anchor>,
    threads: Vec<(u32, u32, String)>,
}

impl Notes {
    /// Reads what stands in the first records, or in all of a file if perf noted nothing there.
    fn read<R: Read + Seek>(
        &mut self,
        cursor: &mut Cursor<R>,
        end: u64,
        mut all: bool,
    ) -> Result<(), ImportError> {
        let (mut count, mut body) = (0, Vec::new());
        while cursor.at() < end && (all || self.anchor.is_none()) {
            let (kind, misc) = record(cursor, &mut body)?;
            skip(cursor, kind, &body)?;
            let data = RawData::from(&body[..]);
            match RecordType(kind) {
                RecordType::MMAP => {
                    let Ok(mapped) = MmapRecord::parse::<NativeEndian>(data, misc) else { continue };
                    let path = text(&mapped.path.as_slice());
                    let name = path.strip_prefix("[kernel.kallsyms]").filter(|name| !name.is_empty());
                    if let Some(name) = name {
                        self.anchor = Some(Anchor { name: name.to_owned(), address: mapped.page_offset });
                    }
                }
                RecordType::COMM if all => {
                    let Ok(comm) = CommOrExecRecord::parse::<NativeEndian>(data, misc) else { continue };
                    let name = text(&comm.name.as_slice());
                    self.threads.push((number(comm.tid), number(comm.pid), name));
                }
                _ => {}
            }
            count += usize::from(kind < own::ATTRIBUTES);
            all |= count == BEGINNING && self.anchor.is_none();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_values_of_one_event_or_of_its_group() {
        let values = |format, words: &[u64]| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            values(format, &bytes)
        };
        // The value; with both times, its number and what was lost.
        assert_eq!((values(0, &[7]), values(0b10111, &[7, 1, 1, 5, 0])), (Some(8), Some(40)));
        // Three events, a number each, without times and with one.
        assert_eq!(values(0b1100, &[3, 7, 1, 8, 2, 9, 3]), Some(56));
        assert_eq!(values(0b1101, &[3, 99, 7, 1, 8, 2, 9, 3]), Some(64));
        assert_eq!((values(0b1000, &[u64::MAX]), values(0b1000, &[])), (None, None));
    }
}
