//! Adoption: after some flushes, a space gets a global ASID or gives it back.
//!
//! The engine measures how long each space's flushes take and, after some of them, counts the CPUs that run the space.
//! The platform decides from this [`Look`] whether the space deserves a global ASID. If the answer differs from the
//! present tag, a [transition](super::transition) begins. All of this happens only where some spaces use slots and
//! others a global ASID ([`Holders::Wide`]).

use crate::platform::{Broadcast, Capabilities, Holders, Look, Platform};
use crate::primitive::Ordering;
use crate::space::{AddressSpace, Generation, Tagged};
use crate::Engine;

impl<P: Platform> Engine<P> {
    /// The time at which a flush begins, if it counts for the choice. It does not where all spaces have a global ASID,
    /// or none.
    #[inline]
    pub(crate) fn begin_pace(&self) -> Option<u64> {
        self.gives_asids().map(|_| self.platform().now())
    }

    #[inline]
    fn gives_asids(&self) -> Option<Broadcast> {
        let Capabilities { asids: true, broadcast, .. } = self.platform().capabilities() else { return None };
        broadcast.filter(|broadcast| broadcast.holders() == Holders::Wide)
    }

    /// Looks at the space if it is time, and begins to give it a global ASID or to take it back.
    #[inline]
    pub(crate) fn consider(&self, space: &AddressSpace, generation: Generation) {
        if self.platform().looks_at(space, generation) {
            if let Some(broadcast) = self.gives_asids() {
                self.look(space, broadcast);
            }
        }
    }

    #[cold]
    fn look(&self, space: &AddressSpace, broadcast: Broadcast) {
        let platform = self.platform();
        let reading = space.tag.read();
        let holds = match reading.tagged() {
            Tagged::Slots => false,
            Tagged::Global(_) => true,
            Tagged::Adopting(_) | Tagged::Leaving(_) | Tagged::Ending(_) => return,
        };
        let narrow = space.narrow.load(Ordering::Relaxed);
        let (interrupt_ns, broadcast_ns) = space.pace.read();
        let look = Look { running: self.running(space), holds, narrow, interrupt_ns, broadcast_ns };
        if !holds {
            space.pace.forget_broadcasts();
        }
        // Several CPUs may count at once and lose a look. The space then needs one more.
        space.narrow.store(if look.is_wide() { 0 } else { look.narrow.saturating_add(1) }, Ordering::Relaxed);
        match (holds, platform.deserves_asid(space, look)) {
            (false, true) if space.tag.claim() => {
                if let Some(late) = space.tag.adopt(self.take_asid(broadcast)) {
                    self.asids.free(late);
                }
            }
            (true, false) => {
                space.tag.leave(reading);
            }
            _ => {}
        }
    }

    /// The number of CPUs that run programs of a space.
    fn running(&self, space: &AddressSpace) -> u32 {
        let mut running = 0;
        space.cpus().for_each(|cpu| {
            let seen = &self.platform().cpu(cpu).seen;
            running += u32::from(seen.loaded() == space.id() && !seen.is_lazy());
        });
        running
    }
}
