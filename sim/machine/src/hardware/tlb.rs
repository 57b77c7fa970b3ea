//! A CPU's TLB: two set-associative levels tagged with ASIDs, and the walk cache in front of the page tables.
//!
//! Flushing an ASID raises its epoch, which makes all older entries invalid at once. Invalid entries are replaced
//! like any other, so the simulation includes the misses that follow a flush. `level` has one level, with real
//! replacement.
//!
//! Instruction fetches use a first level of their own if the machine has one, and otherwise share that of loads and
//! stores. The second level is always shared.
//!
//! Entries for 2 MiB share both levels with entries for 4 KiB. The page number of each size picks the set. A lookup
//! asks for both sizes, but only once the TLB has held a huge entry.

mod level;

use ceasefire::PageSize;

use crate::config::TlbGeometry;
use crate::hardware::numbers::HUGE_SHIFT;
use crate::hardware::outdated::Outdated;
use level::Level;

/// The tag of a vacant way. No page has this tag.
const VACANT: u64 = u64::MAX;
/// The lowest bit of the page number in a tag. The page number has at most 36 bits. Below it are one bit for the size
/// and 16 bits of ASID.
const TAG_PAGE: u32 = 17;
const TAG_HUGE: u64 = 1 << 16;

/// A TLB entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cached {
    tag: u64,
    epoch: u32,
    /// The frame, or the first frame of a huge page.
    frame: u32,
    /// The moment of the fill.
    pub(crate) filled: u64,
    /// The root of the page tables that it was filled from.
    pub(crate) root: u32,
    /// Whether stores are allowed.
    pub(crate) writable: bool,
    /// Whether a store no longer needs to set the dirty bit in the page table.
    pub(crate) dirty: bool,
}

impl Cached {
    const VACANT: Self =
        Self { tag: VACANT, epoch: 0, frame: 0, filled: 0, root: 0, writable: false, dirty: false };

    /// Whether it translates 2 MiB.
    pub(crate) fn is_huge(&self) -> bool {
        self.tag & TAG_HUGE != 0
    }

    /// The frame that holds `page`. The entry must translate `page`.
    pub(crate) fn frame(&self, page: u64) -> u32 {
        if self.tag & TAG_HUGE == 0 {
            self.frame
        } else {
            self.frame + (page as u32 & ((1 << HUGE_SHIFT) - 1))
        }
    }
}

/// The result of a walk, to be cached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    pub(crate) size: PageSize,
    pub(crate) frame: u32,
    pub(crate) filled: u64,
    pub(crate) root: u32,
    pub(crate) writable: bool,
    pub(crate) dirty: bool,
}

/// A walk-cache entry: it leads to a lowest-level page-table page.
#[derive(Debug, Clone, Copy)]
struct Path {
    tag: u64,
    epoch: u32,
    table: u32,
    filled: u64,
}

impl Path {
    fn is_under(&self, asid: u16) -> bool {
        self.tag != VACANT && self.tag as u16 == asid
    }

    fn is_outdated(&self, outdated: &Outdated) -> bool {
        outdated.has_table(self.tag as u16, self.tag >> TAG_PAGE << HUGE_SHIFT, self.filled)
    }
}

/// The tag of a TLB entry: page, size and ASID.
fn tag(page: u64, size: PageSize, asid: u16) -> u64 {
    match size {
        PageSize::KIB_4 => page << TAG_PAGE | u64::from(asid),
        _ => page >> HUGE_SHIFT << TAG_PAGE | TAG_HUGE | u64::from(asid),
    }
}

/// The kind of access, which selects the first level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// A load or a store.
    Data,
    /// An instruction fetch.
    Instruction,
}

/// The level on which a lookup found the translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hit {
    First(Cached),
    Second(Cached),
    None,
}

