//! Using more memory than there is (R1, R5, R6).
//!
//! The file has three parts. Readers in two processes store to the first, the region, all the time. The second is
//! stored to, left alone until it has gone to the device, and compared when it has come back. With a swap device, some
//! anonymous memory is treated likewise. The third is a hole twice as large as the memory. Reading it makes memory
//! short, for the other scenarios too, and must find only zeros.

use ceasefire_kernel_abi::{Error, Finding};

use crate::arch::{try_load, try_store};
use crate::call;
use crate::line::log;
use crate::machine::Machine;
use crate::memory::PAGE;
use crate::stale::law::Law;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};
use crate::stale::site::{map_at, Site};
use crate::stale::{mark::Owner, placement::OPERATOR};

/// In this many operations all cold pages are stored to once, and the whole hole is read once if it is not too large.
const PARTS: u64 = 16;
/// The most pages of the hole that one operation reads, so that an operation takes some milliseconds at most.
const MOST: u64 = 4096;
/// Loads from each page of the hole.
const LOADS: u64 = 4;

pub(super) const RECLAIM: Scenario = Scenario {
    name: "reclaim",
    process: Process::Greedy,
    region: Region::Small,
    phases: &[Phase::USED],
    law: Law::Kept,
    possible: always,
    prepare,
    attach: Some(|site| site.map_file(true)),
    step: |site, _| {
        let Parts { cold, swapped, .. } = Parts::of(&site.machine);
        rewrite(site, site.places[0] + site.bytes(), cold);
        rewrite(site, site.places[1], swapped);
        read_hole(site);
        Ok(())
    },
};

/// The parts of the memory that is used beside the region, in pages.
#[derive(Debug)]
struct Parts {
    cold: u64,
    swapped: u64,
    hole: u64,
}

impl Parts {
    fn of(machine: &Machine) -> Self {
        Self {
            cold: (machine.frames / 8).clamp(PARTS, 2048),
            swapped: (machine.frames / 16).min(machine.swap / 2).min(1024),
            hole: machine.frames * 2,
        }
    }
}

fn prepare(site: &mut Site) -> Result<(), Error> {
    let Parts { cold, swapped, hole } = Parts::of(&site.machine);
    let pages = site.pages + cold + hole;
    let file = site.make_file(pages)?;
    map_at(site.places[0], pages * PAGE, call::map_shared(file, pages, true)?)?;
    if swapped > 0 {
        map_at(site.places[1], swapped * PAGE, call::map_anonymous(swapped)?)?;
    }
    Ok(())
}

/// Compares the next part of some pages with their last contents, and stores the next version.
fn rewrite(site: &Site, start: u64, pages: u64) {
    let (sweep, part) = (site.round / PARTS, site.round % PARTS);
    for page in pages * part / PARTS..pages * (part + 1) / PARTS {
        let owner = Owner { page, ..site.owner(OPERATOR, 0) };
        let address = start + owner.offset();
        let expected = if sweep == 0 { 0 } else { owner.mark(sweep) };
        let found = load(address);
        if found != expected {
            log(format_args!("stale/reclaim: page {page} came back as another page, or older"));
            let finding =
                if owner.sequence(found).is_some() { Finding::LostWrite } else { Finding::StaleRead };
            call::report(finding, address, expected, found);
        }
        assert!(try_store(address, owner.mark(sweep + 1)), "stale/reclaim: no store to {address:#x}");
    }
    site.board.count_checks(pages / PARTS);
}

/// Reads the next part of the hole.
fn read_hole(site: &Site) {
    let Parts { cold, hole, .. } = Parts::of(&site.machine);
    let count = hole.div_ceil(PARTS).min(MOST);
    for page in (site.round * count..).take(count as usize) {
        let page = site.pages + cold + page % hole;
        for load_number in 0..LOADS {
            let address = site.places[0] + page * PAGE + load_number * (PAGE / LOADS);
            let found = load(address);
            if found != 0 {
                log(format_args!("stale/reclaim: page {page} of the file is a hole, and not zero"));
                call::report(Finding::StaleRead, address, 0, found);
            }
        }
    }
    site.board.count_checks(count * LOADS);
}

fn load(address: u64) -> u64 {
    try_load(address).unwrap_or_else(|| panic!("stale/reclaim: no load from {address:#x}"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::MACHINE;
    use super::*;

    #[test]
    fn cold_pages_fit_into_a_mark() {
        for frames in [1000, 10_000, 1 << 24] {
            let machine = Machine { frames, swap: 1 << 20, ..MACHINE };
            let Parts { cold, swapped, hole } = Parts::of(&machine);
            assert!(cold < 1 << 16 && swapped < 1 << 16 && hole > frames && cold + swapped < frames / 2);
        }
    }
}
