//! Using the frames of read-only pages for something else at once (R1, R2).
//!
//! The pages of the region leave a node, some at a time. The operator, on a CPU of that node, at once takes as many
//! frames again and fills them: single pages, page tables, and every other time pages of 2 MiB. The latter come from
//! frames outside the CPU's own reserve, which have been merged. The readers' file never changes. Through an old
//! translation they may read it in its old frame, but no later contents of that frame.

use ceasefire_kernel_abi::{Advice, Error};

use super::displace::displace;
use crate::arch::try_store;
use crate::call;
use crate::memory::PAGE;
use crate::stale::law::Law;
use crate::stale::mark::{Owner, STRANGER};
use crate::stale::placement::OPERATOR;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};
use crate::stale::site::Site;

/// Pages that leave at a time. All together are more than a CPU keeps free for itself. One step takes less than a
/// millisecond; in a longer one the readers' CPUs would have flushed everything for other reasons.
const CHUNK: u64 = 32;
/// Page tables that are taken in each step, and as many pages.
const TABLES: u64 = 8;
/// Bytes that a table translates.
const TABLE_BYTES: u64 = 2 << 20;
/// The only version of the file.
const VERSION: u64 = 1;

pub(super) const DRAIN: Scenario = Scenario {
    name: "drain",
    process: Process::Moving,
    region: Region::Large,
    // The pages come, and go.
    phases: &[Phase::LOADED; 2],
    law: Law::Kept,
    possible: always,
    prepare,
    attach: None,
    step: |site, phase| {
        let (nodes, start) = (site.machine.nodes, site.places[0]);
        let here = (call::cpu() / site.machine.cpus_of_a_node()).min(nodes - 1);
        if phase == 0 {
            return call::move_pages(start, site.bytes(), here);
        }
        drain(site, here)
    },
};

fn prepare(site: &mut Site) -> Result<(), Error> {
    let file = site.make_file(site.pages)?;
    for page in 0..site.pages {
        let owner = site.owner(OPERATOR, page);
        call::write_file(file, owner.offset(), owner.mark(VERSION))?;
        site.board.raise_version(page, VERSION);
    }
    call::sync_file(file)?;
    site.map_file(false)
}

/// Empties node `here` of the region's pages, and takes its memory.
fn drain(site: &Site, here: u64) -> Result<(), Error> {
    site.map_anonymous(1)?;
    let bytes = site.pages.div_ceil(CHUNK) * TABLES * TABLE_BYTES;
    let taken = call::map_anonymous(bytes / PAGE).and_then(|sparse| {
        let taken = take(site, here, sparse);
        call::unmap(sparse, bytes)?;
        taken
    });
    site.unmap(1)?;
    taken
}

/// Makes pages leave, and takes others at the second place and in a sparse mapping.
fn take(site: &Site, here: u64, sparse: u64) -> Result<(), Error> {
    if site.round % 4 == 3 {
        call::advise(site.places[1], site.bytes(), Advice::Huge)?;
    }
    for (chunk, first) in (0..site.pages).step_by(CHUNK as usize).enumerate() {
        let pages = first..site.pages.min(first + CHUNK);
        displace(site, pages.clone(), here + 1)?;
        let start = sparse + chunk as u64 * TABLES * TABLE_BYTES;
        let tables = (0..TABLES).all(|table| try_store(start + table * TABLE_BYTES, u64::MAX));
        if !tables || !pages.into_iter().all(|page| fill(site, page)) {
            return Err(Error::NoMemory);
        }
    }
    Ok(())
}

/// Fills a page of the second place as far as readers look into pages of the file. Returns whether a frame was free for
/// it.
fn fill(site: &Site, page: u64) -> bool {
    let end = Owner { scenario: site.scenario, slot: site.readers + 1, page: 0 }.offset();
    let stranger = Owner { slot: STRANGER, ..site.owner(OPERATOR, page) }.mark(site.round + 1);
    let start = site.places[1] + page * PAGE;
    (start..start + end).step_by(8).all(|address| try_store(address, stranger))
}
