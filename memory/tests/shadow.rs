//! The shadow record sees each missing flush, and reports no flush that is not missing. Scenarios run twice: with all
//! guards, where it must see nothing, and with one guard removed. Removing a guard changes the *recorded* debts, on
//! which the record does not rely.

// In a build whose guards cannot be removed, scenarios run once.
#![allow(clippy::single_element_loop)]

use std::collections::BTreeSet;

use ceasefire::{CpuId, Platform, Schedule};
use ceasefire_memory::shadow::{Misuse, Wrong};
use ceasefire_memory::{Config, FrameNumber, Lazy, Machine, NodeId, ObjectId, Pages};

use crate::common::guards::{self, Guard};
use crate::common::{at, config, end, exhaust, free, numbers, take_all, Rig, Space};

/// The greatest age of a debt, in nanoseconds of the rig: each read of its clock counts one.
const AGE: u64 = 1_000_000;
const PAGES: u64 = 4;
/// The node of CPU 1, and the other node.
const HERE: NodeId = NodeId(1);
const THERE: NodeId = NodeId(0);

/// A machine with lazy debts, without a guard, and a space that CPU 1 runs.
fn machine(without: Option<Guard>) -> (Rig, Space) {
    machine_of(config(1024), without)
}

/// The same machine, configured further.
fn machine_of(config: Config, without: Option<Guard>) -> (Rig, Space) {
    let lazy = Lazy { max_age: AGE, tick: AGE / 4, ..Lazy::default() };
    let rig = Rig::by_hand(Config { schedule: Schedule::Lazy, lazy, swap_pages: 64, ..config });
    let space = rig.memory.new_space().unwrap();
    rig.on(1, || rig.run(&space));
    guards::remove(&rig.memory, without);
    (rig, space)
}

/// A mapping of a file that CPU 1 has read.
fn read_file(rig: &Rig, space: &Space) -> (ObjectId, u64) {
    let file = rig.memory.create_file(PAGES as u32).unwrap();
    let start = rig.memory.map_shared(space, file, 0, Pages::new(PAGES), false).unwrap();
    rig.on(1, || (0..PAGES).for_each(|page| assert_eq!(rig.load(space, at(start, page)), Ok(0))));
    rig.memory.list_collected();
    (file, start)
}

/// Memory that CPU 1 has read after it came back from the swap device.
fn read_swapped(rig: &Rig, space: &Space) -> u64 {
    let start = rig.memory.map_anonymous(space, Pages::new(PAGES)).unwrap();
    rig.on(1, || {
        (0..PAGES).for_each(|page| rig.store(space, at(start, page), page).unwrap());
        end(rig, exhaust(rig));
        // CPU 1 left the space to end the others.
        rig.run(space);
        (0..PAGES).for_each(|page| assert_eq!(rig.load(space, at(start, page)), Ok(page)));
    });
    rig.memory.list_collected();
    start
}

/// Moves the pages that CPU 1 has read to the other node; returns their old frames, all owing.
fn move_lazily(rig: &Rig, space: &Space) -> BTreeSet<FrameNumber> {
    let interrupts = rig.memory.counters().interrupts;
    assert_eq!(rig.memory.migrate_space(space, HERE, THERE).unwrap().moved, PAGES);
    left(rig, interrupts)
}

fn left(rig: &Rig, interrupts: u64) -> BTreeSet<FrameNumber> {
    let left = rig.platform().left_owing();
    assert_eq!((left.len() as u64, rig.memory.counters().interrupts), (PAGES, interrupts), "no CPU flushed");
    left
}

fn touch(rig: &Rig, frames: &BTreeSet<FrameNumber>) {
    for &frame in frames {
        rig.memory.touches(frame, 1);
    }
}

/// Checks the misuses with a guard and without it: none, or first of all `wrong` for one of these frames on CPU 1.
fn assert_seen(rig: &Rig, without: Option<Guard>, wrong: Wrong, frames: &BTreeSet<FrameNumber>) {
    let seen = rig.platform().take_misuses();
    if without.is_none() {
        assert_eq!(seen, []);
        return rig.platform().assert_no_violation();
    }
    let first = *seen.first().unwrap_or_else(|| panic!("{wrong:?} was not seen without {without:?}"));
    assert_eq!((first.wrong, first.cpu), (wrong, CpuId::new(1).ok()), "{first}");
    assert!(frames.contains(&first.frame), "{first}");
    assert!(first.to_string().contains("CPU 1 has not flushed 0x"), "{first}");
    assert!(first.since.is_some_and(|since| since > 0 && since < rig.platform().now()), "{first}");
}

#[test]
fn a_frame_that_is_handed_out_before_its_debt_is_settled_is_seen() {
    for without in [
        None,
        #[cfg(ceasefire_sabotage)]
        Some(guards::Engine::Stamp.into()),
    ] {
        let (rig, space) = machine(None);
        read_file(&rig, &space);
        let left = move_lazily(&rig, &space);
        guards::remove(&rig.memory, without);
        let taken = take_all(&rig, HERE);
        assert_eq!(numbers(&taken).is_disjoint(&left), without.is_none());
        assert_seen(&rig, without, Wrong::Reused, &left);
    }
}

#[test]
fn a_debt_that_a_tick_settles_without_a_flush_is_seen_when_its_frame_is_handed_out() {
    for without in [
        None,
        #[cfg(ceasefire_sabotage)]
        Some(guards::Engine::Sweep.into()),
    ] {
        let (rig, space) = machine(without);
        read_file(&rig, &space);
        let left = move_lazily(&rig, &space);
        (0..AGE).for_each(|_| _ = rig.platform().now());
        for cpu in [0, 1, 0] {
            rig.on(cpu, || rig.platform().interrupts_off(|| rig.memory.tick()));
        }
        assert!(numbers(&take_all(&rig, HERE)).is_superset(&left), "all debts count as settled");
        assert_seen(&rig, without, Wrong::Reused, &left);
    }
}

