//! Frames, and tables, that were given to somebody else: overwritten or freed.

use super::*;
use crate::arch::Invalidation;
use crate::free::{Count, Free};

/// The first arguments of a function.
struct Arguments([u64; 2]);

impl Operands for Arguments {
    fn register(&self, index: usize) -> u64 {
        let place = X86::ARGUMENTS.iter().position(|&argument| argument == index);
        place.and_then(|place| self.0.get(place).copied()).unwrap_or(0)
    }

    fn load(&self, _: u64) -> Option<u64> {
        None
    }
}

impl Guest {
    /// CPU 0 frees 2^`order` frames, by a function that is known.
    fn frees(&self, first: u64, order: u64) {
        let (bases, count) = (vec![0], Some(Count::Order(1)));
        let free = Free { function: CODE, argument: 0, field: None, bases, bytes: 1 << PAGE, count };
        self.watch.frees(&self.cpus[0], &free, &Arguments([first << PAGE, order]));
    }
}

#[test]
fn a_table_is_not_given_away_while_a_cpu_may_walk_it() {
    for (flushed, faulted, given) in
        [(false, false, true), (true, false, true), (false, true, true), (false, false, false)]
    {
        let mut guest = Guest::used();
        let (upper, table) = guest.unlinks();
        if flushed {
            guest.flushes(1);
        }
        if faulted {
            let registers = Registers { first: PAGE_OF_PROGRAM };
            guest.watch.execute(&mut guest.cpus[1], Instruction::Fault, CODE, &registers);
        }
        if given {
            guest.overwrites(table);
        }
        guest.kernel_stores(0, upper, table << PAGE | WRITABLE);
        guest.switches(1);
        let is_found = given && !flushed && !faulted;
        assert_eq!(guest.kinds(), if is_found { vec![Kind::TableReuse] } else { vec![] });
        for find in guest.finds() {
            assert_eq!((find.frame, find.address, find.used.cpu), (table, PAGE_OF_PROGRAM, 1));
        }
    }
}

#[test]
fn a_frame_that_was_given_away_must_not_be_used() {
    for mapped_again in [false, true] {
        let mut guest = Guest::used();
        guest.map(0, 0);
        if mapped_again {
            guest.map(0, 100 << PAGE | READ_ONLY);
        }
        for word in 0..512 {
            guest.kernel_stores(0, (100 << PAGE) + 8 * word, 1);
        }
        if mapped_again {
            guest.map(0, 0);
        }
        guest.loads(1, 100);
        let expected = if mapped_again { vec![] } else { vec![Kind::Reuse] };
        assert_eq!(guest.kinds(), expected);
        assert!(guest.finds().iter().all(|find| find.given.as_ref().is_some_and(|given| given.cpu == 0)));
    }
}

#[test]
fn a_freed_frame_that_a_program_could_use_is_found_without_a_use() {
    for (freed, ran, flushed_before) in
        [(true, true, false), (true, false, false), (false, true, false), (true, true, true)]
    {
        let mut guest = Guest::used();
        let of_program = |guest: &mut Guest| guest.access(1, PAGE_OF_PROGRAM + 8, 100, false, PROGRAM);
        let enters = |guest: &mut Guest| guest.access(1, KERNEL, 0, false, CODE);
        guest.map(0, 0);
        of_program(&mut guest);
        if !ran {
            enters(&mut guest);
        }
        if flushed_before {
            enters(&mut guest);
            guest.flushes(1);
        }
        if freed {
            guest.frees(100, 0);
        } else {
            guest.overwrites(100);
        }
        if ran {
            enters(&mut guest);
        }
        guest.flushes(1);
        let finds = guest.finds();
        let is_found = freed && ran && !flushed_before;
        assert_eq!(guest.kinds(), if is_found { vec![Kind::Held] } else { vec![] }, "{freed} {ran}");
        assert!(finds.iter().all(|find| find.frame == 100 && find.given.is_some()));
    }
}

#[test]
fn what_is_freed_before_another_cpu_drops_it_is_found_while_the_program_goes_on_and_nothing_else() {
    for (is_table, is_first) in [(false, true), (false, false), (true, true), (true, false)] {
        let mut guest = Guest::used();
        let frame = if is_table {
            guest.unlinks().1
        } else {
            guest.map(0, 0);
            100
        };
        let drops = |guest: &Guest| {
            let spot = guest.watch.spot(&guest.cpus[0], CODE, &Registers { first: 0 });
            guest.watch.mail(0, Invalidation::EVERYTHING, spot);
        };
        if is_first {
            drops(&guest);
        }
        guest.frees(frame, 0);
        if !is_first {
            drops(&guest);
        }
        guest.access(1, PAGE_OF_PROGRAM + (1 << PAGE), 101, false, PROGRAM);
        let kind = if is_table { Kind::TableReuse } else { Kind::Held };
        assert_eq!(guest.kinds(), if is_first { vec![] } else { vec![kind] }, "{is_table}");
    }
}

#[test]
fn a_use_of_a_freed_frame_is_found_and_what_is_freed_is_counted() {
    let mut guest = Guest::used();
    guest.map(0, 0);
    for (first, order) in [(99, 1), (BYTES >> PAGE, 0)] {
        guest.frees(first, order);
    }
    guest.loads(1, 100);
    assert_eq!(guest.kinds(), [Kind::Reuse]);
    guest.watch.end();
    let text = std::fs::read_to_string(&guest.report).expect("it was written");
    assert!(text.contains("\"freed\":2,\"unknown\":1"), "{text}");
}
