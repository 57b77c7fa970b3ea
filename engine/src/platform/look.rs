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

#[cfg(test)]
mod tests {
    use super::*;
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
}
