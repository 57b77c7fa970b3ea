//! Tracks of CPUs.

use std::io::{self, Write};

use crate::{Track, Writer};

/// The lanes of each CPU: tracks that hold slices, under a head of their own below one track.
#[derive(Debug, Clone, Copy)]
pub struct Lanes {
    /// The track below which the heads are.
    pub parent: u64,
    /// The number of the first CPU's head. The numbers of its lanes follow, then the next CPU's head, and so on.
    pub first: u64,
    /// The rank of the first CPU's head.
    pub rank: i32,
    /// The names of a CPU's lanes.
    pub names: &'static [&'static str],
}

impl Lanes {
    /// The track of a CPU's lane, by the place of its name.
    pub fn track(&self, cpu: u64, lane: usize) -> u64 {
        self.head(cpu) + 1 + lane as u64
    }

    /// The track above a CPU's lanes.
    fn head(&self, cpu: u64) -> u64 {
        self.first + (self.names.len() as u64 + 1) * cpu
    }

    /// Describes a CPU's lane and its head, unless that was done. Returns its track.
    ///
    /// # Errors
    /// If the trace cannot be written.
    pub fn describe<W: Write>(&self, writer: &mut Writer<W>, cpu: u64, lane: usize) -> io::Result<u64> {
        let (head, id) = (self.head(cpu), self.track(cpu, lane));
        if !writer.is_described(id) {
            let track =
                |id, name, parent, rank| Track { id, name, parent: Some(parent), rank, is_counter: false };
            // There are fewer CPUs, and fewer lanes.
            let rank = self.rank + i32::from(cpu as u16);
            writer.describe(track(head, format!("CPU {cpu}"), self.parent, rank))?;
            let name = format!("CPU {cpu} {}", self.names[lane]);
            writer.describe(track(id, name, head, i32::from(lane as u16)))?;
        }
        Ok(id)
    }
}
