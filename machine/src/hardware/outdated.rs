//! What broadcasts have invalidated, remembered instead of visited.
//!
//! A broadcast reaches every CPU, and nearly all of them hold nothing of what it invalidates. So none is visited: the
//! moment is noted, for the pages or for the whole ASID, and a CPU that finds a translation in its TLB looks whether it was
//! made before that. So a broadcast costs the same on a machine of 8192 CPUs as on one of two. What is found to be outdated is
//! dropped then; in between it waits for its turn to be replaced like any entry. So a CPU finds what it would find if the
//! broadcast had visited it; and since no run visits any, one with the oracle is the same as one without.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use ceasefire::Extent;

use crate::hardware::numbers::HUGE_SHIFT;

/// What a broadcast invalidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broadcast {
    /// A part of what is tagged with an ASID.
    Tagged(u16, Extent),
    /// All of every CPU's TLB.
    Everything,
}

/// Pages of one ASID after which those are forgotten that no TLB holds any more.
const MOST: usize = 1 << 16;

/// One multiplication: the keys are page numbers.
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
        // The table takes its place from the low bits and its mark from the high ones.
        self.0 ^ self.0 >> 32
    }
}

type Moments = HashMap<u64, u64, BuildHasherDefault<PageHasher>>;

/// The latest invalidations under one ASID.
#[derive(Debug, Default)]
struct OfAsid {
    count: u64,
    /// When all of it was, each page was, and any page of each 2 MiB was.
    all: u64,
    pages: Moments,
    tables: Moments,
}

/// When what was invalidated by a broadcast last.
#[derive(Debug, Default)]
pub(crate) struct Outdated {
    asids: Vec<Option<Box<OfAsid>>>,
    /// When everything was, and how often.
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

    /// Everything was invalidated.
    pub(crate) fn everything(&mut self, moment: u64) {
        self.everything = moment;
        self.count += 1;
    }

    /// Everything under an ASID was invalidated.
    pub(crate) fn all(&mut self, asid: u16, moment: u64) {
        self.of(asid).all = moment;
    }

    /// One page was; whether so many are remembered that [`Outdated::forget`] is due.
    pub(crate) fn page(&mut self, asid: u16, page: u64, moment: u64) -> bool {
        let of_asid = self.of(asid);
        of_asid.pages.insert(page, moment);
        of_asid.tables.insert(page >> HUGE_SHIFT, moment);
        of_asid.pages.len() > MOST
    }

    /// Whether the translation of a page that was cached at `filled` is no longer valid.
    pub(crate) fn has_page(&self, asid: u16, page: u64, filled: u64) -> bool {
        self.everything > filled
            || self.known(asid).is_some_and(|of| {
                of.all > filled || of.pages.get(&page).is_some_and(|&moment| moment > filled)
            })
    }

    /// Whether what was cached at `filled` for the 2 MiB around a page is: its translation, or the way to its table.
    pub(crate) fn has_table(&self, asid: u16, page: u64, filled: u64) -> bool {
        self.everything > filled
            || self.known(asid).is_some_and(|of| {
                of.all > filled || of.tables.get(&(page >> HUGE_SHIFT)).is_some_and(|&moment| moment > filled)
            })
    }

    /// How many broadcasts there were that concern an ASID.
    pub(crate) fn count(&self, asid: u16) -> u64 {
        self.count + self.known(asid).map_or(0, |of| of.count)
    }

    /// No TLB holds anything of an ASID any more that is outdated.
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

        /// Against the plain history of what was invalidated when.
        #[test]
        fn it_says_what_a_history_of_all_broadcasts_would(
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

    /// What happens to the TLB of one CPU; pages and ASIDs are few, so that they meet.
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
        /// What is done when too many pages are remembered.
        Relief {
            asid: u16,
        },
    }

    fn event() -> impl Strategy<Value = Event> {
        let (asid, page) = (0_u16..2, prop_oneof![0_u64..8, 510_u64..516]);
        let who = prop_oneof![Just(Side::Data), Just(Side::Instruction)];
        let size = prop_oneof![4 => Just(PageSize::Small), 1 => Just(PageSize::Huge)];
        prop_oneof![
            24 => (asid.clone(), page.clone(), who, size)
                .prop_map(|(asid, page, who, size)| Event::Access(asid, page, who, size)),
            2 => (asid.clone(), page.clone()).prop_map(|(asid, page)| Event::FlushPage { asid, page }),
            2 => asid.clone().prop_map(|asid| Event::FlushAsid { asid }),
            4 => (asid.clone(), page).prop_map(|(asid, page)| Event::BroadcastPage { asid, page }),
            2 => asid.clone().prop_map(|asid| Event::BroadcastAsid { asid }),
            1 => Just(Event::BroadcastEverything),
            1 => asid.prop_map(|asid| Event::Relief { asid }),
        ]
    }

    /// A page is looked up, and cached at that moment if it was not; on which level it was found, and when that and the
    /// way to its table had been cached.
    fn access(
        tlb: &mut Tlb,
        (asid, page, who, size): (u16, u64, Side, PageSize),
        outdated: &Outdated,
        moment: u64,
    ) -> (Option<(u8, u64)>, Option<u64>) {
        let found = match tlb.find_valid(page, asid, who, outdated) {
            Hit::First(entry) => Some((1, entry.filled)),
            Hit::Second(entry) => Some((2, entry.filled)),
            Hit::None => None,
        };
        let path = tlb.path(page, asid).map(|(_, filled)| filled);
        let path = path.filter(|&filled| !outdated.has_table(asid, page, filled));
        if found.is_none() {
            let fill = Fill { size, frame: 0, filled: moment, root: 1, writable: true, dirty: true };
            tlb.fill(page, asid, who, fill);
            if path.is_none() {
                tlb.fill_path(page, asid, 9, moment);
            }
        }
        (found, path)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        /// In TLBs that nothing falls out of: which entry makes room for another is left open.
        #[test]
        fn what_is_found_is_as_if_the_tlb_had_been_visited(history in prop::collection::vec(event(), 1..200)) {
            let all = TlbLevel::new(128, 128).expect("valid");
            let geometry = TlbGeometry { l1: all, instruction: Some(all), l2: all, walk_cache: 2 };
            let (mut visited, mut remembers) = (Tlb::new(&geometry), Tlb::new(&geometry));
            let (none, mut outdated) = (Outdated::default(), Outdated::default());
            for (moment, &event) in (1..).zip(&history) {
                match event {
                    Event::Access(asid, page, who, size) => {
                        let what = (asid, page, who, size);
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
    fn it_asks_to_be_relieved_of_many_pages_and_keeps_what_concerns_the_whole() {
        let mut outdated = Outdated::default();
        outdated.all(1, 5);
        let due = (0..=MOST as u64).find(|&page| outdated.page(1, page, 9));
        assert_eq!(due, Some(MOST as u64));
        outdated.forget(1);
        assert_eq!((outdated.has_page(1, 3, 4), outdated.has_page(1, 3, 6)), (true, false));
        assert_eq!((outdated.has_table(1, 3, 6), outdated.count(1)), (false, MOST as u64 + 2));
    }
}
