//! The events of a trace, and their writer.

use std::io;

use ceasefire::FlushEvent;

use crate::config::Picoseconds;

/// The part of a CPU's work to which a flush belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Programs, the kernel's threads, and switches between them.
    Flushes,
    /// Handlers of interrupts and ticks. Work of the other lane may have run ahead of them.
    Interrupts,
}

/// An event of one CPU.
#[derive(Debug)]
pub(super) enum Event {
    /// It asks others to flush, by these interrupts.
    Asks(FlushEvent, Vec<u64>),
    /// The last answer arrives.
    Answered,
    /// It begins a flush of its own TLB, or waits for its broadcasts.
    Flushes(Lane, FlushEvent),
    /// It ends that flush.
    Flushed(Lane, FlushEvent),
    /// It takes an interrupt: these, if several arrived in one.
    Interrupted(Vec<u64>),
    /// It returns from the interrupt.
    Returns,
}

/// An event with its time.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) time: Picoseconds,
    pub(super) cpu: usize,
    pub(super) event: Event,
}

/// A format of the trace. It gets the records in the order of their times.
pub(super) trait Format {
    /// A run begins.
    fn begin(&mut self, time: Picoseconds) -> io::Result<()>;

    /// An event of the run.
    fn record(&mut self, record: &Record) -> io::Result<()>;

    /// The run has ended. Nothing stays in a buffer.
    fn end(&mut self, time: Picoseconds) -> io::Result<()>;
}
