//! A record of the invalidations by broadcast, so that a broadcast need not visit any TLB.
//!
//! A broadcast reaches every CPU, but nearly all CPUs hold no affected entry. So it only notes the moment, for its
//! pages or for the whole ASID. A CPU that finds an entry in its TLB checks whether the entry was filled before that
//! moment, and drops it if so. Until then the entry stays in its set and is replaced like any other. A lookup
//! therefore has the same result as if the broadcast had visited the TLB, and a broadcast costs the same with 8192
//! CPUs as with two. A run with the oracle visits no TLB either, so it equals a run without.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use ceasefire::Flush;

use crate::hardware::numbers::HUGE_SHIFT;

/// The part of the TLBs that a broadcast invalidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broadcast {
    /// Some or all entries under an ASID.
    Tagged(u16, Flush),
    /// Every entry of every CPU.
    Everything,
}

/// The number of remembered pages of one ASID above which [`Outdated::forget`] is due.
const MOST: usize = 1 << 16;

/// One multiplication suffices: the keys are page numbers.
#[derive(Debug, Default, Clone)]
pub(crate) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = (self.0 ^ key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        // The hash table takes the bucket from the low bits and its control byte from the high bits.
        self.0 ^ self.0 >> 32
    }
}

type Moments = HashMap<u64, u64, BuildHasherDefault<PageHasher>>;

/// The moments of the latest invalidations under one ASID.
#[derive(Debug, Default)]
struct OfAsid {
    count: u64,
    /// Of the whole ASID, of each page, and of any page in each 2 MiB.
    all: u64,
    pages: Moments,
    tables: Moments,
}

/// The moments of the latest invalidations by broadcast.
#[derive(Debug, Default)]
pub(crate) struct Outdated {
    asids: Vec<Option<Box<OfAsid>>>,
    /// The latest invalidation of everything, and the number of those.
    everything: u64,
    count: u64,
}

impl Outdated {
    fn of(&mut self, asid: u16) -> &mut OfAsid {
        let index = usize::from(asid);
        if self.asids.len() <= index {
            self.asids.resize_with(index + 1, || None);
        }
        let of_asid = self.asids[index].get_or_insert_default();
        of_asid.count += 1;
        of_asid
    }

    fn known(&self, asid: u16) -> Option<&OfAsid> {
        self.asids.get(usize::from(asid))?.as_deref()
    }

    /// Notes that everything was invalidated.
    pub(crate) fn everything(&mut self, moment: u64) {
        self.everything = moment;
        self.count += 1;
    }

    /// Notes that everything under an ASID was invalidated.
    pub(crate) fn all(&mut self, asid: u16, moment: u64) {
        self.of(asid).all = moment;
    }

    /// Notes that one page was invalidated. Returns whether the number of remembered pages makes [`Outdated::forget`]
    /// due.
    pub(crate) fn page(&mut self, asid: u16, page: u64, moment: u64) -> bool {
        let of_asid = self.of(asid);
        of_asid.pages.insert(page, moment);
        of_asid.tables.insert(page >> HUGE_SHIFT, moment);
        of_asid.pages.len() > MOST
    }

    /// Whether the entry of a page that was filled at `filled` is invalid.
    pub(crate) fn has_page(&self, asid: u16, page: u64, filled: u64) -> bool {
        self.everything > filled
            || self.known(asid).is_some_and(|of| {
                of.all > filled || of.pages.get(&page).is_some_and(|&moment| moment > filled)
            })
    }

    /// Whether an entry for the 2 MiB around a page, or the path to its page-table page, is invalid if it was cached
    /// at `filled`.
    pub(crate) fn has_table(&self, asid: u16, page: u64, filled: u64) -> bool {
        self.everything > filled
            || self.known(asid).is_some_and(|of| {
                of.all > filled || of.tables.get(&(page >> HUGE_SHIFT)).is_some_and(|&moment| moment > filled)
            })
    }

    /// The number of broadcasts that concerned an ASID.
    pub(crate) fn count(&self, asid: u16) -> u64 {
        self.count + self.known(asid).map_or(0, |of| of.count)
    }

