//! The machine's memory, as far as it has contents.
//!
//! One sparse anonymous mapping stands for all of it; the host gives memory only to the frames that are touched.
//! Those are the page tables. Pages of programs have contents only if asked for: what they hold does not matter for
//! time, and 64 GiB would not fit.

use ceasefire_memory::{FrameNumber, Table, PAGE_BYTES};
use memmap2::{MmapMut, MmapOptions};

/// All frames of a machine.
#[derive(Debug)]
pub(crate) struct Ram {
    memory: MmapMut,
    frames: u32,
}

impl Ram {
    /// `frames` frames of zeros.
    ///
    /// # Errors
    /// The host's, if it does not give that many addresses.
    pub(crate) fn new(frames: u32) -> std::io::Result<Self> {
        let bytes = frames as usize * PAGE_BYTES as usize;
        // Without reservation: far more than the host has may be mapped as long as little is touched.
        let memory = MmapOptions::new().len(bytes.max(1)).no_reserve_swap().map_anon()?;
        Ok(Self { memory, frames })
    }

    /// A frame as a page-table page.
    ///
    /// # Panics
    /// If there is no such frame.
    pub(crate) fn table(&self, frame: FrameNumber) -> &Table {
        assert!(frame.get() < self.frames, "{frame:?} of {} frames", self.frames);
        let start = frame.index() * PAGE_BYTES as usize;
        // The mapping is aligned to pages, which the cast cannot see.
        #[allow(clippy::cast_ptr_alignment)]
        // SAFETY: the frame lies inside the mapping, which lives as long as `self` and is aligned to the host's pages,
        // at least 4096 bytes, as is each frame in it. A `Table` is 512 `AtomicU64`s, valid for any bytes; the mapping
        // is only ever accessed through such tables, so all accesses are atomic and shared references may alias.
        unsafe {
            &*self.memory.as_ptr().add(start).cast::<Table>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_host_has_can_be_mapped_and_reads_as_empty_tables() {
        let ram = Ram::new(1 << 24).expect("64 GiB of addresses");
        let last = ram.table(FrameNumber::new((1 << 24) - 1));
        assert!(!last.get(511).present());
    }
}
