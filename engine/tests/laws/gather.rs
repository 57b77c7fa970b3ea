//! Strict unmaps: flushed before anything is let go.

use std::cell::RefCell;

use ceasefire::{Cleared, ClearedTable, Entry, Gather, PageSize};

use crate::batch::cleared;
use crate::script::{machine, Event, Machine};

const PAGE: u64 = 0x1000;

fn flushes(m: &Machine, cpu: usize) -> Vec<Event> {
    let by =
        |event: &Event| matches!(event, Event::Pages { cpu: at, .. } | Event::Asid { cpu: at } if *at == cpu);
    m.events().into_iter().filter(by).collect()
}

#[test]
fn nothing_is_released_before_the_flush() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    m.fill(1, 2 * PAGE, 1);
    m.events();
    let released = RefCell::new(Vec::new());
    let mut gather: Gather<'_, _, u64, _> = Gather::new(&m, &p, |page| {
        assert_eq!((m.cached(1, PAGE), m.cached(1, 2 * PAGE)), (None, None));
        released.borrow_mut().push(page);
    });
    gather.unmap(cleared(PAGE, false), Some(1));
    gather.unmap(cleared(2 * PAGE, false), Some(2));
    assert!(m.cached(1, PAGE).is_some() && released.borrow().is_empty());
    gather.finish();
    assert_eq!(*released.borrow(), [1, 2]);
    assert_eq!(flushes(&m, 1), [Event::Pages { cpu: 1, start: PAGE, count: 2, size: PageSize::Small }]);
}

#[test]
fn dropping_it_is_finishing_it() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    let mut gather: Gather<'_, _, u64, _> = Gather::new(&m, &p, |_| assert_eq!(m.cached(1, PAGE), None));
    gather.unmap(cleared(PAGE, false), Some(1));
    drop(gather);
    assert_eq!(m.cached(1, PAGE), None);
}

#[test]
fn a_full_gather_flushes_early_and_keeps_the_order() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    for page in 1..=5 {
        m.fill(1, page * PAGE, 1);
    }
    m.events();
    let released = RefCell::new(Vec::new());
    let mut gather: Gather<'_, _, u64, _, 2> = Gather::new(&m, &p, |page| {
        assert_eq!(m.cached(1, page * PAGE), None);
        released.borrow_mut().push(page);
    });
    for page in 1..=5 {
        gather.unmap(cleared(page * PAGE, false), Some(page));
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
    let mut gather: Gather<'_, _, u64, _> = Gather::new(&m, &p, |_| ());
    gather.unmap(cleared(9 * PAGE, false), None);
    gather.unmap(cleared(4 * PAGE, false), None);
    gather.flush();
    assert_eq!(flushes(&m, 0), [Event::Pages { cpu: 0, start: 4 * PAGE, count: 6, size: PageSize::Small }]);
    let huge = PageSize::Huge.bytes();
    let entry = Entry { accessible: true, dirty: false };
    gather.unmap(Cleared::new(huge, PageSize::Huge, entry), None);
    gather.unmap(Cleared::new(3 * huge, PageSize::Huge, entry), None);
    gather.flush();
    assert_eq!(flushes(&m, 0), [Event::Pages { cpu: 0, start: huge, count: 3, size: PageSize::Huge }]);
    gather.unmap(Cleared::new(huge, PageSize::Huge, entry), None);
    gather.unmap(cleared(2 * huge, false), None);
    gather.finish();
    assert_eq!(flushes(&m, 0), [Event::Asid { cpu: 0 }], "513 small strides are too many");
}

#[test]
fn what_no_tlb_can_hold_needs_no_flush() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.events();
    let released = RefCell::new(Vec::new());
    let mut gather: Gather<'_, _, u64, _> = Gather::new(&m, &p, |page| released.borrow_mut().push(page));
    gather.unmap(Cleared::new(PAGE, PageSize::Small, Entry { accessible: false, dirty: false }), Some(1));
    gather.finish();
    assert_eq!((m.events().len(), released.take()), (0, vec![1]));
}

/// tlb-bugs B5: two madvise calls on one range.
#[test]
fn a_nested_gather_flushes_everything_even_if_it_cleared_nothing() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    m.fill(1, 9 * PAGE, 1);
    let mut first: Gather<'_, _, u64, _> = Gather::new(&m, &p, |_| ());
    first.unmap(cleared(PAGE, false), None);
    let second: Gather<'_, _, u64, _> = Gather::new(&m, &p, |_| ());
    second.finish();
    assert_eq!((m.cached(1, PAGE), m.cached(1, 9 * PAGE)), (None, None));
    m.events();
    first.finish();
    assert_eq!(m.interrupted(), [1]);
    let third: Gather<'_, _, u64, _> = Gather::new(&m, &p, |_| ());
    m.events();
    third.finish();
    assert_eq!(m.events(), [], "both are closed");
}

#[test]
fn a_nested_gather_reaches_lazy_cpus_too() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.lazy(1);
    let mut first: Gather<'_, _, u64, _> = Gather::new(&m, &p, |_| ());
    first.table(ClearedTable::new(0), 1);
    Gather::<'_, _, u64, _>::new(&m, &p, |_| ()).finish();
    assert_eq!(m.root(1), None, "the first may have unlinked tables");
    first.finish();
}

#[test]
fn a_table_at_the_edge_of_a_full_gather_is_flushed_before_its_release() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.lazy(1);
    let mut gather: Gather<'_, _, u64, _, 1> = Gather::new(&m, &p, |held| {
        assert!(held == 1 || m.root(1).is_none());
    });
    gather.unmap(cleared(PAGE, false), Some(1));
    gather.table(ClearedTable::new(0), 2);
    gather.finish();
}
