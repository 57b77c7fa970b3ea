//! A mapping of kernel addresses, as its owner holds it.

use crate::address::PAGE_BYTES;

/// Pages of an area with a frame behind each. The owner may load from and store to them until it gives the mapping
/// back, to [`KernelArea::unmap`](crate::KernelArea::unmap) or
/// [`KernelArea::unmap_lazily`](crate::KernelArea::unmap_lazily). A mapping that is dropped stays for good.
///
/// A mapping is given back once:
///
/// ```compile_fail,E0382
/// # use ceasefire_memory::{KernelArea, KernelMapping, Machine};
/// # fn twice<P: Machine>(area: &KernelArea<'_, P>, mapping: KernelMapping) {
///     area.unmap_lazily(mapping);
///     area.unmap(mapping);
/// # }
/// ```
#[must_use = "a mapping that is dropped stays for good"]
#[derive(Debug, PartialEq, Eq)]
pub struct KernelMapping {
    pub(super) start: u64,
    pub(super) pages: u32,
}

impl KernelMapping {
    /// The first address.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The number of pages.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// The address behind the last page.
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.pages) * PAGE_BYTES
    }

    pub(super) fn addresses(&self) -> impl Iterator<Item = u64> {
        (self.start..self.end()).step_by(PAGE_BYTES as usize)
    }
}
