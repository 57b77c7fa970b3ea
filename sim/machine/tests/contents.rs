//! Programs load the values that they stored, on a machine whose pages have contents.

use std::cell::Cell;
use std::rc::Rc;

use crate::common::{at, machine, run_clean, simulation, Random, SCHEDULES, US};
use ceasefire::Schedule;
use ceasefire_machine::{stored_word, Options, Program, Simulation};
use ceasefire_memory::{FaultError, Pages, PAGE_BYTES, USER_END};

fn with_contents(cpus: u16, schedule: Schedule) -> Simulation {
    let options = Options { contents: true, ..Options::new(schedule) };
    Simulation::new(&machine(&[cpus], 4096), options).expect("the machine fits the host")
}

/// Runs one program alone.
fn alone(simulation: &Simulation, body: impl FnOnce(&Program) + 'static) {
    let space = simulation.memory().new_space().expect("a frame");
    simulation.spawn("alone", 0, 0, &space, body).expect("a stack");
    run_clean(simulation);
}

#[test]
fn a_word_is_loaded_as_it_was_stored() {
    alone(&with_contents(1, Schedule::Batched), |program| {
        let base =
            program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(2))).expect("room");
        assert_eq!(program.load(base, 1), Ok(0), "fresh memory");
        program.store(base + 16, 1, 0x0102_0304_0506_0708).expect("a mapped page");
        program.store(at(base, 1) - 1, 3, u64::MAX).expect("a mapped page");
        for (offset, expected) in [(8, 0), (16, 0x0102_0304_0506_0708), (23, 0x0102_0304_0506_0708), (24, 0)]
        {
            assert_eq!(program.load(base + offset, 1), Ok(expected), "at {offset}");
        }
        assert_eq!(program.load(base + PAGE_BYTES - 8, 2), Ok(u64::MAX));
        assert_eq!(program.load(base + PAGE_BYTES, 1), Ok(0), "the next page");
    });
}

#[test]
fn a_file_has_words_of_its_own_where_no_program_stored_any() {
    let simulation = with_contents(1, Schedule::Batched);
    let stored = simulation.memory().open_stored_file(4).expect("a free object");
    let [marked, plain] = [(); 2].map(|()| simulation.memory().create_file(4).expect("a free object"));
    simulation.mark_holes(marked);
    alone(&simulation, move |program| {
        let map = |file| {
            program.system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(4), true))
        };
        let [of_stored, of_marked, of_plain] = [stored, marked, plain].map(|file| map(file).expect("room"));
        let mut words = Vec::new();
        for offset in [0, 8, PAGE_BYTES, 3 * PAGE_BYTES + 64] {
            for (base, file) in [(of_stored, stored), (of_marked, marked)] {
                assert_eq!(program.load(base + offset, 1), Ok(stored_word(file, offset)));
                words.push(stored_word(file, offset));
            }
            assert_eq!(program.load(of_plain + offset, 1), Ok(0));
        }
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), 8, "no two words are the same");
        program.store(of_marked, 1, 7).expect("a mapped page");
        assert_eq!(program.load(of_marked, 1), Ok(7));
    });
}

/// The words that loads through the entries that the CPU holds for a page would find.
fn held(program: &Program, page: u64) -> Vec<u64> {
    let mut words = Vec::new();
    let next = program.load_held(page..page + PAGE_BYTES, 9, |address, word| {
        assert_eq!(address, page);
        words.push(word);
    });
    assert_eq!(next, None);
    words
}

#[test]
fn a_program_sees_its_first_and_its_last_load_and_the_loads_that_it_could_make() {
    alone(&with_contents(1, Schedule::Batched), |program| {
        let base =
            program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(2))).expect("room");
        assert_eq!(held(program, base), [0; 0], "it holds no entry yet");
        program.store(base, 1, 5).expect("a mapped page");
        for (count, expected) in [(1, &[5][..]), (2, &[5, 5]), (512, &[5, 5])] {
            let mut words = Vec::new();
            program.load_then(base, count, |word| words.push(word)).expect("a mapped page");
            assert_eq!(words, expected, "{count} loads");
        }
        assert_eq!((held(program, base), held(program, at(base, 1))), (vec![5], vec![]));
        program.store(at(base, 1), 1, 6).expect("a mapped page");
        assert_eq!(program.load_held(base..at(base, 2), 1, |_, _| ()), Some(at(base, 1)));
        let discard = program.system_call(|memory, space| memory.discard(space, base, Pages::new(1)));
        discard.expect("a mapped page");
        assert_eq!(held(program, base), [0; 0], "the entry was flushed");
    });
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_flush_a_program_finds_the_poison_of_the_free_frame() {
    let simulation = with_contents(1, Schedule::Batched);
    crate::common::guards::remove(simulation.memory(), Some(crate::common::guards::Engine::GatherFlush));
    let space = simulation.memory().new_space().expect("a frame");
    let body = |program: &Program| {
        let base =
            program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(64))).expect("room");
        // So many that the first is on the LRU list, and its CPU has no reference to it any more.
        (0..64).for_each(|page| program.store(at(base, page), 1, 5).expect("a mapped page"));
        let discard = program.system_call(|memory, space| memory.discard(space, base, Pages::new(64)));
        discard.expect("a mapped page");
        let found = program.load(base, 1).expect("an entry that is still held");
        assert_eq!(found >> 48, 0xdead, "{found:#x}");
    };
    simulation.spawn("alone", 0, 0, &space, body).expect("a stack");
    assert!(crate::common::run(&simulation).violations > 0);
}

