//! A scenario: a known bug as a program for a few CPUs, the guard that excludes it, and the rule that breaks without.

use ceasefire::{Bounds, Broadcast, Capabilities, Errata, Holders, Payment, Schedule, Walkers};
use ceasefire_memory::{Config, Lazy};

use crate::hardware::TICK;
use crate::model::removed::Removed;
use crate::model::rule::Rule;
use crate::subject::kernel::Kernel;
use crate::subject::manager::Manager;

/// How flushes are carried on the scenario's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    /// By interrupts, with ASIDs.
    Interrupts,
    /// By interrupts; every switch flushes.
    NoAsids,
    /// By broadcasts for every space (Arm).
    Broadcasts,
    /// By broadcasts for spaces that many CPUs run, by interrupts for others (x86).
    Both,
    /// By broadcasts, on hardware whose entries carry no ASIDs.
    Untagged,
}

/// A program of one CPU, or of the device.
pub(crate) type Program = fn(&Kernel);

/// A known bug, as a schedule that can be searched for.
#[derive(Debug, Clone, Copy)]
pub struct Scenario {
    /// Its name: the entry of the record of bugs, and a few words.
    pub name: &'static str,
    /// Where the bug was: the system, and the fix.
    pub source: &'static str,
    /// What excludes it, and the rules of which one breaks without. Where two guards exclude it, both are taken away.
    pub guards: &'static [(&'static [Removed], &'static [Rule])],
    pub(crate) carried: Carried,
    pub(crate) lazy: bool,
    pub(crate) elsewhere: bool,
    pub(crate) walkers: Walkers,
    pub(crate) errata: Errata,
    pub(crate) unmasked: bool,
    pub(crate) devices: usize,
    /// Runs before the CPUs start, as CPU 0.
    pub(crate) before: Program,
    /// One program for each CPU, and then one for the device.
    pub(crate) programs: &'static [Program],
    /// The memory manager in place of the small kernel.
    pub(crate) manager: Option<Managing>,
}

/// A program of one CPU on the memory manager.
pub(crate) type ManagedProgram = fn(&Manager);

/// What runs on the memory manager.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Managing {
    pub(crate) config: fn() -> Config,
    /// Runs before the CPUs start, as CPU 0.
    pub(crate) before: ManagedProgram,
    /// One program for each CPU.
    pub(crate) programs: &'static [ManagedProgram],
}

/// A scenario on CPUs that interrupt each other, with no device.
pub(crate) const PLAIN: Scenario = Scenario {
    name: "",
    source: "",
    guards: &[],
    carried: Carried::Interrupts,
    lazy: false,
    elsewhere: false,
    walkers: Walkers::Locked,
    errata: Errata::NONE,
    unmasked: false,
    devices: 0,
    before: |_| (),
    programs: &[],
    manager: None,
};

/// The age that debts may reach in a lazy scenario, in nanoseconds.
const AGE: u64 = 2 * TICK;

impl Scenario {
    pub(super) fn capabilities(&self) -> Capabilities {
        let every = Broadcast::new(9, 2, Holders::Every).ok();
        let wide = Broadcast::new(9, 2, Holders::Wide).ok();
        let (asids, broadcast) = match self.carried {
            Carried::Interrupts => (true, None),
            Carried::NoAsids => (false, None),
            Carried::Broadcasts => (true, every),
            Carried::Both => (true, wide),
            Carried::Untagged => (false, every),
        };
        let broadcast = broadcast.map(|broadcast| broadcast.with_errata(self.errata));
        Capabilities { clean_stores_walk: true, asids, broadcast, walkers: self.walkers }
    }

    pub(super) fn cpus(&self) -> usize {
        self.manager.map_or(self.programs.len() - self.devices, |managing| managing.programs.len())
    }

    pub(super) fn bounds(&self) -> Bounds {
        if self.lazy {
            Bounds::new(AGE, TICK, Payment::Free).unwrap_or(Bounds::STRICT)
        } else {
            Bounds::STRICT
        }
    }
}

impl Managing {
    /// The configuration for so many CPUs. With `lazy`, debts wait.
    pub(super) fn configure(&self, cpus: usize, lazy: bool) -> Config {
        let mut config = (self.config)();
        config.cpus = cpus;
        if lazy {
            config.schedule = Schedule::Lazy;
            config.lazy = Lazy { max_age: AGE, tick: TICK, ..config.lazy };
        }
        config
    }
}
