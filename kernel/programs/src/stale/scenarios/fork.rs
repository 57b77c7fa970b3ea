//! Copying a process whose threads store all the time (R3, R6).
//!
//! The fork takes the right to store from every entry of the parent. A CPU that kept it stores into a page that the
//! child sees too, so a word changes while the child looks at it. The child's own stores must not be visible in the
//! parent either.

use ceasefire_kernel_abi::{Error, Finding};

use crate::arch::{try_load, try_store};
use crate::call::{self, Forked};
use crate::line::log;
use crate::memory::PAGE;
use crate::stale::law::Law;
use crate::stale::mark::{Owner, SLOTS, STRANGER};
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};
use crate::stale::site::Site;

/// How many times the child looks for changes.
const LOOKS: u64 = 4;

pub(super) const FORK: Scenario = Scenario {
    name: "fork",
    process: Process::Forking,
    region: Region::Small,
    phases: &[Phase::USED],
    law: Law::Kept,
    possible: always,
    prepare: |site| site.map_anonymous(0),
    attach: None,
    step: |site, _| fork(site),
};

fn fork(site: &Site) -> Result<(), Error> {
    let mut floors = [0; SLOTS];
    for (slot, floor) in floors.iter_mut().enumerate() {
        *floor = site.board.progress(slot);
    }
    match call::fork()? {
        Forked::Child => child(site, &floors),
        Forked::Parent(child) => {
            let code = call::wait(child)?;
            assert_eq!(code, 0, "the child failed");
            Ok(())
        }
    }
}

/// The child. `floors` holds the pass of each reader that was complete before the fork.
fn child(site: &Site, floors: &[u64; SLOTS]) -> ! {
    call::unpin();
    let words =
        || (0..site.pages).flat_map(|page| (1..=site.readers).map(move |slot| site.owner(slot, page)));
    for owner in words() {
        let found = load(site, owner);
        match owner.sequence(found) {
            Some(sequence) if sequence >= floors[owner.slot] => {}
            _ => report(
                site,
                owner,
                "is not what was there before the fork",
                owner.mark(floors[owner.slot]),
                found,
            ),
        }
    }
    // A digest of all words. A store of a parent's thread would change it.
    let sum = || words().fold(0_u64, |sum, owner| sum.wrapping_mul(31).wrapping_add(load(site, owner)));
    let first = sum();
    for look in 1..=LOOKS {
        call::give_way();
        let again = sum();
        if again != first {
            log(format_args!("stale/fork: the child's words change: look {look} of {LOOKS}"));
            call::report(Finding::StaleRead, site.places[0], first, again);
        }
    }
    for owner in words() {
        let own = Owner { slot: STRANGER, ..owner };
        let (address, value) = (site.places[0] + owner.offset(), own.mark(owner.slot as u64));
        assert!(try_store(address, value), "the child cannot store to {address:#x}");
    }
    call::give_way();
    for owner in words() {
        let (found, value) = (load(site, owner), Owner { slot: STRANGER, ..owner }.mark(owner.slot as u64));
        if found != value {
            report(site, owner, "is not what the child stored", value, found);
        }
    }
    site.board.count_checks((LOOKS + 3) * site.pages * site.readers as u64);
    call::exit(0)
}

fn load(site: &Site, owner: Owner) -> u64 {
    let address = site.places[0] + owner.offset();
    try_load(address).unwrap_or_else(|| panic!("stale/fork: the child cannot load from {address:#x}"))
}

fn report(site: &Site, owner: Owner, what: &str, expected: u64, found: u64) -> ! {
    let address = site.places[0] + owner.offset();
    log(format_args!(
        "stale/fork: the word of reader {} in page {} of the child {what}",
        owner.slot,
        owner.offset() / PAGE
    ));
    call::report(Finding::StaleRead, address, expected, found)
}
