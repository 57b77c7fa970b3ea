//! Two holes in the published patches that need programs to show: a flush that comes too late, and forgotten writers.

#[cfg(ceasefire_sabotage)]
use ceasefire_machine::Rule;
use ceasefire_memory::Pages;

use super::scenarios::changes_on_its_device;
use super::{all, holds, write, Actor, NEW, OLD, PAGES};
#[cfg(ceasefire_sabotage)]
use crate::common::guards::Guard;
#[cfg(ceasefire_sabotage)]
use crate::common::rules;
#[cfg(ceasefire_sabotage)]
use crate::{fails_without, play, Played, Setup, SETTLE, SLOT};

/// A thread stores through a second mapping, where it faults. The fault pays at its end, if it has not paid before.
fn pays_after_the_fault(actor: &Actor<'_>) -> Option<u64> {
    let map = actor
        .call(|memory, space| memory.map_shared(space, actor.file, 0, Pages::new(PAGES), true))
        .expect("room");
    actor.take_away();
    actor.program.store(map, 1, NEW).expect("a mapped page");
    actor.call(|memory, _| memory.engine().pay_all());
    actor.seen()
}

#[test]
fn hole_06_a_flush_that_comes_after_the_new_translation() {
    holds(all(), pays_after_the_fault, Some(NEW));
    #[cfg(ceasefire_sabotage)]
    for setup in all() {
        // As published. The final word is right. But in between a third thread could use the new translation and
        // inform the reader.
        let without: &[Guard] = &[SLOT, SETTLE];
        let Played { seen, outcome } = play(Setup { without, ..setup }, pays_after_the_fault);
        assert_eq!(seen, Some(NEW), "{setup:?}");
        assert!(rules(&outcome).contains(&Rule::OneVersion), "{setup:?}: {:?}", outcome.broken);
    }
}

fn writes(actor: &Actor<'_>) -> Option<u64> {
    actor.take_away();
    actor.call(|memory, _| write(memory, actor.file, NEW));
    actor.seen()
}

fn writes_a_byte(actor: &Actor<'_>) -> Option<u64> {
    actor.take_away();
    actor.call(|memory, _| memory.write(actor.file, 7, &[2])).expect("there is memory");
    actor.seen()
}

fn cuts_within_the_word(actor: &Actor<'_>) -> Option<u64> {
    actor.take_away();
    actor.call(|memory, _| memory.truncate(actor.file, 4)).expect("there is memory");
    actor.seen()
}

fn cuts_all(actor: &Actor<'_>) -> Option<u64> {
    actor.take_away();
    actor.call(|memory, _| memory.truncate(actor.file, 0)).expect("there is memory");
    actor.seen()
}

fn cuts_all_and_extends(actor: &Actor<'_>) -> Option<u64> {
    actor.take_away();
    actor.call(|memory, _| {
        memory.truncate(actor.file, 0).expect("there is memory");
        memory.write(actor.file, 8, &[2]).expect("there is memory");
    });
    actor.seen()
}

fn stores(actor: &Actor<'_>) -> Option<u64> {
    let map = actor
        .call(|memory, space| memory.map_shared(space, actor.file, 0, Pages::new(PAGES), true))
        .expect("room");
    actor.take_away();
    actor.program.store(map, 1, NEW).expect("a mapped page");
    actor.seen()
}

/// A way to change a file, and the resulting first word.
type Writer = (fn(&Actor<'_>) -> Option<u64>, Option<u64>);

#[test]
fn hole_09_writers_without_a_hook() {
    const WRITERS: [Writer; 7] = [
        (writes, Some(NEW)),
        (writes_a_byte, Some(OLD & !(0xff << 56) | 2 << 56)),
        (cuts_within_the_word, Some(OLD & 0xffff_ffff)),
        (cuts_all, None),
        (cuts_all_and_extends, Some(0)),
        (stores, Some(NEW)),
        (changes_on_its_device, Some(NEW)),
    ];
    for (writer, right) in WRITERS {
        holds(all(), writer, right);
        #[cfg(ceasefire_sabotage)]
        fails_without(&[SLOT, SETTLE], all(), writer, right);
    }
}
