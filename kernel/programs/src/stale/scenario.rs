//! What makes a scenario.

use ceasefire_kernel_abi::Error;

use super::law::Law;
use super::placement::{GUEST, OPERATOR};
use super::site::Site;
use crate::call::Protection;
use crate::machine::Machine;

/// Maps a scenario's region into another process.
pub(super) type Attach = fn(&Site) -> Result<(), Error>;

/// One way to change translations under the feet of other CPUs.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Where its operator is, and its readers but for guests.
    pub(super) process: Process,
    /// Whether the region is larger than one page table translates, if there is memory for that.
    pub(super) large: bool,
    /// What the operator brings about, one after the other.
    pub(super) phases: &'static [Phase],
    /// What that does to contents.
    pub(super) law: Law,
    /// Whether the machine has what it takes.
    pub(super) possible: fn(&Machine) -> bool,
    /// Makes the region. May be called again if it failed.
    pub(super) prepare: fn(&mut Site) -> Result<(), Error>,
    /// Maps the region into the guests' process too: every other reader is there.
    pub(super) attach: Option<Attach>,
    /// Brings about the phase of that number. May be called again if it failed.
    pub(super) step: fn(&Site, usize) -> Result<(), Error>,
}

impl Scenario {
    /// The process in which a slot's thread is.
    pub(super) fn process_of(&self, slot: usize) -> Process {
        let guest = slot != OPERATOR && slot.is_multiple_of(GUEST);
        if self.attach.is_some() && guest {
            Process::Guest
        } else {
            self.process
        }
    }
}

/// What holds in a stable state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phase {
    /// At which of the two places the region is.
    pub(super) place: usize,
    /// What it may be used for.
    pub(super) allowed: Protection,
    /// Whether readers try to store, allowed or not. A store that is refused faults, and a processor drops its translation
    /// then: where that is to grow old, readers load alone.
    pub(super) stores: bool,
    /// The place where nothing is, if that is to be seen to.
    pub(super) empty: Option<usize>,
}

impl Phase {
    /// It can be used.
    pub(super) const USED: Self = Self { place: 0, allowed: Protection::All, stores: true, empty: None };
    /// It can be loaded from.
    pub(super) const LOADS: Self = Self { allowed: Protection::Loads, ..Self::USED };
    /// It is loaded from, and nothing else is tried.
    pub(super) const LOADED: Self = Self { stores: false, ..Self::LOADS };
    /// It cannot be used.
    pub(super) const GONE: Self = Self { allowed: Protection::Nothing, ..Self::USED };
}

/// Processes. A scenario has one of its own if others could spoil it, or it them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Process {
    /// Most.
    Home,
    /// Maps regions of others too.
    Guest,
    /// In which nobody else maps anything.
    Alone,
    /// With the regions of which each pass takes many faults: these wait for whoever changes the space, so few do here.
    Faulting,
    /// Whose pages are taken from under their readers, one by one.
    Moving,
    /// In which one file takes another's place: that waits for whoever faults, so nobody else may.
    Replacing,
    /// Which is copied again and again.
    Forking,
    /// Which uses more memory than there is.
    Greedy,
}

impl Process {
    /// All but the first.
    pub(super) const OTHERS: [Self; 7] = [
        Self::Guest,
        Self::Alone,
        Self::Faulting,
        Self::Moving,
        Self::Replacing,
        Self::Forking,
        Self::Greedy,
    ];
}

/// On every machine.
pub(super) fn always(_: &Machine) -> bool {
    true
}