#[test]
fn without_contents_loads_return_zeros() {
    alone(&simulation(&machine(&[1], 4096), Schedule::Batched), |program| {
        let base =
            program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(1))).expect("room");
        program.store(base, 1, 7).expect("a mapped page");
        assert_eq!(program.load(base, 1), Ok(0));
    });
}

#[test]
fn no_address_beyond_a_programs_range_is_translated() {
    alone(&with_contents(1, Schedule::Batched), |program| {
        let base =
            program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(1))).expect("room");
        program.store(base, 1, 7).expect("a mapped page");
        for high in [USER_END, 1 << 48, 1 << 59, 1 << 63] {
            assert_eq!(program.load(base | high, 1), Err(FaultError::NotMapped(base | high)));
        }
    });
}

#[test]
fn a_private_page_is_a_copy_and_a_shared_one_is_not() {
    for schedule in SCHEDULES {
        let simulation = with_contents(1, schedule);
        let file = simulation.memory().create_file(4).expect("a free object");
        alone(&simulation, move |program| {
            let map = |writable| {
                program
                    .system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(4), writable))
            };
            let (shared, other) = (map(true).expect("room"), map(false).expect("room"));
            let private =
                program.system_call(|memory, space| memory.map_private(space, file, 0, Pages::new(4)));
            let private = private.expect("room");
            program.store(shared, 1, 5).expect("a mapped page");
            assert_eq!((program.load(other, 1), program.load(private, 1)), (Ok(5), Ok(5)));
            program.store(private + 8, 1, 6).expect("a mapped page");
            assert_eq!((program.load(other + 8, 1), program.load(private, 1)), (Ok(0), Ok(5)));
            program.store(shared, 1, 9).expect("a mapped page");
            assert_eq!((program.load(other, 1), program.load(private, 1)), (Ok(9), Ok(5)));
        });
    }
}

/// Threads pass a counter round through one page. Each has a private page beside it, and one of them discards its own
/// again and again.
#[test]
fn threads_on_many_cpus_see_the_latest_store_of_the_others() {
    const ROUNDS: u64 = 200;
    for schedule in SCHEDULES {
        let simulation = with_contents(4, schedule);
        let space = simulation.memory().new_space().expect("a frame");
        let base = simulation.memory().map_anonymous(&space, Pages::new(8)).expect("room");
        let turns = Rc::new(Cell::new(0));
        for cpu in 0..4u16 {
            let turns = turns.clone();
            let body = move |program: &Program| {
                let mut random = Random(u64::from(cpu));
                let own = at(base, 1 + u64::from(cpu));
                let mut stored = 0;
                while turns.get() < ROUNDS {
                    if turns.get() % 4 != u64::from(cpu) {
                        program.compute(US);
                        continue;
                    }
                    assert_eq!(program.load(base, 1), Ok(turns.get()));
                    assert_eq!(program.load(own, 1), Ok(stored));
                    stored = random.below(u64::MAX);
                    program.store(own, 1, stored).expect("a mapped page");
                    if cpu == 3 {
                        let discard =
                            program.system_call(|memory, space| memory.discard(space, own, Pages::new(1)));
                        discard.expect("a mapped page");
                        stored = 0;
                    }
                    program.store(base, 1, turns.get() + 1).expect("a mapped page");
                    turns.set(turns.get() + 1);
                }
            };
            simulation.spawn(format!("{cpu}"), cpu, 0, &space, body).expect("a stack");
        }
        run_clean(&simulation);
        assert_eq!(turns.get(), ROUNDS);
    }
}
