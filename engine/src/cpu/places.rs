//! Places: a CPU's membership in the sets of the spaces that it ran last.
//!
//! A flush looks at the CPUs in the space's set. A CPU could leave the set whenever it switches to another space. But
//! every CPU that runs the space would then write the set at each switch, and the count of references to the space as
//! well, and the cache lines of both would move from CPU to CPU. So a CPU keeps its place in the set, with its
//! reference, for a few spaces that it has left. Switching back and forth between them writes nothing that other CPUs
//! write.
//!
//! A place that is kept costs a flush one look: it reads in the CPU's own record that the CPU runs another space, and
//! passes over it. (Linux keeps places until a flush finds them, once a second: commit 209954cbc7d0.
//! docs/src/results/results.md has the measurement that decided the number here.)

use crate::limits::PLACES;
use crate::space::{AddressSpace, SpaceId};

/// The spaces that the CPU has left and whose sets it is still in, the last one first. A CPU that runs a space is in
/// one more set, that of its space.
#[derive(Debug)]
pub(crate) struct Places<S>([Option<S>; PLACES]);

impl<S> Places<S> {
    const NOTHING: Option<S> = None;

    pub(crate) const fn new() -> Self {
        Self([Self::NOTHING; PLACES])
    }
}

impl<S: AsRef<AddressSpace>> Places<S> {
    /// Takes out the place in a space that the CPU is about to run, if it has kept it.
    #[inline]
    pub(crate) fn take(&mut self, space: SpaceId) -> Option<S> {
        let at =
            self.0.iter().position(|kept| kept.as_ref().is_some_and(|kept| kept.as_ref().id() == space))?;
        let found = self.0[at].take();
        self.0[at..].rotate_left(1);
        found
    }

    /// Keeps the place in a space that the CPU has just left. There is room for one more than [`Places::excess`]
    /// leaves.
    #[inline]
    pub(crate) fn keep(&mut self, left: S) {
        self.0.rotate_right(1);
        let displaced = self.0[0].replace(left);
        debug_assert!(displaced.is_none(), "a place was lost");
    }

    /// Takes out the oldest place if they are too many for a CPU that runs a space. The CPU leaves the set and drops
    /// the reference where that may take time.
    #[inline]
    pub(crate) fn excess(&mut self) -> Option<S> {
        self.0[PLACES - 1].take()
    }

    /// Takes out all places, of a CPU that gives up its space.
    pub(crate) fn give_up(&mut self) -> [Option<S>; PLACES] {
        core::mem::replace(self, Self::new()).0
    }
}
