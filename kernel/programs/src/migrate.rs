//! `migrate`: moving a program's pages back and forth between two nodes while its threads use them (pmbench and
//! migratepages). It is the experiment of the same name.
//!
//! The program has a thread on each CPU of the first node. The threads first store to every page of a range of
//! anonymous memory. Then they load from random words of it and store to others, half and half. Meanwhile a thread on a
//! CPU of the second node moves the whole program to the second node, back, and so on.
//!
//! A word holds zero or its own number, so a load through a translation to another page's frame is found at once (R1,
//! R6).

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU64};

use ceasefire_kernel_abi::{Counter, Finding};

use crate::call;
use crate::machine::Machine;
use crate::memory::{Mapping, WORDS};
use crate::random::Random;
use crate::thread::{wait_until, Crew};

/// The range is this part of the memory: it moves as a whole, and must fit on either node.
const PART_OF_MEMORY: u64 = 8;
/// The two nodes.
const NODES: [u64; 2] = [0, 1];
/// Accesses between two checks for the end.
const ACCESSES: u32 = 1024;
/// pmbench's own work around an access takes some 190 ns (see the experiment). Here it is this many steps of five
/// instructions each.
const AROUND_ACCESS: u32 = 30;

/// The data that the threads share.
struct Test {
    range: Mapping,
    pages: u64,
    threads: u64,
    seed: u64,
    /// Threads that have begun.
    begun: AtomicU64,
    /// Threads that have stored to their part of the range.
    warm: AtomicU64,
    over: AtomicBool,
}

/// The program's first thread, which moves the pages.
pub(crate) fn run(machine: &Machine) {
    assert!(machine.nodes >= 2, "pages move between two nodes: this machine has {}", machine.nodes);
    let users = machine.cpus_of_a_node();
    call::pin(users);
    let pages = if machine.pages == 0 { (machine.frames / PART_OF_MEMORY).max(1) } else { machine.pages };
    let test = Test {
        range: Mapping::anonymous(pages).expect("no memory for the range"),
        pages,
        threads: if machine.threads == 0 { users } else { machine.threads },
        seed: machine.seed,
        begun: AtomicU64::new(0),
        warm: AtomicU64::new(0),
        over: AtomicBool::new(false),
    };
    let mut crew = Crew::new();
    for number in 0..test.threads {
        crew.thread(use_pages, &raw const test as u64, number % users);
    }
    wait_until(|| test.warm.load(SeqCst) == test.threads);
    call::measure_begin();
    let moved = call::counter(Counter::Migrated);
    let end = call::now() + machine.seconds * 1_000_000_000;
    let [here, there] = NODES;
    while call::now() < end {
        call::migrate(here, there).expect("pages do not move");
        call::migrate(there, here).expect("pages do not move back");
    }
    call::measure_end(call::counter(Counter::Migrated) - moved);
    test.over.store(true, SeqCst);
    crew.wait();
    test.range.unmap().expect("the range stays mapped");
}

/// A thread that uses the pages.
extern "C" fn use_pages(test: u64) -> ! {
    // SAFETY: `run` passes the address of a value that it keeps until all threads have ended, and only shares it.
    let test = unsafe { &*(test as *const Test) };
    let number = test.begun.fetch_add(1, SeqCst);
    for page in (number..test.pages).step_by(test.threads as usize) {
        store(test, page * WORDS);
    }
    test.warm.fetch_add(1, SeqCst);
    let mut random = Random::new(test.seed.wrapping_mul(0x1_0000).wrapping_add(number));
    while !test.over.load(SeqCst) {
        for _ in 0..ACCESSES {
            let index = random.below(test.pages * WORDS);
            if random.next() & 1 == 0 {
                load(test, index);
            } else {
                store(test, index);
            }
            (0..AROUND_ACCESS).for_each(|step| {
                core::hint::black_box(step);
            });
        }
    }
    call::exit(0)
}

fn store(test: &Test, index: u64) {
    test.range.word(index).store(own_number(test, index), Relaxed);
}

fn load(test: &Test, index: u64) {
    let (found, expected) = (test.range.word(index).load(Relaxed), own_number(test, index));
    if found != 0 && found != expected {
        let (page, cpu) = (index / WORDS, call::cpu());
        crate::line::log(format_args!(
            "migrate: a load on CPU {cpu} shows another page's word in page {page}"
        ));
        call::report(Finding::StaleRead, test.range.start() + index * 8, expected, found);
    }
}

/// The contents of a word after a store.
fn own_number(test: &Test, index: u64) -> u64 {
    test.range.start() / 8 + index
}
