//! Measures, without privileges, what the operations of this computer cost.
//!
//! Every figure is the median of many short rounds, with its quartiles ([`Quartiles`]). `computer` says which CPUs and
//! nodes there are, and each other module measures one part ([`Part`]). What cannot be measured is noted with the
//! reason ([`Failed`]), and the rest is measured all the same.

mod computer;
mod flush;
mod latency;
mod line;
mod mapping;
mod pages;
mod quartiles;
mod shootdown;
mod steps;
mod switch;
mod tlb;

use std::fmt;
use std::io;

pub use computer::{Computer, Distance};
pub use line::Line;
pub use quartiles::Quartiles;

/// A part of the calibration, which can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Cache lines between CPUs.
    Latency,
    /// System calls and context switches.
    Switch,
    /// Faults, zeroing and copying of pages.
    Fault,
    /// Invalidations on the own CPU.
    Flush,
    /// Flushes that interrupt other CPUs.
    Shootdown,
    /// Sizes and misses of the TLB.
    Tlb,
}

impl Part {
    /// All parts, in the order in which they are measured.
    pub const ALL: [Self; 6] =
        [Self::Latency, Self::Switch, Self::Fault, Self::Flush, Self::Shootdown, Self::Tlb];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Switch => "switch",
            Self::Fault => "fault",
            Self::Flush => "flush",
            Self::Shootdown => "shootdown",
            Self::Tlb => "tlb",
        }
    }
}

/// A measured quantity. Costs are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Half the round trip of a cache line between two CPUs.
    Latency {
        /// The CPU with the smaller number.
        a: u32,
        /// The other CPU.
        b: u32,
    },
    /// A system call that does nothing (getppid).
    SystemCall,
    /// A switch from one thread to another, which it wakes by a futex, without the system calls.
    ContextSwitch,
    /// Zeroing a page of 4 KiB that comes from memory, by a CPU of its node.
    Zero {
        /// The node.
        node: u32,
    },
    /// Copying a page of 4 KiB that comes from memory.
    Copy {
        /// The node of the source.
        from: u32,
        /// The node of the destination.
        to: u32,
    },
    /// A store to a page of 4 KiB that is not there, by a CPU of its node: the fault, the frame and its zeroing.
    Fault {
        /// The node.
        node: u32,
    },
    /// Invalidating one page in the own TLB.
    InvalidatePage,
    /// Invalidating everything in the own TLB.
    InvalidateAll,
    /// madvise(DONTNEED) of one page while threads of the program run on other CPUs.
    Advise {
        /// The number of other threads.
        threads: usize,
    },
    /// munmap of a mapping of one page while threads of the program run on other CPUs.
    Unmap {
        /// The number of other threads.
        threads: usize,
    },
    /// The time for which madvise(DONTNEED) of one page interrupts another thread.
    Interruption {
        /// The number of other threads.
        threads: usize,
    },
    /// Entries of the first-level TLB: the most pages that it holds, and the next size that was tried.
    FirstEntries,
    /// Entries of the second-level TLB.
    SecondEntries,
    /// What a load costs more if only the second level has its translation.
    SecondHit,
    /// What a load costs more if no level has its translation and the lowest page table is in a cache.
    Walk,
    /// What a load costs more if the lowest page table's line comes from memory, and the walker's caches have the rest.
    WalkMemory,
}

impl Quantity {
    /// The part to which it belongs.
    pub const fn part(self) -> Part {
        match self {
            Self::Latency { .. } => Part::Latency,
            Self::SystemCall | Self::ContextSwitch => Part::Switch,
            Self::Zero { .. } | Self::Copy { .. } | Self::Fault { .. } => Part::Fault,
            Self::InvalidatePage | Self::InvalidateAll => Part::Flush,
            Self::Advise { .. } | Self::Unmap { .. } | Self::Interruption { .. } => Part::Shootdown,
            Self::FirstEntries | Self::SecondEntries | Self::SecondHit | Self::Walk | Self::WalkMemory => {
                Part::Tlb
            }
        }
    }

    /// The unit.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::FirstEntries | Self::SecondEntries => "entries",
            _ => "ns",
        }
    }

    /// The quantity in a few words.
    pub fn name(self) -> String {
        let threads = |threads: usize| match threads {
            0 => "alone".to_owned(),
            1 => "beside 1 thread".to_owned(),
            more => format!("beside {more} threads"),
        };
        match self {
            Self::Latency { a, b } => format!("CPU {a} to CPU {b}"),
            Self::SystemCall => "system call (getppid)".into(),
            Self::ContextSwitch => "context switch (futex)".into(),
            Self::Zero { node } => format!("zero a page, node {node}"),
            Self::Copy { from, to } => format!("copy a page, node {from} to {to}"),
            Self::Fault { node } => format!("fault of a fresh page, node {node}"),
            Self::InvalidatePage => "invalidate one page".into(),
            Self::InvalidateAll => "invalidate everything".into(),
            Self::Advise { threads: n } => format!("madvise of a page, {}", threads(n)),
            Self::Unmap { threads: n } => format!("munmap of a page, {}", threads(n)),
            Self::Interruption { threads: n } => format!("interruption, {}", threads(n)),
            Self::FirstEntries => "first level".into(),
            Self::SecondEntries => "second level".into(),
            Self::SecondHit => "hit in the second level".into(),
            Self::Walk => "walk, entry in a cache".into(),
            Self::WalkMemory => "walk, entry from memory".into(),
        }
    }
}

/// A measured quantity with its value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The quantity.
    pub quantity: Quantity,
    /// Its value.
    pub spread: Quartiles,
}

/// A quantity that could not be measured, or not in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// The quantity, in words.
    pub what: String,
    /// The reason.
    pub why: String,
}

