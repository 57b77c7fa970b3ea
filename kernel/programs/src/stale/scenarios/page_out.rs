//! Reclaiming anonymous pages while they are used (madvise COLD and PAGEOUT; R1, R5, R6).
//!
//! Pages go to the swap device and come back in other frames, if there is such a device. A store through an old entry lands in
//! a page that is written already, or that is another's by now.

use ceasefire_kernel_abi::Advice;

use crate::call;
use crate::stale::law::Law;
use crate::stale::scenario::{always, Phase, Process, Scenario};

/// One after the other.
const ADVICE: [Advice; 2] = [Advice::PageOut, Advice::Cold];

pub(super) const PAGE_OUT: Scenario = Scenario {
    name: "page-out",
    process: Process::Home,
    large: false,
    phases: &[Phase::USED; ADVICE.len()],
    law: Law::Kept,
    possible: always,
    prepare: |site| site.map_anonymous(0),
    attach: None,
    step: |site, phase| call::advise(site.places[0], site.bytes(), ADVICE[phase]),
};
