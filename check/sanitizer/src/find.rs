//! What the sanitizer finds, as lines of JSON that the command line reads.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use foldhash::{HashMap, HashMapExt as _};
use serde::{Deserialize, Serialize};

/// A kind of find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A CPU used a translation while it might have cached an older one to another frame.
    StaleUse,
    /// A CPU used a frame although the page tables had another by then.
    Incoherence,
    /// A CPU used a translation, or a right to store, that the page tables had lost, and the flush was over: the thread that
    /// made the change was back in its program, or more than a second had passed.
    LateUse,
    /// A CPU used a frame through a translation that the page tables had lost, and the frame had been overwritten whole.
    Reuse,
}

/// A place in the program: a CPU, a time in nanoseconds since the machine began, and the address of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The CPU.
    pub cpu: usize,
    /// The time of the host, in nanoseconds since the plugin was loaded.
    pub time: u64,
    /// The instruction. 0: it is not known.
    pub instruction: u64,
}

/// The change of a page-table entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Where it was changed.
    pub place: Place,
    /// Its bits.
    pub before: u64,
    /// Its bits afterwards.
    pub after: u64,
}

/// A find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Find {
    /// What it is.
    pub kind: Kind,
    /// The use.
    pub used: Place,
    /// The virtual address.
    pub address: u64,
    /// It was a store.
    pub store: bool,
    /// The frame that the CPU used, in units of 4 KiB.
    pub frame: u64,
    /// The other frame: of the older translation, or of the page tables.
    pub other: u64,
    /// The first use of the older translation.
    pub cached: Place,
    /// The last change of its entry, if it was seen.
    pub changed: Option<Changed>,
    /// Where the frame was given away, for a reuse.
    pub given: Option<Place>,
    /// The last time at which that CPU dropped translations of the address's kind, and what.
    pub dropped: Option<Place>,
}

/// What was seen, at the end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// The finds, alike ones included.
    pub finds: u64,
    /// Those of which a line was written.
    pub written: u64,
    /// Accesses that were compared.
    pub accesses: u64,
    /// Those of them that had to be looked at closely.
    pub looks: u64,
    /// Page tables that were followed.
    pub tables: usize,
    /// Instructions that dropped translations.
    pub invalidations: u64,
    /// Accesses before the guest's memory was found in the emulator, or in a mode that is not known: these were not
    /// compared.
    pub unread: u64,
    /// The longest time, in nanoseconds, for which a changed entry could still be used, and the change.
    pub longest: Option<(u64, Changed)>,
}

/// A line of a report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// What is watched.
    Begin {
        /// The architecture.
        target: String,
        /// The CPUs.
        cpus: usize,
    },
    /// A find, the first of its kind.
    Find(Box<Find>),
    /// The end.
    End(Summary),
}

/// The most finds of the same place and change that are written.
const ALIKE: u64 = 1;

/// The report as it is written.
#[derive(Debug)]
pub struct Report {
    file: BufWriter<File>,
    seen: HashMap<(Kind, u64, u64), u64>,
    pub(crate) finds: u64,
    pub(crate) written: u64,
    /// The first error of writing. Nothing is written after it.
    failed: Option<io::Error>,
}

impl Report {
    /// Creates the file.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        Ok(Self { file, seen: HashMap::new(), finds: 0, written: 0, failed: None })
    }

    /// Writes a line at once, so that it is not lost with the emulator.
    pub(crate) fn write(&mut self, line: &Line) {
        if self.failed.is_some() {
            return;
        }
        let write = |file: &mut BufWriter<File>| {
            serde_json::to_writer(&mut *file, line)?;
            file.write_all(b"\n")?;
            file.flush()
        };
        if let Err(error) = write(&mut self.file) {
            eprintln!("ceasefire: the report cannot be written: {error}");
            self.failed = Some(error);
        }
    }

    /// Counts a find, and writes it if none like it was written.
    pub(crate) fn found(&mut self, find: Find) {
        self.finds += 1;
        let change = find.changed.map_or(0, |changed| changed.place.instruction);
        let count = self.seen.entry((find.kind, find.used.instruction, change)).or_insert(0);
        *count += 1;
        if *count <= ALIKE {
            self.written += 1;
            self.write(&Line::Find(Box::new(find)));
        }
    }
}
