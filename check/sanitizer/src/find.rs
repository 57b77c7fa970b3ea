//! What the sanitizer finds, as lines of JSON.
//!
//! Addresses, frames and entries are strings of hexadecimal digits behind `0x`: many readers of JSON round numbers above
//! 2^53.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use foldhash::{HashMap, HashMapExt as _};
use serde::{Deserialize, Serialize};

use crate::hexadecimal;

/// A kind of find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A CPU used a translation while it might have cached an older one to another frame.
    StaleUse,
    /// A CPU used a frame although the page tables had another by then, and that one was written, or the change was over.
    Incoherence,
    /// A CPU used a translation, or a right to store, that the page tables had lost, or stored to a page and left it clean,
    /// and the change was over: the thread that made it was back in its program, or more than a second had passed.
    LateUse,
    /// A CPU used a frame through a translation that the page tables had lost, and the frame had been given away: freed, or
    /// overwritten whole.
    Reuse,
    /// The same, but the frame was freed and no use was seen: the CPU was in the program that could use it, until it flushed.
    Held,
    /// A CPU could still walk a page table that was no longer linked, and the table had been given away.
    TableReuse,
}

impl Kind {
    /// Its name, in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::StaleUse => "stale use",
            Self::Incoherence => "incoherence",
            Self::LateUse => "late use",
            Self::Reuse => "reuse",
            Self::Held => "held frame",
            Self::TableReuse => "table reuse",
        }
    }
}

/// A place in the program: a CPU, a time in nanoseconds since the machine began, and the address of an instruction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The CPU.
    pub cpu: usize,
    /// The time of the host, in nanoseconds since the plugin was loaded.
    pub time: u64,
    /// The instruction. 0: it is not known. One of a program has the address at which the emulator met it first, in
    /// whichever program.
    #[serde(with = "hexadecimal")]
    pub instruction: u64,
    /// The addresses in the kernel to which its function and the callers of that return, newest first, as far as the stack
    /// tells. None where the kernel's code is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "hexadecimal::list")]
    pub callers: Vec<u64>,
}

/// The change of a page-table entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// Where it was changed.
    pub place: Place,
    /// Its bits.
    #[serde(with = "hexadecimal")]
    pub before: u64,
    /// Its bits afterwards.
    #[serde(with = "hexadecimal")]
    pub after: u64,
    /// Its bits led to another frame than the one that was used: an earlier change had taken that away.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// A find.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Find {
    /// What it is.
    pub kind: Kind,
    /// The use.
    pub used: Place,
    /// The virtual address.
    #[serde(with = "hexadecimal")]
    pub address: u64,
    /// It was a store.
    pub store: bool,
    /// It was the fetch of an instruction.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fetch: bool,
    /// The CPU has faulted for the address instead of using it, which a processor with a larger TLB would not have done.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub faulted: bool,
    /// The frame that the CPU used, in units of 4 KiB.
    #[serde(with = "hexadecimal")]
    pub frame: u64,
    /// The other frame: of the older translation, or of the page tables.
    #[serde(with = "hexadecimal")]
    pub other: u64,
    /// The first use of the older translation.
    pub cached: Place,
    /// The last change of its entry, if it was seen.
    pub changed: Option<Changed>,
    /// Where the other frame was first written, if that makes it a find.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<Place>,
    /// Where the frame was given away, for a reuse.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Place>,
    /// Where that CPU last dropped translations.
    pub dropped: Option<Place>,
}

impl Find {
    /// A find of which nothing more is known. Its other frame is its own.
    pub fn new(kind: Kind, used: Place, address: u64, frame: u64, cached: Place) -> Self {
        Self {
            kind,
            used,
            address,
            store: false,
            fetch: false,
            faulted: false,
            frame,
            other: frame,
            cached,
            changed: None,
            written: None,
            given: None,
            dropped: None,
        }
    }
}

/// How long changed entries could still be used, by the code that changed them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// The translations that were dropped after their entries had changed.
    pub count: u64,
    /// The times between, summed up, in nanoseconds.
    pub sum: u64,
    /// The longest.
    pub longest: u64,
    /// The change before the longest.
    pub changed: Option<Place>,
    /// The translations whose frames were given to somebody else between.
    pub given: u64,
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
    /// Accesses that were not compared: before the guest's memory was found in the emulator, in a mode that is not known, or
    /// to what is not known to be memory.
    pub unread: u64,
    /// The frames that known functions have freed.
    #[serde(default)]
    pub freed: u64,
    /// The calls of these with what leads to no memory.
    #[serde(default)]
    pub unknown: u64,
    /// How long changed entries could still be used, those first which could be used longest.
    pub windows: Vec<Window>,
    /// The uses behind each find that was written, in their order.
    pub uses: Vec<u64>,
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

/// The most finds that are written.
const WRITTEN: usize = 10_000;

/// The callers by which finds are told apart.
const TOLD_APART: usize = 3;

/// Code, and its next callers.
type Code = (u64, Vec<u64>);

/// What alike finds have in common. A rule may leave out one that differs from another in any of it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Alike {
    kind: Kind,
    store: bool,
    changed: Option<Code>,
    /// The code of the kernel. Programs are not told apart.
    used: Option<u64>,
    given: Option<Code>,
}

impl Alike {
    fn of(find: &Find) -> Self {
        let code = |place: &Place| {
            let Place { instruction, callers, .. } = place;
            // Further ones are often left on the stack by other calls.
            (*instruction, callers.iter().copied().take(TOLD_APART).collect())
        };
        Self {
            kind: find.kind,
            store: find.store,
            changed: find.changed.as_ref().map(|changed| code(&changed.place)),
            used: Some(find.used.instruction).filter(|&instruction| is_of_kernel(instruction)),
            given: find.given.as_ref().map(code),
        }
    }
}

/// The report as it is written.
#[derive(Debug)]
pub struct Report {
    file: BufWriter<File>,
    /// The numbers of the finds that were written.
    seen: HashMap<Alike, usize>,
    /// The uses behind each.
    uses: Vec<u64>,
    finds: u64,
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
        Ok(Self { file, seen: HashMap::new(), uses: Vec::new(), finds: 0, failed: None })
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
        let alike = Alike::of(&find);
        if let Some(&number) = self.seen.get(&alike) {
            self.uses[number] += 1;
        } else if self.uses.len() < WRITTEN {
            self.seen.insert(alike, self.uses.len());
            self.uses.push(1);
            self.write(&Line::Find(Box::new(find)));
        }
    }

    /// Writes the end: what was seen, and how often each find was made.
    pub(crate) fn end(&mut self, seen: Summary) {
        let summary =
            Summary { finds: self.finds, written: self.uses.len() as u64, uses: self.uses.clone(), ..seen };
        self.write(&Line::End(summary));
    }

    /// The finds so far, alike ones included.
    #[cfg(test)]
    pub(crate) fn finds(&self) -> u64 {
        self.finds
    }
}

/// Whether an address is of the kernel: kernels are in the upper half of the addresses.
pub(crate) fn is_of_kernel(address: u64) -> bool {
    address >> 63 != 0
}
