//! What a lock is, as far as its waits and its address tell.

use crate::events::LockKind;
use crate::shootdowns::Cause;

/// Where a lock is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the address space of the process: threads waited to write in calls that change mappings, and to read in faults
    /// or in calls that give pages back. Other locks that both take are taken for writing alone (`anon_vma`, mm/rmap.c).
    MmapLock,
    /// In the image of the kernel or of a module: there is one for the whole machine.
    Image,
    /// In an object, such as a page table, a file or a queue.
    Object,
}

/// Which threads waited for a lock that may be the `mmap_lock` of their process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sides {
    writes: bool,
    reads: bool,
}

impl Sides {
    /// Learns from a wait.
    pub(super) fn learn(&mut self, kind: LockKind, cause: Cause) {
        match (kind, cause) {
            (LockKind::SleepWrite, Cause::Mmap | Cause::Munmap | Cause::Mprotect | Cause::Mremap) => {
                self.writes = true;
            }
            (LockKind::SleepRead, Cause::Fault | Cause::Madvise | Cause::ProcessMadvise) => self.reads = true,
            _ => {}
        }
    }
}

impl Place {
    /// That of a lock at an address. The kernel is of an architecture as `uname -m` says it.
    pub(super) fn of(address: u64, sides: Sides, architecture: &str) -> Self {
        // The upper two GiB: Documentation/arch/x86/x86_64/mm.rst.
        const IMAGE: u64 = 0xffff_ffff_8000_0000;
        if sides.writes && sides.reads {
            Self::MmapLock
        } else if architecture == "x86_64" && address >= IMAGE {
            Self::Image
        } else {
            Self::Object
        }
    }

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::MmapLock => "mmap_lock",
            Self::Image => "static",
            Self::Object => "object",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_mappings_write_and_faults_read_is_that_of_the_address_space() {
        let place = |waits: &[(LockKind, Cause)], address| {
            let mut sides = Sides::default();
            for (kind, cause) in waits {
                sides.learn(*kind, *cause);
            }
            Place::of(address, sides, "x86_64")
        };
        let (write, read) = ((LockKind::SleepWrite, Cause::Mmap), (LockKind::SleepRead, Cause::Fault));
        let heap = 0xffff_8881_0000_0000;
        assert_eq!(place(&[write, read], heap), Place::MmapLock);
        for waits in [&[write][..], &[read], &[(LockKind::Spin, Cause::Fault), write]] {
            assert_eq!(place(waits, heap), Place::Object);
        }
        let in_image = 0xffff_ffff_8300_8080;
        assert_eq!(place(&[], in_image), Place::Image);
        assert_eq!(Place::of(in_image, Sides::default(), "aarch64"), Place::Object);
    }
}
