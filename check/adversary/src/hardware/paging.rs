//! The kernel's side of page tables: how a walker reads and marks their entries, and what an entry may be used for.

use std::fmt;

use super::entry::{Read, Shape};
use super::frame::{Accessed, Allocation, Frame};
use super::tlb::Filled;
use crate::model::rule::Rule;

/// The past of an entry that a walker reads. The tables ask the machine for no more.
pub(crate) trait Past {
    /// A new moment, after all others.
    fn moment(&self) -> u64;

    /// The last moment at which the value that the walker has just read stood in its place, or one that is the `same`.
    fn stood(&self, same: &dyn Fn(u64) -> bool) -> u64;

    /// The allocation of a frame at an earlier moment, as far as it matters: none if it was another.
    fn allocation_at(&self, frame: u32, moment: u64) -> Allocation;
}

/// The page tables of a kernel, and the record of what their entries may be used for.
pub(crate) trait Paging: fmt::Debug {
    fn shape(&self) -> Shape;

    /// Reads an entry as a walker.
    fn read(&self, past: &dyn Past, table: u32, index: usize, level: u32) -> Read;

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
