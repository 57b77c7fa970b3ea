//! The proof that nothing is owed: what it takes to have one, and what it does not let go of.

use std::cell::{Cell, RefCell};

use ceasefire::{Batch, Gather, Schedule, Settled};

use crate::batch::{busy, cleared, narrowed};
use crate::script::machine;

const PAGE: u64 = 0x1000;

#[test]
fn a_proof_settles_and_holds_the_lock_until_it_is_dropped() {
    struct Unlock<'a>(&'a Cell<bool>);
    impl Drop for Unlock<'_> {
        fn drop(&mut self) {
            self.0.set(false);
        }
    }
    let (m, p) = busy(2, 1);
    let locked = Cell::new(true);
    let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Batched, |_| ());
    batch.record(&p, cleared(PAGE, false));
    let proof = m.settle(&p, Unlock(&locked));
    assert_eq!((m.cached(1, PAGE), m.owes(&p), proof.space().id()), (None, false, p.id()));
    assert!(proof.0.get(), "what the guard guards can be reached through the proof");
    drop(proof);
    assert!(!locked.get());
}

#[test]
fn what_the_lock_guards_can_be_changed_under_the_proof() {
    let m = machine(1);
    let p = m.space(1);
    let table = RefCell::new([1, 2]);
    let mut proof: Settled<'_, _> = m.settle(&p, table.borrow_mut());
    proof.entries()[0] = 7;
    assert_eq!(proof[0], 7);
    drop(proof);
    assert_eq!(table.take(), [7, 2]);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "was settled without a lock")]
fn what_does_not_unlock_is_no_guard() {
    let m = machine(1);
    let p = m.space(1);
    drop(m.settle(&p, ()));
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "was settled, and what was cleared belongs to")]
fn a_gather_takes_no_proof_of_another_space() {
    let m = machine(1);
    let (p, q) = (m.space(1), m.space(2));
    let proof = m.settled(&q);
    let mut gather: Gather<'_, _, u64, _> = Gather::new(&m, &p, |_| ());
    gather.unmap(&proof, cleared(PAGE, false), None);
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "was settled, and what was cleared belongs to")]
fn nor_for_what_was_narrowed() {
    let m = machine(1);
    let (p, q) = (m.space(1), m.space(2));
    let proof = m.settled(&q);
    let mut gather: Gather<'_, _, u64, _> = Gather::new(&m, &p, |_| ());
    gather.narrow(&proof, narrowed(PAGE, false));
}
