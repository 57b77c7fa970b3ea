//! Moving a region to another place and back (R3, R7).
//!
//! The same frames are reached through other addresses. Earlier stores must be visible at the new place, and the old
//! place must be empty. A store that races with the move lands before it, or fails.

use crate::call;
use crate::stale::law::Law;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};

/// Entries move: the two places lie differently in their tables.
pub(super) const REMAP: Scenario = Scenario {
    name: "remap",
    process: Process::Home,
    region: Region::Small,
    phases: &[Phase { empty: Some(1), ..Phase::USED }, Phase { place: 1, empty: Some(0), ..Phase::USED }],
    law: Law::Kept,
    possible: always,
    prepare: |site| site.map_anonymous(1),
    attach: None,
    step: |site, phase| call::move_to(site.places[1 - phase], site.bytes(), site.places[phase]),
};

/// A whole table moves, and some entries of the next.
pub(super) const REMAP_TABLES: Scenario =
    Scenario { name: "remap-tables", process: Process::Faulting, region: Region::Large, ..REMAP };
