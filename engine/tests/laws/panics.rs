//! Kernels that catch panics: what a panic in a closure or in the platform leaves behind is paid for, or lost for good.

use std::cell::RefCell;
use std::mem::forget;
use std::panic::{catch_unwind, panic_any, AssertUnwindSafe};

use ceasefire::{
    Batch, Condition, Entry, Flush, Gather, KernelGather, Owed, PageSize, Place, Schedule, Translation,
};

use crate::hands::{room, was, Hands, TableLock};
use crate::script::{lazy, machine, Event, Machine, Point, Space};

const PAGE: u64 = 0x1000;

/// CPU 1 runs a space and has two pages of it cached.
fn busy(m: Machine) -> (Machine, Space) {
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    m.fill(1, 2 * PAGE, 1);
    m.events();
    (m, p)
}

/// Ends `run` in a panic of its own, without a message.
fn caught(run: impl FnOnce()) {
    catch_unwind(AssertUnwindSafe(run)).expect_err("it panics");
}

fn give_up() -> ! {
    panic_any("on purpose")
}

/// An entry whose format code panics.
struct Broken;

impl Translation for Broken {
    fn entry(&self) -> Entry {
        give_up()
    }
}

#[test]
fn a_translation_whose_exchange_panicked_in_a_batch_is_flushed_before_the_page_comes_out() {
    for (schedule, m) in
        [(Schedule::Batched, machine(2)), (Schedule::Lazy, lazy(2)), (Schedule::PerPage, machine(2))]
    {
        for broken in [false, true] {
            let (m, p) = busy(m.clone());
            let came_out = RefCell::new(0);
            let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, schedule, |owed: Owed<u64>| {
                assert_eq!(
                    (m.cached(1, PAGE), owed.stamp()),
                    (None, ceasefire::Stamp::SETTLED),
                    "{schedule:?}"
                );
                *came_out.borrow_mut() += 1;
            });
            caught(|| {
                let mut unmapping = batch.take(1);
                let lock = TableLock(p.clone());
                if broken {
                    unmapping.clear(&lock, PAGE, PageSize::KIB_4, |_| Broken);
                } else {
                    unmapping.clear::<_, Entry>(&lock, PAGE, PageSize::KIB_4, |_| give_up());
                }
                unmapping.release_in_debt(Condition::UNKEPT);
            });
            drop(batch);
            assert_eq!(came_out.take(), 1);
        }
    }
}

/// The kernel caught the panic and goes on with the page.
#[test]
fn a_page_with_a_translation_whose_exchange_panicked_does_not_owe() {
    let (m, p) = busy(lazy(2));
    let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Lazy, |owed: Owed<u64>| {
        assert_eq!((m.cached(1, PAGE), owed.stamp()), (None, ceasefire::Stamp::SETTLED));
    });
    let mut unmapping = batch.take(1);
    caught(|| {
        unmapping.clear::<_, Entry>(&TableLock(p.clone()), PAGE, PageSize::KIB_4, |_| give_up());
    });
    unmapping.release_in_debt(Condition::UNKEPT);
}

#[test]
fn a_translation_whose_exchange_panicked_in_a_gather_is_flushed_before_the_unlock() {
    let (m, p) = busy(machine(2));
    let mut room = room::<u64, 1>();
    let mut gather = Gather::new(&m, &p, &mut room, |_| ());
    caught(|| {
        let mut changes = gather.under(m.settled(&p));
        changes.clear::<Entry>(PAGE, PageSize::KIB_4, |_| give_up(), |_| None);
    });
    assert_eq!(m.cached(1, PAGE), None);
    m.fill(1, PAGE, 1);
    caught(|| {
        let mut changes = gather.under(m.settled(&p));
        changes.clear(PAGE, PageSize::KIB_4, |_| Broken, |_| None);
    });
    assert_eq!(m.cached(1, PAGE), None);
    let asid = m.cpu(1).loaded_asid();
    caught(|| {
        let mut changes = gather.under(m.settled(&p));
        changes.unlink(2 * PAGE, PageSize::KIB_4, |_| give_up());
    });
    assert_eq!((m.cached(1, 2 * PAGE), m.walked(1, asid, 2 * PAGE)), (None, false));
    m.fill(1, 2 * PAGE, 1);
    caught(|| gather.unlink(2 * PAGE, PageSize::KIB_4, || give_up()));
    gather.flush();
    assert_eq!((m.cached(1, 2 * PAGE), m.walked(1, asid, 2 * PAGE)), (None, false));
}

