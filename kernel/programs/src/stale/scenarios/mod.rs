//! The scenarios, one file for each idea. [`displace`] is what the scenarios for lazy debts share: it takes pages away as the kernel
//! does on its own account.

mod alias;
mod discard;
mod displace;
mod drain;
mod fork;
mod free;
mod migrate;
mod page_out;
mod protect;
mod reclaim;
mod remap;
mod replace;
mod rewrite;
mod sync;
mod truncate;
mod unmap;
mod write;

use super::scenario::Scenario;

/// All scenarios, in the order in which they start.
pub(super) static SCENARIOS: [Scenario; 19] = [
    rewrite::REWRITE,
    alias::ALIAS,
    replace::REPLACE,
    protect::PROTECT,
    unmap::UNMAP,
    unmap::REUSE,
    remap::REMAP,
    discard::DISCARD,
    truncate::TRUNCATE,
    migrate::MIGRATE,
    fork::FORK,
    sync::SYNC,
    page_out::PAGE_OUT,
    free::FREE,
    write::WRITE,
    unmap::UNMAP_HUGE,
    remap::REMAP_TABLES,
    reclaim::RECLAIM,
    drain::DRAIN,
];
