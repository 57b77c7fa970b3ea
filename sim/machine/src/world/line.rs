//! A cache line that several CPUs write.
//!
//! Only one CPU has the line at a time. A CPU that wants it waits for the CPUs that came to it before, and then for the
//! transfer from the last of them, at the machine's latency for the pair.

use std::cell::Cell;

use crate::config::Picoseconds;
use crate::world::state::World;

/// A shared line: the CPU that has it, and the time from which others can get it.
#[derive(Debug)]
pub(crate) struct Line {
    /// [`NOWHERE`] before the first CPU comes to it.
    last: Cell<usize>,
    free_at: Cell<Picoseconds>,
}

/// In place of the CPU that has a line which no CPU has touched.
const NOWHERE: usize = usize::MAX;

impl Line {
    /// A line that no CPU has touched. The first transfer takes no time.
    pub(crate) const fn new() -> Self {
        Self { last: Cell::new(NOWHERE), free_at: Cell::new(0) }
    }

    /// Brings the line to the CPU whose turn it is, after all other CPUs that came to it. If there were any, the line
    /// moves once for each of the `touches`. Returns the time of one transfer.
    #[inline]
    pub(crate) fn fetch(&self, world: &World, touches: u32) -> Picoseconds {
        if self.last.get() == world.here() {
            return 0;
        }
        self.fetch_from_another(world, touches)
    }

    fn fetch_from_another(&self, world: &World, touches: u32) -> Picoseconds {
        let index = world.here();
        let last = self.last.replace(index);
        let transfer = if last == NOWHERE { 0 } else { world.between(last, index) };
        let (now, free_at) = (world.cpu().clock.get(), self.free_at.get());
        let queued = free_at.saturating_sub(now);
        world.stall(queued + transfer * u64::from(if queued > 0 { touches } else { 1 }));
        self.free_at.set(world.cpu().clock.get());
        transfer
    }

    /// The line has gone to a CPU, at the cost of another.
    pub(crate) fn moved_to(&self, cpu: usize) {
        self.last.set(cpu);
    }
}