#[test]
fn a_page_of_a_file_that_is_found_before_its_slots_debt_is_settled_is_seen() {
    for without in [
        None,
        #[cfg(ceasefire_sabotage)]
        Some(guards::Own::Slot.into()),
    ] {
        let (rig, space) = machine(without);
        let (file, _) = read_file(&rig, &space);
        let left = move_lazily(&rig, &space);
        rig.memory.write(file, 0, &[1]).unwrap();
        assert_seen(&rig, without, Wrong::Replaced, &left);
    }
}

/// The debts of 64 neighbours are kept together. The page that is asked for has different neighbours from those that owe.
#[test]
fn a_neighbour_that_fault_around_maps_before_its_slots_debt_is_settled_is_seen() {
    const TOGETHER: u64 = 64;
    for without in [
        None,
        #[cfg(ceasefire_sabotage)]
        Some(guards::Own::Slot.into()),
    ] {
        let (rig, space) = machine_of(Config { read_ahead: 1, ..config(1024) }, without);
        let file = rig.memory.create_file(2 * TOGETHER as u32).unwrap();
        let start =
            rig.memory.map_shared(&space, file, TOGETHER as u32 - 1, Pages::new(1 + PAGES), false).unwrap();
        rig.on(1, || (1..=PAGES).for_each(|page| assert_eq!(rig.load(&space, at(start, page)), Ok(0))));
        rig.memory.list_collected();
        let left = move_lazily(&rig, &space);
        rig.run(&space);
        assert_eq!(rig.load(&space, start), Ok(0));
        assert_seen(&rig, without, Wrong::Replaced, &left);
    }
}

#[test]
fn a_page_that_is_swapped_in_before_its_slots_debt_is_settled_is_seen() {
    for without in [
        None,
        #[cfg(ceasefire_sabotage)]
        Some(guards::Own::Slot.into()),
    ] {
        let (rig, space) = machine(without);
        let start = read_swapped(&rig, &space);
        let interrupts = rig.memory.counters().interrupts;
        let taken = take_all(&rig, HERE);
        rig.memory.reclaim_node(HERE);
        let left = left(&rig, interrupts);
        free(&rig, taken);
        rig.run(&space);
        assert_eq!(rig.load(&space, start), Ok(0));
        assert_seen(&rig, without, Wrong::Replaced, &left);
    }
}

#[test]
fn a_translation_made_before_the_debt_of_the_previous_one_is_settled_is_seen() {
    for without in [
        None,
        #[cfg(ceasefire_sabotage)]
        Some(guards::Engine::Settle.into()),
    ] {
        let (rig, space) = machine(without);
        let start = read_swapped(&rig, &space);
        let left = move_lazily(&rig, &space);
        rig.run(&space);
        assert_eq!(rig.load(&space, start), Ok(0));
        assert_seen(&rig, without, Wrong::Retranslated, &left);
    }
}

#[test]
fn touching_a_free_frame_is_seen_with_the_cpu_that_may_read_it() {
    let (rig, space) = machine(None);
    read_file(&rig, &space);
    let taken = take_all(&rig, HERE);
    touch(&rig, &numbers(&taken));
    assert_eq!(rig.platform().take_misuses(), [], "they are in use");
    free(&rig, taken);
    let left = move_lazily(&rig, &space);
    touch(&rig, &left);
    let seen = rig.platform().take_misuses();
    let touched: BTreeSet<_> = seen.iter().map(|misuse| misuse.frame).collect();
    assert_eq!(touched, left);
    assert!(seen.iter().all(|misuse| misuse.wrong == Wrong::Accessed && misuse.cpu == CpuId::new(1).ok()));
    // A free frame that no CPU can read must not be touched either.
    rig.memory.engine().pay_all();
    touch(&rig, &left);
    let seen = rig.platform().take_misuses();
    assert_eq!(seen.len(), left.len());
    for misuse in seen {
        let expected =
            Misuse { wrong: Wrong::Accessed, frame: misuse.frame, cpu: None, address: None, since: None };
        assert_eq!(misuse, expected);
    }
    rig.platform().assert_no_violation();
}

#[test]
fn the_memory_managers_own_access_to_a_free_frame_is_seen() {
    type Act = fn(&Rig, ObjectId);
    let acts: [Act; 3] = [
        |rig, file| assert_eq!(rig.memory.read(file, 0, &mut [0; 8]), Ok(8)),
        |rig, file| assert_eq!(rig.memory.write(file, 0, &[1]), Ok(())),
        |rig, file| assert_eq!(rig.memory.sync(file), 1),
    ];
    for act in acts {
        let (rig, _) = machine(None);
        let file = rig.memory.create_file(1).unwrap();
        // The next frame handed out will be the file's page, because it was freed last.
        let next = rig.platform().interrupts_off(|| rig.memory.allocate_atomic(THERE)).unwrap();
        let page = next.number();
        rig.memory.free(next);
        rig.memory.write(file, 0, &[0]).unwrap();
        act(&rig, file);
        assert_eq!(rig.platform().take_misuses(), []);
        rig.memory.write(file, 0, &[0]).unwrap();
        // As if the frame had been freed meanwhile.
        rig.platform().shadow(|shadow| shadow.frees(page, 1));
        act(&rig, file);
        let seen = rig.platform().take_misuses();
        assert!(
            seen.iter().any(|misuse| (misuse.wrong, misuse.frame) == (Wrong::Accessed, page)),
            "{seen:?}"
        );
    }
}
