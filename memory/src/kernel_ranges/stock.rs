//! Frames that a call has allocated, before it takes a lock under which it must not allocate.

use alloc::vec::Vec;

use crate::frames::allocate::OutOfMemory;
use crate::frames::frame::Frame;
use crate::machine::Machine;
use crate::Memory;

/// Frames full of zeros. Those that are left are freed with it.
pub(super) struct Stock<'m, P: Machine> {
    memory: &'m Memory<P>,
    frames: Vec<Frame>,
}

impl<'m, P: Machine> Stock<'m, P> {
    pub(super) fn new(memory: &'m Memory<P>) -> Self {
        Self { memory, frames: Vec::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Allocates until there are `count` frames. Memory may be reclaimed for them.
    pub(super) fn fill(&mut self, count: usize) -> Result<(), OutOfMemory> {
        while self.frames.len() < count {
            let frame = self.memory.allocate(self.memory.home())?;
            self.memory.zero(frame.number(), 1);
            self.frames.push(frame);
        }
        Ok(())
    }

    /// Takes one frame.
    ///
    /// # Panics
    /// If none is left: the caller counts how many it needs.
    pub(super) fn take(&mut self) -> Frame {
        self.frames.pop().unwrap_or_else(|| unreachable!("as many frames were allocated as are needed"))
    }
}

impl<P: Machine> Drop for Stock<'_, P> {
    fn drop(&mut self) {
        self.frames.drain(..).for_each(|frame| self.memory.free(frame));
    }
}
