//! One level of a TLB: entries by tag, of which the least recently used is replaced.
//!
//! A set of few ways is kept in order of use, the most recently used entry first, and searched from there. A level of
//! one set with many ways (fully associative) would take a search of all of them for each access. It has a hash table
//! of its tags, and its order of use is a list. Both replace the same entries. A removed entry is vacant in its place
//! of the order, and is replaced when it is the last.

use super::{Cached, TAG_PAGE, VACANT};

/// The most ways that are searched one after the other.
const SEARCHED: u32 = 16;

#[derive(Debug)]
pub(super) enum Level {
    Sets(Sets),
    Full(Full),
}

impl Level {
    pub(super) fn new(entries: u32, ways: u32) -> Self {
        if entries == ways && ways > SEARCHED {
            Self::Full(Full::new(entries as usize))
        } else {
            Self::Sets(Sets::new(entries, ways))
        }
    }

    /// Finds an entry and makes it the most recently used. If a broadcast has invalidated the entry, drops it instead.
    pub(super) fn find(
        &mut self,
        tag: u64,
        epoch: u32,
        outdated: impl FnOnce(&Cached) -> bool,
    ) -> Option<&mut Cached> {
        match self {
            Self::Sets(sets) => sets.find(tag, epoch, outdated),
            Self::Full(full) => full.find(tag, epoch, outdated),
        }
    }

    /// Adds an entry, which replaces one of the same tag.
    pub(super) fn insert(&mut self, entry: Cached) {
        match self {
            Self::Sets(sets) => sets.insert(entry),
            Self::Full(full) => full.insert(entry),
        }
    }

    pub(super) fn remove(&mut self, tag: u64) {
        match self {
            Self::Sets(sets) => sets.remove(tag),
            Self::Full(full) => full.remove(tag),
        }
    }

