//! The extent of a flush, and the work that it means for one CPU: nothing, single pages, or everything.
//!
//! A request names a range of a space and a generation. The work follows from three numbers: the generation that the
//! CPU has reached, the request's, and the newest of the space.
//!
//! - The CPU has reached the request's generation: nothing.
//! - It is one behind and the request is the newest: the pages of the range.
//! - It is further behind, or newer requests exist: everything, which catches up with all requests at once.

use core::fmt;

use crate::space::Generation;

/// The largest number of pages that are invalidated one by one; a longer range is flushed whole.
///
/// It is Linux's `tlb_single_page_flush_ceiling`. At some 100 ns a page, 33 pages bound the work at about 3 us. The
/// comparison is strict: 33 pages are still invalidated one by one.
pub const SINGLE_PAGE_CEILING: u32 = 33;

/// The size of a translation: a power of two.
///
/// Which sizes exist is the processor's and the kernel's choice. On Arm it follows from the granule (Arm ARM, D8.3):
/// 4 KiB, 2 MiB and 1 GiB; 16 KiB and 32 MiB; or 64 KiB and 512 MiB. The engine asks only that the sizes of one machine
/// are multiples of each other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageSize(u8);

impl PageSize {
    /// 4 KiB: the smallest page of x86, RISC-V and Arm's smallest granule.
    pub const KIB_4: Self = Self(12);
    /// 16 KiB: the smallest page of Arm's middle granule.
    pub const KIB_16: Self = Self(14);
    /// 64 KiB: the smallest page of Arm's largest granule.
    pub const KIB_64: Self = Self(16);
    /// 2 MiB: a huge page above 4 KiB pages.
    pub const MIB_2: Self = Self(21);
    /// 32 MiB: a huge page above 16 KiB pages.
    pub const MIB_32: Self = Self(25);
    /// 512 MiB: a huge page above 64 KiB pages.
    pub const MIB_512: Self = Self(29);
    /// 1 GiB: the next size above 2 MiB.
    pub const GIB_1: Self = Self(30);

    /// The size of `1 << shift` bytes, for the sizes without a name (Arm's contiguous ranges, RISC-V's Svnapot). `None`
    /// unless `shift` is 1 to 63.
    pub const fn from_shift(shift: u32) -> Option<Self> {
        if shift == 0 || shift > 63 {
            return None;
        }
        Some(Self(shift as u8))
    }

    /// The size that was stored as the number of [`PageSize::shift`].
    pub(crate) const fn stored(shift: u32) -> Self {
        Self(shift as u8)
    }

    /// log2 of the size in bytes.
    pub const fn shift(self) -> u32 {
        self.0 as u32
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        1 << self.0
    }

    /// The start of the page that `address` lies in.
    pub(crate) const fn start_of(self, address: u64) -> u64 {
        address & !(self.bytes() - 1)
    }
}

impl fmt::Debug for PageSize {
    /// The size in the largest unit that divides it: "4 KiB", "1 GiB".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.shift() / 10;
        let name = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][unit as usize];
        write!(f, "{} {name}", 1_u64 << (self.shift() - 10 * unit))
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
    /// Page-table pages are freed after it, so the entries that walkers cached on the way to the pages go too. It also
    /// interrupts lazy CPUs: they use no translation, but their walkers may read the tables.
    pub tables: bool,
    /// Translations of other sizes than `size` lie among the pages. The platform must then give the hardware no hint of
    /// the size (Arm's level hint).
    pub mixed: bool,
}

impl Flush {
    /// The whole space, page tables included.
    pub const ALL: Self = Self { extent: Extent::All, tables: true, mixed: true };

    /// The one translation of `size` at `address`.
    pub const fn page(address: u64, size: PageSize) -> Self {
        let extent = Extent::Pages { start: size.start_of(address), count: 1, size };
        Self { extent, tables: false, mixed: false }
    }

    /// The whole space, without page tables.
    pub(crate) const TRANSLATIONS: Self = Self { tables: false, ..Self::ALL };

    /// The translations of `size` that lie in `[start, end)`, wholly or in part.
    pub const fn range(start: u64, end: u64, size: PageSize) -> Self {
        let start = size.start_of(start);
        let bytes = end.saturating_sub(start);
        let tail = bytes & (size.bytes() - 1) != 0;
        let translations = (bytes >> size.shift()) + tail as u64;
        if translations > u32::MAX as u64 {
            return Self::TRANSLATIONS;
        }
        let extent = Extent::Pages { start, count: translations as u32, size };
        Self { extent, tables: false, mixed: false }
    }

    /// The address of each single translation that it covers; `None` for all of the space.
    pub fn addresses(self) -> Option<impl Iterator<Item = u64>> {
        match self.extent {
            Extent::All => None,
            Extent::Pages { start, count, size } => {
                // A range that ends with the address space has no address after the wrap.
                Some((0..u64::from(count)).map(move |page| start.wrapping_add(page << size.shift())))
            }
        }
    }

