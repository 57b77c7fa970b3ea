//! The generations of a space: the newest that every CPU has reached.

use std::rc::Rc;

use ceasefire::cores::{extend_reached, generation, raise_reached, reached};
use ceasefire::{cores, AddressSpace, Generation};
use ceasefire_atomics::{AtomicU64, Ordering};
use loom::thread;

use crate::explorer::{Model, Orders};

const CLAIM: &str = "what a space says to have reached was flushed";

/// Two CPUs broadcast the flushes of generations 2 and 3 and record them. A third reads what the space has reached.
fn reach(record: fn(&AddressSpace, Generation)) {
    let space = Rc::new(cores::space(0, None));
    let flushed = Rc::new([const { AtomicU64::new(0) }; 2]);
    let flushing = [2, 3].map(|number| {
        let (space, flushed) = (Rc::clone(&space), Rc::clone(&flushed));
        thread::spawn(move || {
            flushed[number - 2].store(1, Ordering::Relaxed);
            record(&space, generation(number as u64));
        })
    });
    let reached = reached(&space).get();
    for number in 2..=reached {
        assert_eq!(flushed[number as usize - 2].load(Ordering::Relaxed), 1, "{CLAIM}");
    }
    for cpu in flushing {
        cpu.join().expect("it flushed");
    }
}

const EXTEND: Model = Model {
    name: "generations: extend",
    threads: 3,
    bound: None,
    locations: 4,
    body: || reach(|space, generation| extend_reached(space, generation, generation)),
};

#[test]
fn a_flush_of_pages_extends_what_is_reached_and_skips_no_flush() {
    EXTEND.holds();
}

#[test]
fn what_is_reached_is_not_seen_if_it_is_not_released() {
    EXTEND.breaks(Orders::Relaxed, CLAIM);
}

/// The raise suits a flush of everything alone.
#[test]
fn a_flush_of_pages_that_raises_claims_another_flush() {
    let raise = Model { name: "generations: raise", body: || reach(raise_reached), ..EXTEND };
    raise.breaks(Orders::Named, CLAIM);
}
