//! Strict unmaps: the flush comes before anything is released.

use std::cell::RefCell;

use ceasefire::{Bounds, Entry, Gather, PageSize, Schedule};

use proptest::prelude::*;

use crate::hands::{batch, huge, room, small, unmap, was, Hands, SpaceLock, Was};
use crate::script::{every, machine, machine_with_ceiling, Event, Machine, Space};

const PAGE: u64 = 0x1000;

fn flushes(m: &Machine, cpu: usize) -> Vec<Event> {
    let by =
        |event: &Event| matches!(event, Event::Pages { cpu: at, .. } | Event::Asid { cpu: at } if *at == cpu);
    m.events().into_iter().filter(by).collect()
}

/// A machine whose second CPU runs a space and may use these pages of it.
fn running_with(pages: impl IntoIterator<Item = u64>) -> (Machine, Space) {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    pages.into_iter().for_each(|page| m.fill(1, page, 1));
    (m, p)
}

#[test]
fn nothing_is_released_before_the_flush() {
    let (m, p) = running_with([PAGE, 2 * PAGE]);
    m.events();
    let released = RefCell::new(Vec::new());
    let (gather_range, mut gather_room) = (SpaceLock(p.clone()), room::<_, 64>());
    let mut gather: Gather<'_, _, u64, _> = Gather::keeping(&m, &gather_range, &mut gather_room, |page| {
        assert_eq!((m.cached(1, PAGE), m.cached(1, 2 * PAGE)), (None, None));
        released.borrow_mut().push(page);
    });
    unmap(&mut gather, m.settled(&p), was(PAGE, false), Some(1));
    unmap(&mut gather, m.settled(&p), was(2 * PAGE, false), Some(2));
    assert!(m.cached(1, PAGE).is_some() && released.borrow().is_empty());
    gather.finish();
    assert_eq!(*released.borrow(), [1, 2]);
    assert_eq!(flushes(&m, 1), [Event::Pages { cpu: 1, start: PAGE, count: 2, size: PageSize::KIB_4 }]);
}

#[test]
fn a_gather_and_its_changes_say_whether_they_keep_the_range() {
    let (m, p) = running_with([]);
    let range = SpaceLock(p.clone());
    let mut kept_room = room::<_, 4>();
    let mut keeping: Gather<'_, _, u64, _> = Gather::keeping(&m, &range, &mut kept_room, |_| ());
    assert!(keeping.keeps() && keeping.under(m.settled(&p)).keeps());
    let mut open_room = room::<_, 4>();
    let mut open: Gather<'_, _, u64, _> = Gather::new(&m, &p, &mut open_room, |_| ());
    assert!(!open.keeps() && !open.under(m.settled(&p)).keeps());
}

#[test]
fn changes_can_be_flushed_under_their_lock() {
    let (m, p) = running_with([PAGE]);
    let (range, mut held) = (SpaceLock(p.clone()), room::<_, 4>());
    let mut gather: Gather<'_, _, u64, _> = Gather::keeping(&m, &range, &mut held, |_| ());
    let mut changes = gather.under(m.settled(&p));
    changes.clear(PAGE, PageSize::KIB_4, |_| Entry::READ_ONLY, |_| None);
    assert!(m.cached(1, PAGE).is_some());
    changes.flush();
    assert_eq!(m.cached(1, PAGE), None);
}

#[test]
fn a_flush_of_small_pages_looks_for_no_other_size() {
    let (below, above) = (0x1f_f000, 0x20_1000);
    let (m, p) = running_with([below, above]);
    m.fill_huge(1, 0x20_0000, 2);
    let (range, mut held) = (SpaceLock(p.clone()), room::<_, 4>());
    let mut gather: Gather<'_, _, u64, _> = Gather::keeping(&m, &range, &mut held, |_| ());
    unmap(&mut gather, m.settled(&p), was(below, false), Some(1));
    unmap(&mut gather, m.settled(&p), was(above, false), Some(2));
    gather.finish();
    assert_eq!(m.usable(1).len(), 1, "hardware may take the hint that all are small");
}

#[test]
fn dropping_a_gather_finishes_it() {
    let (m, p) = running_with([PAGE]);
    let (gather_range, mut gather_room) = (SpaceLock(p.clone()), room::<_, 64>());
    let mut gather: Gather<'_, _, u64, _> =
        Gather::keeping(&m, &gather_range, &mut gather_room, |_| assert_eq!(m.cached(1, PAGE), None));
    unmap(&mut gather, m.settled(&p), was(PAGE, false), Some(1));
    drop(gather);
    assert_eq!(m.cached(1, PAGE), None);
}

