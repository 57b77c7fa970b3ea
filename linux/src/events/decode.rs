//! Makes events of the kernel's records.

use crate::events::event::{Event, Kind, Spelled as _, SystemCall};
use crate::events::source::{of_call, Level, Lookup, Read, Source, SOURCES};
use crate::tracefs::{Field, Format, Tracefs, Unavailable};

/// Reads the records of one kernel.
pub struct Decoder {
    /// The reader of each kind of record, by the number with which the record begins.
    reads: Vec<Option<Read>>,
    id: Field,
    thread: Field,
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

impl Decoder {
    /// A reader of all events of a level that the running kernel has, and the list of them. Of a kernel without the
    /// events of interrupts, flushes are recorded at every level.
    ///
    /// # Errors
    /// If a format cannot be read, or if the kernel has no event that counts shootdowns.
    pub fn of_kernel(tracefs: &Tracefs, level: Level) -> Result<(Self, Vec<Wanted>), Unavailable> {
        let mut made = Vec::new();
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
            made.push(((source.read)(&format)?, format));
        }
        if level >= Level::Causes {
            for (call, word) in SystemCall::WORDS {
                for (begins, side) in [(true, "enter"), (false, "exit")] {
                    let event = format!("sys_{side}_{word}");
                    let Some(format) = tracefs.format("syscalls", &event)? else { continue };
                    wanted.push(Wanted {
                        folder: format!("syscalls/{event}"),
                        of_flushes: false,
                        filter: None,
                        name: format.name(),
                    });
                    made.push((of_call(*call, &format, begins)?, format));
                }
            }
        }
        if !wanted.iter().any(|wanted| wanted.of_flushes || wanted.folder.starts_with("tlb/")) {
            return Err(Unavailable::NoEvents);
        }
        Ok((Self::new(made)?, wanted))
    }

    /// A reader of these formats.
    fn new(made: Vec<(Read, Format)>) -> Result<Self, Unavailable> {
        let (_, any) = made.first().ok_or(Unavailable::NoEvents)?;
        let (id, thread) = (any.field("common_type")?, any.field("common_pid")?);
        let mut reads = Vec::new();
        for (read, format) in made {
            let id = format.id() as usize;
            if reads.len() <= id {
                reads.resize_with(id + 1, || None);
            }
            reads[id] = Some(read);
        }
        Ok(Self { reads, id, thread })
    }

    /// The event of a record; none of another kind, or if the record is too short.
    pub fn event(&self, cpu: u32, time_ns: u64, record: &[u8], lookup: &mut Lookup) -> Option<Event> {
        let read = self.reads.get(self.id.value(record)? as usize)?.as_ref()?;
        let thread = self.thread.value(record)? as u32;
        let kind = match read(record, lookup)? {
            Kind::ThreadNamed { thread: 0, name } => Kind::ThreadNamed { thread, name },
            kind => kind,
        };
        Some(Event { time_ns, cpu, thread, kind })
    }
}
