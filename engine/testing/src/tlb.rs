//! The TLB of one CPU, as unhelpful as the architecture allows.

use std::collections::BTreeMap;

use ceasefire::{Asid, Extent, Flush, PageSize, Root};

/// The sizes of translations, the smallest first: those of a granule of 4 KiB.
const SIZES: [PageSize; 3] = [PageSize::KIB_4, PageSize::MIB_2, PageSize::GIB_1];
/// The memory that a page table of the lowest level translates.
const TABLE: PageSize = PageSize::MIB_2;

/// The entries that an invalidation concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Those with this tag.
    Asid(Asid),
    /// Those of programs, under every tag.
    Programs,
    /// Global ones, of the kernel's ranges.
    Kernel,
}

impl Scope {
    fn concerns(self, tag: Option<Asid>) -> bool {
        match self {
            Self::Asid(asid) => tag == Some(asid),
            Self::Programs => tag.is_some(),
            Self::Kernel => tag.is_none(),
        }
    }
}

/// A broadcast that was started: the entries that it concerns, its extent, and the moment of its start. Entries that
/// are filled later may stay.
pub type Started = (Scope, Flush, u64);

/// A TLB, with the tables that its walker remembers and the root in the CPU's register.
///
/// It keeps each entry until it is told to invalidate it, and then invalidates no more than [`Flush`] says. `E` is the
/// test's knowledge of an entry, `W` of a table. A tag is an ASID, or `None` for global entries. Moments are numbers
/// that the test counts up.
#[derive(Debug, Clone)]
pub struct Tlb<E, W = ()> {
    loaded: Option<(Root, Asid)>,
    /// By tag, address and size, with the moment of the fill.
    entries: BTreeMap<(Option<Asid>, u64, PageSize), (E, u64)>,
    /// Tables of the lowest level, by tag and by the first address that they translate, with the moment of the fill.
    walked: BTreeMap<(Option<Asid>, u64), (W, u64)>,
}

impl<E, W> Default for Tlb<E, W> {
    fn default() -> Self {
        Self { loaded: None, entries: BTreeMap::new(), walked: BTreeMap::new() }
    }
}

const fn base(address: u64, size: PageSize) -> u64 {
    address & !(size.bytes() - 1)
}

impl<E, W> Tlb<E, W> {
    /// Loads a root. With `flush`, the entries under its ASID go.
    pub fn load(&mut self, root: Root, asid: Asid, flush: bool) {
        self.loaded = Some((root, asid));
        if flush {
            self.invalidate(Scope::Asid(asid), Flush::ALL, u64::MAX);
        }
    }

    /// Loads the kernel's own root, which maps no program.
    pub fn load_kernel(&mut self) {
        self.loaded = None;
    }

    /// The root and the ASID of the program whose tables are loaded.
    pub fn loaded(&self) -> Option<(Root, Asid)> {
        self.loaded
    }

    /// Caches a translation of `size` for `address`, at a `moment`. It replaces one of the same size.
    pub fn fill(&mut self, tag: Option<Asid>, address: u64, size: PageSize, entry: E, moment: u64) {
        self.entries.insert((tag, base(address, size), size), (entry, moment));
    }

    /// The translation that the CPU uses for `address`.
    pub fn find(&self, tag: Option<Asid>, address: u64) -> Option<&E> {
        SIZES
            .iter()
            .find_map(|&size| self.entries.get(&(tag, base(address, size), size)))
            .map(|(entry, _)| entry)
    }

    /// Drops the translations of `address`, as a fault on them does.
    pub fn fault(&mut self, tag: Option<Asid>, address: u64) {
        for size in SIZES {
            self.entries.remove(&(tag, base(address, size), size));
        }
    }

    /// All translations under a tag, with their addresses.
    pub fn entries(&self, tag: Option<Asid>) -> impl Iterator<Item = (u64, &E)> {
        self.under(tag, 0, u64::MAX).map(|(&(_, address, _), (entry, _))| (address, entry))
    }

    /// Whether it holds a translation of a part of the page of `size` at `address`, in another size.
    pub fn mixes(&self, tag: Option<Asid>, address: u64, size: PageSize) -> bool {
        let start = base(address, size);
        let above = |&other: &PageSize| {
            other > size && self.entries.contains_key(&(tag, base(address, other), other))
        };
        SIZES.iter().any(above) || self.under(tag, start, start + size.bytes()).any(|(key, _)| key.2 < size)
    }

