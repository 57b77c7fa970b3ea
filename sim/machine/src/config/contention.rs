//! The cost of contention: several CPUs come to the same lock, or send requests to the same CPU, at once.

use serde::Serialize;

use super::quantity::{read_whole, Parameter, Picoseconds, TIME};
use super::MachineError;
use crate::document::Section;

/// The greatest number of lines or transfers: more than any lock has.
const MOST: u32 = 64;

/// The way in which a thread waits for a lock that sleeps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waiting {
    /// It sleeps.
    #[default]
    Sleeps,
    /// For exclusive access it first spins, as long as another such holder runs.
    Spins,
    /// It also spins while others share the lock, for a short time, and does not get ahead of threads that have slept
    /// for long.
    SpinsOnReaders,
}

/// The numbers of cache-line transfers under contention, and the cost of waking a thread. A transfer takes the
/// latency of its pair of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Contention {
    /// Transfers from the release of a spinning lock until the next CPU has it.
    pub hand_over: u32,
    /// Transfers of the lock's line to a CPU that takes shared access while others come to it too: one for each time
    /// that it touches the line, since another CPU takes the line in between.
    pub shared: u32,
    /// The same for the lock of an area, which may be a mere count of those that use it.
    #[serde(skip)]
    pub shared_of_area: u32,
    /// Lines of the guarded data that move to the new holder too, such as the head of a list. The entries of a page table
    /// lie on other lines where other threads use them, so its lock has none.
    pub guarded: u32,
    /// What a thread does that must wait.
    #[serde(skip)]
    pub waiting: Waiting,
    /// Lines that move to the sender of a flush, for each request that it puts into a queue.
    pub enqueue: u32,
    /// Lines that move to the target of a flush, for each request.
    pub request: u32,
    /// The cost for the releasing CPU to wake a thread that sleeps for the lock, beside the interrupt.
    pub wake: Picoseconds,
}

impl Default for Contention {
    /// One line, once. All other transfers are part of the cost of the work.
    fn default() -> Self {
        Self {
            hand_over: 1,
            shared: 1,
            shared_of_area: 1,
            guarded: 0,
            waiting: Waiting::default(),
            enqueue: 1,
            request: 1,
            wake: 0,
        }
    }
}

impl Contention {
    /// Reads `[contention]` and adds its numbers to `sources`.
    pub(super) fn read(mut section: Section<'_>, sources: &mut Vec<Parameter>) -> Result<Self, MachineError> {
        let mut count =
            |key: &str, unit: &str, least| read_whole(section.take(key)?, unit, (least, MOST), sources);
        let (hand_over, shared) = (count("hand_over", "transfers", 1)?, count("shared", "transfers", 1)?);
        // A lock may guard no line, which is the default. Its own line always moves.
        let guarded = count("guarded", "lines", 0)?;
        let (enqueue, request) = (count("enqueue", "lines", 1)?, count("request", "lines", 1)?);
        let wake = TIME.read(section.take("wake")?, sources)?;
        section.finish()?;
        let waiting = Waiting::default();
        Ok(Self { hand_over, shared, shared_of_area: shared, guarded, waiting, enqueue, request, wake })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{parse, Entry};

    fn read(text: &str) -> Result<(Contention, usize), String> {
        let mut sources = Vec::new();
        let text = format!("[contention]\n{text}");
        let section = parse("f", &text).and_then(|mut root| root.take("contention")).and_then(Entry::section);
        let contention = section.and_then(|section| Contention::read(section, &mut sources));
        contention.map(|contention| (contention, sources.len())).map_err(|error| error.to_string())
    }

    #[test]
    fn all_numbers_are_read_and_checked() {
        let lines = |hand_over, guarded| {
            let given = [
                ("hand_over", hand_over, "transfers"),
                ("shared", 2, "transfers"),
                ("guarded", guarded, "lines"),
                ("enqueue", 6, "lines"),
                ("request", 5, "lines"),
                ("wake", 7, "ns"),
            ];
            given
                .map(|(key, value, unit)| {
                    format!("{key} = {{ value = {value}, unit = '{unit}', source = 's' }}")
                })
                .join("\n")
        };
        let expected = Contention {
            hand_over: 4,
            shared: 2,
            shared_of_area: 2,
            guarded: 3,
            waiting: Waiting::Sleeps,
            enqueue: 6,
            request: 5,
            wake: 7_000,
        };
        assert_eq!(read(&lines(4, 3)), Ok((expected, 6)));
        assert!(read(&lines(4, 0)).is_ok_and(|(contention, _)| contention.guarded == 0));
        assert!(read(&lines(0, 3)).is_err() && read(&lines(4, 65)).is_err());
        assert_eq!(read("guarded = 3"), Err("f:1: contention.hand_over: missing".to_owned()));
    }
}
