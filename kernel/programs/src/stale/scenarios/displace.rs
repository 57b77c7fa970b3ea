//! Taking read-only pages from under their readers, one by one.
//!
//! A page that no CPU can store to may be taken away before its flush, as long as the flush comes before the effect is
//! visible. A scenario takes such pages away and makes the effect visible at once. A page moves to another node: the
//! old frame is free while CPUs still have translations to it. Now and then a page is reclaimed: it is unmapped, and
//! the next load brings it back from its device in another frame. Both are unmaps that the kernel does on its own
//! account, which promise nothing to the program.
//!
//! Pages move alone: a batch with pages of other scenarios would be flushed with them.

use core::ops::Range;

use ceasefire_kernel_abi::Error;

use crate::call;
use crate::memory::PAGE;
use crate::stale::site::Site;

/// One operation in this many reclaims pages, because they take long to come back.
const RECLAIM: u64 = 8;

/// Takes away some pages of the first place, which no other process maps. They move to node `to` modulo the number of
/// nodes, or are reclaimed.
pub(super) fn displace(site: &Site, pages: Range<u64>, to: u64) -> Result<(), Error> {
    let (nodes, start) = (site.machine.nodes, site.places[0] + pages.start * PAGE);
    let bytes = (pages.end - pages.start) * PAGE;
    if nodes > 1 && site.round % RECLAIM != RECLAIM - 1 {
        call::move_pages(start, bytes, to % nodes)
    } else {
        call::reclaim(start, bytes)
    }
}
