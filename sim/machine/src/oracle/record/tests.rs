//! The record against a plain list of all entries.

use proptest::prelude::*;

use super::*;
use crate::hardware::numbers::number_of;

const CPUS: usize = 3;
const FRAMES: u32 = 1024;

/// An entry of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    root: u32,
    /// Whether its place counts: a small entry's does until the frame is freed.
    leads: bool,
    forbidden: bool,
    of: Holding,
}

impl Known {
    fn covers(&self, page: u64) -> bool {
        number_of(page, self.of.size) == number_of(self.of.page, self.of.size)
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Fill { cpu: usize, asid: u16, root: u32, page: u64, huge: bool, frame: u32, writable: bool, dirty: bool },
    ForgetPage { cpu: usize, asid: u16, page: u64 },
    ForgetPages { asid: u16, page: u64, count: u64 },
    ForgetAsid { cpu: usize, asid: u16 },
    ForgetAll { cpu: usize },
    Free { frame: u32 },
    Forbid { nth: usize },
    ComeBack { cpu: usize, asid: u16 },
}

/// Neighbours in a chunk, in other chunks and regions, and within the same huge page.
fn page() -> impl Strategy<Value = u64> {
    prop_oneof![0..4_u64, 62..66_u64, 510..514_u64, 4095..4097_u64, Just(1 << 34)]
}

fn step() -> impl Strategy<Value = Step> {
    let (cpu, asid, frame) = (0..CPUS, 0..2_u16, 0..6_u32);
    let fill =
        (cpu.clone(), asid.clone(), 1..3_u32, page(), any::<bool>(), frame.clone(), any::<[bool; 2]>());
    let fill = fill.prop_map(|(cpu, asid, root, page, huge, frame, [writable, dirty])| {
        // Mostly each slot keeps to its root.
        let root = if frame == 0 { root } else { 1 + u32::from(asid) };
        let huge = huge && page > 4;
        Step::Fill {
            cpu,
            asid,
            root,
            page,
            huge,
            frame: if huge { frame & 1 } else { frame },
            writable,
            dirty,
        }
    });
    prop_oneof![
        12 => fill,
        2 => (cpu.clone(), asid.clone(), page()).prop_map(|(cpu, asid, page)| Step::ForgetPage { cpu, asid, page }),
        1 => (asid.clone(), page(), 1..5_u64).prop_map(|(asid, page, count)| Step::ForgetPages { asid, page, count }),
        1 => (cpu.clone(), asid.clone()).prop_map(|(cpu, asid)| Step::ForgetAsid { cpu, asid }),
        1 => cpu.clone().prop_map(|cpu| Step::ForgetAll { cpu }),
        1 => frame.prop_map(|frame| Step::Free { frame }),
        2 => any::<usize>().prop_map(|nth| Step::Forbid { nth }),
        1 => (cpu, asid).prop_map(|(cpu, asid)| Step::ComeBack { cpu, asid }),
    ]
}

/// The record beside the list.
struct Both {
    record: Record,
    known: Vec<Known>,
    now: u64,
}

impl Both {
    fn new() -> Self {
        Self { record: Record::new(FRAMES, CPUS), known: Vec::new(), now: 0 }
    }

    fn forget(&mut self, is_gone: impl Fn(&Known) -> bool) {
        self.known.retain(|known| !is_gone(known));
    }

