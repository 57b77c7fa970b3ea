//! Events that a checker may want to know.

use ceasefire::{AddressSpace, PageSize};

use crate::address::{Block, FrameNumber};
use crate::spaces::area::Protection;

/// What a checker may want to know.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The frame is free: nobody may reach it through an older translation. One that was [left](Event::Left) while it owed
    /// is freed only now, though it is the allocator's since then; until now its bytes have to stay as they were.
    FrameFreed(FrameNumber),
    /// The frame, freed before, was handed out.
    FrameAllocated(FrameNumber),
    /// The frame went back to the allocator and was a page-table page: no walker may read it any more.
    TableFreed(FrameNumber),
    /// A translation became visible.
    Installed {
        /// Whose.
        space: &'a AddressSpace,
        /// Of which page.
        address: u64,
        /// To which frame; the first of 512 if it is huge.
        frame: FrameNumber,
        /// Of which size.
        size: PageSize,
    },
    /// An operation that took translations or rights away for good is about to return to the program.
    Returned {
        /// In which space.
        space: &'a AddressSpace,
        /// From which address.
        start: u64,
        /// Up to which address, exclusive.
        end: u64,
        /// What translations from before it may still be used for: nothing, or loads.
        allowed: Protection,
    },
    /// The page was declared clean and its write-out begins: no store may land in it unseen.
    WriteOut(FrameNumber),
    /// The frame goes back to the allocator while CPUs may still read it through translations that allowed nothing else, and
    /// with it the page of that block, if it has one: until it is free ([`Event::FrameFreed`]), until the block's
    /// page is found again ([`Event::Settled`]), or until [`Bounds::max_age`](ceasefire::Bounds::max_age) and a tick have
    /// passed.
    Left {
        /// Which.
        frame: FrameNumber,
        /// Where its page belongs.
        block: Option<Block>,
    },
    /// The block's page is about to be found, brought in or changed: no CPU may read an older copy of it any more.
    Settled(Block),
    /// Another frame may hold the newest version of this frame's page from now on (it is about to be copied elsewhere, or
    /// has left its file or the swap device's cache): no CPU may reach the old one any more.
    Superseded(FrameNumber),
}
