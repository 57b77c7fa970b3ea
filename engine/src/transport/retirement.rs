//! Retirement: a space ends, and gives its ASID back once no CPU runs the space under it.
//!
//! Suppose another space gets the ASID while a CPU still runs the old space under it. One program then sees the memory
//! of another (R4). So [`Engine::retire`] does not trust its caller. It changes the tag first. From then on a CPU that
//! loads the space takes a slot of its own, or [`Asid::SHARED`](crate::Asid::SHARED) where every space has a global
//! ASID. Then it looks at the CPUs in the space's set. It gives the ASID back only if none of them runs the space under
//! it.
//!
//! A CPU in the set may be switching at that moment, between any spaces: it keeps its place in the set of a space that
//! it left. The switch may also be to this space, under the old tag. So the end of the switch is awaited.
//!
//! Why it misses no CPU: a CPU that loads a space announces that it is switching, joins the space's set, and then reads
//! the tag. All of this is sequentially consistent, as are the change of the tag and the later read of the set. So a
//! CPU that read the old tag is in the set when the set is read, unless it has left the space since. Its state then
//! reads as "switching", or as the space with the ASID. A CPU that is not found reads the new tag.
//!
//! Until the ASID is given back, a flush covers both groups of CPUs, as in any [transition](super::transition). The
//! exchange that ends the transition succeeds for one caller only, so the ASID is given back once.

use core::cell::Cell;
use core::fmt;

use super::transition::Progress;
use crate::cpu_set::CpuId;
use crate::platform::Platform;
use crate::space::{leaked_asids, AddressSpace};
use crate::Engine;

/// The space has ended, but a CPU still had it loaded, so its ASID is not given back yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StillLoaded(pub CpuId);

impl fmt::Display for StillLoaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the space's ASID is not given back: CPU {} runs the space under it", self.0.index())
    }
}

impl<P: Platform> Engine<P> {
    /// Ends a space: gives its ASID back, which is used again only after a flush of everything on every CPU.
    ///
    /// Call it once no CPU has the space loaded. Tasks that still refer to the space may flush it, before and after. A
    /// space without an ASID of its own has nothing to give back. If a CPU loads the space nevertheless, it runs the
    /// space correctly, but more slowly.
    ///
    /// The call waits for CPUs that ran the space before and are switching at this moment. Interrupts should be on, as
    /// for [`Engine::flush`].
    ///
    /// A space that is dropped without this call keeps its ASID until the machine restarts. [`Engine::leaked_asids`]
    /// counts such spaces.
    ///
    /// # Errors
    /// [`StillLoaded`] names a CPU that runs the space under the ASID. The ASID stays with the space. Call again once
    /// that CPU has [unloaded](Engine::unload) the space. After one success, further calls do nothing.
    #[must_use = "the ASID is given back only if no CPU had the space loaded"]
    pub fn retire(&self, space: &AddressSpace) -> Result<(), StillLoaded> {
        let reading = space.tag.retire();
        if reading.held().is_none() {
            return Ok(());
        }
        let mut found = None;
        // The tag was changed before the set is read: see the module's description.
        space.cpus().for_each(|cpu| {
            let progress = Cell::new(self.progress(cpu, space, reading));
            if progress.get() == Progress::Switching {
                self.wait_until(&|| {
                    progress.set(self.progress(cpu, space, reading));
                    progress.get() != Progress::Switching
                });
            }
            if progress.get() == Progress::Behind {
                found = found.or(Some(StillLoaded(cpu)));
            }
        });
        if let Some(loaded) = found {
            return Err(loaded);
        }
        if let Some(asid) = space.tag.end(reading) {
            self.asids.free(asid);
        }
        Ok(())
    }

    /// The number of spaces that were dropped with an ASID, because [`Engine::retire`] was not called or did not
    /// succeed. The count covers all engines of the machine.
    pub fn leaked_asids() -> u64 {
        leaked_asids()
    }
}
