//! The rules, and the report of a broken one.

use std::fmt;

/// A rule of TLB coherence that the oracle checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// R1 frame: no CPU can reach a frame through an entry from before the frame's last free.
    Frame,
    /// R2 table: no walker can read a page-table page after it was freed.
    Table,
    /// R3 return: once an operation that removes translations or rights has returned, no CPU uses the old
    /// translation.
    Return,
    /// R4 tag: an entry found under an ASID was filled by that ASID's present owner.
    Tag,
    /// R5 clean: no store lands in a page after it was declared clean or its write-out began.
    Clean,
    /// R6 one version: no CPU reads an old copy of a page once any CPU could have seen a newer one.
    OneVersion,
    /// R7 one translation: no two CPUs see different frames at one address. Different rights to the same frame do not
    /// break it.
    OneTranslation,
    /// R8 bounded: no debt is older than its maximum age and one tick, and no more frames of a node are in debt than
    /// its bound and the batches under way allow.
    Bounded,
    /// R9 no wait where none is allowed: no CPU waits for others with interrupts off, or during an allocation that must not
    /// wait.
    NoWait,
}

impl Rule {
    /// The short name that messages use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frame => "R1",
            Self::Table => "R2",
            Self::Return => "R3",
            Self::Tag => "R4",
            Self::Clean => "R5",
            Self::OneVersion => "R6",
            Self::OneTranslation => "R7",
            Self::Bounded => "R8",
            Self::NoWait => "R9",
        }
    }
}

/// A rule that the oracle found broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The rule.
    pub rule: Rule,
    /// The CPU that held the entry, or that waited.
    pub cpu: u16,
    /// The moment, in nanoseconds of simulated time.
    pub time_ns: u64,
    /// The address, if the entry had one.
    pub address: Option<u64>,
    /// The frame to which the entry led; 0 for R9.
    pub frame: u32,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, cpu, time_ns, address, frame } = self;
        if *rule == Rule::NoWait {
            return write!(f, "R9 broken at {time_ns} ns: CPU {cpu} waits for others where it must not");
        }
        write!(f, "{} broken at {time_ns} ns: CPU {cpu} can still reach frame {frame:#x}", rule.name())?;
        address.map_or(Ok(()), |address| write!(f, " at {address:#x}"))
    }
}
