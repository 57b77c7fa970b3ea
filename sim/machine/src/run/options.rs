//! The options of a run.

use std::fmt;

use ceasefire::{Payment, Schedule, LOOK_EVERY, WIDE};
use ceasefire_memory::Config;

use crate::config::Picoseconds;
use crate::measure::trace::TraceOutput;

/// Linux's default, `CONFIG_HZ=250`: 4 ms.
const TICK: Picoseconds = 4_000_000_000;

/// The options of a run.
// Each is an independent switch.
#[allow(clippy::struct_excessive_bools)]
pub struct Options {
    /// The schedule of flushes for the kernel's own unmaps.
    pub schedule: Schedule,
    /// Whether the kernel turns the processor's broadcasts on, if the processor has ASIDs. Without this, only a
    /// processor whose file says that its kernel always broadcasts does so
    /// ([`Processor::broadcast_asids`](crate::config::Processor::broadcast_asids)).
    pub broadcast: bool,
    /// The number of flushes of a space between two checks of whether it deserves a global ASID, if the kernel turns
    /// broadcasts on; 0 for no checks.
    pub look_every: u64,
    /// The number of CPUs that must run the space then to give it one.
    pub wide: u32,
    /// Whether the oracle checks the run. Without it a run is faster and reports no violation.
    pub oracle: bool,
    /// Whether the memory manager's own [shadow record](ceasefire_memory::shadow) also checks the run. By default it
    /// is on in builds with debug assertions. It takes no simulated time.
    pub shadow: bool,
    /// Whether pages keep their bytes, in frames and on devices. Without them, loads return zeros, and a run needs
    /// far less of the host's memory.
    pub contents: bool,
    /// How far, in picoseconds, a CPU may run ahead of the one that is furthest behind before that one goes on. 0, the
    /// default, is exact. A larger value saves switches between CPUs, but they come to locks in another order: with
    /// 465 ns the loops a second of `tlb-flush2` differ by up to 12%.
    pub slack: Picoseconds,
    /// The way in which the debts of [`Schedule::Lazy`] are settled.
    pub payment: Payment,
    /// The seed of the hardware's own choices: the fills of a machine that speculates
    /// ([`Processor::speculate`](crate::config::Processor::speculate)).
    pub seed: u64,
    /// The period, in picoseconds, of the timer of a CPU that runs threads; 0 for no ticks.
    pub tick: Picoseconds,
    /// Changes the memory manager's setup before it starts. It must keep the machine's nodes and frame numbers.
    pub configure: Box<dyn FnOnce(&mut Config)>,
    /// The output for the trace of each flush and each interrupt.
    pub trace: Option<TraceOutput>,
}

impl Options {
    /// Linux's choices, with the oracle, and without contents or a trace.
    pub fn new(schedule: Schedule) -> Self {
        Self {
            schedule,
            broadcast: false,
            look_every: LOOK_EVERY,
            wide: WIDE,
            oracle: true,
            shadow: cfg!(debug_assertions),
            contents: false,
            slack: 0,
            payment: Payment::Free,
            seed: 1,
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
            .field("seed", &self.seed)
            .field("tick", &self.tick)
            .finish_non_exhaustive()
    }
}
