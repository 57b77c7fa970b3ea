//! Changed translations: what each leaves behind.

use crate::flush::{Extent, Flush, PageSize};

/// What a page-table entry held, as far as coherence is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Present and usable: some TLB may hold it.
    pub accessible: bool,
    /// It allowed stores.
    pub writable: bool,
    /// The hardware may have cached it as dirty, so a store through it would not touch the page table again.
    pub dirty: bool,
}

/// What a changed translation leaves behind: some TLB may hold what it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Debt {
    /// A multiple of the size.
    pub(crate) address: u64,
    pub(crate) size: PageSize,
    pub(crate) entry: Entry,
}

impl Debt {
    fn new(address: u64, size: PageSize, entry: Entry) -> Self {
        Self { address: address & !(size.bytes() - 1), size, entry }
    }

    /// The translation, as a flush sees it.
    pub(crate) fn extent(self) -> Extent {
        Extent::Pages { start: self.address, count: 1, size: self.size }
    }

    /// What pays it.
    pub(crate) fn flush(self) -> Flush {
        Flush { extent: self.extent(), tables: false, mixed: false }
    }
}

/// A translation that was cleared and may live on in TLBs.
///
/// A debt: only a [`Gather`](crate::Gather) or a [`Batch`](crate::Batch) takes it, and takes it once:
///
/// ```compile_fail,E0382
/// # use ceasefire::{Batch, Cleared, Platform};
/// fn twice<P: Platform, R: FnMut(u32)>(batch: &mut Batch<'_, P, u32, R>, space: &P::Space, cleared: Cleared) {
///     batch.record(space, cleared);
///     batch.record(space, cleared);
/// }
/// ```
#[must_use = "the translation may live on in TLBs: give it to a Gather or a Batch"]
#[derive(Debug, PartialEq, Eq)]
pub struct Cleared {
    pub(crate) debt: Debt,
}

impl Cleared {
    /// The entry of `size` at `address` was exchanged for a non-present one in one atomic step and held `entry`.
    pub fn new(address: u64, size: PageSize, entry: Entry) -> Self {
        Self { debt: Debt::new(address, size, entry) }
    }

    /// Whether the page was dirtied through this translation. The caller carries it over to the page.
    pub fn dirty(&self) -> bool {
        self.debt.entry.dirty
    }
}

/// A translation that stays, to the same frame, with fewer rights, and may live on in TLBs with those it had.
///
/// Write-protected for copy-on-write, for write-out or by mprotect; made inaccessible to see who uses it. The frame
/// is not let go of, so nothing is held for it; until it is paid, CPUs may use rights that are gone. A debt like
/// [`Cleared`], and taken by the same two:
///
/// ```compile_fail,E0382
/// # use ceasefire::{Batch, Narrowed, Platform};
/// fn twice<P: Platform, R: FnMut(u32)>(batch: &mut Batch<'_, P, u32, R>, space: &P::Space, narrowed: Narrowed) {
///     batch.narrow(space, narrowed);
///     batch.narrow(space, narrowed);
/// }
/// ```
#[must_use = "CPUs may still use the rights that are gone: give it to a Gather or a Batch"]
#[derive(Debug, PartialEq, Eq)]
pub struct Narrowed {
    pub(crate) debt: Debt,
}

impl Narrowed {
    /// The entry of `size` at `address` was exchanged in one atomic step for one to the same frame with fewer rights,
    /// and held `held` before.
    pub fn new(address: u64, size: PageSize, held: Entry) -> Self {
        Self { debt: Debt::new(address, size, held) }
    }

    /// Whether the page was dirtied through this translation. A caller that took that mark away with the rights
    /// carries it over to the page.
    pub fn dirty(&self) -> bool {
        self.debt.entry.dirty
    }
}

/// A page-table page that was unlinked and may live on in walkers' caches.
#[must_use = "walkers may still use the table: give it to a Gather"]
#[derive(Debug, PartialEq, Eq)]
pub struct ClearedTable {
    pub(crate) address: u64,
}

impl ClearedTable {
    /// The table that translated the addresses from `address` on was unlinked from its parent.
    pub fn new(address: u64) -> Self {
        Self { address }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_starts_where_its_translation_does() {
        let entry = Entry { accessible: true, writable: false, dirty: false };
        let extent = Cleared::new(0x40_3fff, PageSize::Huge, entry).debt.extent();
        assert_eq!(extent, Extent::Pages { start: 0x40_0000, count: 1, size: PageSize::Huge });
    }
}
