//! Writing out a file while it is stored to, then dropping its pages (R5, R6).
//!
//! A page that was declared clean is dropped without being written. A later store through an entry that a CPU held as
//! dirty is then lost: the contents that come back from the device are older.

use ceasefire_kernel_abi::Advice;

use crate::call;
use crate::stale::law::Law;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};

pub(super) const SYNC: Scenario = Scenario {
    name: "sync",
    process: Process::Home,
    region: Region::Small,
    phases: &[Phase::USED; 2],
    law: Law::Kept,
    possible: always,
    prepare: |site| {
        site.make_file(site.pages)?;
        site.map_file(true)
    },
    // Pages that other processes map too are not paged out.
    attach: None,
    step: |site, phase| match phase {
        0 => call::sync_file(site.file()),
        _ => call::advise(site.places[0], site.bytes(), Advice::PageOut),
    },
};
