//! Events for a checker.

use ceasefire::{AddressSpace, PageSize};

use crate::address::{Block, FrameNumber, Store};
use crate::spaces::area::Protection;

/// An event for a checker.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// The frame is free: no CPU may reach it through an older translation. A frame that was [left](Event::Left) while
    /// it owed belongs to the allocator from then on, but is freed only now. Until now its bytes must not change.
    FrameFreed(FrameNumber),
    /// The frame, freed before, is handed out.
    FrameAllocated(FrameNumber),
    /// The frame was a page-table page and goes back to the allocator: no walker may read it.
    TableFreed(FrameNumber),
    /// The frame was filled with zeros, to be the page of a block that its file's device does not hold. No CPU can
    /// reach it yet.
    HoleFilled {
        /// The frame.
        frame: FrameNumber,
        /// The block.
        block: Block,
    },
    /// A translation is about to be visible. No CPU holds another one of this page.
    Installed {
        /// The space that it belongs to.
        space: &'a AddressSpace,
        /// The address of the page.
        address: u64,
        /// The frame; the first of 512 if the page is huge.
        frame: FrameNumber,
        /// The size of the page.
        size: PageSize,
    },
    /// A translation was cleared or narrowed on a program's behalf. CPUs may hold the old one until the flush of that
    /// operation.
    Withdrawn {
        /// The space that it belonged to.
        space: &'a AddressSpace,
        /// The address of the page.
        address: u64,
        /// The size of the page.
        size: PageSize,
    },
    /// An allocation that must not wait begins on this CPU, or ends.
    Atomic {
        /// Whether it begins.
        begins: bool,
    },
    /// An operation that took translations or rights away for good is about to return to the program.
    Returned {
        /// The space.
        space: &'a AddressSpace,
        /// The first address.
        start: u64,
        /// The address after the last.
        end: u64,
        /// The use that older translations still allow: none, or loads.
        allowed: Protection,
    },
    /// The pages of a range of private memory were declared droppable (madvise FREE), and the call is about to return.
    /// From then on a store must show in the page table: the page is dropped if none does.
    Cleaned {
        /// The space.
        space: &'a AddressSpace,
        /// The first address.
        start: u64,
        /// The address after the last.
        end: u64,
    },
    /// The page is declared clean: its write-out begins, or it is dropped because its program gave it up. No store may
    /// land in it unseen.
    WriteOut(FrameNumber),
    /// The frame goes back to the allocator while CPUs may still read it through translations that allowed loads only.
    /// CPUs may read the frame, and with it the page of `block`, until the first of these: the frame is free
    /// ([`Event::FrameFreed`]), the block's page is found again ([`Event::Settled`]), or
    /// [`Bounds::max_age`](ceasefire::Bounds::max_age) and a tick have passed.
    Left {
        /// The frame.
        frame: FrameNumber,
        /// The block of its page, if it has one.
        block: Option<Block>,
    },
    /// The pages of a store from `first` up to `last` are about to be found, brought in or changed: no CPU may read an
    /// older copy of any of them. This is reported where a page is used, whatever the memory manager checked before.
    Settled {
        /// The file, or the swap device.
        store: Store,
        /// The first page.
        first: u32,
        /// The last page.
        last: u32,
    },
    /// Another frame may hold the newest version of this frame's page from now on: the page is about to be copied
    /// elsewhere, or has left its file or the swap device's cache. No CPU may reach the old frame.
    Superseded(FrameNumber),
}
