//! Taking CPUs offline while all scenarios run (R1, R3).
//!
//! One CPU after the other goes, for some ticks, and comes back. No flush may wait for it, and it may come back with no
//! old entry. Its threads run on other CPUs meanwhile, also those of this scenario, whose words must stay.

use crate::call;
use crate::stale::law::Law;
use crate::stale::region::Region;
use crate::stale::scenario::{Phase, Process, Scenario};

/// How long a CPU stays away, in nanoseconds: longer than most operations take.
const AWAY: u64 = 20_000_000;

pub(super) const OFFLINE: Scenario = Scenario {
    name: "offline",
    process: Process::Home,
    region: Region::Small,
    phases: &[Phase::USED],
    law: Law::Kept,
    possible: |machine| machine.cpus > 1,
    prepare: |site| site.map_anonymous(0),
    attach: None,
    // The first CPU stays.
    step: |site, _| call::offline(1 + site.round % (site.machine.cpus - 1), AWAY),
};
