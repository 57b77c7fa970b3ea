//! Which spaces deserve a global ASID, and when somebody looks.
//!
//! An ASID that means the same everywhere spares a space the interrupts of its flushes, and there are fewer of them than
//! processes. So those get one that several CPUs run at once, and give it back when they do no more. Counting CPUs
//! costs a look at each, so it is done after some flushes only; both questions are the kernel's to answer
//! ([`Platform::looks_at`], [`Platform::deserves_asid`]), and the answers here are those of Linux where it has any:
//! one flush in 32 (it compares the process' number with the clock), four CPUs. Linux lets a process keep its ASID for life;
//! here one that was narrow at each of several looks in a row gives it back, since whoever waits for a lock is
//! not counted for a moment. And one for which broadcasts turn out slower than its interrupts were: each broadcast keeps
//! all of a machine's CPUs busy for a moment, so thousands of processes can have too many of them at once.

use crate::address_space::AddressSpace;
use crate::capabilities::{Broadcast, Capabilities, Holders};
use crate::generation::Generation;
use crate::platform::Platform;
use crate::primitive::{AtomicU32, Ordering};
use crate::tag::{Reading, Tagged};
use crate::Engine;

/// Somebody looks after one in so many flushes of a space, unless the kernel says otherwise: those whose generation is a
/// multiple. What batches record counts as flushes, and nobody looks after it.
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
    /// How long its flushes by interrupts took of late, and those by broadcasts, in nanoseconds; 0 for none.
    pub interrupt_ns: u32,
    /// Of late, as far as that is remembered: see [`Look::pays`].
    pub broadcast_ns: u32,
}

impl Look {
    /// Whether several CPUs run it: [`WIDE`] to get an ASID, two to keep it.
    pub const fn is_wide(self) -> bool {
        self.is_run_by(WIDE)
    }

    /// The same, with another number to get one.
    const fn is_run_by(self, wide: u32) -> bool {
        self.running >= if self.holds { 2 } else { wide }
    }

    /// Whether the space should have a global ASID, where `wide` CPUs have to run it to get one: if they do, or it has one
    /// and two did within [`PATIENCE`] looks, and broadcasts [pay](Look::pays).
    pub const fn deserves(self, wide: u32) -> bool {
        (self.is_run_by(wide) || (self.holds && self.narrow < PATIENCE)) && self.pays()
    }

    /// Whether broadcasts are no slower than interrupts were, by half as much again where it has an ASID already. Unknown
    /// is no slower. What is known of broadcasts fades by a sixteenth at each look without an ASID, so that some day the
    /// space tries again.
    pub const fn pays(self) -> bool {
        let most = if self.holds {
            self.interrupt_ns.saturating_add(self.interrupt_ns / 2)
        } else {
            self.interrupt_ns
        };
        self.interrupt_ns == 0 || self.broadcast_ns <= most
    }
}

/// How long flushes of a space take, by interrupts and by broadcasts: averages over the last few, in nanoseconds. CPUs that
/// count at once lose a flush: an average stays one.
#[derive(Debug)]
pub(crate) struct Pace {
    interrupt: AtomicU32,
    broadcast: AtomicU32,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self { interrupt: AtomicU32::new(0), broadcast: AtomicU32::new(0) }
    }

    /// Counts a flush of a space that was tagged like that. What both transports carried says nothing of either.
    pub(crate) fn add(&self, tag: Reading, took: u64) {
        let average = match tag.tagged() {
            Tagged::Slots => &self.interrupt,
            Tagged::Global(_) => &self.broadcast,
            Tagged::Adopting(_) | Tagged::Leaving(_) => return,
        };
        let took = u32::try_from(took).unwrap_or(u32::MAX);
        let before = average.load(Ordering::Relaxed);
        let after = if before == 0 { took } else { before - before / 8 + took / 8 };
        average.store(after, Ordering::Relaxed);
    }

    fn read(&self) -> (u32, u32) {
        (self.interrupt.load(Ordering::Relaxed), self.broadcast.load(Ordering::Relaxed))
    }

    fn forget_broadcasts(&self) {
        let before = self.broadcast.load(Ordering::Relaxed);
        self.broadcast.store(before - before / 16, Ordering::Relaxed);
    }
}

impl<P: Platform> Engine<P> {
    /// When a flush begins whose time counts, since it decides about global ASIDs: not where all spaces have one, or none.
    #[inline]
    pub(crate) fn begin_pace(&self) -> Option<u64> {
        self.gives_asids().map(|_| self.platform().now())
    }

    #[inline]
    fn gives_asids(&self) -> Option<Broadcast> {
        let Capabilities { asids: true, broadcast, .. } = self.platform().capabilities() else { return None };
        broadcast.filter(|broadcast| broadcast.holders() == Holders::Wide)
    }

    /// Looks whether the space deserves a global ASID that it has not, or has one that it does not deserve, if it is time.
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
            Tagged::Adopting(_) | Tagged::Leaving(_) => return,
        };
        let narrow = space.narrow.load(Ordering::Relaxed);
        let (interrupt_ns, broadcast_ns) = space.pace.read();
        let look = Look { running: self.running(space), holds, narrow, interrupt_ns, broadcast_ns };
        if !holds {
            space.pace.forget_broadcasts();
        }
        // Several may count at once and lose a look: then it takes one more.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tag::Tag;
    use crate::Asid;

    fn look(holds: bool, interrupt_ns: u32, broadcast_ns: u32) -> Look {
        Look { running: 4, holds, narrow: 0, interrupt_ns, broadcast_ns }
    }

    #[test]
    fn broadcasts_pay_unless_they_are_known_to_be_slower() {
        assert!(look(false, 0, 0).pays() && look(false, 0, 9).pays() && look(false, 5, 0).pays());
        assert!(look(false, 5, 5).pays() && !look(false, 5, 6).pays());
        assert!(look(true, 10, 15).pays() && !look(true, 10, 16).pays(), "to keep it, half as much again");
        assert!(look(true, u32::MAX, u32::MAX).pays());
    }

    #[test]
    fn averages_follow_what_was_measured_and_broadcasts_are_forgotten() {
        let (slots, global) = (Tag::new(None).read(), Tag::new(Some(Asid::new(9))).read());
        let pace = Pace::new();
        pace.add(slots, 800);
        pace.add(global, 1600);
        pace.add(global, u64::MAX);
        assert_eq!(pace.read(), (800, 1600 - 200 + u32::MAX / 8));
        for _ in 0..200 {
            pace.add(global, 1600);
        }
        let settled = pace.read().1;
        assert!((1500..1700).contains(&settled), "{settled}");
        for _ in 0..12 {
            pace.forget_broadcasts();
        }
        assert!((700..=800).contains(&pace.read().1));
    }
}
