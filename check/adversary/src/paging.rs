//! Page tables as the hardware walks them, whichever kernel owns them.

use std::fmt;

use crate::hardware::{Accessed, Frame, Hardware};
use crate::rule::Rule;
use crate::tlb::Filled;

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
    /// The allocation of the frame, or the number of the mapping, as the tables count them.
    pub(crate) number: u32,
    /// The last moment at which it is known to have been in the table.
    pub(crate) stood: u64,
}

/// The page tables of a kernel, and the record of what their entries may be used for.
pub(crate) trait Paging: fmt::Debug {
    fn shape(&self) -> Shape;

    /// Reads an entry as a walker.
    fn read(&self, hardware: &Hardware, table: u32, index: usize, level: u32) -> Read;

    /// Marks an entry that was read as used, and with `store` as stored through. `None` if it is another by now. The
    /// hardware stores whatever it finds if it is not `atomic`.
    fn mark(&self, table: u32, index: usize, read: Read, store: bool, atomic: bool) -> Option<Read>;

    /// An access through this entry is made. If the kernel asks for what a CPU knows of such accesses, it has this one
    /// counted.
    fn uses(&self, entry: &Filled, count: &dyn Fn(&mut Accessed)) {
        let _ = (entry, count);
    }

    /// The rule that an access by this entry breaks, and how.
    fn judge(&self, entry: &Filled, frame: Frame, store: bool) -> Option<(Rule, String)>;
}
