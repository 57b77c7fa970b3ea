//! Threads and pages of the loads.

use std::error::Error;
use std::ffi::c_void;
use std::ptr;

use rustix::io::Errno;
use rustix::mm::{madvise, mmap_anonymous, munmap, Advice, MapFlags, ProtFlags};
use rustix::thread::{sched_setaffinity, CpuSet};

/// The size of a page.
pub(crate) const PAGE: usize = 4096;

pub(crate) type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

/// Runs the thread on one CPU alone.
pub(crate) fn pin(cpu: usize) -> Outcome {
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Maps so many bytes that can be written.
pub(crate) fn map(bytes: usize) -> Result<*mut c_void, Errno> {
    // SAFETY: the kernel chooses an address that nothing uses.
    let start = unsafe {
        mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
    };
    // SAFETY: the mapping is ours. Huge pages would be flushed otherwise.
    unsafe { madvise(start, bytes, Advice::LinuxNoHugepage)? };
    Ok(start)
}

/// Stores to a page.
pub(crate) fn touch(page: *mut c_void) {
    // SAFETY: callers pass mappings of theirs that can be written.
    unsafe { page.cast::<u8>().write_volatile(1) };
}

/// Gives the first page of a mapping of so many bytes back, `count` times.
pub(crate) fn madvises(bytes: usize, count: usize) -> Outcome {
    let page = map(bytes)?;
    for _ in 0..count {
        touch(page);
        // SAFETY: the page is ours, and nothing in it is needed.
        unsafe { madvise(page, PAGE, Advice::LinuxDontNeed)? };
    }
    Ok(())
}

/// Maps so many pages, stores to them, and unmaps them, `count` times.
pub(crate) fn munmaps(pages: usize, count: usize) -> Outcome {
    for _ in 0..count {
        let area = map(pages * PAGE)?;
        for page in 0..pages {
            touch(area.wrapping_byte_add(page * PAGE));
        }
        // SAFETY: the mapping is ours, and nothing uses it any more.
        unsafe { munmap(area, pages * PAGE)? };
    }
    Ok(())
}
