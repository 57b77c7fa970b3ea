//! How CPUs, pages and page-table levels are numbered.

use ceasefire::{CpuId, PageSize};

/// log2 of the number of small pages in a huge page.
pub(crate) const HUGE_SHIFT: u32 = PageSize::MIB_2.shift() - PageSize::KIB_4.shift();

/// The number of small pages in a huge page.
pub(crate) const HUGE_PAGES: u64 = 1 << HUGE_SHIFT;

/// The number of the page of that size that contains a small page, among the pages of that size.
pub(crate) const fn number_of(page: u64, size: PageSize) -> u64 {
    match size {
        PageSize::KIB_4 => page,
        _ => page >> HUGE_SHIFT,
    }
}

/// The page-table level whose entries translate a page of that size.
pub(crate) const fn level_of(size: PageSize) -> u32 {
    match size {
        PageSize::KIB_4 => 0,
        _ => 1,
    }
}

/// The root of the kernel's own tables.
pub(crate) const KERNEL_ROOT: u32 = u32::MAX;

/// The identifier of a CPU by its index.
pub(crate) fn cpu_id(index: usize) -> CpuId {
    // The configuration bounds the number of CPUs.
    CpuId::new(index).unwrap_or_else(|error| unreachable!("{error}"))
}
