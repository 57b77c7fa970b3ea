//! The translations that a CPU may have cached: all that it has used and that nothing has dropped since.
//!
//! A real TLB holds a few thousand of them, and nobody knows which. This one has no limit, so what a real CPU could use is
//! here, if the CPU did not fill it by speculation.

use foldhash::HashMap;

use crate::arch::{Invalidation, Rights, Translation, PAGE};

/// A translation, since its first use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cached {
    /// The first frame of the page.
    pub(crate) frame: u64,
    pub(crate) rights: Rights,
    pub(crate) global: bool,
    /// The power of two of the entries from which it is.
    pub(crate) joint: u32,
    /// The physical address of the entry from which it is: that of the address, if there are several.
    pub(crate) entry: u64,
    /// The version of that entry's table then.
    pub(crate) version: u32,
    /// The time, in nanoseconds, and the instruction that used it first.
    pub(crate) since: u64,
    pub(crate) by: u64,
}

impl Cached {
    /// As a page of a size is cached for an address in it.
    fn at(self, shift: u32, address: u64) -> Self {
        let others = (1 << self.joint) - 1;
        let index = address >> (shift - self.joint) & others;
        Self { entry: self.entry & !(8 * others) | (8 * index), ..self }
    }
}

/// A page: the size's power of two, and the address in units of the size.
type Page = (u32, u64);

/// The translations under one ASID, or the global ones.
type Set = HashMap<Page, Cached>;

/// Global translations have no ASID.
const GLOBAL: u32 = u32::MAX;

/// The translations of a CPU.
#[derive(Debug, Default)]
pub(crate) struct Tlb {
    sets: HashMap<u32, Set>,
    /// The sizes that were ever used, a bit for each.
    sizes: u64,
}

