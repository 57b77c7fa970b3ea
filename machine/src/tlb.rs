//! A CPU's TLB: two levels, set-associative, tagged with ASIDs, and the walk cache in front of the page tables.
//!
//! Sets are kept in order of use, the last used first, so the entry replaced is the one unused for longest. Flushing
//! an ASID raises its epoch, which makes every entry from before it invalid at once; such entries are replaced like
//! any other, so the misses that a flush causes later are all there.

use crate::config::TlbGeometry;

/// ASIDs that entries can carry.
pub(crate) const ASIDS: usize = 8;
/// What a set's vacancies carry: no page has this tag.
const VACANT: u64 = u64::MAX;

/// A cached translation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cached {
    tag: u64,
    epoch: u32,
    /// The frame that it leads to.
    pub(crate) frame: u32,
    /// How often that frame had been freed when the entry was made.
    pub(crate) incarnation: u32,
    /// The root of the tables that it came from.
    pub(crate) root: u32,
    /// Stores are allowed.
    pub(crate) writable: bool,
    /// A store through it does not go to the page table any more.
    pub(crate) dirty: bool,
}

impl Cached {
    const VACANT: Self =
        Self { tag: VACANT, epoch: 0, frame: 0, incarnation: 0, root: 0, writable: false, dirty: false };

    /// The page that it translates.
    pub(crate) fn page(&self) -> u64 {
        self.tag >> 8
    }
}

/// What a walk found, to be cached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fill {
    pub(crate) frame: u32,
    pub(crate) incarnation: u32,
    pub(crate) root: u32,
    pub(crate) writable: bool,
    pub(crate) dirty: bool,
}

/// A walk's way to a lowest-level table.
#[derive(Debug, Clone, Copy)]
struct Path {
    tag: u64,
    epoch: u32,
    table: u32,
    incarnation: u32,
}

#[derive(Debug)]
struct Level {
    ways: usize,
    mask: u64,
    entries: Box<[Cached]>,
}

impl Level {
    fn new(entries: u32, ways: u32) -> Self {
        let sets = entries / ways;
        Self {
            ways: ways as usize,
            mask: u64::from(sets.next_power_of_two() - 1),
            entries: vec![Cached::VACANT; (sets * ways) as usize].into(),
        }
    }

    fn set(&mut self, page: u64) -> &mut [Cached] {
        let start = (page & self.mask) as usize * self.ways;
        &mut self.entries[start..start + self.ways]
    }

    /// Finds an entry and makes it the last used of its set.
    fn find(&mut self, tag: u64, epoch: u32) -> Option<&mut Cached> {
        let set = self.set(tag >> 8);
        let way = set.iter().position(|entry| entry.tag == tag && entry.epoch == epoch)?;
        set[..=way].rotate_right(1);
        Some(&mut set[0])
    }

    fn insert(&mut self, entry: Cached) {
        let set = self.set(entry.page());
        // An older entry of the same page must not stay behind the new one.
        let way = set.iter().position(|old| old.tag == entry.tag).unwrap_or(set.len() - 1);
        set[way] = entry;
        set[..=way].rotate_right(1);
    }

    fn remove(&mut self, tag: u64) {
        for entry in self.set(tag >> 8) {
            if entry.tag == tag {
                *entry = Cached::VACANT;
            }
        }
    }
}

/// Where a translation was found.
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
    second: Level,
    walk: Box<[Path]>,
    epochs: [u32; ASIDS],
}

impl Tlb {
    pub(crate) fn new(geometry: &TlbGeometry) -> Self {
        let empty = Path { tag: VACANT, epoch: 0, table: 0, incarnation: 0 };
        Self {
            first: Level::new(geometry.l1.entries, geometry.l1.ways),
            second: Level::new(geometry.l2.entries, geometry.l2.ways),
            walk: vec![empty; geometry.walk_cache as usize].into(),
            epochs: [0; ASIDS],
        }
    }

    fn tag(page: u64, asid: u16) -> u64 {
        page << 8 | u64::from(asid)
    }

    /// Looks a page up, as an access does.
    pub(crate) fn find(&mut self, page: u64, asid: u16) -> Hit {
        let (tag, epoch) = (Self::tag(page, asid), self.epochs[asid as usize]);
        if let Some(entry) = self.first.find(tag, epoch) {
            return Hit::First(*entry);
        }
        let Some(entry) = self.second.find(tag, epoch) else { return Hit::None };
        let entry = *entry;
        self.first.insert(entry);
        Hit::Second(entry)
    }

    /// Looks a page up without any effect.
    #[cfg(test)]
    pub(crate) fn peek(&self, page: u64, asid: u16) -> Option<Cached> {
        let (tag, epoch) = (Self::tag(page, asid), self.epochs[asid as usize]);
        [&self.first, &self.second].into_iter().find_map(|level| {
            let start = (page & level.mask) as usize * level.ways;
            let set = &level.entries[start..start + level.ways];
            set.iter().find(|entry| entry.tag == tag && entry.epoch == epoch).copied()
        })
    }

