//! Reclaiming anonymous pages while they are used (madvise COLD and PAGEOUT; R1, R5, R6).
//!
//! With a swap device, pages go to it and come back in other frames. A store through an old entry lands in a page that
//! is written already, or in another page's frame.

use ceasefire_kernel_abi::Advice;

use crate::call;
use crate::stale::law::Law;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};

/// The two kinds, in turn.
const ADVICE: [Advice; 2] = [Advice::PageOut, Advice::Cold];

pub(super) const PAGE_OUT: Scenario = Scenario {
    name: "page-out",
    process: Process::Home,
    region: Region::Small,
    phases: &[Phase::USED; ADVICE.len()],
    law: Law::Kept,
    possible: always,
    prepare: |site| site.map_anonymous(0),
    attach: None,
    step: |site, phase| call::advise(site.places[0], site.bytes(), ADVICE[phase]),
};