/// The TLB of one CPU.
#[derive(Debug)]
pub(crate) struct Tlb {
    first: Level,
    /// The first level for instructions, if it is separate.
    instruction: Option<Level>,
    second: Level,
    walk: Box<[Path]>,
    /// The number of flushes of each ASID, up to the highest ASID used so far.
    epochs: Vec<u32>,
    /// Whether it may hold huge entries.
    huge: bool,
}

impl Tlb {
    pub(crate) fn new(geometry: &TlbGeometry) -> Self {
        let empty = Path { tag: VACANT, epoch: 0, table: 0, filled: 0 };
        Self {
            first: Level::new(geometry.l1.entries, geometry.l1.ways),
            instruction: geometry.instruction.map(|level| Level::new(level.entries, level.ways)),
            second: Level::new(geometry.l2.entries, geometry.l2.ways),
            walk: vec![empty; geometry.walk_cache as usize].into(),
            epochs: Vec::new(),
            huge: false,
        }
    }

    /// An ASID without any entry so far is in its first epoch.
    fn epoch(&self, asid: u16) -> u32 {
        self.epochs.get(asid as usize).copied().unwrap_or(0)
    }

    /// The epoch for an entry that is about to be filled.
    fn epoch_to_fill(&mut self, asid: u16) -> u32 {
        if self.epochs.len() <= asid as usize {
            self.epochs.resize(asid as usize + 1, 0);
        }
        self.epochs[asid as usize]
    }

    /// The first level for a kind of access.
    fn first_of(&mut self, side: Side) -> &mut Level {
        match (side, &mut self.instruction) {
            (Side::Instruction, Some(level)) => level,
            _ => &mut self.first,
        }
    }

    /// All levels.
    fn levels_mut(&mut self) -> impl Iterator<Item = &mut Level> {
        [&mut self.first, &mut self.second].into_iter().chain(&mut self.instruction)
    }

    /// Looks up a page, without any broadcast.
    #[cfg(test)]
    fn find(&mut self, page: u64, asid: u16, side: Side) -> Hit {
        self.find_valid(page, asid, side, &Outdated::default())
    }

    /// Looks up a page, as an access does. `outdated` records the invalidations by broadcast.
    pub(crate) fn find_valid(&mut self, page: u64, asid: u16, side: Side, outdated: &Outdated) -> Hit {
        let small_is = |entry: &Cached| outdated.has_page(asid, page, entry.filled);
        let huge_is = |entry: &Cached| outdated.has_table(asid, page, entry.filled);
        let epoch = self.epoch(asid);
        let small = tag(page, PageSize::KIB_4, asid);
        let huge = self.huge.then(|| tag(page, PageSize::MIB_2, asid));
        let first = self.first_of(side);
        if let Some(entry) = first.find(small, epoch, small_is) {
            return Hit::First(*entry);
        }
        if let Some(entry) = huge.and_then(|huge| first.find(huge, epoch, huge_is)) {
            return Hit::First(*entry);
        }
        let mut found = self.second.find(small, epoch, small_is).copied();
        if let (None, Some(huge)) = (found, huge) {
            found = self.second.find(huge, epoch, huge_is).copied();
        }
        let Some(entry) = found else { return Hit::None };
        self.first_of(side).insert(entry);
        Hit::Second(entry)
    }

    /// Looks up a page without any effect.
    #[cfg(test)]
    pub(crate) fn peek(&self, page: u64, asid: u16) -> Option<Cached> {
        let tags = [tag(page, PageSize::KIB_4, asid), tag(page, PageSize::MIB_2, asid)];
        self.under(asid).find(|entry| tags.contains(&entry.tag))
    }