    fn under(
        &self,
        tag: Option<Asid>,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = (&(Option<Asid>, u64, PageSize), &(E, u64))> {
        self.entries.range((tag, start, SIZES[0])..(tag, end, SIZES[0]))
    }

    /// The walker remembers the table of the lowest level on the way to `address`.
    pub fn remember(&mut self, tag: Option<Asid>, address: u64, table: W, moment: u64) {
        self.walked.insert((tag, base(address, TABLE)), (table, moment));
    }

    /// The table of the lowest level that the walker remembers on the way to `address`.
    pub fn walked(&self, tag: Option<Asid>, address: u64) -> Option<&W> {
        self.walked.get(&(tag, base(address, TABLE))).map(|(table, _)| table)
    }

    /// Invalidates the entries that `flush` covers and that were filled until a moment; `u64::MAX` stands for all.
    ///
    /// The walker's tables go only if `flush.tables` says so. Without that and without `flush.mixed`, it looks only for
    /// translations of the stated size.
    pub fn invalidate(&mut self, scope: Scope, flush: Flush, until: u64) {
        let (start, last, stated) = match flush.extent {
            Extent::All => (0, u64::MAX, None),
            Extent::Pages { start, count, size } => {
                (start, start.saturating_add((u64::from(count) << size.shift()) - 1), Some(size))
            }
        };
        let covers = |address: u64, size: PageSize| address <= last && address + (size.bytes() - 1) >= start;
        let stated = stated.filter(|_| !flush.tables && !flush.mixed);
        self.entries.retain(|&(tag, address, size), (_, at)| {
            !scope.concerns(tag)
                || !covers(address, size)
                || stated.is_some_and(|it| it != size)
                || *at > until
        });
        if flush.tables {
            self.walked.retain(|&(tag, address), (_, at)| {
                !scope.concerns(tag) || !covers(address, TABLE) || *at > until
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HUGE: PageSize = PageSize::MIB_2;
    const SMALL: PageSize = PageSize::KIB_4;

    /// One entry of each kind, all at address 0.
    fn filled(size: PageSize) -> Tlb<u64> {
        let mut tlb = Tlb::default();
        for tag in [Some(Asid::SHARED), None] {
            tlb.fill(tag, 0x1000, size, 7, 3);
            tlb.remember(tag, 0x1000, (), 3);
        }
        tlb
    }

    fn left(tlb: &Tlb<u64>) -> [bool; 4] {
        let of = |tag| [tlb.find(tag, 0x1000).is_some(), tlb.walked(tag, 0x1000).is_some()];
        let ([entry, walked], [global, kernel]) = (of(Some(Asid::SHARED)), of(None));
        [entry, walked, global, kernel]
    }

    #[test]
    fn an_invalidation_reaches_its_scope_alone() {
        for (scope, left_over) in [
            (Scope::Asid(Asid::SHARED), [false, false, true, true]),
            (Scope::Programs, [false, false, true, true]),
            (Scope::Kernel, [true, true, false, false]),
        ] {
            let mut tlb = filled(SMALL);
            tlb.invalidate(scope, Flush::ALL, 2);
            assert_eq!(left(&tlb), [true; 4], "{scope:?}: filled later");
            tlb.invalidate(scope, Flush::ALL, 3);
            assert_eq!(left(&tlb), left_over, "{scope:?}");
        }
    }

    #[test]
    fn an_invalidation_does_no_more_than_the_flush_says() {
        let page = |address, size| Flush::page(address, size);
        let tables = |flush| Flush { tables: true, ..flush };
        let mixed = |flush| Flush { mixed: true, ..flush };
        for (size, flush, left_over) in [
            (SMALL, page(0x1000, SMALL), [false, true]),
            (SMALL, page(0x2000, SMALL), [true, true]),
            (SMALL, page(0, SMALL), [true, true]),
            (SMALL, tables(page(0x1000, SMALL)), [false, false]),
            (SMALL, tables(page(0x2000, SMALL)), [true, false]),
            (HUGE, page(0x1000, SMALL), [true, true]),
            (HUGE, mixed(page(0x1000, SMALL)), [false, true]),
            (HUGE, page(0, HUGE), [false, true]),
            (SMALL, page(0, HUGE), [true, true]),
        ] {
            let mut tlb = filled(size);
            tlb.invalidate(Scope::Programs, flush, u64::MAX);
            assert_eq!(left(&tlb)[..2], left_over, "{flush:?} of {size:?}");
        }
    }

    #[test]
    fn an_entry_translates_its_whole_page_until_a_fault_drops_it() {
        let (mut tlb, tag) = (Tlb::<_>::default(), Some(Asid::SHARED));
        assert!(!tlb.mixes(tag, 0, HUGE));
        tlb.fill(tag, HUGE.bytes(), HUGE, 'h', 1);
        assert_eq!(tlb.find(tag, HUGE.bytes() + 0x5000), Some(&'h'));
        assert!(tlb.mixes(tag, HUGE.bytes() + 0x1000, SMALL) && !tlb.mixes(tag, 0, SMALL));
        tlb.fault(tag, HUGE.bytes() + 0x5000);
        tlb.fill(tag, HUGE.bytes() + 0x1000, SMALL, 's', 1);
        assert!(tlb.mixes(tag, HUGE.bytes(), HUGE) && !tlb.mixes(tag, 0, HUGE));
        assert_eq!(tlb.entries(tag).collect::<Vec<_>>(), [(HUGE.bytes() + 0x1000, &'s')]);
    }

    #[test]
    fn a_root_is_loaded_with_a_flush_or_without() {
        let mut tlb = filled(SMALL);
        tlb.load(Root(1), Asid::SHARED, false);
        assert_eq!((tlb.loaded(), left(&tlb)), (Some((Root(1), Asid::SHARED)), [true; 4]));
        tlb.load(Root(2), Asid::SHARED, true);
        assert_eq!(left(&tlb), [false, false, true, true]);
        tlb.load_kernel();
        assert_eq!(tlb.loaded(), None);
    }
}
