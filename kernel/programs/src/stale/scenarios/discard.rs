//! Giving up contents (madvise DONTNEED; R1, R3).
//!
//! The mapping stays, so every access succeeds, but the contents from before the call must be gone when it has
//! returned. A CPU that kept an entry still sees them.

use ceasefire_kernel_abi::Advice;

use crate::call;
use crate::stale::law::Law;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};

pub(super) const DISCARD: Scenario = Scenario {
    name: "discard",
    process: Process::Faulting,
    region: Region::Small,
    phases: &[Phase::USED],
    law: Law::Zero,
    possible: always,
    prepare: |site| site.map_anonymous(0),
    attach: None,
    step: |site, _| call::advise(site.places[0], site.bytes(), Advice::Discard),
};
