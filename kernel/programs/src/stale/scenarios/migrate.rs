//! Moving the pages of the process from node to node (R1, R5, R6).
//!
//! This moves all pages of all scenarios in this process. The scenario adds a region that no other operation changes.
//! While a page moves no CPU may store to it or load from it. Otherwise the page would have two versions, of which one
//! is lost.

use crate::call;
use crate::stale::law::Law;
use crate::stale::region::Region;
use crate::stale::scenario::{Phase, Process, Scenario};

pub(super) const MIGRATE: Scenario = Scenario {
    name: "migrate",
    process: Process::Home,
    region: Region::Small,
    phases: &[Phase::USED],
    law: Law::Kept,
    possible: |machine| machine.nodes > 1,
    prepare: |site| site.map_anonymous(0),
    attach: None,
    step: |site, _| {
        let nodes = site.machine.nodes;
        call::migrate(site.round % nodes, (site.round + 1) % nodes)
    },
};
