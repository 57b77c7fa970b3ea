//! Mapping another file in the place of one whose pages were just taken from under their readers (R6).
//!
//! Pages that were reclaimed have left nothing in the page table, so the unmapping finds nothing to flush for them. A
//! CPU that kept a translation reads the first file at an address where the second is mapped by now. The scenario
//! replaces a few pages at a time. So the other readers have not brought them back yet, no page table becomes free, and
//! few pages are flushed for those that readers did bring back. (With more pages, or a table, CPUs flush everything,
//! owed or not.)

use core::ops::Range;

use ceasefire_kernel_abi::Error;

use crate::call;
use crate::memory::PAGE;
use crate::stale::law::Law;
use crate::stale::placement::OPERATOR;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};
use crate::stale::site::{map_at, Site};

/// Pages that are replaced at a time.
const PART: u64 = 8;

pub(super) const REPLACE: Scenario = Scenario {
    name: "replace",
    process: Process::Replacing,
    region: Region::Small,
    phases: &[Phase::LOADED],
    law: Law::Kept,
    possible: always,
    prepare: |site| {
        site.make_second_file(site.pages)?;
        site.make_file(site.pages)?;
        site.map_file(false)
    },
    attach: None,
    step: |site, _| replace(site),
};

/// Puts one file in the other's place. The new file holds a newer version than the old one.
fn replace(site: &Site) -> Result<(), Error> {
    let sequence = site.round + 1;
    let next = site.files[(sequence % 2) as usize].expect("the scenario has two files");
    for page in 0..site.pages {
        let owner = site.owner(OPERATOR, page);
        call::write_file(next, owner.offset(), owner.mark(sequence))?;
    }
    call::sync_file(next)?;
    for first in (0..site.pages).step_by(PART as usize) {
        replace_part(site, next, first..site.pages.min(first + PART))?;
        for page in first..site.pages.min(first + PART) {
            site.board.raise_version(page, sequence);
        }
    }
    Ok(())
}

/// Puts some pages of a file in the place of pages of the other.
fn replace_part(site: &Site, file: u64, pages: Range<u64>) -> Result<(), Error> {
    let (place, count) = (site.places[0] + pages.start * PAGE, pages.end - pages.start);
    let bytes = count * PAGE;
    let mapped = call::map_part(file, pages.start, count, false)?;
    match call::reclaim(place, bytes) {
        // The place is empty if the last attempt failed after the unmapping.
        Ok(()) | Err(Error::NotMapped) => {}
        Err(error) => {
            call::unmap(mapped, bytes)?;
            return Err(error);
        }
    }
    call::unmap(place, bytes)?;
    map_at(place, bytes, mapped)
}