#[test]
fn a_full_gather_flushes_early_and_keeps_the_order() {
    let (m, p) = running_with((1..=5).map(|page| page * PAGE));
    m.events();
    let released = RefCell::new(Vec::new());
    let (gather_range, mut gather_room) = (SpaceLock(p.clone()), room::<_, 2>());
    let mut gather: Gather<'_, _, u64, _> = Gather::keeping(&m, &gather_range, &mut gather_room, |page| {
        assert_eq!(m.cached(1, page * PAGE), None);
        released.borrow_mut().push(page);
    });
    for page in 1..=5 {
        unmap(&mut gather, m.settled(&p), was(page * PAGE, false), Some(page));
    }
    assert_eq!(*released.borrow(), [1, 2, 3, 4]);
    gather.finish();
    assert_eq!(*released.borrow(), [1, 2, 3, 4, 5]);
    assert_eq!(flushes(&m, 1).len(), 2, "the fifth went with the second flush: it was cleared before");
}

#[test]
fn the_range_is_the_hull_in_the_smallest_size() {
    let m = machine(1);
    let p = m.space(1);
    m.switch(0, &p);
    m.events();
    let (gather_range, mut gather_room) = (SpaceLock(p.clone()), room::<_, 64>());
    let mut gather: Gather<'_, _, u64, _> = Gather::keeping(&m, &gather_range, &mut gather_room, |_| ());
    unmap(&mut gather, m.settled(&p), was(9 * PAGE, false), None);
    unmap(&mut gather, m.settled(&p), was(4 * PAGE, false), None);
    gather.flush();
    assert_eq!(flushes(&m, 0), [Event::Pages { cpu: 0, start: 4 * PAGE, count: 6, size: PageSize::KIB_4 }]);
    let two_mib = PageSize::MIB_2.bytes();
    unmap(&mut gather, m.settled(&p), huge(two_mib), None);
    unmap(&mut gather, m.settled(&p), huge(3 * two_mib), None);
    gather.flush();
    assert_eq!(flushes(&m, 0), [Event::Pages { cpu: 0, start: two_mib, count: 3, size: PageSize::MIB_2 }]);
    unmap(&mut gather, m.settled(&p), huge(two_mib), None);
    unmap(&mut gather, m.settled(&p), was(2 * two_mib, false), None);
    gather.finish();
    assert_eq!(flushes(&m, 0), [Event::Asid { cpu: 0 }], "513 small strides are too many");
}

#[test]
fn an_entry_that_no_tlb_can_hold_needs_no_flush() {
    let (m, p) = running_with([]);
    m.events();
    let released = RefCell::new(Vec::new());
    let (gather_range, mut gather_room) = (SpaceLock(p.clone()), room::<_, 64>());
    let mut gather: Gather<'_, _, u64, _> =
        Gather::keeping(&m, &gather_range, &mut gather_room, |page| released.borrow_mut().push(page));
    unmap(&mut gather, m.settled(&p), small(PAGE, Entry::NONE), Some(1));
    gather.finish();
    assert_eq!((m.events().len(), released.take()), (0, vec![1]));
}

/// tlb-bugs B5: two madvise calls on one range.
#[test]
fn a_nested_gather_flushes_everything_even_if_it_cleared_nothing() {
    let (m, p) = running_with([PAGE, 9 * PAGE]);
    let (first_range, mut first_room) = (SpaceLock(p.clone()), room::<_, 64>());
    let mut first: Gather<'_, _, u64, _> = Gather::keeping(&m, &first_range, &mut first_room, |_| ());
    unmap(&mut first, m.settled(&p), was(PAGE, false), None);
    let (second_range, mut second_room) = (SpaceLock(p.clone()), room::<_, 64>());
    let second: Gather<'_, _, u64, _> = Gather::keeping(&m, &second_range, &mut second_room, |_| ());
    second.finish();
    assert_eq!((m.cached(1, PAGE), m.cached(1, 9 * PAGE)), (None, None));
    m.events();
    first.finish();
    assert_eq!(m.interrupted(), [1]);
    let (third_range, mut third_room) = (SpaceLock(p.clone()), room::<_, 64>());
    let third: Gather<'_, _, u64, _> = Gather::keeping(&m, &third_range, &mut third_room, |_| ());
    m.events();
    third.finish();
    assert_eq!(m.events(), [], "both are closed");
}

