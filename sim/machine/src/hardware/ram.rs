//! The machine's memory.
//!
//! One sparse anonymous mapping represents all memory. The host provides memory only for the frames that are touched.
//! These are the page tables, and the pages of programs if the run keeps their bytes
//! ([`Contents`](crate::hardware::contents::Contents)). Bytes do not affect time, and 64 GiB would not fit.

use std::sync::atomic::{AtomicU64, Ordering};

use ceasefire_memory::{FrameNumber, Table, ENTRIES, PAGE_BYTES};
use memmap2::{MmapMut, MmapOptions};

/// The bytes of a frame, as words of the host.
pub(crate) type Words = [AtomicU64; ENTRIES];

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
    /// The host's error, if it does not provide that many addresses.
    pub(crate) fn new(frames: u32) -> std::io::Result<Self> {
        let bytes = frames as usize * PAGE_BYTES as usize;
        // Without reservation: the mapping may be far larger than the host's memory as long as little of it is
        // touched.
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
        // The mapping is aligned to pages, but the cast cannot see that.
        #[allow(clippy::cast_ptr_alignment)]
        // SAFETY: the frame lies inside the mapping, which lives as long as `self`. The mapping is aligned to the
        // host's pages of at least 4096 bytes, and so is each frame in it. A `Table` is 512 `AtomicU64`s, valid for
        // any bytes. The mapping is only accessed through such tables, so all accesses are atomic and shared
        // references may alias.
        unsafe {
            &*self.memory.as_ptr().add(start).cast::<Table>()
        }
    }

    /// A frame as plain words.
    ///
    /// # Panics
    /// If there is no such frame.
    pub(crate) fn words(&self, frame: FrameNumber) -> &Words {
        let table: *const Table = self.table(frame);
        // SAFETY: a `Table` is `repr(C)` around exactly this array, so this is the same memory under another type.
        // Every access through either is atomic.
        unsafe { &*table.cast::<Words>() }
    }

    /// Fills a frame with the values of its words.
    pub(crate) fn fill(&self, frame: FrameNumber, value: impl Fn(u64) -> u64) {
        for (word, at) in self.words(frame).iter().zip(0..) {
            word.store(value(at), Ordering::Relaxed);
        }
    }

    /// Copies a frame.
    pub(crate) fn copy(&self, from: FrameNumber, to: FrameNumber) {
        for (from, to) in self.words(from).iter().zip(self.words(to)) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Copies bytes out of a frame.
    ///
    /// # Panics
    /// If the bytes do not lie within the frame.
    pub(crate) fn load(&self, frame: FrameNumber, offset: usize, into: &mut [u8]) {
        let words = self.words(frame);
        for (at, byte) in (offset..).zip(into) {
            *byte = words[at / 8].load(Ordering::Relaxed).to_le_bytes()[at % 8];
        }
    }

    /// Copies bytes into a frame.
    ///
    /// # Panics
    /// If the bytes do not lie within the frame.
    pub(crate) fn store(&self, frame: FrameNumber, offset: usize, from: &[u8]) {
        let words = self.words(frame);
        for (at, &byte) in (offset..).zip(from) {
            let mut bytes = words[at / 8].load(Ordering::Relaxed).to_le_bytes();
            bytes[at % 8] = byte;
            words[at / 8].store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_may_exceed_the_hosts_memory_and_reads_as_empty_tables() {
        let ram = Ram::new(1 << 24).expect("64 GiB of addresses");
        let last = ram.table(FrameNumber::new((1 << 24) - 1));
        assert!(!last.get(511).present());
    }

    #[test]
    fn a_store_changes_its_own_bytes_and_no_others() {
        let ram = Ram::new(3).expect("three frames");
        let [first, second, third] = [0, 1, 2].map(FrameNumber::new);
        let written: Vec<u8> = (1..=20).collect();
        ram.store(second, 4096 - 20, &written);
        let mut read = [0xff; 24];
        ram.load(second, 4096 - 24, &mut read);
        assert_eq!((&read[..4], &read[4..]), (&[0; 4][..], &written[..]));
        assert_eq!(
            ram.words(second)[511].load(Ordering::Relaxed),
            u64::from_le_bytes([13, 14, 15, 16, 17, 18, 19, 20])
        );
        ram.copy(second, third);
        ram.fill(second, |_| 0);
        ram.load(third, 4096 - 24, &mut read);
        assert_eq!(&read[4..], &written[..]);
        for frame in [first, second] {
            assert!(ram.words(frame).iter().all(|word| word.load(Ordering::Relaxed) == 0), "{frame:?}");
        }
    }
}
