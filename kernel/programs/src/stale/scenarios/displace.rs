//! Taking read-only pages from under their readers, one by one.
//!
//! What nobody can store to may be taken away before it is flushed, if the flush comes before anyone can tell. So a scenario
//! takes pages away and does at once what its readers could tell by. A page moves to another node: the old frame is free while CPUs
//! still have translations to it. Now and then it is reclaimed: then it is unmapped, and the next load brings it back from its
//! device in another frame. Both are the kernel's own doing, which promises nothing to the program.
//!
//! Pages move alone: a batch with others' would be flushed with them.

use core::ops::Range;

use ceasefire_kernel_abi::Error;

use crate::call;
use crate::memory::PAGE;
use crate::stale::site::Site;

/// In every operation of that many pages are reclaimed: they take long to come back.
const RECLAIM: u64 = 8;

/// Takes away some pages of the first place, which nobody else maps. If they move, then to node `to`, counted round.
pub(super) fn displace(site: &Site, pages: Range<u64>, to: u64) -> Result<(), Error> {
    let (nodes, start) = (site.machine.nodes, site.places[0] + pages.start * PAGE);
    let bytes = (pages.end - pages.start) * PAGE;
    if nodes > 1 && site.round % RECLAIM != RECLAIM - 1 {
        call::move_pages(start, bytes, to % nodes)
    } else {
        call::reclaim(start, bytes)
    }
}
