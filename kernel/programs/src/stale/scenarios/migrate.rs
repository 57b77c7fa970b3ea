//! Moving the pages of the process from node to node (R1, R5, R6).
//!
//! That is all pages of all scenarios in this process; this one adds a region that nothing else happens to. While a page moves
//! nobody may store to it or load from it, or there are two versions: one of which is lost.

use crate::call;
use crate::stale::law::Law;
use crate::stale::scenario::{Phase, Process, Scenario};

pub(super) const MIGRATE: Scenario = Scenario {
    name: "migrate",
    process: Process::Home,
    large: false,
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
