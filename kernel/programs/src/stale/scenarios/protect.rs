//! Taking away the right to store, then the right to load, then giving both back (R3).
//!
//! A CPU that kept an entry can still store or load where that is forbidden. Earlier stores must be there all the time:
//! withheld and narrowed entries still lead to the page.

use crate::call;
use crate::stale::law::Law;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};

pub(super) const PROTECT: Scenario = Scenario {
    name: "protect",
    process: Process::Home,
    region: Region::Small,
    phases: &[Phase::USED, Phase::LOADS, Phase::GONE],
    law: Law::Kept,
    possible: always,
    prepare: |site| site.map_anonymous(0),
    attach: None,
    step: |site, phase| call::protect(site.places[0], site.bytes(), PROTECT.phases[phase].allowed),
};
