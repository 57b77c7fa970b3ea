//! Entries of page tables, as a walker reads them in tables of any shape.

use super::frame::Allocation;

/// log2 of a page's bytes.
pub(crate) const PAGE_SHIFT: u32 = 12;

/// The depth and the width of page tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// log2 of the entries of a table.
    pub(crate) bits: u32,
    /// The level of the root; 0 is the lowest.
    pub(crate) top: u32,
}

impl Shape {
    /// The index of a page in a table of `level`.
    pub(crate) fn index(self, page: u64, level: u32) -> usize {
        (page >> (self.bits * level)) as usize % (1 << self.bits)
    }
}

/// An entry as a walker reads it.
// Each is a bit of the entry.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Read {
    pub(crate) bits: u64,
    pub(crate) present: bool,
    /// It translates, and leads to no table.
    pub(crate) leaf: bool,
    pub(crate) writable: bool,
    pub(crate) dirty: bool,
    pub(crate) frame: u32,
    /// Of an entry that leads to a table, the number of the table's allocation. Of one that translates, the number that
    /// its kernel gave: to the frame's allocation, or to the mapping.
    pub(crate) number: u32,
    /// The last moment at which it is known to have been in the table.
    pub(crate) stood: u64,
}

impl Read {
    /// The allocation of the table to which it leads.
    pub(crate) fn allocation(&self) -> Allocation {
        Allocation(self.number)
    }
}
