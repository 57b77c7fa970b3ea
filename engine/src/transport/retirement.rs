//! The end of a space: its ASID is given back once no CPU runs the space under it.
//!
//! An ASID that another space gets while a CPU still runs the old one under it shows one program the memory of another
//! (R4). So [`Engine::retire`] does not trust its caller. It changes the tag first: CPUs that load the space from then on
//! take each a slot of their own, or [`Asid::SHARED`](crate::Asid::SHARED) where every space has a global ASID. Then it
//! looks at the CPUs, and gives the ASID back only if it finds none that runs the space under the ASID, and none that is
//! switching.
//!
//! Why it misses no CPU: a CPU that loads a space says that it is switching, joins the space's set, and then reads the tag.
//! All of this is sequentially consistent, as are the change of the tag and the reading of the set after it. So a CPU that
//! read the tag from before the change is in the set when the set is read, unless it has left the space since. What it
//! has loaded reads as "switching", or as the space with the ASID beside it. A CPU that is not found reads the new tag.
//!
//! Until the ASID is given back a flush covers both groups of CPUs, as in any [transition](super::transition). The change
//! that ends the transition succeeds for one caller, so the ASID is given back once.

use core::fmt;

use super::transition::Straggler;
use crate::cpu_set::CpuId;
use crate::platform::Platform;
use crate::space::{leaked_asids, AddressSpace};
use crate::Engine;

/// A space has ended while a CPU had it loaded: its ASID is not given back yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StillLoaded(pub CpuId);

impl fmt::Display for StillLoaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the space's ASID is not given back: CPU {} runs the space under it or is switching",
            self.0.index()
        )
    }
}

impl<P: Platform> Engine<P> {
    /// Ends a space: gives its ASID back, to be used again once everything was flushed everywhere.
    ///
    /// Call it once no CPU has the space loaded. Flushes of it by tasks that still refer to it do no harm, before and
    /// after. A space without an ASID of its own has nothing to give back. Where a CPU loads the space all the same, it
    /// runs the space correctly, and slower.
    ///
    /// A space that is dropped without it takes its ASID along: there is one fewer until the machine restarts, and
    /// [`Engine::leaked_asids`] counts it.
    ///
    /// # Errors
    /// [`StillLoaded`] names a CPU that runs the space under the ASID, or that is switching. The ASID stays with the space.
    /// Call it again once that CPU has [let go](Engine::unload) of the space; after it has succeeded, further calls do
    /// nothing.
    #[must_use = "the ASID is given back only if no CPU had the space loaded"]
    pub fn retire(&self, space: &AddressSpace) -> Result<(), StillLoaded> {
        let reading = space.tag.retire();
        if reading.held().is_none() {
            return Ok(());
        }
        if let Some(Straggler(cpu)) = self.straggler(space, reading) {
            return Err(StillLoaded(cpu));
        }
        if let Some(asid) = space.tag.end(reading) {
            self.asids.free(asid);
        }
        Ok(())
    }

    /// How many spaces were dropped that still had an ASID, because [`Engine::retire`] was not called or did not succeed.
    /// Those of all engines count together: a machine has one.
    pub fn leaked_asids() -> u64 {
        leaked_asids()
    }
}
