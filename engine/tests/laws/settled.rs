//! The proof that a space owes nothing: how it is made, and the lock that it keeps.

use std::cell::Cell;

use ceasefire::{AddressSpace, Entry, Gather, PageSize, Schedule, TableGuard};

use crate::batch::busy;
use crate::hands::{batch, room, unmap, was, Hands, SpaceLock, TableLock};
use crate::script::{machine, Script, Space};

const PAGE: u64 = 0x1000;

/// A page-table lock that tells whether it is held.
struct Unlock<'a>(&'a Cell<bool>, Space);

impl Drop for Unlock<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

// SAFETY: the test runs on one thread, and no other code changes translations meanwhile. It names one space.
unsafe impl TableGuard<Script> for Unlock<'_> {
    fn space(&self) -> &Space {
        &self.1
    }
}

#[test]
fn a_proof_settles_and_holds_the_lock_until_it_is_dropped() {
    let (m, p) = busy(2, 1);
    let locked = Cell::new(true);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    let proof = m.settle(Unlock(&locked, p.clone()));
    assert_eq!((m.cached(1, PAGE), m.owes(&p)), (None, false));
    assert!(proof.0.get(), "the guard can be reached through the proof");
    drop(proof);
    assert!(!locked.get());
}

/// The guard names the space, so the debt of another space does not count.
#[test]
fn the_space_of_the_guard_is_settled() {
    let (m, p) = busy(3, 1);
    let q = m.space(2);
    m.switch(2, &q);
    m.fill(2, PAGE, 1);
    let mut batch = batch(&m, Schedule::Batched);
    batch.unmap(&p, was(PAGE, false), 0);
    batch.unmap(&q, was(PAGE, false), 1);
    drop(m.settled(&q));
    assert_eq!((m.owes(&p), m.owes(&q)), (true, false));
}

#[test]
fn the_lock_is_released_only_after_the_flush() {
    let (m, p) = busy(2, 1);
    let locked = Cell::new(true);
    let mut room = room::<_, 4>();
    let mut gather: Gather<'_, _, u64, _> = Gather::new(&m, &p, &mut room, |_| {
        assert!(locked.get(), "the held page is released under the lock");
    });
    let mut changes = gather.under(m.settle(Unlock(&locked, p.clone())));
    changes.clear(PAGE, PageSize::KIB_4, |_| Entry::READ_ONLY, |_| Some(1));
    assert!(m.cached(1, PAGE).is_some());
    drop(changes);
    assert_eq!((m.cached(1, PAGE), locked.get()), (None, false));
    gather.finish();
}

#[test]
fn one_flush_serves_all_locks_while_the_range_is_kept() {
    let (m, p) = busy(2, 4);
    let (range, mut room) = (SpaceLock(p.clone()), room::<_, 4>());
    let mut gather: Gather<'_, _, u64, _> = Gather::keeping(&m, &range, &mut room, |_| ());
    for page in 1..=4 {
        unmap(&mut gather, m.settled(&p), was(page * PAGE, false), Some(page));
        assert!(m.cached(1, page * PAGE).is_some(), "its lock was released, and it is not flushed");
    }
    gather.finish();
    assert_eq!((m.usable(1), m.interrupted()), (vec![], vec![1]));
}

/// A caller that mixes up spaces has both flushed: the other at once, its own at the end.
#[test]
fn a_lock_of_another_space_has_that_one_flushed_at_once() {
    let m = machine(3);
    let (p, q) = (m.space(1), m.space(2));
    for (cpu, space) in [(1, &p), (2, &q)] {
        m.switch(cpu, space);
        m.fill(cpu, PAGE, 1);
    }
    let space: &AddressSpace = &p;
    let mut room = room::<_, 4>();
    let mut gather: Gather<'_, _, u64, _> =
        Gather::new(&m, space, &mut room, |_| assert_eq!(m.cached(2, PAGE), None));
    let mut changes = gather.under(m.settle(TableLock(q.clone())));
    changes.clear(PAGE, PageSize::KIB_4, |_| Entry::READ_ONLY, |_| None);
    assert_eq!(m.cached(2, PAGE), None, "at once");
    m.fill(2, 2 * PAGE, 1);
    changes.detach(0, PageSize::KIB_4, 1 << 21, |_| ());
    assert_eq!(m.cached(2, 2 * PAGE), None, "all of it where a table goes");
    m.fill(2, 3 * PAGE, 1);
    changes.unlink(3 * PAGE, PageSize::KIB_4, |_| None);
    let asid = m.cpu(2).loaded_asid();
    assert!(m.cached(2, 3 * PAGE).is_none() && !m.walked(2, asid, 3 * PAGE), "and where a table is freed");
    m.lazy(2);
    changes.detach(0, PageSize::KIB_4, 1 << 21, |_| ());
    assert_eq!(m.root(2), None, "its walker may read the table");
    changes.hold(1);
    drop(changes);
    gather.finish();
    assert!(m.cached(1, PAGE).is_some(), "nothing was changed in its own");
}

#[test]
fn a_table_of_no_bytes_is_flushed() {
    let (m, p) = busy(2, 1);
    let mut room = room::<u64, 1>();
    let mut gather = Gather::new(&m, &p, &mut room, |_| ());
    let asid = m.cpu(1).loaded_asid();
    assert!(m.walked(1, asid, PAGE));
    gather.under(m.settled(&p)).detach(PAGE, PageSize::KIB_4, 0, |_| ());
    assert!(m.cached(1, PAGE).is_none() && !m.walked(1, asid, PAGE), "R2");
}
