//! Ranges of the kernel's own addresses, for a kernel outside that asks whether they are flushed.

use core::ptr;

use crate::mm::{
    Frame, PAGE_SIZE, Vaddr,
    kspace::kvirt_area::KVirtArea,
    page_prop::{CachePolicy, PageFlags, PageProperty, PrivilegedPageFlags},
};

/// A range of one page.
#[derive(Debug)]
pub struct KernelRange(KVirtArea);

impl KernelRange {
    /// Maps a page at addresses that are free.
    pub fn new(page: Frame<()>) -> Self {
        let prop = PageProperty {
            flags: PageFlags::RW,
            cache: CachePolicy::Writeback,
            priv_flags: PrivilegedPageFlags::empty(),
        };
        Self(KVirtArea::map_frames(PAGE_SIZE, 0, core::iter::once(page), prop))
    }

    /// Its first address.
    pub fn start(&self) -> Vaddr {
        self.0.start()
    }

    /// Loads its first word, through the TLB of this CPU.
    pub fn load(&self) -> u64 {
        let word = ptr::with_exposed_provenance::<u64>(self.0.start());
        // SAFETY: the range maps a page as long as it lives. Its content is a number, which nothing stores to.
        unsafe { ptr::read_volatile(word) }
    }
}
