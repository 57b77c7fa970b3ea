//! Unmapping, and mapping fresh memory at the same place (R1, R2, R3, R7).
//!
//! The frames and the page table go back to the allocator and come out of it for another use: a table as a page, a page
//! as a table, and as pages of other scenarios. A CPU that kept an entry reads the old contents, or another scenario's
//! words, or stores into them.

use ceasefire_kernel_abi::{Advice, Error};

use crate::call;
use crate::stale::law::Law;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};
use crate::stale::site::Site;

/// The place is empty in between, and every access must fail.
pub(super) const UNMAP: Scenario = Scenario {
    name: "unmap",
    process: Process::Home,
    region: Region::Small,
    phases: &[Phase::USED, Phase::GONE],
    law: Law::Zero,
    possible: always,
    prepare: |_| Ok(()),
    attach: None,
    step: |site, phase| if phase == 0 { site.map_anonymous(0) } else { site.unmap(0) },
};

/// The same with pages of 2 MiB, where there is memory for one.
pub(super) const UNMAP_HUGE: Scenario = Scenario {
    name: "unmap-huge",
    process: Process::Faulting,
    region: Region::Large,
    step: |site, phase| {
        site.unmap(0)?;
        if phase == 0 {
            site.map_anonymous(0)?;
            call::advise(site.places[0], site.bytes(), Advice::Huge)?;
        }
        Ok(())
    },
    ..UNMAP
};

/// Without a pause. The kernel chooses the same place again, because no other scenario of this process maps anything.
/// So only the flush stands between old and new memory.
pub(super) const REUSE: Scenario = Scenario {
    name: "reuse",
    process: Process::Alone,
    phases: &[Phase::USED],
    prepare: |site| {
        site.places = [call::map_anonymous(site.pages)?; 2];
        Ok(())
    },
    step: |site, _| reuse(site),
    ..UNMAP
};

fn reuse(site: &Site) -> Result<(), Error> {
    site.unmap(0)?;
    let place = call::map_anonymous(site.pages)?;
    assert_eq!(place, site.places[0], "the kernel did not choose the first free place");
    Ok(())
}
