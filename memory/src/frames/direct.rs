//! The memory manager's own access to frames, through the kernel's mapping of all memory, and its reports to the
//! shadow.
//!
//! Zeroing, copying, reading and writing pass through this file, and so does every frame that is handed out or given
//! back. A free frame must not be touched, because CPUs may still read it. The [shadow](crate::shadow) checks each
//! access, if the machine keeps one. If it does not, the compiled program contains nothing of this.

use crate::address::{Block, FrameNumber};
use crate::machine::{Event, Machine};
use crate::shadow::{Misuse, Shadow};
use crate::Memory;

impl<P: Machine> Memory<P> {
    /// The kernel is about to read or write `count` neighbouring frames of this memory itself, from `first` on, without
    /// the memory manager. Debug builds with a [shadow](crate::shadow) check that none of them is free.
    ///
    /// # Panics
    /// If the frames do not exist and there is a shadow.
    pub fn touches(&self, first: FrameNumber, count: u32) {
        self.ask_shadow(|shadow| shadow.touches(first, count));
    }

    /// Tells the shadow something, if there is one, and reports a misuse that it finds to the machine.
    pub(crate) fn ask_shadow(&self, ask: impl FnOnce(&mut Shadow) -> Result<(), Misuse>) {
        let mut answer = Ok(());
        self.platform().shadow(|shadow| answer = ask(shadow));
        if let Err(misuse) = answer {
            self.platform().misused(misuse);
        }
    }

    /// The frame leaves the allocator.
    pub(crate) fn hand_out(&self, frame: FrameNumber) {
        self.ask_shadow(|shadow| shadow.hands_out(frame));
        self.platform().observe(Event::FrameAllocated(frame));
    }

    /// Neighbouring frames belong to the allocator, whether or not they owe.
    pub(crate) fn take_back(&self, first: FrameNumber, count: u32) {
        self.platform().shadow(|shadow| shadow.frees(first, count));
    }

    pub(crate) fn zero(&self, first: FrameNumber, count: u32) {
        self.touches(first, count);
        self.platform().zero(first, count);
    }

    pub(crate) fn copy(&self, from: FrameNumber, to: FrameNumber, count: u32) {
        self.touches(from, count);
        self.touches(to, count);
        self.platform().copy(from, to, count);
    }

    pub(crate) fn load_bytes(&self, frame: FrameNumber, offset: usize, into: &mut [u8]) {
        self.touches(frame, 1);
        self.platform().load(frame, offset, into);
    }

    pub(crate) fn store_bytes(&self, frame: FrameNumber, offset: usize, from: &[u8]) {
        self.touches(frame, 1);
        self.platform().store(frame, offset, from);
    }

    pub(crate) fn write_out(&self, pages: &[(Block, FrameNumber)]) {
        self.touches_all(pages);
        self.platform().write_out(pages);
    }

    pub(crate) fn read_in(&self, pages: &[(Block, FrameNumber)]) {
        self.touches_all(pages);
        self.platform().read_in(pages);
    }

    fn touches_all(&self, pages: &[(Block, FrameNumber)]) {
        for &(_, frame) in pages {
            self.touches(frame, 1);
        }
    }
}
