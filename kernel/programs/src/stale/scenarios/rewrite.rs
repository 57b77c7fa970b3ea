//! Writing to a page of a file by system call right after it was taken from under its readers (R6).
//!
//! As `write`, but each page has just gone to another frame when its bytes change. A CPU that kept its translation
//! reads the old frame, which is not stored to any more: an old version, though the call has returned.

use ceasefire_kernel_abi::Error;

use super::displace::displace;
use crate::call;
use crate::stale::law::Law;
use crate::stale::placement::OPERATOR;
use crate::stale::region::Region;
use crate::stale::scenario::{Phase, Process, Scenario};
use crate::stale::site::Site;

/// How many times an operation goes through the region.
const SWEEPS: u64 = 4;

pub(super) const REWRITE: Scenario = Scenario {
    name: "rewrite",
    process: Process::Moving,
    region: Region::Small,
    phases: &[Phase::LOADED],
    law: Law::Kept,
    // By way of the device it takes too long.
    possible: |machine| machine.nodes > 1,
    prepare: |site| {
        site.make_file(site.pages)?;
        site.map_file(false)
    },
    // Pages that other processes map too do not move. `write` covers those.
    attach: None,
    step: |site, _| rewrite(site),
};

fn rewrite(site: &Site) -> Result<(), Error> {
    for sweep in site.round * SWEEPS..(site.round + 1) * SWEEPS {
        // Clean again: a page that differs from its device is flushed before it is written there.
        call::sync_file(site.file())?;
        for page in 0..site.pages {
            displace(site, page..page + 1, sweep)?;
            let owner = site.owner(OPERATOR, page);
            call::write_file(site.file(), owner.offset(), owner.mark(sweep + 1))?;
            site.board.raise_version(page, sweep + 1);
        }
    }
    Ok(())
}
