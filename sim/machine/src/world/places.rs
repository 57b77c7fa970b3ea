//! The shared lines of CPUs that switch between spaces, and of flushes that look at CPUs.
//!
//! A CPU that takes a place in a space's set of CPUs writes two lines that other CPUs write too: the line of the set
//! with its bit (64 bytes, the bits of 512 CPUs), and the line of the count of references to the space. A CPU that
//! gives up a place writes both again. Each line comes from the CPU that wrote it last ([`Line`]). The time is charged
//! to the switch, as `kernel` work.
//!
//! A flush that passes over a CPU in the set has read that CPU's record. If the CPU has written its record since this
//! CPU last looked at any, its line is transferred; otherwise the line is still in this CPU's cache. The engine counts
//! only how many CPUs a flush passes over. So a transfer takes the mean latency from this CPU to the others, and the
//! CPUs whose records have changed are taken to be among those passed over. The transfers come one after the other,
//! although a processor overlaps them: this is the worst case. The time is charged as `flushes`.
//!
//! Not modelled: the reading of the set by a flush; the writes of a CPU to its own record, whose line others only read;
//! the summary of a set, which a CPU writes at most once for 64 CPUs and space; the places given up by
//! [`Engine::unload`](ceasefire::Engine::unload) when a space ends.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;

use ceasefire::{AddressSpace, Previous, SpaceId};
use ceasefire_memory::SpaceHandle;

use crate::config::Picoseconds;
use crate::measure::spent::Doing;
use crate::world::line::Line;
use crate::world::state::{Sim, World};

/// The number of CPUs whose bits share a line.
const PER_LINE: usize = 512;

/// The lines of a space that CPUs write when they switch.
#[derive(Debug)]
struct SpaceLines {
    space: SpaceId,
    /// The set of CPUs.
    set: Box<[Line]>,
    /// The count of references.
    count: Line,
}

/// The shared lines of all spaces, and the order of the writes to the CPUs' records.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// By the space's root. Those of a space that has ended stay until its root is the root of another.
    spaces: RefCell<HashMap<u64, SpaceLines>>,
    /// The number of writes to records so far.
    writes: Cell<u64>,
    /// The number of the last write to each CPU's record. They stand together, since each flush goes through them.
    written: OnceCell<Box<[Cell<u64>]>>,
}

/// What one CPU has done to records.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// The number of writes of all CPUs when it last looked at others.
    looked: Cell<u64>,
    /// The number of CPUs that it had passed over then.
    passed_over: Cell<u64>,
    /// The mean latency to the other CPUs.
    mean: OnceCell<Picoseconds>,
}

impl World {
    /// Calls `change`, which may change this CPU's record.
    pub(crate) fn noting_record<R>(&self, change: impl FnOnce() -> R) -> R {
        let cpu = self.cpu();
        let record = || (cpu.engine.loaded(), cpu.engine.is_lazy());
        let before = record();
        let result = change();
        if record() != before {
            self.shared.writes.set(self.shared.writes.get() + 1);
            self.written()[self.here()].set(self.shared.writes.get());
        }
        result
    }

    fn written(&self) -> &[Cell<u64>] {
        self.shared.written.get_or_init(|| self.cpus.iter().map(|_| Cell::new(0)).collect())
    }

    /// The engine makes this CPU run `space`. Takes the time for the lines of the places that the CPU takes and gives
    /// up.
    pub(crate) fn switch_to(&self, space: &SpaceHandle<Sim>) {
        let engine = &self.cpu().engine;
        let taken = engine.counters().places_taken;
        let previous: Previous<_> = self.noting_record(|| self.memory().engine().switch_to(space));
        if engine.counters().places_taken > taken {
            self.write_lines(space.as_ref());
        }
        for left in previous.spaces() {
            self.write_lines(left.as_ref());
        }
    }

    /// This CPU writes its bit in the space's set and the count of references.
    fn write_lines(&self, space: &AddressSpace) {
        let mut spaces = self.shared.spaces.borrow_mut();
        let lines =
            spaces.entry(space.root().0).or_insert_with(|| SpaceLines::new(space.id(), self.cpus.len()));
        if lines.space < space.id() {
            *lines = SpaceLines::new(space.id(), self.cpus.len());
        }
        // No other CPU comes to the lines of a space that has ended and whose root is another's by now.
        if lines.space == space.id() {
            lines.set[self.here() / PER_LINE].fetch(self, 1);
            lines.count.fetch(self, 1);
        }
    }

    /// Takes the time for the looks at CPUs that this CPU has passed over since the last call.
    pub(crate) fn charge_looks(&self) {
        let here = self.here();
        let cpu = self.cpu();
        let passed_over = cpu.engine.counters().passed_over;
        let looks = passed_over - cpu.records.passed_over.replace(passed_over);
        if looks == 0 {
            return;
        }
        let since = cpu.records.looked.replace(self.shared.writes.get());
        let others = self.written().iter().enumerate().filter(|&(other, _)| other != here);
        let changed = others.filter(|(_, written)| written.get() > since);
        let transfers = changed.take(looks as usize).count() as u64;
        let mean = *cpu.records.mean.get_or_init(|| {
            let sum: Picoseconds = (0..self.cpus.len()).map(|other| self.between(here, other)).sum();
            sum / (self.cpus.len() as u64 - 1).max(1)
        });
        self.during(Doing::Flushes, || self.stall(transfers * mean));
    }
}

impl SpaceLines {
    fn new(space: SpaceId, cpus: usize) -> Self {
        let set = (0..cpus.div_ceil(PER_LINE)).map(|_| Line::new()).collect();
        Self { space, set, count: Line::new() }
    }
}

#[cfg(test)]
mod tests;
