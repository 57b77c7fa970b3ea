//! What an area keeps back until a flush.

use alloc::sync::Arc;
use core::fmt;

use crate::frames::frame::Frame;
use crate::kernel_ranges::room::Room;
use crate::machine::{Event, Machine};
use crate::Memory;

/// A frame, a page-table page, or addresses, each with the place that it goes back to.
pub(super) enum Kept<'m, P: Machine> {
    /// The frame of a page.
    Page(&'m Memory<P>, Frame),
    /// A page-table page that translated pages.
    Table(&'m Memory<P>, Frame),
    /// Pages of the room, by the first and how many.
    Addresses(Arc<Room>, u32, u32),
}

impl<P: Machine> Kept<'_, P> {
    /// Gives back what no CPU can reach any more.
    pub(super) fn release(self) {
        match self {
            Self::Page(memory, frame) => memory.free(frame),
            Self::Table(memory, table) => {
                memory.platform().observe(Event::TableFreed(table.number()));
                memory.free(table);
            }
            Self::Addresses(room, first, count) => room.give_back(first, count),
        }
    }
}

impl<P: Machine> fmt::Debug for Kept<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page(_, frame) => frame.number().fmt(f),
            Self::Table(_, table) => write!(f, "table in {:?}", table.number()),
            Self::Addresses(_, first, count) => write!(f, "{count} pages from {first} on"),
        }
    }
}