/// Two madvise calls on two pages, under the locks of their tables.
#[test]
fn a_nested_gather_that_finishes_under_its_last_lock_flushes_once() {
    let (m, p) = running_with([PAGE, 9 * PAGE]);
    let (first_range, mut first_room) = (SpaceLock(p.clone()), room::<_, 64>());
    let mut first: Gather<'_, _, u64, _> = Gather::keeping(&m, &first_range, &mut first_room, |_| ());
    unmap(&mut first, m.settled(&p), was(9 * PAGE, false), None);
    let released = RefCell::new(Vec::new());
    let mut second_room = room::<_, 64>();
    let second: Gather<'_, _, u64, _> = Gather::new(&m, &p, &mut second_room, |page| {
        assert_eq!((m.cached(1, PAGE), m.cached(1, 9 * PAGE)), (None, None));
        released.borrow_mut().push(page);
    });
    m.events();
    second.finish_under(m.settled(&p), |changes| {
        changes.clear(PAGE, PageSize::KIB_4, |_| was(PAGE, false).entry, |_| Some(1));
    });
    assert_eq!((released.take(), m.interrupted()), (vec![1], vec![1]), "one flush of everything");
    first.finish();
    let third: Gather<'_, _, u64, _> = Gather::new(&m, &p, &mut [], |_| ());
    m.events();
    third.finish_under(m.settled(&p), |_| ());
    assert_eq!(m.events(), [], "nothing was changed, and no other gather is open");
}

/// The batch flushes for itself, and the gather settled its debts if it looked at translations.
#[test]
fn a_gather_beside_a_batch_that_narrowed_is_not_nested() {
    let (m, p) = running_with([PAGE]);
    let mut batch = batch(&m, Schedule::Batched);
    batch.restrict(&p, was(PAGE, true), 1);
    m.events();
    Gather::<'_, _, u64, _>::new(&m, &p, &mut [], |_| ()).finish();
    assert_eq!(m.events(), []);
    drop(batch);
}

#[test]
fn a_nested_gather_reaches_lazy_cpus_too() {
    let (m, p) = running_with([]);
    m.lazy(1);
    let (first_range, mut first_room) = (SpaceLock(p.clone()), room::<_, 64>());
    let mut first: Gather<'_, _, u64, _> = Gather::keeping(&m, &first_range, &mut first_room, |_| ());
    first.unlink(0, PageSize::KIB_4, || Some(1));
    Gather::<'_, _, u64, _>::new(&m, &p, &mut [], |_| ()).finish();
    assert_eq!(m.root(1), None, "the first may have unlinked tables");
    first.finish();
}

#[test]
fn a_table_at_the_edge_of_a_full_gather_is_flushed_before_its_release() {
    let (m, p) = running_with([]);
    m.lazy(1);
    let (gather_range, mut gather_room) = (SpaceLock(p.clone()), room::<_, 1>());
    let mut gather: Gather<'_, _, u64, _> = Gather::keeping(&m, &gather_range, &mut gather_room, |held| {
        assert!(held == 1 || m.root(1).is_none());
    });
    unmap(&mut gather, m.settled(&p), was(PAGE, false), Some(1));
    gather.unlink(0, PageSize::KIB_4, || Some(2));
    gather.finish();
}

#[test]
fn a_narrowing_is_flushed_before_the_gather_is_closed() {
    let (m, p) = running_with([PAGE]);
    m.events();
    let (gather_range, mut gather_room) = (SpaceLock(p.clone()), room::<_, 64>());
    let mut gather: Gather<'_, _, u64, _> = Gather::keeping(&m, &gather_range, &mut gather_room, |_| ());
    unmap(&mut gather, m.settled(&p), was(PAGE, false), None);
    gather.finish();
    assert_eq!(m.cached(1, PAGE), None);
    assert_eq!(flushes(&m, 1), [Event::Pages { cpu: 1, start: PAGE, count: 1, size: PageSize::KIB_4 }]);
}

#[test]
fn huge_pages_alone_keep_their_stride_up_to_the_ceiling() {
    for (pages, partial) in [(33, true), (34, false)] {
        let m = machine(1);
        let p = m.space(1);
        m.switch(0, &p);
        m.events();
        let (gather_range, mut gather_room) = (SpaceLock(p.clone()), room::<_, 64>());
        let mut gather: Gather<'_, _, u64, _> = Gather::keeping(&m, &gather_range, &mut gather_room, |_| ());
        for page in 0..pages {
            // Any address in it names the page.
            let address = u64::from(page) * PageSize::MIB_2.bytes() + 5 * PAGE;
            unmap(&mut gather, m.settled(&p), huge(address), None);
        }
        gather.finish();
        let one_by_one = Event::Pages { cpu: 0, start: 0, count: pages, size: PageSize::MIB_2 };
        assert_eq!(flushes(&m, 0), [if partial { one_by_one } else { Event::Asid { cpu: 0 } }]);
    }
}

