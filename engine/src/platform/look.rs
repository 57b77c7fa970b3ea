//! The choice of the spaces that get a global ASID.
//!
//! A global ASID spares a space the interrupts of its flushes. There are fewer such ASIDs than processes, so only a
//! space that several CPUs run at once deserves one. Counting those CPUs costs a look at each of them, so the engine
//! counts after some flushes only. The kernel may decide when to look
//! ([`Platform::looks_at`](crate::Platform::looks_at)) and who deserves
//! ([`Platform::deserves_asid`](crate::Platform::deserves_asid)).
//!
//! The defaults follow Linux where it has a rule: one flush in 32 (Linux compares the process's number with the clock),
//! and four CPUs. They differ in one point. Linux lets a process keep its ASID for life; here a space gives it back in
//! two cases:
//!
//! - It was narrow (run by one CPU at most) at [`PATIENCE`] looks in a row. One look is not enough, since a CPU whose
//!   thread waits for a lock is not counted at that moment.
//! - Its broadcasts prove slower than its interrupts were. Each broadcast occupies all of a machine's CPUs for a
//!   moment, so thousands of processes can have too many of them at once.

/// The default distance between two looks at a space, in flushes: the engine looks after a flush whose generation is a
/// multiple of it. Translations that batches record raise the generation too, but the engine does not look after them.
pub const LOOK_EVERY: u64 = 32;
/// The default number of CPUs that must run a space for it to deserve a global ASID.
pub const WIDE: u32 = 4;
/// The default number of looks in a row at which one CPU at most runs a space before the space gives its ASID back.
pub const PATIENCE: u32 = 16;

/// The result of a look at a space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The number of CPUs that run programs of the space at the moment.
    pub running: u32,
    /// Whether the space has a global ASID.
    pub holds: bool,
    /// The number of looks in a row before this one at which the space was not wide enough: see [`Look::is_wide`].
    pub narrow: u32,
    /// How long the space's flushes by interrupts took recently, in nanoseconds; 0 if unknown.
    pub interrupt_ns: u32,
    /// How long its flushes by broadcasts took recently, in nanoseconds; 0 if unknown. It fades: see [`Look::pays`].
    pub broadcast_ns: u32,
}

impl Look {
    /// Whether enough CPUs run the space: [`WIDE`] to get an ASID, two to keep it.
    pub const fn is_wide(self) -> bool {
        self.is_run_by(WIDE)
    }

    /// The same with another number of CPUs to get one.
    const fn is_run_by(self, wide: u32) -> bool {
        self.running >= if self.holds { 2 } else { wide }
    }

    /// Whether the space should have a global ASID, where `wide` CPUs must run it to get one.
    ///
    /// It should if broadcasts [pay](Look::pays) and enough CPUs run it. A space that has an ASID also keeps it if two
    /// CPUs ran it within the last [`PATIENCE`] looks.
    pub const fn deserves(self, wide: u32) -> bool {
        (self.is_run_by(wide) || (self.holds && self.narrow < PATIENCE)) && self.pays()
    }

    /// Whether broadcasts are no slower than interrupts were. A space that has an ASID keeps it until broadcasts are
    /// slower by half. An unknown time counts as no slower.
    ///
    /// The recorded time of broadcasts shrinks by a sixteenth at each look without an ASID, so the space eventually
    /// tries again.
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
    fn more_cpus_are_needed_to_get_an_asid_than_to_keep_it() {
        let wide = |holds, running| Look { running, ..look(holds, 0, 0) }.is_wide();
        assert!(wide(false, WIDE) && !wide(false, WIDE - 1));
        assert!(wide(true, 2) && !wide(true, 1));
    }

    #[test]
    fn a_narrow_space_keeps_its_asid_for_a_while() {
        let deserves = |holds, narrow| Look { running: 1, narrow, ..look(holds, 0, 0) }.deserves(WIDE);
        assert!(deserves(true, 0) && deserves(true, PATIENCE - 1) && !deserves(true, PATIENCE));
        assert!(!deserves(true, PATIENCE + 1) && !deserves(false, 0));
        let slow = look(true, 10, 16);
        assert!(!slow.deserves(WIDE), "broadcasts must pay");
    }

    #[test]
    fn broadcasts_pay_unless_they_are_known_to_be_slower() {
        assert!(look(false, 0, 0).pays() && look(false, 0, 9).pays() && look(false, 5, 0).pays());
        assert!(look(false, 5, 5).pays() && !look(false, 5, 6).pays());
        assert!(look(true, 10, 15).pays() && !look(true, 10, 16).pays(), "to keep it, half as much again");
        assert!(look(true, u32::MAX, u32::MAX).pays());
    }
}
