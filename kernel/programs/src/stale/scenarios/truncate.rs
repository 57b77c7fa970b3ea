//! Cutting a file to nothing and letting it grow again, under two processes that map it (R1, R6).
//!
//! While it is cut, its pages must be out of reach in both processes. When it has grown it reads as zeros: the pages
//! with the earlier stores belong to no file any more.

use crate::call;
use crate::stale::law::Law;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};

pub(super) const TRUNCATE: Scenario = Scenario {
    name: "truncate",
    process: Process::Home,
    region: Region::Small,
    phases: &[Phase::USED, Phase::GONE],
    law: Law::Zero,
    possible: always,
    prepare: |site| {
        site.make_file(0)?;
        site.map_file(true)
    },
    attach: Some(|site| site.map_file(true)),
    step: |site, phase| call::truncate(site.file(), if phase == 0 { site.bytes() } else { 0 }),
};
