//! Which spaces deserve a global ASID, and when somebody looks.
//!
//! An ASID that means the same everywhere spares a space the interrupts of its flushes, and there are fewer of them than
//! processes. So those get one that several CPUs run at once, and give it back when they do no more. Counting CPUs
//! costs a look at each, so it is done after some flushes only; both questions are the kernel's to answer
//! ([`Platform::looks_at`], [`Platform::deserves_asid`]), and the answers here are those of Linux where it has any:
//! one flush in 32 (it compares the process' number with the clock), four CPUs. Linux lets a process keep its ASID for life;
//! here one that was narrow at each of several looks in a row gives it back, since whoever waits for a lock is
//! not counted for a moment.

use crate::address_space::AddressSpace;
use crate::capabilities::{Broadcast, Capabilities, Holders};
use crate::generation::Generation;
use crate::platform::Platform;
use crate::primitive::Ordering;
use crate::tag::Tagged;
use crate::Engine;

/// After how many flushes of a space somebody looks, unless the kernel says otherwise.
pub const LOOK_EVERY: u64 = 32;
/// How many CPUs have to run a space for it to deserve a global ASID, unless the kernel says otherwise.
pub const WIDE: u32 = 4;
/// At how many looks in a row it has to be run by one CPU at most before it gives the ASID back, unless the kernel says
/// otherwise.
pub const PATIENCE: u32 = 16;

/// What was seen of a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// CPUs that run programs of it at the moment.
    pub running: u32,
    /// Whether it has a global ASID.
    pub holds: bool,
    /// At how many looks before this one, in a row, it did not deserve one by the number of CPUs alone: see
    /// [`Look::is_wide`].
    pub narrow: u32,
}

impl Look {
    /// Whether several CPUs run it: [`WIDE`] to get an ASID, two to keep it.
    pub const fn is_wide(self) -> bool {
        self.running >= if self.holds { 2 } else { WIDE }
    }
}

impl<P: Platform> Engine<P> {
    /// Looks whether the space deserves a global ASID that it has not, or has one that it does not deserve, if it is time.
    #[inline]
    pub(crate) fn consider(&self, space: &AddressSpace, generation: Generation) {
        let Capabilities { asids: true, broadcast: Some(broadcast), .. } = self.platform().capabilities()
        else {
            return;
        };
        if broadcast.holders() == Holders::Wide && self.platform().looks_at(space, generation) {
            self.look(space, broadcast);
        }
    }

    #[cold]
    fn look(&self, space: &AddressSpace, broadcast: Broadcast) {
        let platform = self.platform();
        let reading = space.tag.read();
        let holds = match reading.tagged() {
            Tagged::Slots => false,
            Tagged::Global(_) => true,
            Tagged::Adopting(_) | Tagged::Leaving(_) => return,
        };
        let look = Look { running: self.running(space), holds, narrow: space.narrow.load(Ordering::Relaxed) };
        // Several may count at once and lose a look: then it takes one more.
        space.narrow.store(if look.is_wide() { 0 } else { look.narrow.saturating_add(1) }, Ordering::Relaxed);
        match (holds, platform.deserves_asid(space, look)) {
            (false, true) if space.tag.claim() => {
                space.tag.adopt(self.take_asid(broadcast));
            }
            (true, false) => {
                space.tag.leave(reading);
            }
            _ => {}
        }
    }

    /// How many CPUs run programs of a space.
    fn running(&self, space: &AddressSpace) -> u32 {
        let mut running = 0;
        space.cpus().for_each(|cpu| {
            let seen = &self.platform().cpu(cpu).seen;
            running += u32::from(seen.loaded() == space.id() && !seen.is_lazy());
        });
        running
    }
}
