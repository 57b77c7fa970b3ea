//! Private memory of the program whose pages the measurements touch and give back.

use std::ffi::c_void;
use std::io;
use std::ptr::null_mut;
use std::slice;

use rustix::mm::{madvise, mmap_anonymous, mprotect, munmap, Advice, MapFlags, MprotectFlags, ProtFlags};

/// The size of a page, in bytes. The measurements are those of pages of 4 KiB.
pub(super) const PAGE: usize = 4096;
/// The number of words in a page.
pub(super) const PAGE_WORDS: usize = PAGE / size_of::<u64>();

/// Private memory that reads as zeros at first. It is unmapped when it is dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the mapping is memory that the value owns, and no thread-local state belongs to it.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps so many pages of 4 KiB, without pages of 2 MiB.
    pub(super) fn of_pages(pages: usize) -> io::Result<Self> {
        Self::new(pages * PAGE, Advice::LinuxNoHugepage)
    }

    /// Maps memory with pages of 2 MiB if Linux has some.
    pub(super) fn huge(bytes: usize) -> io::Result<Self> {
        Self::new(bytes, Advice::LinuxHugepage)
    }

    fn new(bytes: usize, advice: Advice) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: Linux chooses the address, so no other memory is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags)? };
        let mapping = Self { start, bytes };
        // SAFETY: the range is this mapping, and the advice does not change its contents. A kernel without huge pages
        // refuses the advice, and then there are none.
        let _ = unsafe { madvise(start, bytes, advice) };
        Ok(mapping)
    }

    /// The words of the memory.
    pub(super) fn words(&mut self) -> &mut [u64] {
        // SAFETY: the range is mapped for loads and stores as long as the value lives, begins at a page, and was zeros
        // at first, so each word has a value. The borrow is the only one, since it borrows the value mutably.
        unsafe { slice::from_raw_parts_mut(self.start.cast(), self.bytes / size_of::<u64>()) }
    }

    /// Gives the pages `first..first + count` back to Linux. They read as zeros again.
    ///
    /// # Panics
    /// If the mapping has no such pages.
    pub(super) fn discard(&mut self, first: usize, count: usize) -> io::Result<()> {
        assert!((first + count) * PAGE <= self.bytes, "pages {first} to {} of {self:?}", first + count);
        // SAFETY: the range lies in the mapping, as just checked. Its words become zeros, and no borrow of them exists,
        // since the value is borrowed mutably.
        unsafe { madvise(self.start.byte_add(first * PAGE), count * PAGE, Advice::LinuxDontNeed)? };
        Ok(())
    }

    /// Takes all later pages from one node.
    pub(super) fn bind(&mut self, node: u32) -> io::Result<()> {
        let bits = u64::BITS;
        let mut mask = vec![0_u64; (node / bits) as usize + 1];
        mask[(node / bits) as usize] = 1 << (node % bits);
        // Linux reads one bit less than it is told.
        let bits = mask.len() as u64 * u64::from(bits) + 1;
        // SAFETY: mbind reads as many bits of the mask as it has, and changes only where the pages of this mapping come
        // from.
        let result = unsafe {
            libc::syscall(libc::SYS_mbind, self.start, self.bytes, libc::MPOL_BIND, mask.as_ptr(), bits, 0)
        };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, and no borrow of its words is left. An error leaves it mapped, which harms
        // nothing.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

/// The number of pages on each side of a [`Slot`].
const AROUND: usize = 8;

/// A page that is mapped and unmapped in the middle of addresses that cannot be used. So no mapping is beside it, and
/// the page table stays.
#[derive(Debug)]
pub(super) struct Slot {
    start: *mut c_void,
    is_filled: bool,
}

impl Slot {
    /// A slot without a page.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: Linux chooses the address, so no other memory is replaced.
        let start = unsafe {
            mmap_anonymous(null_mut(), (2 * AROUND + 1) * PAGE, ProtFlags::empty(), MapFlags::PRIVATE)?
        };
        let mut slot = Self { start, is_filled: true };
        slot.clear()?;
        Ok(slot)
    }

    /// The address of a page from the start on.
    fn address(&self, page: usize) -> *mut c_void {
        self.start.wrapping_byte_add(page * PAGE)
    }

    /// Maps a page, unless there is one, and stores to it.
    ///
    /// # Errors
    /// There is no memory, or another thread has taken the address.
    pub(super) fn fill(&mut self) -> io::Result<()> {
        let (page, rights) = (self.address(AROUND), ProtFlags::READ | ProtFlags::WRITE);
        if !self.is_filled {
            let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
            // SAFETY: the flag replaces no other memory.
            unsafe { mmap_anonymous(page, PAGE, rights, flags)? };
            self.is_filled = true;
        }
        // SAFETY: the page is mapped for loads and stores, and no reference leads there.
        unsafe { page.cast::<u64>().write_volatile(1) };
        Ok(())
    }

    /// Unmaps the page.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        assert!(self.is_filled, "{self:?} has a page");
        // SAFETY: the slot has mapped the page, as just checked, and no reference leads there.
        unsafe { munmap(self.address(AROUND), PAGE)? };
        self.is_filled = false;
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Another thread may have mapped the page of an empty slot.
        let middle = usize::from(self.is_filled);
        for (first, pages) in [(0, AROUND), (AROUND, middle), (AROUND + 1, AROUND)] {
            if pages > 0 {
                // SAFETY: the slot has mapped these pages, and no reference leads there. An error leaves them mapped,
                // which harms nothing.
                let _ = unsafe { munmap(self.address(first), pages * PAGE) };
            }
        }
    }
}

