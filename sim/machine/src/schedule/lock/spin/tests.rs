//! Threads that spin for a lock and sleep for it.

use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::rc::Rc;

use ceasefire::Schedule;
use ceasefire_memory::{Block, FrameNumber, LockClass, Pages, RwLock as _, SpaceHandle, Store};

use super::*;
use crate::config::Storage;
use crate::schedule::lock::SimRwLock;
use crate::testing::{machine, now, Notes, FAR, US};
use crate::{Options, Outcome, Program, Sim, Simulation};

static SLEEPS: LockClass = LockClass { name: "sleeps", rank: 20, sleeps: true, interrupts_off: false };

/// The time that the device takes.
const SLOW: Picoseconds = 200 * US;

/// A machine whose threads wait in a way, with a lock, and the times at which threads were done.
struct Bench {
    simulation: Simulation,
    space: SpaceHandle<Sim>,
    lock: Rc<SimRwLock<u32>>,
    notes: Notes<(&'static str, Picoseconds)>,
}

impl Bench {
    fn new(cpus: u16, waiting: Waiting) -> Self {
        let mut machine = machine(cpus);
        machine.contention.waiting = waiting;
        machine.storage = Some(Storage { queue_depth: NonZeroU32::MIN, read: SLOW, write: SLOW });
        let simulation = Simulation::new(&machine, Options::new(Schedule::Batched)).expect("it fits");
        let space = simulation.memory().new_space().expect("a frame");
        Self { simulation, space, lock: Rc::new(SimRwLock::new(&SLEEPS, 0)), notes: Notes::default() }
    }

    /// Starts a thread that notes its end.
    fn thread(
        &self,
        name: &'static str,
        cpu: u16,
        start: Picoseconds,
        body: impl FnOnce(&Program) + 'static,
    ) {
        let notes = self.notes.clone();
        let body = move |program: &Program| {
            body(program);
            notes.borrow_mut().push((name, now(program)));
        };
        self.simulation.spawn(name, cpu, start, &self.space, body).expect("a stack");
    }

    /// Starts a thread that does something with the lock held exclusively.
    fn writer(
        &self,
        name: &'static str,
        cpu: u16,
        start: Picoseconds,
        body: impl FnOnce(&Program) + 'static,
    ) {
        let lock = self.lock.clone();
        self.thread(name, cpu, start, move |program| {
            let guard = lock.write(&program.sim);
            body(program);
            drop(guard);
        });
    }

    /// The same, with the lock shared.
    fn reader(
        &self,
        name: &'static str,
        cpu: u16,
        start: Picoseconds,
        body: impl FnOnce(&Program) + 'static,
    ) {
        let lock = self.lock.clone();
        self.thread(name, cpu, start, move |program| {
            let guard = lock.read(&program.sim);
            body(program);
            drop(guard);
        });
    }

    fn run(&self) -> Outcome {
        let outcome = self.simulation.run(|_, _| true).expect("no trace");
        assert_eq!(outcome.violations, 0, "{:?}", outcome.broken);
        outcome
    }

    fn order(&self) -> Vec<&'static str> {
        self.notes.borrow().iter().map(|(name, _)| *name).collect()
    }

    fn ended(&self, name: &str) -> Picoseconds {
        self.notes.borrow().iter().find(|(noted, _)| *noted == name).expect("it ended").1
    }
}

/// Computes in steps, between which others can notice the CPU.
fn compute(program: &Program, time: Picoseconds) {
    (0..time / US).for_each(|_| program.compute(US));
}

fn use_device(program: &Program) {
    program.sim.write_out(&[(Block { store: Store::Swap, index: 0 }, FrameNumber::new(900))]);
}

