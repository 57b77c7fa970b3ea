//! The rules that always hold, as DESIGN and the book number them.

use std::fmt;

/// A rule of coherence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Rule {
    /// No CPU reaches a frame through an entry from before the frame was last freed.
    R1,
    /// No walker reads a page-table page after it was freed.
    R2,
    /// Once munmap, mprotect, mremap or madvise returned, no CPU uses the old translation.
    R3,
    /// An entry found under an ASID was filled by that ASID's present owner.
    R4,
    /// No store lands in a page after it was declared clean.
    R5,
    /// No CPU reads an old copy once any CPU could have seen a newer one.
    R6,
    /// No CPU holds two different translations of one address in use, nor an old one beside a new one that is visible.
    R7,
    /// No debt is older or larger than its bound.
    R8,
    /// No allocation in atomic context waits for a flush.
    R9,
    /// A load reads a word that a program may see: one that was stored there, and that no later store has replaced.
    Words,
    /// Every operation ends, and no assertion of the code fails.
    Ends,
}

impl Rule {
    /// The rule in a few words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::R1 => "a freed frame was reached",
            Self::R2 => "a freed table was walked",
            Self::R3 => "a translation was used after the call that took it away had returned",
            Self::R4 => "an entry of another space was used",
            Self::R5 => "a store landed in a page that was declared clean",
            Self::R6 => "an old copy of a page was read",
            Self::R7 => "an old translation was used beside a new one",
            Self::R8 => "a debt went past its bound",
            Self::R9 => "an atomic allocation waited",
            Self::Words => "a load read what it may not see",
            Self::Ends => "an operation failed or did not end",
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words => write!(f, "words"),
            Self::Ends => write!(f, "ends"),
            other => write!(f, "{other:?}"),
        }
    }
}
