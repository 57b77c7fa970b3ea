//! The rules, and how it is told that one was broken.

use std::fmt;

/// A rule of TLB coherence that the machine can see broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// R1 frame: no CPU can reach a frame through an entry from before the frame's last free.
    Frame,
    /// R2 table: no walker can read a page-table page after it was freed.
    Table,
    /// R3 return: once an operation that takes translations or rights away returned, no CPU uses the old translation.
    Return,
    /// R4 tag: an entry found under an ASID was filled by that ASID's present owner.
    Tag,
    /// R5 clean: no store lands in a page after it was declared clean or its write-out began.
    Clean,
    /// R6 one version: no CPU reads an old copy once any CPU could have seen a newer one of the same page.
    OneVersion,
    /// R7 one translation: no two CPUs see different frames at one address. The same frame with other rights is no break.
    OneTranslation,
    /// R8 bounded: no debt is older than its greatest age and a tick.
    Bounded,
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
        }
    }
}

/// A rule seen broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub rule: Rule,
    /// On which CPU the entry was.
    pub cpu: u16,
    /// When, in nanoseconds of simulated time.
    pub time_ns: u64,
    /// At which address, if the entry had one.
    pub address: Option<u64>,
    /// Which frame it led to.
    pub frame: u32,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, cpu, time_ns, address, frame } = self;
        write!(f, "{} broken at {time_ns} ns: CPU {cpu} can still reach frame {frame:#x}", rule.name())?;
        address.map_or(Ok(()), |address| write!(f, " at {address:#x}"))
    }
}
