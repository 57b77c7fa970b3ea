//! Unmapping memory of the kernel, and mapping other frames at the same addresses (R1, R2).
//!
//! Readers access the region by system calls, so the translations are the kernel's own, and global. The frames and page
//! tables go back to the allocator, and come out of it for programs. A CPU that kept an entry reads the old contents,
//! or another scenario's words, or stores into them.

use ceasefire_kernel_abi::Error;

use crate::stale::law::Law;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};
use crate::stale::site::Site;

/// Strictly: in between every access must fail.
pub(super) const KERNEL_UNMAP: Scenario = Scenario {
    name: "kernel-unmap",
    process: Process::Home,
    region: Region::Kernel(0),
    phases: &[Phase::USED, Phase::GONE],
    law: Law::Zero,
    possible: always,
    prepare: |_| Ok(()),
    attach: None,
    step: |site, phase| if phase == 0 { site.map_kernel() } else { site.unmap_kernel(false) },
};

/// Lazily, and mapped again at once. Every other time a purge comes first, and the addresses are the old ones.
/// Otherwise they are kept back, and others are taken.
pub(super) const KERNEL_PURGE: Scenario = Scenario {
    name: "kernel-purge",
    region: Region::Kernel(1),
    phases: &[Phase::USED],
    step: |site, _| purge(site),
    ..KERNEL_UNMAP
};

fn purge(site: &Site) -> Result<(), Error> {
    site.unmap_kernel(true)?;
    if site.round % 2 == 1 {
        crate::call::purge_kernel(site.area())?;
    }
    site.map_kernel()
}
