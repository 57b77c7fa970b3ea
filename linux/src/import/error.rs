//! Files that cannot be imported.

use std::fmt;
use std::io;

use crate::recording::RecordingError;
use crate::tracefs::FormatError;

/// The reason for which a file cannot be imported.
#[derive(Debug)]
pub enum ImportError {
    /// The file could not be read.
    Io(io::Error),
    /// It is of no kind that is known.
    Unknown,
    /// It ends before a part that it refers to.
    Cut {
        /// Where the part ends.
        at: u64,
        /// Where the file ends.
        end: u64,
    },
    /// A part of it does not have the form that it should have.
    Unreadable {
        /// The part.
        part: &'static str,
        /// Its place.
        at: u64,
    },
    /// It lacks a part without which nothing can be read.
    Lacks {
        /// The part.
        part: &'static str,
        /// How to get a file with it.
        remedy: &'static str,
    },
    /// It was made on a machine of the other byte order, or of 32 bits.
    OtherMachine,
    /// Its version of trace-cmd's format is not known.
    Version(String),
    /// Its times are not in nanoseconds.
    Clock(String),
    /// It is compressed in a way that is not known.
    Compressed {
        /// The name of the way.
        by: String,
        /// How to get a file that is not.
        remedy: &'static str,
    },
    /// It has some of the records of an event.
    Sampled {
        /// The event.
        event: String,
        /// Which, in words.
        rate: String,
    },
    /// An event's format is not understood.
    Format(FormatError),
    /// It has no events that count shootdowns.
    NoEvents,
    /// It describes events and has none.
    Empty,
    /// It is not known which address is that of `flush_tlb_func`.
    NoSymbols,
    /// The recording could not be written.
    Recording(RecordingError),
}

impl From<io::Error> for ImportError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<FormatError> for ImportError {
    fn from(error: FormatError) -> Self {
        Self::Format(error)
    }
}

impl From<RecordingError> for ImportError {
    fn from(error: RecordingError) -> Self {
        Self::Recording(error)
    }
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Unknown => f.write_str("it is neither a perf.data file of perf record nor a trace.dat file of trace-cmd"),
            Self::Cut { at, end } => {
                write!(f, "the file is cut off: it has {end} bytes and refers to byte {at}")
            }
            Self::Unreadable { part, at } => write!(f, "the file is damaged: {part} at byte {at} cannot be read"),
            Self::Lacks { part, remedy } => write!(f, "the file has no {part}: {remedy}"),
            Self::OtherMachine => f.write_str(
                "the file is of a machine with another byte order or with 32 bits: import it on such a machine",
            ),
            Self::Version(version) => {
                write!(f, "version '{version}' of trace-cmd's format is not known: 6 and 7 are")
            }
            Self::Clock(clock) => {
                write!(f, "the clock {clock:?} does not count nanoseconds: use 'trace-cmd record -C mono'")
            }
            Self::Compressed { by, remedy } => write!(f, "the file is compressed by '{by}': {remedy}"),
            Self::Sampled { event, rate } => {
                write!(f, "the file has a sample of {event}, {rate}: use 'perf record -c 1'")
            }
            Self::Format(error) => error.fmt(f),
            Self::NoEvents => f.write_str(
                "the file has neither the events csd:csd_queue_cpu and csd:csd_function_exit (Linux 6.4 and later) nor \
                 tlb:tlb_flush, which count shootdowns: record them",
            ),
            Self::Empty => f.write_str(
                "the file has no events: nothing was recorded, or it is cut off or damaged before the first",
            ),
            Self::NoSymbols => f.write_str(
                "the file does not say where the kernel's function flush_tlb_func is: give a copy of /proc/kallsyms of \
                 the recorded machine, made as root since its last start, with --kallsyms",
            ),
            Self::Recording(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ImportError {}