#[test]
fn a_thread_that_spins_is_interrupted_and_gets_the_lock_without_being_woken() {
    for (waiting, interrupts) in [(Waiting::Sleeps, 1), (Waiting::Spins, 2), (Waiting::SpinsOnReaders, 2)] {
        let bench = Bench::new(3, waiting);
        bench.writer("holds", 0, 0, |program| compute(program, 100 * US));
        bench.writer("waits", 1, US, |_| ());
        bench.thread("flushes", 2, 20 * US, |program| {
            let map = program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(1)));
            let base = map.expect("room");
            program.load(base, 1).expect("a mapped page");
            let discard = program.system_call(|memory, space| memory.discard(space, base, Pages::new(1)));
            discard.expect("a mapped page");
        });
        let outcome = bench.run();
        assert_eq!(outcome.reading.counters.interrupts, interrupts, "{waiting:?}");
        let took = bench.ended("waits") - bench.ended("holds");
        if waiting == Waiting::Sleeps {
            assert!(took > machine(3).costs.context_switch, "{took}");
        } else {
            assert_eq!(took, FAR, "{waiting:?}");
            assert!(outcome.reading.spent.locks > 90 * US, "{:?}", outcome.reading.spent);
        }
    }
}

#[test]
fn threads_that_spin_get_the_lock_in_order_and_ahead_of_those_that_sleep() {
    let bench = Bench::new(5, Waiting::SpinsOnReaders);
    bench.writer("holds", 0, 0, |program| compute(program, 100 * US));
    bench.reader("sleeps", 1, US, |_| ());
    bench.writer("second", 3, 6 * US, |program| compute(program, 10 * US));
    bench.writer("first", 2, 3 * US, |program| compute(program, 10 * US));
    bench.writer("third", 4, 9 * US, |program| compute(program, 10 * US));
    bench.run();
    assert_eq!(bench.order(), ["holds", "first", "second", "third", "sleeps"]);
}

#[test]
fn a_thread_spins_no_longer_when_the_holder_sleeps() {
    // The holder sleeps before the other thread comes, or meanwhile.
    for (computes, most) in [(0, US), (100 * US, 101 * US)] {
        let bench = Bench::new(2, Waiting::SpinsOnReaders);
        bench.writer("holds", 0, 0, move |program| {
            compute(program, computes);
            use_device(program);
        });
        bench.writer("waits", 1, 20 * US, |_| ());
        let spent = bench.run().reading.spent;
        assert!(spent.locks < most, "{spent:?}");
        let took = bench.ended("waits") - bench.ended("holds");
        assert!(took > machine(2).costs.context_switch, "{took}: it was woken");
    }
}

#[test]
fn a_thread_spins_for_a_limited_time_while_others_share_the_lock() {
    for (waiting, spins) in [(Waiting::Spins, 0), (Waiting::SpinsOnReaders, 11 * US)] {
        let bench = Bench::new(4, waiting);
        bench.reader("one", 0, 0, |program| compute(program, 200 * US));
        bench.reader("two", 1, 0, |program| compute(program, 200 * US));
        bench.writer("waits", 2, 20 * US, |_| ());
        // Others do not try again.
        bench.writer("waits too", 3, 60 * US, |_| ());
        let spent = bench.run().reading.spent;
        assert!((spins..spins + 2 * US).contains(&spent.locks), "{waiting:?}: {spent:?}");
    }
}

#[test]
fn threads_share_a_lock_while_another_spins_and_not_once_it_sleeps() {
    let bench = Bench::new(4, Waiting::SpinsOnReaders);
    bench.reader("holds", 0, 0, |program| compute(program, 100 * US));
    bench.writer("spins", 1, 20 * US, |program| compute(program, 10 * US));
    bench.reader("early", 2, 25 * US, |_| ());
    bench.reader("late", 3, 60 * US, |_| ());
    bench.run();
    assert_eq!(bench.order(), ["early", "holds", "spins", "late"]);
}

