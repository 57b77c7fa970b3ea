//! The addresses that a gather has changed since its last flush.

use crate::flush::{Flush, PageSize};

/// A range of changed addresses, or none.
#[derive(Debug)]
pub(crate) struct Span {
    start: u64,
    end: u64,
    /// The size of the smallest translation among them.
    size: PageSize,
    /// There are larger ones among them.
    mixed: bool,
    /// Page-table pages were unlinked among them.
    tables: bool,
}

impl Span {
    pub(crate) const fn new() -> Self {
        Self { start: u64::MAX, end: 0, size: PageSize::KIB_4, mixed: false, tables: false }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.start >= self.end
    }

    /// Adds the `bytes` from `address` on, where translations of `size` lie.
    #[inline]
    pub(crate) fn cover(&mut self, address: u64, size: PageSize, bytes: u64) {
        if self.is_empty() {
            self.size = size;
        }
        self.mixed |= size != self.size;
        self.size = self.size.min(size);
        let start = size.start_of(address);
        self.start = self.start.min(start);
        self.end = self.end.max(start.saturating_add(bytes));
    }

    /// Adds a page-table page that translates pages of `size`, `bytes` of them from `address` on. With one page of
    /// them, a flush also invalidates the entries that walkers cached on the way to it; with a larger page it may leave
    /// the entry that pointed to the page-table page.
    pub(crate) fn cover_table(&mut self, address: u64, size: PageSize, bytes: u64) {
        self.cover(address, size, bytes);
        self.tables = true;
    }

    /// The flush of all of it; `None` if it is empty.
    pub(crate) fn flush(&self) -> Option<Flush> {
        let Self { start, end, size, mixed, tables } = *self;
        (!self.is_empty()).then(|| Flush { tables, mixed, ..Flush::range(start, end, size) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flush::Extent;

    fn take(span: &mut Span) -> Option<Flush> {
        core::mem::replace(span, Span::new()).flush()
    }

    #[test]
    fn it_covers_all_that_was_added_in_the_smallest_size() {
        let mut span = Span::new();
        assert_eq!(span.flush(), None);
        span.cover(0x40_0000, PageSize::MIB_2, PageSize::MIB_2.bytes());
        assert_eq!(take(&mut span), Some(Flush::page(0x40_0000, PageSize::MIB_2)));
        span.cover(0x40_0000, PageSize::MIB_2, PageSize::MIB_2.bytes());
        span.cover_table(0x3f_f000, PageSize::KIB_4, PageSize::KIB_4.bytes());
        let extent = Extent::Pages { start: 0x3f_f000, count: 513, size: PageSize::KIB_4 };
        assert_eq!(take(&mut span), Some(Flush { extent, tables: true, mixed: true }));
    }

    #[test]
    fn it_counts_in_the_granule_of_its_pages() {
        let mut span = Span::new();
        for page in [3_u64, 5] {
            span.cover(page << 16, PageSize::KIB_64, PageSize::KIB_64.bytes());
        }
        let extent = Extent::Pages { start: 3 << 16, count: 3, size: PageSize::KIB_64 };
        assert_eq!(take(&mut span), Some(Flush { extent, tables: false, mixed: false }));
    }
}
