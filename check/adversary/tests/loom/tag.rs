//! The tag of a space: the ASID that it is given while it runs and gives back.

use std::rc::Rc;

use ceasefire::cores::{adopt, asid, claim, end, leave, retire, tag};
use ceasefire::{cores, AddressSpace, Asid};
use ceasefire_atomics::{AtomicU64, Ordering};
use loom::thread;

use crate::explorer::{Model, Orders};

const ONCE: &str = "an ASID is handed back once";

/// A space, and the number of times that its ASID was handed back.
struct Given {
    space: AddressSpace,
    back: AtomicU64,
}

impl Given {
    fn back(&self, asid: Option<Asid>) {
        if asid.is_some() {
            self.back.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives the space an ASID, if no other CPU does.
    fn give(&self) {
        if claim(&self.space) {
            self.back(adopt(&self.space, asid(9)));
        } else {
            self.back(Some(asid(9)));
        }
    }

    /// A flush that finds every CPU on the new tag.
    fn flush(&self) {
        let now = tag(&self.space);
        if now.is_in_transition() {
            self.back(end(&self.space, now));
        }
    }

    fn retire(&self) {
        let ended = retire(&self.space);
        self.back(end(&self.space, ended));
    }
}

/// One CPU gives the space an ASID and takes it back, a second ends the space, a third flushes.
fn give_against_retire(flush: fn(&Given)) {
    let given = Rc::new(Given { space: cores::space(0, None), back: AtomicU64::new(0) });
    let ending = Rc::clone(&given);
    let ending = thread::spawn(move || ending.retire());
    let flushing = Rc::clone(&given);
    let flushing = thread::spawn(move || flush(&flushing));
    given.give();
    given.flush();
    leave(&given.space, tag(&given.space));
    given.flush();
    ending.join().expect("it ended the space");
    flushing.join().expect("it flushed");
    flush(&given);
    assert_eq!(given.back.load(Ordering::Relaxed), 1, "{ONCE}");
}

const GIVE: Model = Model {
    name: "tag: give, leave and retire",
    threads: 3,
    bound: Some(3),
    locations: 4,
    body: || give_against_retire(Given::flush),
};

#[test]
fn an_asid_is_handed_back_once_whatever_ends_first() {
    GIVE.holds();
}

/// The state is one word, and every change of it is an exchange.
#[test]
fn an_asid_is_handed_back_once_whatever_the_orderings() {
    Model { bound: Some(0), ..GIVE }.holds_with(Orders::Relaxed);
}

/// A flush that hands back the ASID of the state that it read, and does not ask whether its exchange succeeded.
#[test]
fn an_asid_is_handed_back_twice_by_a_flush_that_trusts_its_reading() {
    let trusting = Model {
        name: "tag: a flush that trusts its reading",
        body: || {
            give_against_retire(|given| {
                let now = tag(&given.space);
                if now.is_in_transition() && now.asid().is_none() {
                    end(&given.space, now);
                    given.back(Some(asid(9)));
                }
            });
        },
        ..GIVE
    };
    trusting.breaks(Orders::Named, ONCE);
}

const CLEARED: &str = "a CPU under a tag that the flush did not cover walks the changed tables";

/// A flush clears a translation, raises the generation and reads the tag. A CPU gives the space an ASID, which a second
/// CPU reads before the generation. The flush covers the CPUs under the tag that it read.
fn flush_against_adoption(read: fn(&AddressSpace) -> (bool, u64)) {
    let space = Rc::new(cores::space(0, None));
    let loading = Rc::clone(&space);
    let loading = thread::spawn(move || read(&loading));
    let giving = Rc::clone(&space);
    let giving = thread::spawn(move || {
        assert!(claim(&giving) && adopt(&giving, asid(9)).is_none());
    });
    let raised = cores::raise(&space).get();
    let covers_slots_alone = tag(&space).is_slots();
    giving.join().expect("it gave the ASID");
    let (on_slot, generation) = loading.join().expect("it loaded the space");
    if covers_slots_alone && !on_slot {
        assert!(generation >= raised, "{CLEARED}");
    }
    end(&space, retire(&space));
}

const LOAD: Model = Model {
    name: "tag: flush, adoption and load",
    threads: 3,
    bound: None,
    locations: 3,
    body: || {
        flush_against_adoption(|space| {
            let on_slot = tag(space).asid().is_none();
            (on_slot, space.generation().get())
        });
    },
};

#[test]
fn a_cpu_that_reads_the_new_tag_reads_the_generation_of_a_flush_that_read_the_old() {
    LOAD.holds();
}

#[test]
fn a_cpu_reads_an_old_generation_after_the_new_tag_without_sequential_consistency() {
    LOAD.breaks(Orders::AcquireRelease, CLEARED);
}

#[test]
fn a_cpu_that_reads_the_generation_before_the_tag_misses_a_flush() {
    let early = Model {
        name: "tag: the generation is read before the tag",
        body: || {
            flush_against_adoption(|space| {
                let generation = space.generation().get();
                (tag(space).asid().is_none(), generation)
            });
        },
        ..LOAD
    };
    early.breaks(Orders::Named, CLEARED);
}