    fn take(&mut self, step: Step) {
        self.now += 1;
        let now = self.now;
        match step {
            Step::Fill { cpu, asid, root, page, huge, frame, writable, dirty } => {
                let (size, pages) = if huge { (PageSize::MIB_2, HUGE_PAGES) } else { (PageSize::KIB_4, 1) };
                let frame = if huge { frame << 9 } else { frame };
                self.record.fill(cpu, page, asid, &Fill { size, frame, filled: now, root, writable, dirty });
                let of_slot =
                    self.known.iter_mut().filter(|known| (known.of.cpu, known.of.asid) == (cpu, asid));
                of_slot.for_each(|known| known.root = root);
                let held = Held { filled: now, frame, writable, dirty };
                let of = Holding { cpu, asid, size, page: page / pages * pages, held };
                let place = |of: &Holding| (of.cpu, of.asid, of.size, of.page, of.held.frame);
                let same = self.known.iter_mut().find(|known| place(&known.of) == place(&of));
                if let Some(Known { of: Holding { held, .. }, .. }) = same {
                    (held.writable, held.dirty) = (held.writable | writable, held.dirty | dirty);
                } else {
                    // The page of a slot is forbidden as a whole.
                    let forbidden = self.known.iter().any(|known| {
                        known.forbidden
                            && (known.of.cpu, known.of.asid, known.of.size, known.of.page)
                                == (cpu, asid, size, of.page)
                    });
                    self.known.push(Known { root, leads: true, forbidden, of });
                }
            }
            Step::ForgetPage { cpu, asid, page } => {
                self.record.forget_page(cpu, asid, page);
                self.forget(|known| known.of.cpu == cpu && known.of.asid == asid && known.covers(page));
            }
            Step::ForgetPages { asid, page, count } => {
                self.record.forget_pages(0..CPUS, asid, page..page + count);
                let any = |known: &Known| (page..page + count).any(|page| known.covers(page));
                self.forget(|known| known.of.asid == asid && any(known));
            }
            Step::ForgetAsid { cpu, asid } => {
                self.record.forget_asid(cpu, asid, now);
                self.forget(|known| known.of.cpu == cpu && known.of.asid == asid);
            }
            Step::ForgetAll { cpu } => {
                self.record.forget_all(cpu, now);
                self.forget(|known| known.of.cpu == cpu);
            }
            Step::Free { frame } => {
                self.record.freed(frame, now);
                let is_its = |of: &Holding| of.size == PageSize::KIB_4 && of.held.frame == frame;
                self.known.iter_mut().filter(|known| is_its(&known.of)).for_each(|known| known.leads = false);
            }
            Step::Forbid { nth } => {
                let Some(nth) = nth.checked_rem(self.known.len()) else { return };
                let of = self.known[nth].of;
                self.record.forbid(&of, of.page, of.held.frame, Rule::Frame);
                let page = |of: &Holding| (of.cpu, of.asid, of.size, of.page);
                let same = self.known.iter_mut().filter(|known| page(&known.of) == page(&of));
                same.for_each(|known| known.forbidden = true);
            }
            Step::ComeBack { cpu, asid } => {
                let mut expected = Vec::new();
                for known in &mut self.known {
                    if (known.of.cpu, known.of.asid) == (cpu, asid) && known.forbidden {
                        known.forbidden = false;
                        expected.push((known.of.size, known.of.page));
                    }
                }
                expected.sort_unstable();
                expected.dedup();
                let taken: Vec<u64> = self.record.take_forbidden(cpu, asid).map(|(page, ..)| page).collect();
                assert_eq!(taken, expected.into_iter().map(|(_, page)| page).collect::<Vec<_>>());
            }
        }
    }

    fn expect(&self, found: impl Iterator<Item = Holding>, is_found: impl Fn(&Known) -> bool) {
        let expected = self.known.iter().filter(|known| is_found(known)).map(|known| known.of);
        assert_eq!(sorted(found), sorted(expected));
    }

