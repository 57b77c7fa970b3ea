//! Tracing of the running kernel, as recordings and live views begin it.
//!
//! `merge` orders the events of all CPUs by time, `overhead` says what tracing costs, and `switch` turns it off and on.

mod merge;
pub(crate) mod overhead;
mod switch;

use rustix::thread::ClockId;

use crate::events::{Decoder, Level, Lookup, Spelled as _, Work};
use crate::kernel::machine;
use crate::kernel::symbols::Symbols;
use crate::kernel::threads::Threads;
use crate::recording::{Count, Facts};
use crate::tracefs::{Instance, Layout, Stream, Tracefs, Unavailable};

pub(crate) use merge::{Merge, Pages};
pub(crate) use switch::Switch;

/// The largest part of the memory that all buffers take, and the largest buffer of one CPU.
const BUFFERS_PART: u64 = 32;
const BUFFER_KIB: u64 = 32 << 10;

/// The events that come with the kernel's functions, if these are recorded.
const WITH_STACKS: [&str; 3] = ["csd:csd_queue_cpu", "tlb:tlb_flush", "lock:contention_begin"];

/// Tracing that has begun. It ends when the instance is dropped, after the streams.
pub(crate) struct Tracing {
    /// The records of each CPU.
    pub(crate) streams: Vec<Stream>,
    /// Their buffers.
    pub(crate) instance: Instance,
    /// Their reader.
    pub(crate) decoder: Decoder,
    /// The layout of their pages.
    pub(crate) layout: Layout,
    /// The names to which they refer.
    pub(crate) lookup: Lookup,
    /// The threads at the beginning.
    pub(crate) threads: Threads,
    /// The machine, the events, and how interrupts are counted.
    pub(crate) facts: Facts,
}

impl Tracing {
    /// Begins to trace the events of a level, with the kernel functions that led to each interrupt and to each wait for
    /// a lock if `stacks`.
    pub(crate) fn begin(level: Level, stacks: bool) -> Result<Self, Unavailable> {
        let tracefs = Tracefs::find()?;
        let (decoder, wanted) = Decoder::of_kernel(&tracefs, level)?;
        let layout = tracefs.layout()?;
        let mut lookup = Lookup::new(Symbols::of_kernel().unwrap_or_default());
        let counted =
            if wanted.iter().any(|wanted| wanted.of_flushes) { Count::Sent } else { Count::Flushed };
        if counted == Count::Sent && lookup.symbols.is_empty() {
            return Err(Unavailable::NoSymbols);
        }
        let facts = Facts {
            light: level == Level::Light,
            events: wanted.iter().map(|wanted| wanted.name.clone()).collect(),
            counted,
            ..machine::facts()
        };
        let instance = tracefs.instance()?;
        // The clock of the events is that of `now_ns`.
        instance.set("trace_clock", "mono")?;
        let cpus = facts.cpus.len().max(1) as u64;
        let kib = (facts.memory_bytes / 1024 / BUFFERS_PART / cpus).clamp(1024, BUFFER_KIB);
        instance.set("buffer_size_kb", &kib.to_string())?;
        // Names of threads come from events of our own.
        let _ = instance.set("options/record-cmd", "0");
        let known = Work::WORDS.iter().filter_map(|(_, name)| lookup.symbols.address(name));
        let known: Vec<String> = known.map(|address| format!("func == {address:#x}")).collect();
        let of_flushes = format!("csd != 0 && ({})", known.join(" || "));
        for wanted in &wanted {
            let folder = format!("events/{}", wanted.folder);
            let filter = if wanted.of_flushes { Some(&of_flushes) } else { wanted.filter.as_ref() };
            if let Some(filter) = filter {
                instance.set(&format!("{folder}/filter"), filter)?;
            }
            if stacks && WITH_STACKS.contains(&wanted.name.as_str()) {
                instance.set(&format!("{folder}/trigger"), "stacktrace")?;
            }
            instance.set(&format!("{folder}/enable"), "1")?;
        }
        let streams = instance.streams()?;
        // Events tell of the threads that begin from now on.
        let threads = Threads::of_kernel(&mut lookup.names);
        Ok(Self { streams, instance, decoder, layout, lookup, threads, facts })
    }
}

/// The time on the kernel's monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
