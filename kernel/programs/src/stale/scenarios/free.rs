//! Letting the kernel drop pages unwritten (madvise FREE), and making it do so (R1, R5).
//!
//! Entries become clean, and a later store must mark them dirty. If a CPU stores through an entry that it holds as
//! dirty, the page is dropped all the same, and the store is lost.

use ceasefire_kernel_abi::Advice;

use crate::call;
use crate::stale::law::Law;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};

/// Free, then reclaim.
const ADVICE: [Advice; 2] = [Advice::Free, Advice::PageOut];

pub(super) const FREE: Scenario = Scenario {
    name: "free",
    process: Process::Home,
    region: Region::Small,
    phases: &[Phase::USED; ADVICE.len()],
    law: Law::MayBeZero,
    possible: always,
    prepare: |site| site.map_anonymous(0),
    attach: None,
    step: |site, phase| call::advise(site.places[0], site.bytes(), ADVICE[phase]),
};
