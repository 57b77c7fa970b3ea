//! The place of a cached translation.

/// The place at which an entry was filled, in one number, since there is one for each frame. From the top: the page
/// (35 bits, enough for all user addresses), the CPU (13 bits) and the ASID (16 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    /// No place: the last page below the kernel's, which is never mapped.
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
    fn a_place_keeps_its_cpu_page_and_asid() {
        for (cpu, page, asid) in [(0, 0, 0), (8191, (1 << 35) - 2, u16::MAX), (17, 0x7_1234_5678, 0x1234)] {
            let place = Place::new(cpu, page, asid);
            assert_eq!((place.cpu(), place.page(), place.asid()), (cpu, page, asid));
            assert_ne!(place, Place::NOWHERE);
        }
    }
}