#[test]
fn a_translation_of_the_kernel_whose_exchange_panicked_is_flushed() {
    let m = machine(2);
    m.on(1, ceasefire::Engine::online);
    let mut room = room::<u64, 1>();
    let mut gather = KernelGather::new(&*m, &mut room, |_| ());
    for change in 0..3 {
        m.fill_kernel(1, PAGE, 1);
        caught(|| match change {
            0 => drop(gather.clear::<Entry>(PAGE, PageSize::KIB_4, || give_up())),
            1 => drop(gather.clear(PAGE, PageSize::KIB_4, || Broken)),
            _ => gather.unlink(PAGE, PageSize::KIB_4, || give_up()),
        });
        assert!(gather.owes());
        gather.flush();
        assert_eq!(m.kernel_cached(1, PAGE), None);
        assert!(change < 2 || !m.kernel_walked(1, PAGE));
    }
}

#[test]
fn pages_that_a_panicking_release_left_keep_their_debts() {
    let (m, p) = busy(lazy(2));
    let out = RefCell::new(Vec::new());
    let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Lazy, |owed: Owed<u64>| {
        out.borrow_mut().push(m.is_settled(owed.stamp()));
        if out.borrow().len() == 1 {
            give_up();
        }
    });
    for page in [1, 2] {
        batch.unmap_and_release(&p, was(page * PAGE, false), page);
    }
    caught(|| batch.flush());
    assert!(m.cached(1, 2 * PAGE).is_some(), "the debts stand");
    // What is recorded from here on is paid for like all else.
    batch.unmap(&p, was(PAGE, true), 3);
    drop(batch);
    assert_eq!((out.take(), m.cached(1, PAGE)), (vec![false, true, false], None));
}

#[test]
fn a_payment_that_the_platform_cut_short_is_made_again() {
    for (schedule, m) in [(Schedule::Batched, machine(2)), (Schedule::Lazy, lazy(2))] {
        let (m, p) = busy(m);
        let out = RefCell::new(0);
        let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, schedule, |owed: Owed<u64>| {
            assert_eq!(owed.stamp(), ceasefire::Stamp::SETTLED);
            assert_eq!((m.cached(1, PAGE), m.cached(1, 2 * PAGE)), (None, None), "R1");
            *out.borrow_mut() += 1;
        });
        batch.unmap(&p, was(PAGE, true), 1);
        batch.unmap_and_release(&p, was(2 * PAGE, false), 2);
        m.at(Point::Wait, |_| give_up());
        caught(|| batch.flush());
        assert!(m.owes(&p), "R3: an unmap that comes now flushes");
        drop(batch);
        assert_eq!((out.take(), m.owes(&p)), (2, false));
    }
}

/// It unwinds out of the batch's own drop, which no later flush follows.
#[test]
fn pages_that_a_panic_in_the_drop_of_a_batch_left_are_lost() {
    let (m, p) = busy(lazy(2));
    let freed = RefCell::new(0);
    let mut batch: Batch<'_, _, Freed<'_>, _> = Batch::new(&m, Schedule::Lazy, |owed| {
        forget(owed);
        give_up();
    });
    for page in [1, 2] {
        let mut unmapping = batch.take(Freed(&freed));
        unmapping.clear(&TableLock(p.clone()), page * PAGE, PageSize::KIB_4, |_| Entry::READ_ONLY);
        unmapping.release_in_debt(Condition::UNKEPT);
    }
    caught(|| drop(batch));
    assert_eq!((freed.take(), m.cached(1, 2 * PAGE).is_some()), (0, true), "R1: CPU 1 still uses it");
}

