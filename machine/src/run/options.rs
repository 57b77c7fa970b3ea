//! How a machine is run.

use std::fmt;
use std::io::Write;

use ceasefire::{Schedule, Settle, LOOK_EVERY, WIDE};
use ceasefire_memory::Config;

use crate::config::Picoseconds;

/// The most that a CPU runs ahead of the others unless told otherwise.
pub(super) const MOST_SLACK: Picoseconds = 2_000_000;

/// Linux's default, `CONFIG_HZ=250`: 4 ms.
const TICK: Picoseconds = 4_000_000_000;

/// How a machine is run.
// Each is a switch of its own.
#[allow(clippy::struct_excessive_bools)]
pub struct Options {
    /// When the kernel's own unmaps are flushed.
    pub schedule: Schedule,
    /// Whether the kernel turns the processor's broadcasts on, where it has ASIDs. Without it only a processor broadcasts whose
    /// file says that its kernel always does ([`Processor::broadcast_asids`](crate::config::Processor::broadcast_asids)).
    pub broadcast: bool,
    /// After how many flushes of a space somebody looks whether it deserves a global ASID, where the kernel turns broadcasts
    /// on; 0 for never.
    pub look_every: u64,
    /// How many CPUs have to run it then to get one.
    pub wide: u32,
    /// Whether the oracle watches. Without it a run is faster and reports no violation whatever happens.
    pub oracle: bool,
    /// Whether the memory manager's own [shadow record](ceasefire_memory::shadow) watches too. On in builds with debug
    /// assertions unless told otherwise; it takes no simulated time.
    pub shadow: bool,
    /// Whether pages keep their bytes, in frames and on devices. Without, loads give zeros, and a run needs far less of
    /// the host's memory.
    pub contents: bool,
    /// How far, in picoseconds, a CPU may run ahead of the one that is furthest behind before that one goes on. 0 is
    /// exact; more saves switches between them. `None`: as long as an interrupt takes at least, since nothing else of
    /// what another CPU does reaches this one by itself, but at most 2 us, so that the order in which CPUs come to a
    /// lock stays right to within that.
    pub slack: Option<Picoseconds>,
    /// What settles the debts of [`Schedule::Lazy`].
    pub settle: Settle,
    /// How often, in picoseconds, the timer of a CPU that runs threads ticks; 0 for never.
    pub tick: Picoseconds,
    /// Changes the memory manager's setup before it starts. Nodes and frame numbers stay as the machine has them.
    pub configure: Box<dyn FnOnce(&mut Config)>,
    /// Where each flush and interrupt is written, one line each.
    pub trace: Option<Box<dyn Write>>,
}

impl Options {
    /// The oracle on, no contents, no trace, Linux's choices.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            broadcast: false,
            look_every: LOOK_EVERY,
            wide: WIDE,
            oracle: true,
            shadow: cfg!(debug_assertions),
            contents: false,
            slack: None,
            settle: Settle::Free,
            tick: TICK,
            configure: Box::new(|_| {}),
            trace: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("schedule", &self.schedule)
            .field("broadcast", &self.broadcast)
            .field("look_every", &self.look_every)
            .field("wide", &self.wide)
            .field("oracle", &self.oracle)
            .field("shadow", &self.shadow)
            .field("contents", &self.contents)
            .field("slack", &self.slack)
            .field("tick", &self.tick)
            .finish_non_exhaustive()
    }
}