impl Tlb {
    /// The translations of an address that the CPU may use under an ASID, of any size, and the power of two of each.
    pub(crate) fn find(&self, asid: u16, address: u64) -> impl Iterator<Item = (u32, Cached)> + '_ {
        let sets = [u32::from(asid), GLOBAL].map(|set| self.sets.get(&set));
        let sizes = (PAGE..u64::BITS).filter(|shift| self.sizes >> shift & 1 != 0);
        sizes.flat_map(move |shift| {
            let page = (shift, address >> shift);
            sets.into_iter()
                .flatten()
                .filter_map(move |set| Some((shift, set.get(&page)?.at(shift, address))))
        })
    }

    /// The CPU uses a translation from now on, and that of all pages with which it may be cached as one, if it has not.
    pub(crate) fn insert(&mut self, asid: u16, address: u64, translation: &Translation, cached: Cached) {
        let set = if translation.global { GLOBAL } else { u32::from(asid) };
        let set = self.sets.entry(set).or_default();
        let page = |shift: u32| (shift, address >> shift);
        self.sizes |= 1 << translation.shift;
        set.insert(page(translation.shift), cached);
        if let Some(Translation { frame, shift, .. }) = translation.joined() {
            self.sizes |= 1 << shift;
            set.entry(page(shift)).or_insert(Cached { frame, joint: translation.joint, ..cached });
        }
    }

    /// Drops the translations of an address under an ASID.
    pub(crate) fn remove(&mut self, asid: u16, address: u64) {
        let own = Invalidation { asid: Some(asid), range: Some((address, 1)), ..Invalidation::EVERYTHING };
        self.invalidate(own, &mut |_, _, _| ());
    }

    /// Drops what an instruction drops, and passes each translation on, with its ASID, if it has one, and its address.
    pub(crate) fn invalidate(
        &mut self,
        what: Invalidation,
        dropped: &mut dyn FnMut(Option<u16>, u64, Cached),
    ) {
        let Invalidation { asid, range, globals, sizes, .. } = what;
        let sizes = sizes & self.sizes;
        for (&set, pages) in &mut self.sets {
            let is_named =
                if set == GLOBAL { globals } else { asid.is_none_or(|asid| set == u32::from(asid)) };
            if !is_named {
                continue;
            }
            let own = u16::try_from(set).ok();
            let Some((start, bytes)) = range else {
                // Those that name a size name a range.
                for ((shift, page), cached) in pages.drain() {
                    dropped(own, page << shift, cached);
                }
                continue;
            };
            let last = start.saturating_add(bytes.saturating_sub(1));
            for shift in (PAGE..u64::BITS).filter(|shift| sizes >> shift & 1 != 0) {
                let (from, to) = (start >> shift, last >> shift);
                if to - from < pages.len() as u64 {
                    for page in from..=to {
                        if let Some(cached) = pages.remove(&(shift, page)) {
                            dropped(own, page << shift, cached);
                        }
                    }
                } else {
                    pages.retain(|&(size, page), cached| {
                        let stays = size != shift || page < from || page > to;
                        if !stays {
                            dropped(own, page << shift, *cached);
                        }
                        stays
                    });
                }
            }
        }
    }

    /// The number of translations.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.sets.values().map(Set::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: Translation = Translation {
        frame: 1,
        shift: 12,
        rights: Rights { store: true, user: true, execute: true },
        global: false,
        joint: 0,
    };

    fn cached(frame: u64) -> Cached {
        Cached { frame, rights: SMALL.rights, global: false, joint: 0, entry: 0, version: 0, since: 0, by: 0 }
    }

    /// A small page under two ASIDs, a large one around it, and a global one.
    fn filled() -> Tlb {
        let mut tlb = Tlb::default();
        let large = Translation { shift: 21, ..SMALL };
        tlb.insert(1, 0x20_1000, &SMALL, cached(1));
        tlb.insert(2, 0x20_1000, &SMALL, cached(2));
        tlb.insert(1, 0x20_0000, &large, cached(3));
        tlb.insert(1, 0x20_1000, &Translation { global: true, ..SMALL }, cached(4));
        tlb
    }

    fn frames(tlb: &Tlb, asid: u16, address: u64) -> Vec<u64> {
        let mut frames: Vec<u64> = tlb.find(asid, address).map(|(_, cached)| cached.frame).collect();
        frames.sort_unstable();
        frames
    }

    #[test]
    fn every_size_and_the_global_ones_are_found() {
        let tlb = filled();
        assert_eq!(frames(&tlb, 1, 0x20_1fff), [1, 3, 4]);
        assert_eq!(frames(&tlb, 2, 0x20_1000), [2, 4]);
        assert_eq!((frames(&tlb, 1, 0x20_2000), frames(&tlb, 2, 0x20_2000)), (vec![3], vec![]));
    }

    #[test]
    fn pages_that_are_cached_as_one_have_an_entry_each() {
        let mut tlb = Tlb::default();
        let page = Translation { frame: 0x23, joint: 4, ..SMALL };
        tlb.insert(1, 0x3_3000, &page, Cached { entry: 0x9198, ..cached(0x23) });
        // What is known of the others stays.
        tlb.insert(1, 0x3_4000, &page, Cached { entry: 0x91a0, since: 1, ..cached(0x24) });
        let all = |address| {
            let found =
                tlb.find(1, address).map(|(shift, cached)| (shift, cached.frame, cached.entry, cached.since));
            found.collect::<Vec<_>>()
        };
        let joined = |entry| (16, 0x20, entry, 0);
        assert_eq!(all(0x3_3000), [(12, 0x23, 0x9198, 0), joined(0x9198)]);
        assert_eq!(all(0x3_4000), [(12, 0x24, 0x91a0, 1), joined(0x91a0)]);
        assert_eq!([0x3_0000, 0x3_ffff].map(all), [vec![joined(0x9180)], vec![joined(0x91f8)]]);
        assert!(all(0x4_0000).is_empty());
    }

    #[test]
    fn exactly_what_is_named_is_dropped() {
        let whole = Invalidation::EVERYTHING;
        let page = Some((0x20_1000, 1));
        for (what, left) in [
            (whole, [vec![], vec![]]),
            (Invalidation { globals: false, ..whole }, [vec![4], vec![4]]),
            (Invalidation { asid: Some(1), globals: false, ..whole }, [vec![4], vec![2, 4]]),
            (Invalidation { asid: Some(1), range: page, ..whole }, [vec![], vec![2]]),
            (Invalidation { asid: Some(2), globals: false, range: page, ..whole }, [vec![1, 3, 4], vec![4]]),
            (Invalidation { range: Some((0x20_2000, 1)), ..whole }, [vec![1, 4], vec![2, 4]]),
            (Invalidation { range: Some((0x40_0000, 0x1000)), ..whole }, [vec![1, 3, 4], vec![2, 4]]),
            (Invalidation { range: Some((0, u64::MAX)), ..whole }, [vec![], vec![]]),
            (Invalidation { range: page, sizes: 1 << 21, ..whole }, [vec![1, 4], vec![2, 4]]),
            (Invalidation { range: page, sizes: 1 << 12, ..whole }, [vec![3], vec![]]),
        ] {
            let (mut tlb, mut dropped) = (filled(), 0);
            tlb.invalidate(what, &mut |_, address, _| {
                assert!([0x20_0000, 0x20_1000].contains(&address));
                dropped += 1;
            });
            assert_eq!([1, 2].map(|asid| frames(&tlb, asid, 0x20_1000)), left, "{what:?}");
            assert_eq!(tlb.len() + dropped, 4);
            let (page, large) = (0x20_1000, 0x20_0000);
            let all =
                [(1, false, 12, page), (2, false, 12, page), (1, false, 21, large), (1, true, 12, page)];
            let named =
                all.iter().filter(|(asid, global, shift, at)| what.names(*asid, *global, *shift, *at));
            assert_eq!(named.count(), dropped, "{what:?}");
        }
    }
}
