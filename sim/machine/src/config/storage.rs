//! The device for files and swap.

use std::num::NonZeroU32;

use serde::Serialize;

use super::quantity::{read_count, Parameter, Picoseconds, TIME};
use super::MachineError;
use crate::document::Section;

/// The greatest number of requests at once.
const MAX_QUEUE_DEPTH: u32 = 65_536;

/// A storage device. The CPU's own time to submit a request is the cost `write_out`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Storage {
    /// The time that the device takes to read one page of 4 KiB.
    pub read: Picoseconds,
    /// The time that the device takes to write one page of 4 KiB.
    pub write: Picoseconds,
    /// The number of requests that it works on at once.
    pub queue_depth: NonZeroU32,
}

impl Storage {
    /// Reads `[storage]` and adds its numbers to `sources`.
    pub(super) fn read(mut section: Section<'_>, sources: &mut Vec<Parameter>) -> Result<Self, MachineError> {
        let read = TIME.read(section.take("read")?, sources)?;
        let write = TIME.read(section.take("write")?, sources)?;
        let depth = read_count(section.take("queue_depth")?, "requests", MAX_QUEUE_DEPTH, sources)?;
        section.finish()?;
        Ok(Self { read, write, queue_depth: depth })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{parse, Entry};

    const READ: &str = "read = { value = 80, unit = 'us', source = 's' }";
    const WRITE: &str = "write = { value = 20, unit = 'us', source = 's' }";
    const DEPTH: &str = "queue_depth = { value = 64, unit = 'requests', source = 's' }";

    fn read(lines: &[&str]) -> Result<(Storage, Vec<Parameter>), String> {
        let mut sources = Vec::new();
        let text = format!("[storage]\n{}", lines.join("\n"));
        let section = parse("f", &text).and_then(|mut root| root.take("storage")).and_then(Entry::section);
        let storage = section.and_then(|section| Storage::read(section, &mut sources));
        storage.map(|storage| (storage, sources)).map_err(|error| error.to_string())
    }

    #[test]
    fn times_and_depth_are_read() {
        let (storage, sources) = read(&[READ, WRITE, DEPTH]).expect("valid");
        assert_eq!((storage.read, storage.write), (80_000_000, 20_000_000));
        assert_eq!(storage.queue_depth.get(), 64);
        let keys: Vec<_> = sources.iter().map(|parameter| parameter.key.as_str()).collect();
        assert_eq!(keys, ["storage.read", "storage.write", "storage.queue_depth"]);
    }

    #[test]
    fn bad_devices_are_refused() {
        let depth = "queue_depth = { value = 0, unit = 'requests', source = 's' }";
        let unit = "queue_depth = { value = 1, unit = 'ns', source = 's' }";
        for (lines, expected) in [
            ([READ, WRITE, ""], "f:1: storage.queue_depth: missing"),
            ([READ, "", DEPTH], "f:1: storage.write: missing"),
            (["", WRITE, DEPTH], "f:1: storage.read: missing"),
            ([READ, WRITE, depth], "f:4: storage.queue_depth.value: 0: must be 1 to 65536"),
            ([READ, WRITE, unit], "f:4: storage.queue_depth.unit: \"ns\": must be requests"),
        ] {
            assert_eq!(read(&lines).expect_err("must be refused"), expected);
        }
        assert_eq!(
            read(&[READ, WRITE, DEPTH, "x = 1"]).expect_err("must be refused"),
            "f:5: storage.x: unknown key"
        );
    }
}