impl Failed {
    fn new(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self { what: what.into(), why: why.to_string() }
    }
}

/// The results of a calibration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Notes {
    /// What was measured, in the order of the parts.
    pub figures: Vec<Figure>,
    /// What could not be measured.
    pub missing: Vec<Failed>,
}

impl Notes {
    /// The value of a quantity.
    pub fn get(&self, quantity: Quantity) -> Option<Quartiles> {
        self.figures.iter().find(|figure| figure.quantity == quantity).map(|figure| figure.spread)
    }

    fn note(&mut self, quantity: Quantity, found: io::Result<Option<Quartiles>>) {
        match found {
            Ok(Some(spread)) => self.figures.push(Figure { quantity, spread }),
            Ok(None) => self.missing.push(Failed::new(quantity.name(), "no round was complete")),
            Err(error) => self.missing.push(Failed::new(quantity.name(), error)),
        }
    }
}

/// The size of a calibration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// The number of rounds of each measurement, if they do not take too long.
    pub rounds: usize,
    /// The memory that the program may use, in bytes. A calibration takes two sixteenths at
    /// a time, and at least 70 MiB.
    pub memory: u64,
}

/// Measures one part, and notes the results.
pub fn measure(part: Part, computer: &Computer, size: Size, notes: &mut Notes) {
    let Size { rounds, memory } = size;
    let done = match part {
        Part::Latency => latency::measure(computer, rounds, notes),
        Part::Switch => switch::measure(computer, rounds, notes),
        Part::Fault => {
            pages::measure(computer, (rounds, memory), notes);
            Ok(())
        }
        Part::Flush => flush::measure(computer, rounds, notes),
        Part::Shootdown => shootdown::measure(computer, rounds, notes),
        Part::Tlb => tlb::measure(computer, (rounds, memory), notes),
    };
    if let Err(failed) = done {
        notes.missing.push(failed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: u64 = 1 << 30;

    /// A part, measured with few rounds.
    fn tiny(part: Part) -> (Computer, Notes) {
        let computer = Computer::read().expect("Linux says which CPUs may be used");
        let mut notes = Notes::default();
        measure(part, &computer, Size { rounds: 5, memory: MEMORY }, &mut notes);
        for Figure { quantity, spread } in &notes.figures {
            assert_eq!(quantity.part(), part);
            assert!(spread.low <= spread.median && spread.median <= spread.high, "{quantity:?}: {spread:?}");
            assert!(spread.low >= 0.0 && spread.rounds > 0, "{quantity:?}: {spread:?}");
        }
        (computer, notes)
    }

    #[test]
    fn each_pair_of_cpus_has_a_latency() {
        let (computer, notes) = tiny(Part::Latency);
        let cpus = computer.cpus().count();
        if cpus == 1 {
            assert_eq!(notes.missing.len(), 1);
        } else if notes.missing.is_empty() {
            assert_eq!(notes.figures.len(), cpus * (cpus - 1) / 2);
            assert!(notes.figures.iter().all(|figure| figure.spread.median > 0.0));
        }
    }

    #[test]
    fn calls_and_switches_take_time() {
        let (_, notes) = tiny(Part::Switch);
        assert!(notes.get(Quantity::SystemCall).is_some_and(|spread| spread.median > 0.0), "{notes:?}");
        assert!(notes.get(Quantity::ContextSwitch).is_some() || !notes.missing.is_empty(), "{notes:?}");
    }

    #[test]
    fn each_node_is_zeroed_copied_and_faulted() {
        let (computer, notes) = tiny(Part::Fault);
        let count = computer.nodes().len().max(1);
        assert!(notes.figures.len() + notes.missing.len() >= count * count + 2, "{notes:?}");
        assert!(notes.figures.iter().all(|figure| figure.spread.median > 0.0), "{notes:?}");
    }

    #[test]
    fn invalidations_are_found_or_the_reason_is_said() {
        let (_, notes) = tiny(Part::Flush);
        assert_eq!(notes.figures.len(), if notes.missing.is_empty() { 2 } else { 0 }, "{notes:?}");
    }

    #[test]
    fn flushes_are_timed_alone_and_beside_others() {
        let (computer, notes) = tiny(Part::Shootdown);
        for quantity in [Quantity::Advise { threads: 0 }, Quantity::Unmap { threads: 0 }] {
            assert!(notes.get(quantity).is_some_and(|spread| spread.median > 0.0), "{notes:?}");
        }
        assert!(notes.get(Quantity::Interruption { threads: 0 }).is_none());
        if computer.cpus().count() == 1 {
            assert_eq!(notes.missing.len(), 1, "{notes:?}");
        }
    }

    #[test]
    fn the_levels_of_the_tlb_ascend_or_the_reason_is_said() {
        let (computer, notes) = tiny(Part::Tlb);
        let levels = [Quantity::FirstEntries, Quantity::SecondEntries].map(|quantity| notes.get(quantity));
        match levels {
            [Some(first), Some(second)] => assert!(first.median < second.median, "{notes:?}"),
            _ => assert!(!notes.missing.is_empty(), "{notes:?}"),
        }
        let walk = Quantity::WalkMemory;
        let said = notes.missing.iter().any(|failed| failed.what == walk.name());
        // What replaces the lines of large caches does not fit into a sixteenth of this memory.
        let fits = tlb::eviction(computer.cache(), MEMORY).is_some();
        assert_eq!((notes.get(walk).is_some(), said), (fits, !fits), "{notes:?}");
    }

    #[test]
    fn every_part_has_a_name_of_its_own() {
        let mut names = Part::ALL.map(Part::name).to_vec();
        names.dedup();
        assert_eq!(names.len(), Part::ALL.len());
        assert!(Part::ALL.is_sorted());
    }
}
