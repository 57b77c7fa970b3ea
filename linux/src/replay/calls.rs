//! Programs that would give pages back in another way.

use foldhash::HashMap;

use crate::recording::Row;
use crate::replay::decay::Decay;
use crate::replay::gathered::Gathered;
use crate::replay::steps::Flush;
use crate::shootdowns::Cause;

/// How programs make the calls that give memory back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Calls {
    /// As they did.
    #[default]
    Recorded,
    /// So many calls of munmap or madvise of a process are flushed together.
    Together(u64),
    /// The calls of madvise that a thread makes back to back are one call of `process_madvise`.
    ProcessMadvise,
    /// A call of madvise is made so many nanoseconds later, and not at all for pages that are used again before.
    Later(u64),
}

impl Calls {
    /// Whether a call waits until an event ends its wait.
    pub(super) fn wait(self) -> bool {
        matches!(self, Self::ProcessMadvise | Self::Later(_))
    }
}

/// The calls that wait.
#[derive(Debug)]
pub(super) enum Waiting {
    None,
    Together { most: u64, counts: HashMap<u32, u64> },
    ProcessMadvise(Gathered),
    Later(Decay),
}

impl Waiting {
    pub(super) fn new(calls: Calls) -> Self {
        match calls {
            Calls::Recorded => Self::None,
            Calls::Together(most) => Self::Together { most, counts: HashMap::default() },
            Calls::ProcessMadvise => Self::ProcessMadvise(Gathered::default()),
            Calls::Later(ns) => Self::Later(Decay::new(ns)),
        }
    }

    /// Learns from an event, before its effects. Returns the flushes that come first.
    pub(super) fn learn(&mut self, row: &Row) -> Vec<Flush> {
        match self {
            Self::None | Self::Together { .. } => Vec::new(),
            Self::ProcessMadvise(gathered) => gathered.learn(row),
            Self::Later(decay) => decay.learn(row),
        }
    }

    /// A program flushes. Returns the flush that is done now, if any is.
    pub(super) fn flush(&mut self, flush: Flush) -> Option<Flush> {
        match self {
            Self::None => Some(flush),
            Self::Together { most, counts } => {
                if !matches!(flush.cause, Cause::Munmap | Cause::Madvise) {
                    return Some(flush);
                }
                let count = counts.entry(flush.process).or_default();
                *count += 1;
                if *count < *most {
                    return None;
                }
                *count = 0;
                // They lie apart, as far as is known.
                Some(Flush { pages: None, ..flush })
            }
            Self::ProcessMadvise(gathered) => gathered.flush(flush),
            Self::Later(decay) => decay.flush(flush),
        }
    }

    /// A process ends, and its pages with it.
    pub(super) fn ends(&mut self, process: u32) {
        match self {
            Self::None => {}
            Self::Together { counts, .. } => {
                counts.remove(&process);
            }
            Self::ProcessMadvise(gathered) => gathered.ends(process),
            Self::Later(decay) => decay.ends(process),
        }
    }

    /// The recording ends. Returns the flushes that are still to come: in the recording there are as few of the time
    /// before it.
    pub(super) fn finish(&mut self) -> Vec<Flush> {
        match self {
            Self::None | Self::Together { .. } => Vec::new(),
            Self::ProcessMadvise(gathered) => gathered.finish(),
            Self::Later(decay) => decay.finish(),
        }
    }

    /// The most pages that waited to be given back at one time.
    pub(super) fn most_pages(&self) -> u64 {
        match self {
            Self::Later(decay) => decay.most_pages(),
            _ => 0,
        }
    }
}
