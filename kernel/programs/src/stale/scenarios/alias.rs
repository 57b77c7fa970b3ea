//! Storing to a file through another mapping of it, right after a page was taken from under its readers (R6).
//!
//! The readers' mapping is for loads alone; the operator has one for stores elsewhere. No system call announces new
//! bytes: the kernel sees only the fault at the first store. A CPU that kept its translation to the page's old frame
//! reads an older version than the operator has stored, or than another reader has seen.

use ceasefire_kernel_abi::{Advice, Error};

use super::displace::displace;
use crate::arch::try_store;
use crate::call;
use crate::memory::PAGE;
use crate::stale::law::Law;
use crate::stale::placement::OPERATOR;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};
use crate::stale::site::{map_at, Site};

/// A fault also maps neighbours that are in memory, in a block of this many pages.
const AROUND: u64 = 16;

pub(super) const ALIAS: Scenario = Scenario {
    name: "alias",
    process: Process::Moving,
    region: Region::Small,
    phases: &[Phase::LOADED],
    law: Law::Kept,
    possible: always,
    prepare: |site| {
        let file = site.make_file(site.pages)?;
        site.map_file(false)?;
        let mapped = call::map_shared(file, site.pages, true);
        mapped.and_then(|mapped| map_at(site.places[1], site.bytes(), mapped)).inspect_err(|_| {
            let _ = site.unmap(0);
        })
    },
    attach: None,
    step: |site, _| store(site),
};

fn store(site: &Site) -> Result<(), Error> {
    let sequence = site.round + 1;
    call::sync_file(site.file())?;
    // A page that is mapped twice does not move; and the fault at the first store is the subject here.
    call::advise(site.places[1], site.bytes(), Advice::Discard)?;
    let mut first = 0;
    while first < site.pages {
        let behind = (site.places[1] / PAGE + first) % AROUND;
        let end = (first + AROUND - behind).min(site.pages);
        displace(site, first..end, site.round)?;
        for page in first..end {
            let owner = site.owner(OPERATOR, page);
            if !try_store(site.places[1] + owner.offset(), owner.mark(sequence)) {
                return Err(Error::NoMemory);
            }
            site.board.raise_version(page, sequence);
        }
        first = end;
    }
    Ok(())
}
