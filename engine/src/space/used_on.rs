//! The CPUs that may hold entries of a space under its global ASID: none, one, or several.
//!
//! A broadcast occupies every CPU of the machine. A space that has run on one CPU only needs none: that CPU invalidates
//! its own entries. The word below is never lowered, since a CPU that has left the space still holds its entries.
//!
//! Why no CPU is missed: a CPU that loads the space first notes itself here, then loads the root, which is a full
//! barrier, and only then walks the tables. A flush changes the tables first and then reads the word. So either the
//! flush reads of the second CPU and broadcasts, or that CPU walks the changed tables. (For Linux on Arm the same was
//! proposed by R. Roberts, RFC of August 2025, and L. Cherian, v2 of May 2026.)

use crate::cpu_set::CpuId;
use crate::primitive::{AtomicU32, Ordering};

const NONE: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;

/// The CPUs that have run the space under a global ASID.
#[derive(Debug)]
pub(crate) struct UsedOn(AtomicU32);

/// The content of the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Users {
    None,
    One(usize),
    Several,
}

impl UsedOn {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(NONE))
    }

    /// Notes that `cpu` is about to run the space under the ASID. Afterwards the caller loads the root.
    #[inline]
    pub(crate) fn note(&self, cpu: CpuId) {
        let mine = cpu.index() as u32;
        // Equivalent to Relaxed: the load of the root that follows is a full barrier.
        let before = self.0.load(Ordering::SeqCst);
        if before == mine || before == SEVERAL {
            return;
        }
        // Equivalent to Relaxed: the load of the root that follows is a full barrier.
        let first = self.0.compare_exchange(NONE, mine, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if !first {
            // Equivalent to Relaxed: the load of the root that follows is a full barrier.
            self.0.store(SEVERAL, Ordering::SeqCst);
        }
    }

    /// Read it after the page tables were changed and the generation was raised.
    pub(crate) fn read(&self) -> Users {
        match self.0.load(Ordering::SeqCst) {
            NONE => Users::None,
            SEVERAL => Users::Several,
            one => Users::One(one as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_cpu_makes_several_for_good() {
        let cpu = |number| CpuId::new(number).unwrap();
        let used = UsedOn::new();
        assert_eq!(used.read(), Users::None);
        for (number, then) in
            [(1, Users::One(1)), (1, Users::One(1)), (0, Users::Several), (1, Users::Several)]
        {
            used.note(cpu(number));
            assert_eq!(used.read(), then);
        }
    }
}
