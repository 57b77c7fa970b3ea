//! The extent of a flush, and the work that it means for one CPU: nothing, single pages, or everything.
//!
//! A request names a range of a space and a generation. The work follows from three numbers: the generation that the
//! CPU has reached, the request's, and the newest of the space.
//!
//! - The CPU has reached the request's generation: nothing.
//! - It is one behind and the request is the newest: the pages of the range.
//! - It is further behind, or newer requests exist: everything, which catches up with all requests at once.

use crate::space::Generation;

/// The largest number of pages that are invalidated one by one; a longer range is flushed whole.
///
/// It is Linux's `tlb_single_page_flush_ceiling`. At some 100 ns a page, 33 pages bound the work at about 3 us. The
/// comparison is strict: 33 pages are still invalidated one by one.
pub const SINGLE_PAGE_CEILING: u32 = 33;

/// The size of a translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageSize {
    /// 4 KiB.
    Small,
    /// 2 MiB.
    Huge,
}

impl PageSize {
    /// log2 of the size in bytes.
    pub const fn shift(self) -> u32 {
        match self {
            Self::Small => 12,
            Self::Huge => 21,
        }
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        1 << self.shift()
    }
}

/// The addresses that a flush covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Every address of the space.
    All,
    /// Single translations.
    Pages {
        /// The first address.
        start: u64,
        /// How many translations of `size`.
        count: u32,
        /// The distance between them.
        size: PageSize,
    },
}

/// A flush to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flush {
    /// The addresses that it covers.
    pub extent: Extent,
    /// Page-table pages are freed after it. So it interrupts lazy CPUs too: they use no translation, but their hardware
    /// may walk the tables.
    pub tables: bool,
    /// Translations of other sizes than `size` lie among the pages. The platform must then give the hardware no hint of
    /// the size (Arm's level hint).
    pub mixed: bool,
}

impl Flush {
    /// The whole space, page tables included.
    pub const ALL: Self = Self { extent: Extent::All, tables: true, mixed: true };

    /// One small page.
    pub const fn page(address: u64) -> Self {
        let extent = Extent::Pages { start: address, count: 1, size: PageSize::Small };
        Self { extent, tables: false, mixed: false }
    }

    /// The whole space, without page tables.
    pub(crate) const TRANSLATIONS: Self = Self { tables: false, ..Self::ALL };

    /// The translations of `size` that lie in `[start, end)`, wholly or in part.
    pub const fn range(start: u64, end: u64, size: PageSize) -> Self {
        let start = start & !(size.bytes() - 1);
        let translations = end.saturating_sub(start).saturating_add(size.bytes() - 1) >> size.shift();
        if translations > u32::MAX as u64 {
            return Self::TRANSLATIONS;
        }
        let extent = Extent::Pages { start, count: translations as u32, size };
        Self { extent, tables: false, mixed: false }
    }

    /// The same flush, widened to everything if it has more than `ceiling` pages.
    pub(crate) const fn limited(self, ceiling: u32) -> Self {
        match self.extent {
            Extent::Pages { count, .. } if count > ceiling => Self { extent: Extent::All, ..self },
            _ => self,
        }
    }
}

/// The work of one CPU for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    Nothing,
    Pages,
    Everything,
}

/// Decides the work of a CPU that has reached `local`, for a request of generation `requested`, while the space is at
/// `newest`.
///
/// Pages suffice only if `requested` is the very next after `local`; otherwise the CPU would skip a flush in between.
/// They also require that `requested` is the newest. That is not needed for correctness: a flush of everything makes
/// the requests behind it free.
pub(crate) fn work(extent: Extent, local: Generation, requested: Generation, newest: Generation) -> Work {
    if local >= newest {
        Work::Nothing
    } else if !matches!(extent, Extent::All) && requested.follows(local) && requested == newest {
        Work::Pages
    } else {
        Work::Everything
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Extent = Extent::Pages { start: 0x1000, count: 1, size: PageSize::Small };

    fn generation(n: u64) -> Generation {
        Generation::from_raw(n)
    }

    #[test]
    fn one_behind_and_the_newest_is_partial() {
        assert_eq!(work(PAGE, generation(4), generation(5), generation(5)), Work::Pages);
        assert_eq!(work(Extent::All, generation(4), generation(5), generation(5)), Work::Everything);
    }

    #[test]
    fn a_skipped_generation_is_never_partial() {
        // tlb-bugs E7: a page flush may advance a CPU by one generation only.
        assert_eq!(work(PAGE, generation(3), generation(5), generation(5)), Work::Everything);
    }

    #[test]
    fn newer_requests_make_it_everything_and_then_nothing() {
        assert_eq!(work(PAGE, generation(4), generation(5), generation(6)), Work::Everything);
        assert_eq!(work(PAGE, generation(6), generation(6), generation(6)), Work::Nothing);
    }

    #[test]
    fn the_ceiling_is_strict_and_counts_translations() {
        let pages = |n: u64, size: PageSize| Flush::range(0, n << size.shift(), size).limited(33).extent;
        assert!(matches!(pages(33, PageSize::Small), Extent::Pages { count: 33, .. }));
        assert_eq!(pages(34, PageSize::Small), Extent::All);
        assert!(matches!(pages(33, PageSize::Huge), Extent::Pages { count: 33, .. }));
        assert_eq!(Flush::page(0).limited(0).extent, Extent::All);
        assert_eq!(Flush::range(0, u64::MAX, PageSize::Small).extent, Extent::All);
    }

    #[test]
    fn a_tail_shorter_than_a_page_counts_as_one() {
        assert!(matches!(Flush::range(0, 1, PageSize::Small).extent, Extent::Pages { count: 1, .. }));
    }
}