/// Hardware that is told a size looks for no other. The hull of the changes is stated in the smallest size.
#[test]
fn huge_pages_among_small_ones_are_found_by_a_broadcast() {
    let two_mib = PageSize::MIB_2.bytes();
    let m = Machine::new(2, every(256), u32::MAX, Bounds::STRICT);
    let p = m.space(1);
    m.switch(1, &p);
    let all = [(PAGE, PageSize::KIB_4), (two_mib, PageSize::MIB_2)];
    for (pages, left) in [(&all[..1], 1), (&all[1..], 1), (&all, 0)] {
        m.fill(1, PAGE, 1);
        m.fill_huge(1, two_mib, 1);
        let (gather_range, mut gather_room) = (SpaceLock(p.clone()), room::<_, 64>());
        let mut gather: Gather<'_, _, u64, _> = Gather::keeping(&m, &gather_range, &mut gather_room, |_| ());
        for &(address, size) in pages {
            unmap(&mut gather, m.settled(&p), Was { address, size, entry: Entry::READ_ONLY }, None);
        }
        gather.finish();
        assert_eq!(m.usable(1).len(), left, "{pages:?}");
    }
}

/// A change that a gather may make.
#[derive(Debug, Clone, Copy)]
enum Taken {
    Small(u64),
    Huge(u64),
    Narrowed(u64),
    Table(u64),
}

fn taken() -> impl Strategy<Value = Taken> {
    // Addresses around a few boundaries of `two_mib` pages. The last boundary is the end of 56-bit addresses.
    let address = (prop_oneof![0..3_u64, Just((1 << 35) - 1)], 0..512_u64)
        .prop_map(|(two_mib, small)| two_mib << 21 | small << 12);
    (0..4_u8, address).prop_map(|(kind, address)| match kind {
        0 => Taken::Small(address),
        1 => Taken::Huge(address),
        2 => Taken::Narrowed(address),
        _ => Taken::Table(address >> 21 << 21),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ceasefire_testing::cases(1000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_flush_covers_every_change(
        all in prop::collection::vec(taken(), 1..6), ceiling in prop_oneof![Just(33_u32), Just(2000)],
    ) {
        let m = machine_with_ceiling(1, ceiling);
        let p = m.space(1);
        m.switch(0, &p);
        m.events();
        let (gather_range, mut gather_room) = (SpaceLock(p.clone()), room::<_, 64>());
        let mut gather: Gather<'_, _, u64, _> = Gather::keeping(&m, &gather_range, &mut gather_room, |_| ());
        for &taken in &all {
            match taken {
                Taken::Huge(address) => unmap(&mut gather, m.settled(&p), huge(address), None),
                Taken::Small(address) | Taken::Narrowed(address) => {
                    unmap(&mut gather, m.settled(&p), was(address, false), None);
                }
                Taken::Table(address) => {
                    gather.unlink(address, PageSize::KIB_4, || Some(1));
                }
            }
        }
        gather.finish();
        let done = flushes(&m, 0);
        prop_assert_eq!(done.len(), 1, "one flush for all: {:?}", done);
        if let Event::Pages { start, count, size, .. } = done[0] {
            prop_assert!(count <= ceiling);
            // The last byte.
            let last = start + ((u64::from(count) << size.shift()) - 1);
            for taken in all {
                let (address, bytes, stride) = match taken {
                    Taken::Huge(address) => (address >> 21 << 21, 1 << 21, PageSize::MIB_2),
                    Taken::Small(address) | Taken::Narrowed(address) | Taken::Table(address) => {
                        (address, 1 << 12, PageSize::KIB_4)
                    }
                };
                prop_assert!(start <= address && address + (bytes - 1) <= last, "{:?} in {:?}", taken, done);
                prop_assert!(size <= stride, "{:?} at the stride of {:?}", taken, size);
            }
        }
    }
}

/// An address after the last one would be 0.
#[test]
fn the_last_page_of_all_is_flushed_like_any_other() {
    const LAST: u64 = u64::MAX - (PAGE - 1);
    for below in [0, 3 * PAGE] {
        let (m, p) = running_with([LAST, LAST - below]);
        let (range, mut held) = (SpaceLock(p.clone()), room::<_, 4>());
        let mut gather: Gather<'_, _, u64, _> =
            Gather::keeping(&m, &range, &mut held, |_| assert_eq!(m.usable(1), []));
        for address in [LAST, LAST - below] {
            unmap(&mut gather, m.settled(&p), was(address, false), Some(1));
        }
        gather.finish();
        assert_eq!(m.usable(1), []);
    }
}