    pub(super) fn remove_if(&mut self, mut gone: impl FnMut(&Cached) -> bool) {
        for at in 0..self.entries().len() {
            let entry = self.entries()[at];
            if entry.tag != VACANT && gone(&entry) {
                self.remove(entry.tag);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        match self {
            Self::Sets(sets) => sets.entries.fill(Cached::VACANT),
            Self::Full(full) => *full = Full::new(full.entries.len()),
        }
    }

    /// All entries, the vacant ones included.
    pub(super) fn entries(&self) -> &[Cached] {
        match self {
            Self::Sets(sets) => &sets.entries,
            Self::Full(full) => &full.entries,
        }
    }
}

/// Sets of few ways.
#[derive(Debug)]
pub(super) struct Sets {
    ways: usize,
    mask: u64,
    entries: Box<[Cached]>,
}

impl Sets {
    fn new(entries: u32, ways: u32) -> Self {
        let sets = entries / ways;
        Self {
            ways: ways as usize,
            mask: u64::from(sets.next_power_of_two() - 1),
            entries: vec![Cached::VACANT; (sets * ways) as usize].into(),
        }
    }

    fn set(&mut self, tag: u64) -> &mut [Cached] {
        let start = (tag >> TAG_PAGE & self.mask) as usize * self.ways;
        &mut self.entries[start..start + self.ways]
    }

    fn find(&mut self, tag: u64, epoch: u32, outdated: impl FnOnce(&Cached) -> bool) -> Option<&mut Cached> {
        let set = self.set(tag);
        let way = way_of(set, tag).filter(|&way| set[way].epoch == epoch)?;
        if outdated(&set[way]) {
            set[way] = Cached::VACANT;
            return None;
        }
        Some(bring_to_front(set, way))
    }

    fn insert(&mut self, entry: Cached) {
        let set = self.set(entry.tag);
        let way = way_of(set, entry.tag).unwrap_or(set.len() - 1);
        set[way] = entry;
        bring_to_front(set, way);
    }

    fn remove(&mut self, tag: u64) {
        let set = self.set(tag);
        if let Some(way) = way_of(set, tag) {
            set[way] = Cached::VACANT;
        }
    }
}

/// The entry of a set with that tag. There is at most one. The search of four ways at a time takes half as long.
fn way_of(set: &[Cached], tag: u64) -> Option<usize> {
    let position = |ways: &[Cached]| ways.iter().position(|entry| entry.tag == tag);
    let (fours, rest) = set.as_chunks::<4>();
    let found = fours.iter().enumerate().find_map(|(number, four)| Some(4 * number + position(four)?));
    found.or_else(|| Some(4 * fours.len() + position(rest)?))
}

/// Makes an entry of a set the most recently used. It is so already in most cases.
fn bring_to_front(set: &mut [Cached], way: usize) -> &mut Cached {
    if way > 0 {
        let entry = set[way];
        set.copy_within(..way, 1);
        set[0] = entry;
    }
    &mut set[0]
}

/// The end of a list.
const NONE: u16 = u16::MAX;

/// One set of many ways.
#[derive(Debug)]
pub(super) struct Full {
    entries: Box<[Cached]>,
    /// The neighbours of each entry in the order of use. The last place stands for both ends of the list.
    newer: Box<[u16]>,
    older: Box<[u16]>,
    /// The first entry of each bucket of the hash table, and the next in the bucket of each entry.
    buckets: Box<[u16]>,
    chained: Box<[u16]>,
}

impl Full {
    fn new(entries: usize) -> Self {
        let places = entries as u16 + 1;
        Self {
            entries: vec![Cached::VACANT; entries].into(),
            newer: (0..places).map(|at| at.checked_sub(1).unwrap_or(places - 1)).collect(),
            older: (0..places).map(|at| (at + 1) % places).collect(),
            buckets: vec![NONE; entries.next_power_of_two()].into(),
            chained: vec![NONE; entries].into(),
        }
    }

    /// The bucket of a tag: the highest bits of a product (Fibonacci hashing).
    fn bucket(&self, tag: u64) -> usize {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        (tag.wrapping_mul(GOLDEN) >> 32) as usize & (self.buckets.len() - 1)
    }

    fn place(&self, tag: u64) -> Option<u16> {
        let mut at = self.buckets[self.bucket(tag)];
        while at != NONE && self.entries[usize::from(at)].tag != tag {
            at = self.chained[usize::from(at)];
        }
        (at != NONE).then_some(at)
    }

    /// Makes an entry the most recently used.
    fn use_now(&mut self, at: u16) {
        let ends = self.entries.len() as u16;
        let first = self.older[usize::from(ends)];
        if first == at {
            return;
        }
        let (newer, older) = (self.newer[usize::from(at)], self.older[usize::from(at)]);
        self.older[usize::from(newer)] = older;
        self.newer[usize::from(older)] = newer;
        (self.newer[usize::from(at)], self.older[usize::from(at)]) = (ends, first);
        self.newer[usize::from(first)] = at;
        self.older[usize::from(ends)] = at;
    }

    /// Makes the entry of a place vacant and forgets its tag.
    fn vacate(&mut self, at: u16) {
        let tag = std::mem::replace(&mut self.entries[usize::from(at)], Cached::VACANT).tag;
        if tag == VACANT {
            return;
        }
        let next = self.chained[usize::from(at)];
        let bucket = self.bucket(tag);
        if self.buckets[bucket] == at {
            self.buckets[bucket] = next;
            return;
        }
        let mut before = self.buckets[bucket];
        while self.chained[usize::from(before)] != at {
            before = self.chained[usize::from(before)];
        }
        self.chained[usize::from(before)] = next;
    }

    fn find(&mut self, tag: u64, epoch: u32, outdated: impl FnOnce(&Cached) -> bool) -> Option<&mut Cached> {
        let at = self.place(tag)?;
        let entry = &self.entries[usize::from(at)];
        if entry.epoch != epoch {
            return None;
        }
        if outdated(entry) {
            self.vacate(at);
            return None;
        }
        self.use_now(at);
        Some(&mut self.entries[usize::from(at)])
    }

    fn insert(&mut self, entry: Cached) {
        let at = self.place(entry.tag).unwrap_or_else(|| {
            let oldest = self.newer[self.entries.len()];
            self.vacate(oldest);
            let bucket = self.bucket(entry.tag);
            self.chained[usize::from(oldest)] = std::mem::replace(&mut self.buckets[bucket], oldest);
            oldest
        });
        self.entries[usize::from(at)] = entry;
        self.use_now(at);
    }

    fn remove(&mut self, tag: u64) {
        if let Some(at) = self.place(tag) {
            self.vacate(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What happens to one of 64 tags, in one of two epochs.
    #[derive(Debug, Clone, Copy)]
    enum Step {
        Find { tag: u64, epoch: u32, outdated: bool },
        Insert { tag: u64, epoch: u32 },
        Remove { tag: u64 },
        RemoveOdd,
        Clear,
    }

    fn step() -> impl Strategy<Value = Step> {
        let tag = || (0..64u64).prop_map(|page| page << TAG_PAGE);
        prop_oneof![
            8 => (tag(), 0..2u32, prop::bool::weighted(0.1))
                .prop_map(|(tag, epoch, outdated)| Step::Find { tag, epoch, outdated }),
            8 => (tag(), 0..2u32).prop_map(|(tag, epoch)| Step::Insert { tag, epoch }),
            2 => tag().prop_map(|tag| Step::Remove { tag }),
            1 => Just(Step::RemoveOdd),
            1 => Just(Step::Clear),
        ]
    }

    proptest! {
        #[test]
        fn a_hashed_level_holds_what_a_searched_one_holds(steps in prop::collection::vec(step(), 1..300)) {
            const WAYS: u32 = 24;
            let mut levels =
                [Level::Sets(Sets::new(WAYS, WAYS)), Level::Full(Full::new(WAYS as usize))];
            for (number, &step) in steps.iter().enumerate() {
                let [searched, hashed] = levels.each_mut().map(|level| match step {
                    Step::Find { tag, epoch, outdated } => level.find(tag, epoch, |_| outdated).copied(),
                    Step::Insert { tag, epoch } => {
                        level.insert(Cached { tag, epoch, frame: number as u32, ..Cached::VACANT });
                        None
                    }
                    Step::Remove { tag } => {
                        level.remove(tag);
                        None
                    }
                    Step::RemoveOdd => {
                        level.remove_if(|entry| entry.tag >> TAG_PAGE & 1 == 1);
                        None
                    }
                    Step::Clear => {
                        level.clear();
                        None
                    }
                });
                prop_assert_eq!(searched, hashed);
                let [mut searched, mut hashed] =
                    levels.each_ref().map(|level| level.entries().iter().map(|entry| entry.tag).collect::<Vec<_>>());
                searched.sort_unstable();
                hashed.sort_unstable();
                prop_assert_eq!(searched, hashed);
            }
        }
    }
}
