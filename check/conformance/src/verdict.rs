//! What a scenario found.

use core::fmt;

use crate::kernel::{Ability, Failed};
use crate::word::POISON;

/// The end of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No CPU used what was taken away.
    Passed {
        /// Accesses whose result was checked.
        accesses: u64,
    },
    /// A CPU did.
    Broken(Finding),
    /// The kernel could not do its part.
    Failed(Failed),
    /// The kernel lacks something that the scenario needs.
    Lacks(Ability),
    /// Nothing was found, but the kernel gave each of its ranges other addresses: none was used again.
    Untried,
}

/// A use of something that was taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finding {
    /// The CPU that made the access.
    pub cpu: usize,
    /// The page, or the address of a range of the kernel.
    pub place: u64,
    /// What was wrong.
    pub broken: Broken,
}

/// What was wrong with an access. Versions of all pages are counted together: each mapping of a frame has the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// It loaded a version that had been taken away before the access began.
    Stale {
        /// The version.
        loaded: u64,
        /// The first that it might have loaded.
        least: u64,
    },
    /// It loaded a word that was never in the page.
    Foreign {
        /// The word.
        loaded: u64,
    },
    /// It was not possible, although the page was mapped all the time.
    Missing,
    /// It stored, after the right to store was taken away and before the access began.
    Stored,
}

impl fmt::Display for Verdict {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed { accesses } => write!(formatter, "passed ({accesses} accesses)"),
            Self::Broken(finding) => write!(formatter, "BROKEN: {finding}"),
            Self::Failed(Failed::NoMemory) => write!(formatter, "could not run: the kernel has no memory"),
            Self::Failed(Failed::Error(number)) => {
                write!(formatter, "could not run: error {number} of the kernel")
            }
            Self::Lacks(ability) => write!(formatter, "left out: the kernel lacks {ability:?}"),
            Self::Untried => write!(formatter, "untried: no address of the kernel was used again"),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, place, broken } = self;
        match broken {
            Broken::Stale { loaded, least } => write!(
                formatter,
                "CPU {cpu} loaded version {loaded} at {place:#x}, where version {} was already taken away",
                least - 1
            ),
            Broken::Foreign { loaded: POISON } => {
                write!(formatter, "CPU {cpu} loaded at {place:#x} from a frame or by a table that was freed")
            }
            Broken::Foreign { loaded } => {
                write!(formatter, "CPU {cpu} loaded {loaded:#x} at {place:#x}, which was never there")
            }
            Broken::Missing => write!(formatter, "CPU {cpu} could not access {place:#x}, which is mapped"),
            Broken::Stored => {
                write!(formatter, "CPU {cpu} stored to {place:#x} after the right to do so was taken away")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::ToString;

    use super::*;

    #[test]
    fn a_finding_is_a_sentence() {
        let finding = |broken| Verdict::Broken(Finding { cpu: 2, place: 7, broken }).to_string();
        assert_eq!(
            finding(Broken::Stale { loaded: 4, least: 6 }),
            "BROKEN: CPU 2 loaded version 4 at 0x7, where version 5 was already taken away"
        );
        assert!(finding(Broken::Foreign { loaded: POISON }).ends_with("that was freed"));
        assert!(finding(Broken::Foreign { loaded: 9 }).contains("0x9"));
    }
}
