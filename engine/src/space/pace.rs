//! Pace: the recent average time of a space's flushes, by interrupts and by broadcasts.
//!
//! The choice of the spaces that get a global ASID compares the two ([`Look::pays`](crate::Look::pays)).

use super::tag::{Reading, Tagged};
use crate::primitive::{AtomicU32, Ordering};

/// The recent average time of a space's flushes, by interrupts and by broadcasts, in nanoseconds. CPUs that count at
/// once may lose a flush, which an average tolerates.
#[derive(Debug)]
pub(crate) struct Pace {
    interrupt: AtomicU32,
    broadcast: AtomicU32,
}

impl Pace {
    pub(crate) const fn new() -> Self {
        Self { interrupt: AtomicU32::new(0), broadcast: AtomicU32::new(0) }
    }

    /// Counts a flush of a space that had this tag. A flush by both transports says nothing of either, and is not
    /// counted.
    pub(crate) fn add(&self, tag: Reading, took: u64) {
        let average = match tag.tagged() {
            Tagged::Slots => &self.interrupt,
            Tagged::Global(_) => &self.broadcast,
            Tagged::Adopting(_) | Tagged::Leaving(_) | Tagged::Ending(_) => return,
        };
        let took = u32::try_from(took).unwrap_or(u32::MAX);
        let before = average.load(Ordering::Relaxed);
        let after = if before == 0 { took } else { before - before / 8 + took / 8 };
        average.store(after, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> (u32, u32) {
        (self.interrupt.load(Ordering::Relaxed), self.broadcast.load(Ordering::Relaxed))
    }

    pub(crate) fn forget_broadcasts(&self) {
        let before = self.broadcast.load(Ordering::Relaxed);
        self.broadcast.store(before - before / 16, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tag::Tag;
    use super::super::Asid;
    use super::*;

    #[test]
    fn averages_follow_the_measurements_and_broadcasts_fade() {
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