    /// Forgets the pages of an ASID. No TLB may hold an outdated entry of it.
    pub(crate) fn forget(&mut self, asid: u16) {
        if let Some(Some(of)) = self.asids.get_mut(usize::from(asid)) {
            of.pages.clear();
            of.tables.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use ceasefire::PageSize;
    use proptest::prelude::*;

    use super::*;
    use crate::config::{TlbGeometry, TlbLevel};
    use crate::hardware::tlb::{Fill, Hit, Side, Tlb};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        /// The reference is the list of all invalidations and their moments.
        #[test]
        fn it_agrees_with_the_history_of_all_broadcasts(
            history in prop::collection::vec(
                (prop::option::weighted(0.9, 0_u16..3), prop::option::weighted(0.9, 0_u64..2000)),
                1..60,
            ),
        ) {
            let mut outdated = Outdated::default();
            for (moment, &(asid, page)) in (1..).zip(&history) {
                match (asid, page) {
                    (Some(asid), Some(page)) => prop_assert!(!outdated.page(asid, page, moment)),
                    (Some(asid), None) => outdated.all(asid, moment),
                    (None, _) => outdated.everything(moment),
                }
            }
            for asid in 0..3 {
                let of_asid = || (1_u64..).zip(&history).filter(move |(_, (other, _))| other.is_none_or(|other| other == asid));
                prop_assert_eq!(outdated.count(asid), of_asid().count() as u64);
                for page in (0..2000).step_by(7).chain(history.iter().filter_map(|(_, page)| *page)) {
                    for filled in [0, 10, 30, 59] {
                        let since = |hits: &dyn Fn(u64) -> bool| {
                            of_asid().any(|(moment, (tagged, other))| {
                                moment > filled && (tagged.is_none() || other.is_none_or(hits))
                            })
                        };
                        prop_assert_eq!(outdated.has_page(asid, page, filled), since(&|other| other == page));
                        prop_assert_eq!(
                            outdated.has_table(asid, page, filled),
                            since(&|other| other / 512 == page / 512)
                        );
                    }
                }
            }
        }
    }

    /// An event in the TLB of one CPU. There are few pages and ASIDs, so events often concern the same ones.
    #[derive(Debug, Clone, Copy)]
    enum Event {
        Access(u16, u64, Side, PageSize),
        FlushPage {
            asid: u16,
            page: u64,
        },
        FlushAsid {
            asid: u16,
        },
        BroadcastPage {
            asid: u16,
            page: u64,
        },
        BroadcastAsid {
            asid: u16,
        },
        BroadcastEverything,
        /// The measures taken when too many pages are remembered.
        Relief {
            asid: u16,
        },
    }

    fn event() -> impl Strategy<Value = Event> {
        let (asid, page) = (0_u16..2, prop_oneof![0_u64..8, 510_u64..516]);
        let kind = prop_oneof![Just(Side::Data), Just(Side::Instruction)];
        let size = prop_oneof![4 => Just(PageSize::KIB_4), 1 => Just(PageSize::MIB_2)];
        prop_oneof![
            24 => (asid.clone(), page.clone(), kind, size)
                .prop_map(|(asid, page, kind, size)| Event::Access(asid, page, kind, size)),
            2 => (asid.clone(), page.clone()).prop_map(|(asid, page)| Event::FlushPage { asid, page }),
            2 => asid.clone().prop_map(|asid| Event::FlushAsid { asid }),
            4 => (asid.clone(), page).prop_map(|(asid, page)| Event::BroadcastPage { asid, page }),
            2 => asid.clone().prop_map(|asid| Event::BroadcastAsid { asid }),
            1 => Just(Event::BroadcastEverything),
            1 => asid.prop_map(|asid| Event::Relief { asid }),
        ]
    }

    /// Looks up a page, and fills it at `moment` on a miss. Returns the level that hit, the moment of that entry's
    /// fill, and the moment at which the path to its page-table page was cached.
    fn access(
        tlb: &mut Tlb,
        (asid, page, kind, size): (u16, u64, Side, PageSize),
        outdated: &Outdated,
        moment: u64,
    ) -> (Option<(u8, u64)>, Option<u64>) {
        let found = match tlb.find_valid(page, asid, kind, outdated) {
            Hit::First(entry) => Some((1, entry.filled)),
            Hit::Second(entry) => Some((2, entry.filled)),
            Hit::None => None,
        };
        let path = tlb.path(page, asid).map(|(_, filled)| filled);
        let path = path.filter(|&filled| !outdated.has_table(asid, page, filled));
        if found.is_none() {
            let fill = Fill { size, frame: 0, filled: moment, root: 1, writable: true, dirty: true };
            tlb.fill(page, asid, kind, fill);
            if path.is_none() {
                tlb.fill_path(page, asid, 9, moment);
            }
        }
        (found, path)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        /// The TLBs are large enough never to replace an entry, since the choice of the replaced entry may differ.
        #[test]
        fn a_lookup_has_the_result_of_a_tlb_that_each_broadcast_visited(history in prop::collection::vec(event(), 1..200)) {
            let all = TlbLevel::new(128, 128).expect("valid");
            let geometry = TlbGeometry { l1: all, instruction: Some(all), l2: all, walk_cache: 2 };
            let (mut visited, mut remembers) = (Tlb::new(&geometry), Tlb::new(&geometry));
            let (none, mut outdated) = (Outdated::default(), Outdated::default());
            for (moment, &event) in (1..).zip(&history) {
                match event {
                    Event::Access(asid, page, kind, size) => {
                        let what = (asid, page, kind, size);
                        let expected = access(&mut visited, what, &none, moment);
                        prop_assert_eq!(access(&mut remembers, what, &outdated, moment), expected);
                    }
                    Event::FlushPage { asid, page } => {
                        visited.invalidate_page(page, asid);
                        remembers.invalidate_page(page, asid);
                    }
                    Event::FlushAsid { asid } => {
                        visited.invalidate_asid(asid);
                        remembers.invalidate_asid(asid);
                    }
                    Event::BroadcastPage { asid, page } => {
                        visited.invalidate_page(page, asid);
                        outdated.page(asid, page, moment);
                    }
                    Event::BroadcastAsid { asid } => {
                        visited.invalidate_asid(asid);
                        outdated.all(asid, moment);
                    }
                    Event::BroadcastEverything => {
                        visited.invalidate_all();
                        outdated.everything(moment);
                    }
                    Event::Relief { asid } => {
                        remembers.drop_outdated(asid, &outdated);
                        outdated.forget(asid);
                    }
                }
            }
        }
    }

    #[test]
    fn many_pages_are_due_to_be_forgotten_but_not_the_whole_asid() {
        let mut outdated = Outdated::default();
        outdated.all(1, 5);
        let due = (0..=MOST as u64).find(|&page| outdated.page(1, page, 9));
        assert_eq!(due, Some(MOST as u64));
        outdated.forget(1);
        assert_eq!((outdated.has_page(1, 3, 4), outdated.has_page(1, 3, 6)), (true, false));
        assert_eq!((outdated.has_table(1, 3, 6), outdated.count(1)), (false, MOST as u64 + 2));
    }
}
