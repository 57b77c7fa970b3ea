//! The operand of Arm's TLBI as a number (DDI 0487, TLBI VAE1IS, TLBI RVAE1IS).
//!
//! The operand for a single page has the page's number in its low bits. The operand for a range has a base, and a
//! length of `(NUM + 1) * 2^(5 * SCALE + 1)` pages. Four ranges and a single page therefore make any number of pages up
//! to two million (`FEAT_TLBIRANGE`). The high bits of both are the ASID.
//!
//! If no page-table page goes with the invalidated translations, only entries of the last level must go, and the
//! operand may name that level (`FEAT_TTL`). A wrong hint may invalidate nothing. The hint is therefore derived from
//! the size of the entries that were cleared, and never given where a table was unlinked or entries of several sizes
//! were cleared.

use ceasefire::PageSize;

/// The processor's features for TLBI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forms {
    /// Ranges.
    pub(crate) range: bool,
    /// Level hints.
    pub(crate) hint: bool,
}

/// One instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    /// One translation of any level.
    Page(u64),
    /// Many neighbouring translations of any level.
    Range(u64),
}

/// The most pages of 4 KiB that one call of [`Forms::operations`] covers with ranges: 31 of each scale.
pub(crate) const MOST_PAGES: u32 = 31 * (2 + (2 << 5) + (2 << 10) + (2 << 15));

/// The bits for pages of 4 KiB in a range.
const GRANULE: u64 = 1 << 46;
const BASE: u64 = (1 << 37) - 1;
const NUMBER: u64 = (1 << 44) - 1;

impl Forms {
    /// How many translations one operation takes, in the engine's count.
    pub(crate) const fn pages(self) -> u32 {
        if self.range {
            // This many even if all are huge.
            MOST_PAGES >> 9
        } else {
            1
        }
    }

    /// The level of entries of this size, or 0 where no hint is allowed.
    fn level(self, size: PageSize, alone: bool) -> u64 {
        match size {
            _ if !(alone && self.hint) => 0,
            PageSize::KIB_4 => 3,
            _ => 2,
        }
    }