    /// Every valid entry under an ASID; a page may come twice.
    #[cfg(test)]
    pub(crate) fn under(&self, asid: u16) -> impl Iterator<Item = Cached> + '_ {
        let epoch = self.epochs[asid as usize];
        [&self.first, &self.second].into_iter().flat_map(move |level| {
            let valid = move |entry: &&Cached| {
                entry.tag != VACANT && entry.tag & 0xff == u64::from(asid) && entry.epoch == epoch
            };
            level.entries.iter().filter(valid).copied()
        })
    }

    /// Caches what a walk found.
    pub(crate) fn fill(&mut self, page: u64, asid: u16, fill: Fill) {
        let Fill { frame, incarnation, root, writable, dirty } = fill;
        let epoch = self.epochs[asid as usize];
        let entry = Cached { tag: Self::tag(page, asid), epoch, frame, incarnation, root, writable, dirty };
        self.first.insert(entry);
        self.second.insert(entry);
    }

    /// The lowest-level table that a walk for `page` may start at, with its incarnation.
    pub(crate) fn path(&self, page: u64, asid: u16) -> Option<(u32, u32)> {
        let tag = Self::tag(page >> 9, asid);
        let path = self.walk.get(self.walk_slot(page)?)?;
        (path.tag == tag && path.epoch == self.epochs[asid as usize])
            .then_some((path.table, path.incarnation))
    }

    /// Caches the way to a lowest-level table.
    pub(crate) fn fill_path(&mut self, page: u64, asid: u16, table: u32, incarnation: u32) {
        if let Some(slot) = self.walk_slot(page) {
            let (tag, epoch) = (Self::tag(page >> 9, asid), self.epochs[asid as usize]);
            self.walk[slot] = Path { tag, epoch, table, incarnation };
        }
    }

    fn walk_slot(&self, page: u64) -> Option<usize> {
        (!self.walk.is_empty()).then(|| (page >> 9) as usize % self.walk.len())
    }

    /// Every valid way to a table under an ASID, as table and incarnation.
    pub(crate) fn paths_under(&self, asid: u16) -> impl Iterator<Item = (u32, u32)> + '_ {
        let epoch = self.epochs[asid as usize];
        self.walk
            .iter()
            .filter(move |path| {
                path.tag != VACANT && path.tag & 0xff == u64::from(asid) && path.epoch == epoch
            })
            .map(|path| (path.table, path.incarnation))
    }

    /// Invalidates one page, and the walk cache's way to it (Intel SDM volume 3, section 4.10.4.1).
    pub(crate) fn invalidate_page(&mut self, page: u64, asid: u16) {
        let tag = Self::tag(page, asid);
        self.first.remove(tag);
        self.second.remove(tag);
        if let Some(slot) = self.walk_slot(page) {
            self.walk[slot].tag = VACANT;
        }
    }

    /// Invalidates everything under an ASID.
    pub(crate) fn invalidate_asid(&mut self, asid: u16) {
        let epoch = &mut self.epochs[asid as usize];
        *epoch = epoch.wrapping_add(1);
        if *epoch == 0 {
            // The count has come round: entries from its first time must not come alive again.
            self.invalidate_all();
        }
    }

    /// Invalidates everything.
    pub(crate) fn invalidate_all(&mut self) {
        self.first.entries.fill(Cached::VACANT);
        self.second.entries.fill(Cached::VACANT);
        for path in &mut self.walk {
            path.tag = VACANT;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TlbLevel;

    fn tlb() -> Tlb {
        Tlb::new(&TlbGeometry {
            l1: TlbLevel { entries: 8, ways: 2 },
            l2: TlbLevel { entries: 32, ways: 4 },
            walk_cache: 4,
        })
    }

    fn fill(frame: u32) -> Fill {
        Fill { frame, incarnation: 0, root: 1, writable: false, dirty: false }
    }

    #[test]
    fn what_falls_out_of_the_first_level_is_found_in_the_second() {
        let mut tlb = tlb();
        for page in [0, 4, 8] {
            tlb.fill(page, 0, fill(page as u32 + 100));
        }
        assert!(matches!(tlb.find(0, 0), Hit::Second(entry) if entry.frame == 100));
        assert!(matches!(tlb.find(0, 0), Hit::First(_)));
        assert!(matches!(tlb.find(4, 0), Hit::Second(_)), "the least recently used of the set made room");
    }

    #[test]
    fn flushing_an_asid_leaves_the_others() {
        let mut tlb = tlb();
        tlb.fill(1, 0, fill(1));
        tlb.fill(1, 1, fill(2));
        tlb.fill_path(1, 0, 9, 0);
        tlb.invalidate_asid(0);
        assert_eq!(tlb.find(1, 0), Hit::None);
        assert_eq!(tlb.path(1, 0), None);
        assert_eq!(tlb.under(0).count(), 0);
        assert!(matches!(tlb.find(1, 1), Hit::First(entry) if entry.frame == 2));
    }

    #[test]
    fn invalidating_a_page_takes_it_from_both_levels_and_the_walk_cache() {
        let mut tlb = tlb();
        tlb.fill(1, 0, fill(1));
        tlb.fill(2, 0, fill(2));
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
        tlb.fill(1, 0, fill(1));
        tlb.fill(1, 0, fill(2));
        assert_eq!(tlb.under(0).map(|entry| entry.frame).collect::<Vec<_>>(), [2, 2]);
    }
}