    /// Every valid entry under an ASID. A page may have several.
    #[cfg(test)]
    pub(crate) fn under(&self, asid: u16) -> impl Iterator<Item = Cached> + '_ {
        let epoch = self.epoch(asid);
        [&self.first, &self.second].into_iter().chain(&self.instruction).flat_map(move |level| {
            let valid = move |entry: &&Cached| {
                entry.tag != VACANT && entry.tag as u16 == asid && entry.epoch == epoch
            };
            level.entries().iter().filter(valid).copied()
        })
    }

    /// Caches the result of a walk, and returns the entry. It is the one that a lookup finds now, unless it is huge and
    /// there is one for the page alone.
    pub(crate) fn fill(&mut self, page: u64, asid: u16, side: Side, fill: Fill) -> Cached {
        let Fill { size, frame, filled, root, writable, dirty } = fill;
        let epoch = self.epoch_to_fill(asid);
        let entry = Cached { tag: tag(page, size, asid), epoch, frame, filled, root, writable, dirty };
        self.huge |= size == PageSize::MIB_2;
        self.first_of(side).insert(entry);
        self.second.insert(entry);
        entry
    }

    /// The lowest-level page-table page at which a walk for `page` may start, and the moment at which this was
    /// cached.
    pub(crate) fn path(&self, page: u64, asid: u16) -> Option<(u32, u64)> {
        let tag = tag(page, PageSize::MIB_2, asid);
        let path = self.walk.get(self.walk_slot(page)?)?;
        (path.tag == tag && path.epoch == self.epoch(asid)).then_some((path.table, path.filled))
    }

    /// Caches the path to a lowest-level page-table page.
    pub(crate) fn fill_path(&mut self, page: u64, asid: u16, table: u32, filled: u64) {
        if let Some(slot) = self.walk_slot(page) {
            let (tag, epoch) = (tag(page, PageSize::MIB_2, asid), self.epoch_to_fill(asid));
            self.walk[slot] = Path { tag, epoch, table, filled };
        }
    }

    fn walk_slot(&self, page: u64) -> Option<usize> {
        (!self.walk.is_empty()).then(|| (page >> HUGE_SHIFT) as usize % self.walk.len())
    }

    /// Invalidates the entries of either size that translate a page, and the walk cache's path to it (Intel SDM
    /// volume 3, section 4.10.4.1).
    pub(crate) fn invalidate_page(&mut self, page: u64, asid: u16) {
        let small = tag(page, PageSize::KIB_4, asid);
        let huge = self.huge.then(|| tag(page, PageSize::MIB_2, asid));
        for level in self.levels_mut() {
            level.remove(small);
            if let Some(huge) = huge {
                level.remove(huge);
            }
        }
        if let Some(slot) = self.walk_slot(page) {
            let path = &mut self.walk[slot];
            if path.tag == tag(page, PageSize::MIB_2, asid) {
                path.tag = VACANT;
            }
        }
    }

    /// Drops the entries and paths that broadcasts have invalidated under an ASID.
    pub(crate) fn drop_outdated(&mut self, asid: u16, outdated: &Outdated) {
        for level in self.levels_mut() {
            level.remove_if(|entry| {
                let number = entry.tag >> TAG_PAGE;
                if entry.tag as u16 != asid {
                    false
                } else if entry.is_huge() {
                    outdated.has_table(asid, number << HUGE_SHIFT, entry.filled)
                } else {
                    outdated.has_page(asid, number, entry.filled)
                }
            });
        }
        for path in &mut self.walk {
            if path.is_under(asid) && path.is_outdated(outdated) {
                path.tag = VACANT;
            }
        }
    }

    /// Invalidates everything under an ASID.
    pub(crate) fn invalidate_asid(&mut self, asid: u16) {
        // An unused ASID has no entries.
        let Some(epoch) = self.epochs.get_mut(asid as usize) else { return };
        *epoch = epoch.wrapping_add(1);
        if *epoch == 0 {
            // The epoch has wrapped: entries from its first use must not become valid again.
            self.invalidate_all();
        }
    }

    /// Invalidates everything.
    pub(crate) fn invalidate_all(&mut self) {
        for level in self.levels_mut() {
            level.clear();
        }
        self.huge = false;
        for path in &mut self.walk {
            path.tag = VACANT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Side::{Data, Instruction};
    use super::*;
    use crate::config::TlbLevel;

    fn tlb() -> Tlb {
        Tlb::new(&TlbGeometry {
            l1: TlbLevel { entries: 8, ways: 2 },
            instruction: None,
            l2: TlbLevel { entries: 32, ways: 4 },
            walk_cache: 4,
        })
    }

    /// The same with a first level for instructions of two sets.
    fn split() -> Tlb {
        Tlb { instruction: Some(Level::new(4, 2)), ..tlb() }
    }

    fn fill(frame: u32) -> Fill {
        Fill { size: PageSize::KIB_4, frame, filled: 0, root: 1, writable: false, dirty: false }
    }

    fn huge(frame: u32) -> Fill {
        Fill { size: PageSize::MIB_2, ..fill(frame) }
    }

    /// The frame to which the TLB translates a page.
    fn found(tlb: &mut Tlb, page: u64, asid: u16) -> Option<u32> {
        match tlb.find(page, asid, Data) {
            Hit::First(entry) | Hit::Second(entry) => Some(entry.frame(page)),
            Hit::None => None,
        }
    }

    #[test]
    fn an_entry_takes_half_a_cache_line() {
        assert_eq!(size_of::<Cached>(), 32);
    }

    #[test]
    fn an_entry_replaced_in_the_first_level_is_found_in_the_second() {
        let mut tlb = tlb();
        for page in [0, 4, 8] {
            tlb.fill(page, 0, Data, fill(page as u32 + 100));
        }
        assert!(matches!(tlb.find(0, 0, Data), Hit::Second(entry) if entry.frame == 100));
        assert!(matches!(tlb.find(0, 0, Data), Hit::First(_)));
        assert!(
            matches!(tlb.find(4, 0, Data), Hit::Second(_)),
            "the least recently used entry of the set was replaced"
        );
    }

    #[test]
    fn flushing_an_asid_leaves_the_others() {
        for (one, other) in [(0, 1), (1, 0), (7, u16::MAX), (u16::MAX, 7), (0x100, 0x200)] {
            let mut tlb = tlb();
            tlb.fill(1, one, Data, fill(1));
            tlb.fill(1, other, Data, fill(2));
            tlb.fill(1, one, Data, huge(512));
            tlb.fill_path(1, one, 9, 0);
            assert_eq!((tlb.path(1, one), tlb.path(1, other)), (Some((9, 0)), None));
            tlb.invalidate_asid(one);
            assert_eq!(tlb.find(1, one, Data), Hit::None);
            assert_eq!(tlb.path(1, one), None);
            assert_eq!(tlb.under(one).count(), 0);
            assert_eq!(found(&mut tlb, 1, other), Some(2));
        }
    }

    #[test]
    fn an_asid_takes_memory_only_once_it_is_used() {
        let mut tlb = tlb();
        tlb.invalidate_asid(u16::MAX);
        assert_eq!((tlb.find(1, u16::MAX, Data), tlb.epochs.len()), (Hit::None, 0));
        tlb.fill(1, 40, Data, fill(1));
        assert_eq!(tlb.epochs.len(), 41);
    }

    #[test]
    fn invalidating_a_page_removes_it_from_both_levels_and_the_walk_cache() {
        let mut tlb = tlb();
        tlb.fill(1, 0, Data, fill(1));
        tlb.fill(2, 0, Data, fill(2));
        tlb.fill_path(1, 0, 9, 3);
        assert_eq!(tlb.path(2, 0), Some((9, 3)));
        tlb.invalidate_page(1, 0);
        assert_eq!(tlb.peek(1, 0), None);
        assert_eq!(tlb.path(2, 0), None);
        assert!(tlb.peek(2, 0).is_some());
    }

    #[test]
    fn a_page_filled_again_has_one_entry() {
        let mut tlb = tlb();
        tlb.fill(1, 0, Data, fill(1));
        tlb.fill(1, 0, Data, fill(2));
        assert_eq!(tlb.under(0).map(|entry| entry.frame).collect::<Vec<_>>(), [2, 2]);
    }

    #[test]
    fn a_huge_entry_translates_every_page_in_it_and_no_other() {
        let mut tlb = tlb();
        tlb.fill(3 * 512 + 7, 2, Data, huge(1024));
        for (page, frame) in
            [(1535, None), (1536, Some(1024)), (1800, Some(1288)), (2047, Some(1535)), (2048, None)]
        {
            assert_eq!(found(&mut tlb, page, 2), frame, "page {page}");
        }
        assert_eq!(found(&mut tlb, 1800, 1), None);
        // The small page of the same number has an entry of its own.
        assert_eq!(found(&mut tlb, 3, 2), None);
    }

    #[test]
    fn a_huge_entry_replaced_in_the_first_level_is_found_in_the_second() {
        let mut tlb = tlb();
        for number in [0, 4, 8] {
            tlb.fill(number * 512, 0, Data, huge(number as u32 * 512));
        }
        assert!(matches!(tlb.find(1, 0, Data), Hit::Second(entry) if entry.frame(1) == 1));
        assert!(matches!(tlb.find(2, 0, Data), Hit::First(entry) if entry.frame(2) == 2));
    }

    #[test]
    fn invalidating_a_page_removes_its_huge_and_its_small_entry_but_no_neighbours() {
        let mut tlb = tlb();
        tlb.fill(512, 0, Data, huge(1024));
        tlb.fill(513, 0, Data, fill(7));
        tlb.fill(514, 0, Data, fill(8));
        tlb.fill(1024, 0, Data, huge(2048));
        tlb.invalidate_page(513, 0);
        assert_eq!(found(&mut tlb, 513, 0), None);
        assert_eq!(found(&mut tlb, 512, 0), None, "the huge entry is removed as a whole");
        assert_eq!(found(&mut tlb, 514, 0), Some(8));
        assert_eq!(found(&mut tlb, 1025, 0), Some(2049));
        tlb.invalidate_all();
        assert_eq!((found(&mut tlb, 1025, 0), tlb.huge), (None, false));
    }

    #[test]
    fn instructions_have_a_first_level_of_their_own_and_share_the_second() {
        let mut tlb = split();
        tlb.fill(1, 0, Data, fill(7));
        assert!(matches!(tlb.find(1, 0, Instruction), Hit::Second(entry) if entry.frame == 7));
        assert!(matches!(tlb.find(1, 0, Instruction), Hit::First(_)));
        // Fills for data replace nothing in the level for instructions.
        for page in [5, 9, 13] {
            tlb.fill(page, 0, Data, fill(8));
        }
        assert!(matches!(tlb.find(1, 0, Instruction), Hit::First(_)));
        assert!(matches!(tlb.find(1, 0, Data), Hit::Second(_)));
    }

    #[test]
    fn instructions_without_a_first_level_of_their_own_share_that_of_data() {
        let mut tlb = tlb();
        tlb.fill(1, 0, Instruction, fill(7));
        assert!(matches!(tlb.find(1, 0, Data), Hit::First(_)));
    }

    #[test]
    fn every_invalidation_reaches_the_first_level_for_instructions() {
        let ways: [fn(&mut Tlb); 3] =
            [|tlb| tlb.invalidate_page(513, 3), |tlb| tlb.invalidate_asid(3), Tlb::invalidate_all];
        for invalidate in ways {
            for filled in [fill(7), huge(1024)] {
                let mut tlb = split();
                tlb.fill(513, 3, Instruction, filled);
                assert!(matches!(tlb.find(513, 3, Instruction), Hit::First(_)));
                invalidate(&mut tlb);
                assert_eq!(tlb.find(513, 3, Instruction), Hit::None);
                assert_eq!(tlb.peek(513, 3), None);
            }
        }
    }
}
