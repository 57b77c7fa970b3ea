//! The scenarios. Each is one body that every CPU runs.
//!
//! - `steps`: one CPU changes something while the others wait, and then every CPU looks.
//! - `races`: CPUs use pages without a pause while others change them.

mod races;
mod steps;

use core::fmt;

use crate::kernel::{Ability, Cpu};
use crate::stage::Body;

/// A scenario for CPUs of a kind.
pub struct Scenario<C> {
    /// Its name.
    pub name: &'static str,
    /// What it does, and what must hold.
    pub about: &'static str,
    /// What it needs besides the calls that every kernel has.
    pub needs: &'static [Ability],
    pub(crate) body: Body<C>,
}

impl<C> fmt::Debug for Scenario<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Scenario").field("name", &self.name).finish_non_exhaustive()
    }
}

/// All scenarios, the simplest first.
pub fn scenarios<C: Cpu>() -> [Scenario<C>; 14] {
    [
        Scenario {
            name: "unmap-then-read",
            about: "every CPU reads a page; one unmaps it; then no CPU can read it",
            needs: &[],
            body: steps::unmap_then_read,
        },
        Scenario {
            name: "protect-then-store",
            about: "every CPU stores to a page; one takes the right away; then no CPU can store",
            needs: &[],
            body: steps::protect_then_store,
        },
        Scenario {
            name: "remap-elsewhere",
            about: "a page moves to another address, and another comes to the old one: every CPU finds both",
            needs: &[Ability::Remap],
            body: steps::remap_elsewhere,
        },
        Scenario {
            name: "many-ranges",
            about: "one call unmaps 64 ranges that every CPU has read: no CPU can read any of them",
            needs: &[],
            body: steps::many_ranges,
        },
        Scenario {
            name: "kernel-ranges",
            about: "a range of the kernel's addresses is given up and used again: every CPU reads the new page",
            needs: &[Ability::KernelRanges],
            body: steps::kernel_ranges,
        },
        Scenario {
            name: "idle-cpu",
            about: "CPUs idle while pages and their table go and others come: back at work they read the new ones",
            needs: &[Ability::Idle],
            body: steps::idle_cpu,
        },
        Scenario {
            name: "replace-under-read",
            about: "a page is replaced over and over while all other CPUs read it: none reads an old one",
            needs: &[],
            body: races::replace_under_read,
        },
        Scenario {
            name: "interrupts-off",
            about: "CPUs read a page with interrupts off while it is replaced: none reads an old one afterwards",
            needs: &[Ability::InterruptsOff],
            body: races::interrupts_off,
        },
        Scenario {
            name: "protect-under-store",
            about: "the right to store goes while all other CPUs store: no store comes after it has gone",
            needs: &[],
            body: races::protect_under_store,
        },
        Scenario {
            name: "frame-reuse",
            about: "frames of pages that are read go to others at once: no CPU reads what those put there",
            needs: &[],
            body: races::frame_reuse,
        },
        Scenario {
            name: "evicted",
            about: "the kernel takes a page on its own account: CPUs read it or nothing, until it is unmapped",
            needs: &[Ability::Evict],
            body: races::evicted,
        },
        Scenario {
            name: "freed-tables",
            about: "a page table is freed and used for something else while CPUs read near it: none walks it",
            needs: &[],
            body: races::freed_tables,
        },
        Scenario {
            name: "switch-under-way",
            about: "CPUs switch to and fro while a page is replaced: none reads an old one when it is back",
            needs: &[Ability::OtherSpace],
            body: races::switch_under_way,
        },
        Scenario {
            name: "many-flushes",
            about: "every CPU unmaps pages of its own, all at once: none reads what another has unmapped",
            needs: &[],
            body: races::many_flushes,
        },
    ]
}
