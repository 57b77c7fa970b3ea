//! The history of one run, for people: time down, CPUs across, one line an event.
//!
//! The first column counts the steps of the run. Then comes a column for each CPU, and one for a device if there is
//! one. An event stands in the column of the CPU that it happened on:
//!
//! | text | event |
//! |---|---|
//! | `> …` | a program or the kernel begins an operation |
//! | `< …` | it has ended, with its promise made |
//! | `set`, `clear`, `narrow` | the kernel changes a page-table entry |
//! | `fill` | the hardware fills a TLB entry, by itself or for an access |
//! | `load`, `store`, `fault` | a program's access, and what it reached |
//! | `root`, `invalidate`, `drop` | the CPU loads a root; entries of its TLB go |
//! | `send`, `deliver` | an interrupt is sent; its handler begins |
//! | `broadcast`, `waited` | an invalidation is started on every CPU; it is done on all |
//! | `free`, `reuse` | a frame goes back to the allocator, and is handed out again |
//! | `!! …` | a rule is broken |

use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hasher};

/// One event, and the CPU that it happened on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Event {
    step: u32,
    column: usize,
    text: String,
}

/// The events of a run, and a number that any difference between two runs changes.
#[derive(Debug, Clone)]
pub(crate) struct Timeline {
    columns: usize,
    devices: usize,
    digest: u64,
    /// `None` if the run is not recorded.
    events: Option<Vec<Event>>,
}

impl Timeline {
    pub(crate) fn new(columns: usize, devices: usize, recorded: bool) -> Self {
        Self { columns, devices, digest: 0, events: recorded.then(Vec::new) }
    }

    /// Whether events are kept.
    pub(crate) fn recorded(&self) -> bool {
        self.events.is_some()
    }

    /// Takes a number into the digest.
    pub(crate) fn mix(&mut self, number: u64) {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.digest);
        hasher.write_u64(number);
        self.digest = hasher.finish();
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn add(&mut self, step: u32, column: usize, text: String) {
        if let Some(events) = &mut self.events {
            events.push(Event { step, column, text });
        }
    }
}

/// The width of a column.
const WIDTH: usize = 34;

impl fmt::Display for Timeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut head = format!("{:>6}", "step");
        for column in 0..self.columns {
            let name = if column < self.columns - self.devices {
                format!("CPU {column}")
            } else {
                "device".to_owned()
            };
            let _ = write!(head, "  {name:<WIDTH$}");
        }
        writeln!(f, "{}", head.trim_end())?;
        for Event { step, column, text } in self.events.iter().flatten() {
            let indent = column * (WIDTH + 2);
            writeln!(f, "{step:>6}  {:indent$}{text}", "")?;
        }
        Ok(())
    }
}