#[test]
fn a_gather_whose_flush_the_platform_cut_short_flushes_again() {
    // Before any CPU was asked, and after.
    for point in [Point::Send, Point::Wait] {
        let (m, p) = busy(machine(2));
        let out = RefCell::new(0);
        let mut room = room::<u64, 2>();
        let mut gather = Gather::new(&m, &p, &mut room, |_| {
            assert_eq!((m.cached(1, PAGE), m.cached(1, 2 * PAGE)), (None, None), "R1");
            *out.borrow_mut() += 1;
        });
        m.at(point, |_| give_up());
        caught(|| {
            let mut changes = gather.under(m.settled(&p));
            for page in [1, 2] {
                changes.clear(page * PAGE, PageSize::KIB_4, |_| Entry::DIRTY, |_| Some(page));
            }
        });
        gather.finish();
        assert_eq!(out.take(), 2);
    }
}

#[test]
fn a_gather_goes_on_after_a_release_that_panicked() {
    let (m, p) = busy(machine(2));
    let out = RefCell::new(Vec::new());
    let mut room = room::<u64, 2>();
    let mut gather = Gather::new(&m, &p, &mut room, |page| {
        out.borrow_mut().push(page);
        if page == 1 {
            give_up();
        }
    });
    gather.hold(1);
    gather.hold(2);
    caught(|| gather.flush());
    gather.finish();
    assert_eq!(out.take(), [1, 2]);
}

/// A thing with a `Drop`, as a kernel's frame may be.
struct Freed<'a>(&'a RefCell<u32>);

impl Drop for Freed<'_> {
    fn drop(&mut self) {
        *self.0.borrow_mut() += 1;
    }
}

#[test]
fn a_forgotten_gather_loses_what_it_held() {
    let (m, p) = busy(machine(2));
    let freed = RefCell::new(0);
    {
        let mut room = [Place::EMPTY];
        let mut gather = Gather::new(&m, &p, &mut room, drop);
        gather.hold(Freed(&freed));
        forget(gather);
        // The next gather in the same room neither releases nor drops it.
        let mut gather = Gather::new(&m, &p, &mut room, drop);
        gather.hold(Freed(&freed));
        gather.finish();
    }
    assert_eq!(freed.take(), 1);
    // The open gather makes every other one flush everything.
    m.events();
    let mut none: [Place<u64>; 0] = [];
    Gather::new(&m, &p, &mut none, |_| ()).finish();
    assert!(m.events().contains(&Event::LoadKernel { cpu: 1 }) || m.cached(1, PAGE).is_none());
    m.flush(&p, Flush::ALL);
}

/// The platform panics before any CPU was asked.
#[test]
fn a_payment_that_is_made_again_flushes_every_space_of_the_batch() {
    let m = machine(3);
    let spaces = [1, 2].map(|cpu| m.space(cpu));
    let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Batched, |_| {
        assert_eq!((m.cached(1, PAGE), m.cached(2, PAGE)), (None, None), "R1");
    });
    for (space, cpu) in spaces.iter().zip(1..) {
        m.switch(cpu, space);
        m.fill(cpu, PAGE, 1);
        batch.unmap(space, was(PAGE, false), 1);
    }
    m.at(Point::Send, |_| give_up());
    caught(|| batch.flush());
    drop(batch);
}

#[test]
fn a_narrowing_whose_exchange_panicked_is_a_downgrade_in_flight() {
    let (m, p) = busy(machine(2));
    let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Batched, |_| ());
    caught(|| {
        let lock = TableLock(p.clone());
        batch.take(1).narrow::<_, Entry>(&lock, PAGE, PageSize::KIB_4, |_| give_up());
    });
    assert!(p.downgrade_in_flight(), "R5");
    drop(batch);
    assert!(!p.downgrade_in_flight());
}
