//! The memory manager's own access to frames, through the kernel's mapping of all memory, and what it tells the shadow.
//!
//! Zeroing, copying, reading and writing go by here, and so does every frame that is handed out or given back: a frame that
//! is free is nobody's to touch, because CPUs may still read it. The [shadow](crate::shadow) looks at each, where a machine
//! keeps one; where it keeps none, nothing of this is left in the program.

use crate::address::{Block, FrameNumber};
use crate::machine::{Event, Machine};
use crate::shadow::{Misuse, Shadow};
use crate::Memory;

impl<P: Machine> Memory<P> {
    /// The kernel is about to read or write `count` neighbouring frames of this memory itself, from `first` on: for whoever
    /// does so without the memory manager. Debug builds with a [shadow](crate::shadow) look whether one of them is free.
    ///
    /// # Panics
    /// If there are no such frames, where there is a shadow.
    pub fn touches(&self, first: FrameNumber, count: u32) {
        self.ask_shadow(|shadow| shadow.touches(first, count));
    }

    /// Tells the shadow something, if there is one, and the machine what is wrong with it.
    pub(crate) fn ask_shadow(&self, ask: impl FnOnce(&mut Shadow) -> Result<(), Misuse>) {
        let mut answer = Ok(());
        self.platform().shadow(|shadow| answer = ask(shadow));
        if let Err(misuse) = answer {
            self.platform().misused(misuse);
        }
    }

    /// A frame leaves the allocator.
    pub(crate) fn hand_out(&self, frame: FrameNumber) {
        self.ask_shadow(|shadow| shadow.hands_out(frame));
        self.platform().observe(Event::FrameAllocated(frame));
    }

    /// Neighbouring frames are the allocator's, whether or not they owe.
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