    /// The operations that invalidate `count` translations of `size` from `start` on under the ASID in the high bits of
    /// `asid`. With `alone`, nothing else must go with them: no larger translations, and nothing that walkers cached on
    /// the way.
    pub(crate) fn operations(
        self,
        asid: u64,
        start: u64,
        count: u32,
        size: PageSize,
        alone: bool,
    ) -> impl Iterator<Item = Operation> {
        let level = self.level(size, alone);
        let single = move |page: u64| {
            // A hint includes the granule: 1 for 4 KiB.
            let hint = if level == 0 { 0 } else { (1 << 2 | level) << 44 };
            Operation::Page(asid | hint | page & NUMBER)
        };
        let (first, step) = (start >> 12, size.bytes() >> 12);
        let ranges = self.range && count > 1;
        let singles = if ranges { 0 } else { u64::from(count) };
        let pages = if ranges { u64::from(count) * step } else { 0 };
        debug_assert!(
            pages <= u64::from(MOST_PAGES) + 1,
            "{pages} pages are more than ranges of every scale take"
        );
        let odd = (pages % 2 == 1).then(|| single(first));
        let mut at = first + pages % 2;
        let parts = (0..4_u64).filter_map(move |scale| {
            let number = pages >> (5 * scale + 1) & 31;
            let base = at;
            at += number << (5 * scale + 1);
            (number > 0).then(|| {
                let length = scale << 44 | (number - 1) << 39;
                Operation::Range(asid | GRANULE | length | level << 37 | base & BASE)
            })
        });
        (0..singles).map(move |index| single(first + index * step)).chain(odd).chain(parts)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const ALL: Forms = Forms { range: true, hint: true };
    const ASID: u64 = 9 << 48;

    /// The pages of 4 KiB that an operation on small pages covers, as first and count, and its level hint.
    fn covered(operation: Operation) -> (u64, u64, u64) {
        match operation {
            Operation::Page(bits) => {
                assert_eq!(bits >> 48, 9);
                let hint = bits >> 44 & 15;
                assert!(hint == 0 || hint >> 2 == 1, "the granule goes with a level");
                (bits & NUMBER, 1, hint & 3)
            }
            Operation::Range(bits) => {
                assert_eq!((bits >> 48, bits >> 46 & 3), (9, 1));
                let (scale, number) = (bits >> 44 & 3, bits >> 39 & 31);
                (bits & BASE, (number + 1) << (5 * scale + 1), bits >> 37 & 3)
            }
        }
    }

    /// Compares the fields with DDI 0487: an ASID of 9, VA `0x40_0000`, and each field by itself.
    #[test]
    fn fields_are_where_the_manual_has_them() {
        let bits = |count, size, alone| -> Vec<u64> {
            let operations = ALL.operations(ASID, 0x40_0000, count, size, alone);
            operations.map(|(Operation::Page(bits) | Operation::Range(bits))| bits).collect()
        };
        // VAE1IS: ASID 63:48, TTL 47:44 (granule, level), VA[55:12] 43:0.
        assert_eq!(bits(1, PageSize::KIB_4, false), [0x0009_0000_0000_0400]);
        assert_eq!(bits(1, PageSize::KIB_4, true), [0x0009_7000_0000_0400]);
        assert_eq!(bits(1, PageSize::MIB_2, true), [0x0009_6000_0000_0400]);
        // RVAE1IS: ASID 63:48, TG 47:46, SCALE 45:44, NUM 43:39, TTL 38:37, BaseADDR 36:0.
        assert_eq!(bits(2, PageSize::KIB_4, false), [0x0009_4000_0000_0400]);
        assert_eq!(bits(2, PageSize::KIB_4, true), [0x0009_4060_0000_0400]);
        assert_eq!(bits(62, PageSize::KIB_4, false), [0x0009_4f00_0000_0400]);
        assert_eq!(bits(3, PageSize::KIB_4, false), [0x0009_0000_0000_0400, 0x0009_4000_0000_0401]);
        // 1024 pages are 16 times 2^6.
        assert_eq!(bits(2, PageSize::MIB_2, true), [0x0009_57c0_0000_0400]);
    }

    /// A range with a hint of level 2 begins where an entry of that level can.
    #[test]
    fn ranges_of_huge_pages_begin_at_huge_pages() {
        for count in 2..300 {
            for operation in ALL.operations(ASID, 0x40_0000, count, PageSize::MIB_2, true) {
                assert_eq!(covered(operation).0 % 512, 0, "{count} pages");
            }
        }
    }

    #[test]
    fn ranges_cover_the_requested_pages_once_and_no_others() {
        let counts = (1..200).chain([511, 512, 4095, 65_535, 65_536, 1 << 20, MOST_PAGES - 1, MOST_PAGES]);
        for count in counts {
            let mut next = 0x1234;
            let operations: Vec<_> =
                ALL.operations(ASID, 0x123_4000, count, PageSize::KIB_4, false).collect();
            for &operation in &operations {
                let (first, pages, level) = covered(operation);
                assert_eq!((first, level), (next, 0), "{count} pages");
                next += pages;
            }
            assert_eq!(next - 0x1234, u64::from(count));
            assert!(operations.len() <= 5, "{count} pages take {}", operations.len());
        }
        let most = ALL.pages();
        let huge: u64 =
            ALL.operations(ASID, 0, most, PageSize::MIB_2, true).map(|operation| covered(operation).1).sum();
        assert_eq!(huge, u64::from(most) << 9);
    }

    #[test]
    fn without_ranges_each_translation_is_one_operation() {
        let single = Forms { range: false, hint: false };
        let pages = |size| single.operations(ASID, 0x40_0000, 3, size, true).map(covered).collect::<Vec<_>>();
        assert_eq!(pages(PageSize::KIB_4), [(0x400, 1, 0), (0x401, 1, 0), (0x402, 1, 0)]);
        assert_eq!(pages(PageSize::MIB_2), [(0x400, 1, 0), (0x600, 1, 0), (0x800, 1, 0)]);
        assert_eq!(single.pages(), 1);
    }

    #[test]
    fn a_level_is_given_only_where_nothing_else_goes() {
        for (size, level) in [(PageSize::KIB_4, 3), (PageSize::MIB_2, 2)] {
            for count in [1, 2, 7] {
                for (alone, expected) in [(true, level), (false, 0)] {
                    for operation in ALL.operations(ASID, 0, count, size, alone) {
                        assert_eq!(covered(operation).2, expected, "{count} of {size:?}");
                    }
                }
            }
        }
    }
}