    /// Asks the record everything that the oracle may ask.
    fn compare(&mut self) {
        for root in 1..3 {
            let of = |known: &Known, size| known.root == root && known.of.size == size;
            for pages in [0..4, 3..64, 63..511, 510..4096, 0..u64::from(u32::MAX), 1 << 34..(1 << 34) + 1] {
                let range = pages.clone();
                self.expect(self.record.small_within(root, pages.clone()), |known| {
                    of(known, PageSize::KIB_4) && range.contains(&known.of.page)
                });
                self.expect(self.record.huge_within(root, pages), |known| {
                    let its = known.of.page..known.of.page + HUGE_PAGES;
                    of(known, PageSize::MIB_2) && its.start < range.end && range.start < its.end
                });
            }
            for page in [0, 63, 64, 513, 4096, 1 << 34] {
                self.expect(self.record.small(root, page), |known| {
                    of(known, PageSize::KIB_4) && known.of.page == page
                });
            }
            for (cpu, asid) in slots() {
                let mut of_slot =
                    self.known.iter().filter(|known| (known.of.cpu, known.of.asid) == (cpu, asid));
                let expected = of_slot.any(|known| known.root != root);
                assert_eq!(self.record.has_others(cpu, asid, root), expected);
            }
        }
        for frame in (0..6).chain([511, 512, 700]) {
            let mut found = Vec::new();
            self.record.leading_to(frame, |page, of| {
                assert_eq!(page - of.page, u64::from(frame - of.held.frame));
                found.push(of);
            });
            self.expect(found.into_iter(), |known| {
                let count = if known.of.size == PageSize::MIB_2 { 512 } else { 1 };
                known.leads && (known.of.held.frame..known.of.held.frame + count).contains(&frame)
            });
        }
        for (cpu, asid) in slots() {
            for (pages, most) in [(0..u64::from(u32::MAX), usize::MAX), (63..4096, usize::MAX), (1..600, 2)] {
                let found = self.record.frames_of(cpu, asid, pages.clone(), most);
                let of_slot = self.known.iter().filter(|known| (known.of.cpu, known.of.asid) == (cpu, asid));
                let mut expected: Vec<(u64, u32)> = of_slot
                    .filter_map(|Known { of, .. }| {
                        let end = of.page + if of.size == PageSize::MIB_2 { HUGE_PAGES } else { 1 };
                        let page = of.page.max(pages.start);
                        let is_inside = page < pages.end.min(end);
                        is_inside.then(|| (page, of.held.frame + (page - of.page) as u32))
                    })
                    .collect();
                expected.sort_unstable();
                if most == usize::MAX {
                    assert_eq!(found, expected);
                } else {
                    assert_eq!(found.len(), most.min(expected.len()));
                    assert!(found.iter().all(|one| expected.contains(one)));
                }
            }
        }
    }
}

fn slots() -> impl Iterator<Item = (usize, u16)> {
    (0..CPUS).flat_map(|cpu| (0..2).map(move |asid| (cpu, asid)))
}

fn sorted(all: impl Iterator<Item = Holding>) -> Vec<Holding> {
    let mut all: Vec<Holding> = all.collect();
    // A slot has no two entries of the same size, page and frame.
    all.sort_unstable_by_key(|of| (of.cpu, of.asid, of.size, of.page, of.held.frame));
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_record_knows_what_each_cpu_may_hold(steps in prop::collection::vec(step(), 1..120)) {
        let mut both = Both::new();
        for (number, step) in steps.into_iter().enumerate() {
            both.take(step);
            if number % 4 == 0 {
                both.compare();
            }
        }
        both.compare();
    }
}

#[test]
fn flushed_entries_are_removed_once_they_are_many_and_no_others_are() {
    let mut both = Both::new();
    let fill = |cpu, page| Step::Fill {
        cpu,
        asid: 0,
        root: 1,
        page,
        huge: false,
        frame: page as u32 % FRAMES,
        writable: false,
        dirty: false,
    };
    let huge = Step::Fill {
        cpu: 1,
        asid: 0,
        root: 1,
        page: 512,
        huge: true,
        frame: 1,
        writable: false,
        dirty: true,
    };
    both.take(huge);
    for round in 0..20 {
        for page in 0..500 {
            both.take(fill(1, page + 700 * round));
        }
        both.take(fill(0, 9000 * round));
        both.take(Step::ForgetAsid { cpu: 1, asid: 0 });
        both.compare();
        let kept = both.record.spaces[0].small_within(0..u64::MAX).flat_map(|(_, entries)| entries).count();
        assert!(kept < 300, "{kept}");
    }
    assert_eq!(both.record.spaces[0].huge_within(0..u64::MAX).count(), 0);
}
