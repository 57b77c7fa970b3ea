//! Makes events of the kernel's records.

use std::cell::Cell;

use crate::events::event::{Event, Kind, Spelled as _, SystemCall};
use crate::events::source::{reader, Level, Lookup, Read, Source, SOURCES};
use crate::tracefs::{Field, Format, FormatError, Tracefs, Unavailable};

/// Reads the records of one kernel.
pub struct Decoder {
    /// The reader of each kind of record, by the number with which the record begins.
    reads: Vec<Option<Reader>>,
    id: Field,
    thread: Field,
}

/// Reads one kind of record.
struct Reader {
    read: Read,
    /// Whether there was a record of this kind.
    is_met: Cell<bool>,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").field("reads", &self.reads.len()).finish_non_exhaustive()
    }
}

/// An event of the running kernel that is to be recorded: its folder in `events/`, and which of its records may be left
/// out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The folder below `events`.
    pub folder: String,
    /// Whether the kernel is to leave out the calls of other functions than flushes.
    pub of_flushes: bool,
    /// A filter for the records that are needed; none for all.
    pub filter: Option<String>,
    /// The source's name, with its system.
    pub name: String,
}

/// The least level at which an event is recorded; none if ours are not made from it.
pub fn level_of(format: &Format) -> Option<Level> {
    reader(format).map(|(level, _)| level)
}

impl Decoder {
    /// A reader of all events of a level that the running kernel has, and the list of them. Of a kernel without the
    /// events of interrupts, flushes are recorded at every level.
    ///
    /// # Errors
    /// If a format cannot be read, or if the kernel has no event that counts shootdowns.
    pub fn of_kernel(tracefs: &Tracefs, level: Level) -> Result<(Self, Vec<Wanted>), Unavailable> {
        let mut formats = Vec::new();
        let mut wanted = Vec::new();
        let counts = tracefs.format("csd", "csd_queue_cpu")?.is_some();
        let is_wanted = |source: &&Source| level >= source.level || (source.system == "tlb" && !counts);
        for source in SOURCES.iter().filter(is_wanted) {
            let Some(format) = tracefs.format(source.system, source.event)? else { continue };
            // Stacks are an option of other events.
            if source.system != "ftrace" {
                wanted.push(Wanted {
                    folder: format!("{}/{}", source.system, source.event),
                    of_flushes: source.of_flushes,
                    filter: source.of_causes(&format).filter(|_| level == Level::Causes && counts),
                    name: format.name(),
                });
            }
            formats.push(format);
        }
        if level >= Level::Causes {
            for (_, word) in SystemCall::WORDS {
                for side in ["enter", "exit"] {
                    let event = format!("sys_{side}_{word}");
                    let Some(format) = tracefs.format("syscalls", &event)? else { continue };
                    wanted.push(Wanted {
                        folder: format!("syscalls/{event}"),
                        of_flushes: false,
                        filter: None,
                        name: format.name(),
                    });
                    formats.push(format);
                }
            }
        }
        if !wanted.iter().any(|wanted| wanted.of_flushes || wanted.folder.starts_with("tlb/")) {
            return Err(Unavailable::NoEvents);
        }
        let decoder = Self::of_formats(&formats)?;
        Ok((decoder.ok_or(Unavailable::NoEvents)?, wanted))
    }

    /// A reader of the events that these formats describe; none if ours are made from none of them.
    ///
    /// # Errors
    /// If a field is missing.
    pub fn of_formats(formats: &[Format]) -> Result<Option<Self>, FormatError> {
        let Some(any) = formats.first() else { return Ok(None) };
        let (id, thread) = (any.field("common_type")?, any.field("common_pid")?);
        let mut reads = Vec::new();
        for format in formats {
            let Some((_, read)) = reader(format) else { continue };
            let id = format.id() as usize;
            if reads.len() <= id {
                reads.resize_with(id + 1, || None);
            }
            reads[id] = Some(Reader { read: read?, is_met: Cell::new(false) });
        }
        Ok((!reads.is_empty()).then_some(Self { reads, id, thread }))
    }

    /// The event of a record; none of another kind, or if the record is too short.
    pub fn event(&self, cpu: u32, time_ns: u64, record: &[u8], lookup: &mut Lookup) -> Option<Event> {
        let reader = self.reads.get(self.id.value(record)? as usize)?.as_ref()?;
        reader.is_met.set(true);
        let thread = self.thread.value(record)? as u32;
        let kind = match (reader.read)(record, lookup)? {
            Kind::ThreadNamed { thread: 0, name } => Kind::ThreadNamed { thread, name },
            kind => kind,
        };
        Some(Event { time_ns, cpu, thread, kind })
    }

    /// Whether there was a record of this format.
    pub(crate) fn has_met(&self, format: &Format) -> bool {
        let reader = self.reads.get(format.id() as usize).and_then(Option::as_ref);
        reader.is_some_and(|reader| reader.is_met.get())
    }
}
