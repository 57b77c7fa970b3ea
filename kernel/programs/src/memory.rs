//! Mappings that stay, and their words.

use core::sync::atomic::AtomicU64;

pub(crate) use ceasefire_kernel_abi::sizes::PAGE;
use ceasefire_kernel_abi::{Error, IMAGE};

use crate::call;

/// Words of a page.
pub(crate) const WORDS: u64 = PAGE / 8;
/// The most bytes of an image.
const IMAGE_BYTES: u64 = 512 << 10;

/// Addresses from here on are the programs' own choice. They lie far above those that the kernel chooses by itself, the
/// lowest that are free.
pub(crate) const FAR: u64 = 0x10_0000_0000;

/// The last address at which the image can end.
pub(crate) const fn image_end() -> u64 {
    IMAGE + IMAGE_BYTES
}

/// A mapping that stays until it is given up.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: u64,
    pages: u64,
}

impl Mapping {
    /// Fresh memory.
    pub(crate) fn anonymous(pages: u64) -> Result<Self, Error> {
        Ok(Self { start: call::map_anonymous(pages)?, pages })
    }

    /// A file, shared.
    pub(crate) fn shared(file: u64, pages: u64, writable: bool) -> Result<Self, Error> {
        Ok(Self { start: call::map_shared(file, pages, writable)?, pages })
    }

    /// Its first address.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// The address behind it.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.pages * PAGE
    }

    /// One of its words. In a mapping that is not writable it may only be loaded; a store faults and ends the run.
    pub(crate) fn word(&self, index: u64) -> &AtomicU64 {
        assert!(index < self.pages * WORDS, "word {index} of {} pages", self.pages);
        // SAFETY: the word lies in the mapping, which lives as long as `self`, and all accesses are atomic.
        unsafe { AtomicU64::from_ptr((self.start + index * 8) as *mut u64) }
    }

    /// The words of one of its pages.
    pub(crate) fn page(&self, index: u64) -> &[AtomicU64] {
        assert!(index < self.pages, "page {index} of {}", self.pages);
        let start = (self.start + index * PAGE) as *const AtomicU64;
        // SAFETY: as for `word`.
        unsafe { core::slice::from_raw_parts(start, WORDS as usize) }
    }

    /// Leaves it mapped for good. Returns its words.
    pub(crate) fn leak(self) -> &'static [AtomicU64] {
        // SAFETY: as for `word`. It is never unmapped, and every bit pattern is a number.
        unsafe { core::slice::from_raw_parts(self.start as *const AtomicU64, (self.pages * WORDS) as usize) }
    }

    /// Unmaps it.
    pub(crate) fn unmap(self) -> Result<(), Error> {
        call::unmap(self.start, self.pages * PAGE)
    }
}