#[test]
fn nobody_gets_ahead_of_threads_that_were_woken_to_share_the_lock() {
    for (waiting, order) in [
        (Waiting::Sleeps, ["twice", "sleeps"]),
        (Waiting::Spins, ["sleeps", "twice"]),
        (Waiting::SpinsOnReaders, ["sleeps", "twice"]),
    ] {
        let bench = Bench::new(2, waiting);
        let lock = bench.lock.clone();
        bench.thread("twice", 0, 0, move |program| {
            for _ in 0..2 {
                let guard = lock.write(&program.sim);
                compute(program, 100 * US);
                drop(guard);
            }
        });
        bench.reader("sleeps", 1, 20 * US, |_| ());
        bench.run();
        assert_eq!(bench.order(), order, "{waiting:?}");
    }
}

#[test]
fn a_thread_that_spins_leaves_its_cpu_to_another_at_the_end_of_its_time_slice() {
    let slice = machine(2).costs.time_slice;
    // The other thread is there at the beginning, or comes later.
    for start in [2 * US, 2 * slice] {
        let bench = Bench::new(2, Waiting::SpinsOnReaders);
        bench.writer("holds", 0, 0, move |program| compute(program, 5 * slice));
        bench.writer("waits", 1, US, |_| ());
        bench.thread("other", 1, start, |_| ());
        bench.run();
        assert_eq!(bench.order(), ["other", "holds", "waits"]);
        let due = start.max(slice);
        assert!((due..due + 50 * US).contains(&bench.ended("other")), "{}", bench.ended("other"));
    }
}

#[test]
fn a_thread_that_has_slept_for_4_ms_is_next() {
    for (shared, waiting, early) in [
        (false, Waiting::Spins, false),
        (true, Waiting::Spins, false),
        (false, Waiting::SpinsOnReaders, true),
        (true, Waiting::SpinsOnReaders, true),
    ] {
        let bench = Bench::new(4, waiting);
        bench.writer("holds", 0, 0, |program| {
            use_device(program);
            compute(program, 200 * US);
        });
        if shared {
            bench.reader("sleeps", 1, 20 * US, |_| ());
        } else {
            bench.writer("sleeps", 1, 20 * US, |_| ());
        }
        for cpu in [2, 3] {
            let lock = bench.lock.clone();
            // They come when the holder runs again. From then on one of the two has the lock and the other spins.
            bench.thread("takes", cpu, SLOW + 50 * US, move |program| {
                for _ in 0..60 {
                    let guard = lock.write(&program.sim);
                    compute(program, 100 * US);
                    drop(guard);
                }
            });
        }
        bench.run();
        let (got, all) = (bench.ended("sleeps"), bench.ended("takes"));
        assert!(all > 12_000 * US, "{all}");
        assert_eq!(got < 4_300 * US, early, "{waiting:?}, shared: {shared}: {got}");
    }
}

#[test]
fn a_thread_that_spins_leaves_its_cpu_to_another_that_is_woken() {
    let slice = machine(2).costs.time_slice;
    let bench = Bench::new(2, Waiting::SpinsOnReaders);
    let (page, busy) = (FrameNumber::new(1000), Rc::new(Cell::new(true)));
    let flag = busy.clone();
    bench.thread("woken", 1, 0, move |program| program.sim.wait_for_page(page, &|| flag.get()));
    bench.writer("holds", 0, 0, move |program| {
        compute(program, 2 * slice);
        busy.set(false);
        program.sim.page_ready(page);
        compute(program, 2 * slice);
    });
    bench.writer("waits", 1, 50 * US, |_| ());
    bench.run();
    assert_eq!(bench.order(), ["woken", "holds", "waits"]);
}

#[test]
fn a_thread_that_spins_notices_that_others_share_the_lock_now() {
    let bench = Bench::new(3, Waiting::SpinsOnReaders);
    bench.writer("holds", 0, 0, |program| compute(program, 5_000 * US));
    bench.reader("sleeps", 1, 20 * US, |program| compute(program, 1_000 * US));
    bench.writer("spins", 2, 100 * US, |_| ());
    let spent = bench.run().reading.spent;
    assert!((4_800 * US..5_000 * US).contains(&spent.locks), "{spent:?}");
}