/// Pages whose rights change together, between two pages that cannot be used. So no mapping is beside them to be merged
/// with.
#[derive(Debug)]
pub(super) struct Lockable {
    start: *mut c_void,
    pages: usize,
    is_locked: bool,
}

impl Lockable {
    /// Maps so many pages that allow stores.
    pub(super) fn new(pages: usize) -> io::Result<Self> {
        let bytes = (pages + 2) * PAGE;
        // SAFETY: Linux chooses the address, so no other memory is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::empty(), MapFlags::PRIVATE)? };
        let mut lockable = Self { start, pages, is_locked: true };
        // SAFETY: the range is this mapping, and no reference leads there. Without huge pages in the kernel the advice
        // is refused, and then there are none.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) };
        lockable.unlock()?;
        Ok(lockable)
    }

    /// The number of pages.
    pub(super) fn pages(&self) -> usize {
        self.pages
    }

    fn page(&self, page: usize) -> *mut c_void {
        self.start.wrapping_byte_add((page + 1) * PAGE)
    }

    fn protect(&mut self, rights: MprotectFlags) -> io::Result<()> {
        // SAFETY: the range is in this mapping, and no reference leads there.
        unsafe { mprotect(self.page(0), self.pages * PAGE, rights)? };
        Ok(())
    }

    /// Forbids stores.
    pub(super) fn lock(&mut self) -> io::Result<()> {
        self.is_locked = true;
        self.protect(MprotectFlags::READ)
    }

    /// Allows stores.
    pub(super) fn unlock(&mut self) -> io::Result<()> {
        self.protect(MprotectFlags::READ | MprotectFlags::WRITE)?;
        self.is_locked = false;
        Ok(())
    }

    /// Stores to each page.
    ///
    /// # Panics
    /// If the pages are locked.
    pub(super) fn store(&mut self) {
        assert!(!self.is_locked, "{self:?} allows stores");
        for page in 0..self.pages {
            // SAFETY: the page is mapped, allows stores, as just checked, and no reference leads there.
            unsafe { self.page(page).cast::<u64>().write_volatile(1) };
        }
    }
}

impl Drop for Lockable {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping, and no reference leads there. An error leaves it mapped, which harms
        // nothing.
        let _ = unsafe { munmap(self.start, (self.pages + 2) * PAGE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discarded_pages_read_as_zeros() {
        let mut mapping = Mapping::of_pages(3).expect("memory");
        assert_eq!(mapping.words().len(), 3 * PAGE_WORDS);
        mapping.words().fill(7);
        mapping.discard(1, 1).expect("a page of the mapping");
        let words = mapping.words();
        assert_eq!([0, PAGE_WORDS, 2 * PAGE_WORDS].map(|word| words[word]), [7, 0, 7]);
    }

    #[test]
    #[should_panic(expected = "pages 2 to 4 of")]
    fn only_pages_of_the_mapping_are_discarded() {
        let _ = Mapping::of_pages(3).expect("memory").discard(2, 2);
    }

    #[test]
    fn the_page_of_a_slot_comes_and_goes() {
        let mut slot = Slot::new().expect("memory");
        for _ in 0..3 {
            slot.fill().expect("memory");
            slot.fill().expect("the page is there");
            slot.clear().expect("a page");
        }
    }

    #[test]
    fn a_node_that_does_not_exist_is_refused() {
        assert!(Mapping::of_pages(1).expect("memory").bind(1 << 20).is_err());
    }

    #[test]
    fn locked_pages_open_again() {
        let mut pages = Lockable::new(2).expect("memory");
        for _ in 0..3 {
            pages.store();
            pages.lock().expect("mapped pages");
            pages.unlock().expect("mapped pages");
        }
    }

    #[test]
    #[should_panic(expected = "allows stores")]
    fn locked_pages_get_no_stores() {
        let mut pages = Lockable::new(2).expect("memory");
        pages.lock().expect("mapped pages");
        pages.store();
    }
}
