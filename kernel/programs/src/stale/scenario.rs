//! The description of a scenario.

use ceasefire_kernel_abi::Error;

use super::law::Law;
use super::placement::{GUEST, OPERATOR};
use super::region::Region;
use super::site::Site;
use crate::call::Protection;
use crate::machine::Machine;

/// Maps a scenario's region into another process.
pub(super) type Attach = fn(&Site) -> Result<(), Error>;

/// One way to change translations while other CPUs use them.
#[derive(Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// The process of its operator and of its readers, except guests.
    pub(super) process: Process,
    /// What it changes.
    pub(super) region: Region,
    /// The phases that the operator goes through, one after the other.
    pub(super) phases: &'static [Phase],
    /// The effect of its operations on contents.
    pub(super) law: Law,
    /// Whether the machine is large enough for the scenario.
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

/// The valid accesses in a stable state.
#[derive(Debug, Clone, Copy)]
pub(super) struct Phase {
    /// Which of the two places holds the region.
    pub(super) place: usize,
    /// The accesses that it allows.
    pub(super) allowed: Protection,
    /// Whether readers try to store, allowed or not. A refused store faults, and a processor drops its translation
    /// then. Where translations must grow old, readers only load.
    pub(super) stores: bool,
    /// The place that must be empty, if any.
    pub(super) empty: Option<usize>,
}

impl Phase {
    /// All accesses are allowed.
    pub(super) const USED: Self = Self { place: 0, allowed: Protection::All, stores: true, empty: None };
    /// Loads are allowed.
    pub(super) const LOADS: Self = Self { allowed: Protection::Loads, ..Self::USED };
    /// Loads are allowed, and stores are not tried.
    pub(super) const LOADED: Self = Self { stores: false, ..Self::LOADS };
    /// No access is allowed.
    pub(super) const GONE: Self = Self { allowed: Protection::Nothing, ..Self::USED };
}

/// Processes. A scenario has a process of its own if other scenarios could spoil it, or it them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Process {
    /// For most scenarios.
    Home,
    /// Maps regions of other processes too.
    Guest,
    /// No other scenario maps anything in it.
    Alone,
    /// Each pass over its regions takes many faults. Faults wait for changes of the space, so few scenarios change it.
    Faulting,
    /// Its pages are taken from under their readers, one by one.
    Moving,
    /// One file takes another's place in it. That waits for faults of other threads, so it has no other scenario.
    Replacing,
    /// It is copied again and again.
    Forking,
    /// It uses more memory than there is.
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
