//! Where a translation was cached.

/// Where an entry was filled, in one number, since there is one for each frame: from the top the page (35 bits, all
/// that a program can reach), the CPU (13 bits) and the ASID (16 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    /// The last page below the kernel's, which nobody maps.
    pub(crate) const NOWHERE: Self = Self(u64::MAX);

    pub(crate) fn new(cpu: usize, page: u64, asid: u16) -> Self {
        Self(page << 29 | (cpu as u64) << 16 | u64::from(asid))
    }

    pub(crate) fn cpu(self) -> usize {
        (self.0 >> 16 & 0x1fff) as usize
    }

    pub(crate) fn page(self) -> u64 {
        self.0 >> 29
    }

    pub(crate) fn asid(self) -> u16 {
        self.0 as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_keep_what_they_are_given() {
        for (cpu, page, asid) in [(0, 0, 0), (8191, (1 << 35) - 2, u16::MAX), (17, 0x7_1234_5678, 0x1234)] {
            let place = Place::new(cpu, page, asid);
            assert_eq!((place.cpu(), place.page(), place.asid()), (cpu, page, asid));
            assert_ne!(place, Place::NOWHERE);
        }
    }
}