    /// The number of single translations that it covers; `None` for all.
    pub(crate) const fn pages(self) -> Option<u32> {
        match self.extent {
            Extent::All => None,
            Extent::Pages { count, .. } => Some(count),
        }
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
    extern crate std;

    use super::*;

    const PAGE: Extent = Extent::Pages { start: 0x1000, count: 1, size: PageSize::KIB_4 };

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
        assert!(matches!(pages(33, PageSize::KIB_4), Extent::Pages { count: 33, .. }));
        assert_eq!(pages(34, PageSize::KIB_4), Extent::All);
        assert!(matches!(pages(33, PageSize::MIB_2), Extent::Pages { count: 33, .. }));
        assert!(matches!(pages(33, PageSize::GIB_1), Extent::Pages { count: 33, .. }));
        assert_eq!(Flush::page(0, PageSize::KIB_64).limited(0).extent, Extent::All);
        assert_eq!(Flush::range(0, u64::MAX, PageSize::KIB_4).extent, Extent::All);
    }

    #[test]
    fn a_tail_shorter_than_a_page_counts_as_one() {
        assert!(matches!(Flush::range(0, 1, PageSize::KIB_4).extent, Extent::Pages { count: 1, .. }));
    }

    /// Every power of two and its neighbours: the addresses at which a carry, a mask or a bound begins to matter.
    fn edges() -> std::vec::Vec<u64> {
        let near = |power: u32| (-2..=2_i128).map(move |by| (1_i128 << power) + by);
        let mut edges: std::vec::Vec<u64> =
            (0..=64).flat_map(near).filter_map(|edge| u64::try_from(edge).ok()).collect();
        edges.sort_unstable();
        edges.dedup();
        edges
    }

    /// All pairs of edges with all sizes, against the same sums in twice as many bits.
    #[test]
    fn a_range_covers_its_addresses_and_less_than_a_page_more() {
        let edges = if cfg!(miri) { edges().into_iter().step_by(16).collect() } else { edges() };
        for size in (1..64).filter_map(PageSize::from_shift) {
            let bytes = u128::from(size.bytes());
            for &start in &edges {
                for &end in edges.iter().filter(|end| **end > start) {
                    let first = u128::from(start) / bytes * bytes;
                    let pages = (u128::from(end) - first).div_ceil(bytes);
                    let expected = match u32::try_from(pages) {
                        Ok(count) => Extent::Pages { start: first as u64, count, size },
                        Err(_) => Extent::All,
                    };
                    assert_eq!(
                        Flush::range(start, end, size).extent,
                        expected,
                        "{start:#x}..{end:#x} of {size:?}"
                    );
                }
            }
        }
    }

    /// All states of a CPU and a space that lie up to seven flushes apart. Only their order and distance count, so
    /// larger numbers add no case.
    #[test]
    fn the_work_leaves_out_no_flush() {
        for (newest, local) in (1..=8).flat_map(|newest| (0..=newest).map(move |local| (newest, local))) {
            for requested in 1..=newest {
                for extent in [PAGE, Extent::All] {
                    let missing: std::vec::Vec<u64> = (local + 1..=newest).collect();
                    let done =
                        match work(extent, generation(local), generation(requested), generation(newest)) {
                            Work::Nothing => std::vec![],
                            // The pages are those of the request alone.
                            Work::Pages => std::vec![requested],
                            Work::Everything => (1..=newest).collect(),
                        };
                    let covered = missing.iter().all(|flush| done.contains(flush));
                    assert!(covered, "{local}, {requested}, {newest}: {done:?} of {missing:?}");
                    assert!(
                        missing.is_empty() == done.is_empty(),
                        "{local}, {requested}, {newest}: for nothing"
                    );
                }
            }
        }
    }

    #[test]
    fn its_addresses_are_those_of_its_pages() {
        let addresses = |flush: Flush| flush.addresses().map(Iterator::collect::<std::vec::Vec<_>>);
        assert_eq!(addresses(Flush::ALL), None);
        let range = Flush::range(0x5000, 0x1_8001, PageSize::KIB_64);
        assert_eq!(addresses(range), Some(std::vec![0, 0x1_0000]));
        let last = Flush::range(u64::MAX - 0x1fff, u64::MAX, PageSize::KIB_4);
        assert_eq!(addresses(last), Some(std::vec![u64::MAX - 0x1fff, u64::MAX - 0xfff]));
    }

    #[test]
    fn a_page_starts_where_its_size_says() {
        let start = |size| match Flush::page(0x1_2345_6789, size).extent {
            Extent::Pages { start, .. } => start,
            Extent::All => unreachable!(),
        };
        assert_eq!(start(PageSize::KIB_16), 0x1_2345_4000);
        assert_eq!(start(PageSize::KIB_64), 0x1_2345_0000);
        assert_eq!(start(PageSize::MIB_32), 0x1_2200_0000);
        assert_eq!(start(PageSize::GIB_1), 0x1_0000_0000);
    }

    #[test]
    fn sizes_print_in_their_own_unit_and_out_of_range_ones_do_not_exist() {
        let text = |shift| PageSize::from_shift(shift).map(|size| std::format!("{size:?}"));
        assert_eq!(text(12).as_deref(), Some("4 KiB"));
        assert_eq!(text(29).as_deref(), Some("512 MiB"));
        assert_eq!(text(30).as_deref(), Some("1 GiB"));
        assert_eq!(text(63).as_deref(), Some("8 EiB"));
        assert_eq!((text(0), text(64)), (None, None));
    }
}