#[test]
fn a_thread_that_cannot_sleep_does_not_wait_for_one_that_was_woken() {
    static OUTER: LockClass = LockClass { name: "outer", rank: 19, sleeps: true, interrupts_off: false };
    let bench = Bench::new(4, Waiting::SpinsOnReaders);
    let holder = bench.lock.clone();
    bench.thread("holds", 0, 0, move |program| {
        let outer = SimRwLock::new(&OUTER, ());
        let _outer = outer.write(&program.sim);
        let guard = holder.write(&program.sim);
        use_device(program);
        compute(program, 5_000 * US);
        drop(guard);
        drop(holder.write(&program.sim));
    });
    bench.writer("sleeps", 1, 20 * US, |_| ());
    bench.writer("sleeps too", 2, 30 * US, |_| ());
    let lock = bench.lock.clone();
    bench.thread("cannot", 3, 40 * US, move |program| {
        let outer = SimRwLock::new(&OUTER, ());
        let _outer = outer.write(&program.sim);
        drop(lock.write(&program.sim));
    });
    bench.run();
    assert_eq!(bench.order(), ["cannot", "holds", "sleeps", "sleeps too"]);
}

/// Twelve threads on four CPUs take the lock in all ways, sleep and compute. Returns what they noted.
fn crowd(waiting: Waiting, seed: u64) -> Vec<(&'static str, Picoseconds)> {
    let bench = Bench::new(4, waiting);
    let inside = Rc::new(RefCell::new((0, 0)));
    let writes = Rc::new(Cell::new(0));
    for thread in 0..12_u16 {
        let (lock, inside, writes, notes) =
            (bench.lock.clone(), inside.clone(), writes.clone(), bench.notes.clone());
        let mut state = seed * 100 + u64::from(thread) + 1;
        bench.thread("done", thread % 4, u64::from(thread) * US, move |program| {
            for _ in 0..60 {
                // Knuth's generator of 64 bits.
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let draw = |shift: u32, most: u64| (state >> shift) % most;
                let work = |program: &Program| match draw(33, 12) {
                    0 => use_device(program),
                    time => compute(program, 4 * time * US),
                };
                if draw(40, 3) == 0 {
                    let guard = lock.read(&program.sim);
                    inside.borrow_mut().0 += 1;
                    work(program);
                    assert_eq!(inside.borrow().1, 0, "a holder of shared access is not alone");
                    inside.borrow_mut().0 -= 1;
                    drop(guard);
                } else {
                    let mut guard = lock.write(&program.sim);
                    assert_eq!(inside.replace((0, 1)), (0, 0), "an exclusive holder is alone");
                    work(program);
                    *guard += 1;
                    assert_eq!(inside.replace((0, 0)), (0, 1), "and stays alone");
                    writes.set(writes.get() + 1);
                    drop(guard);
                }
                notes.borrow_mut().push(("once", now(program)));
                compute(program, draw(45, 50) * US);
            }
        });
    }
    // A thread that is never woken is a deadlock, which ends the run.
    bench.run();
    assert_eq!(*bench.lock.read(&bench.simulation.sim), writes.get());
    let notes = bench.notes.take();
    assert_eq!(notes.len(), 12 * 61);
    notes
}

#[test]
fn nobody_is_forgotten_or_let_in_beside_an_exclusive_holder_and_runs_repeat() {
    for waiting in [Waiting::Sleeps, Waiting::Spins, Waiting::SpinsOnReaders] {
        for seed in 0..6 {
            assert!(crowd(waiting, seed) == crowd(waiting, seed), "{waiting:?}, seed {seed}");
        }
    }
    assert!(crowd(Waiting::Sleeps, 1) != crowd(Waiting::Spins, 1));
}
