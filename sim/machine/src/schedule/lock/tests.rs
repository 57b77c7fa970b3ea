//! The times at which CPUs get a lock.

use std::rc::Rc;

use ceasefire::Schedule;
use ceasefire_memory::{Lock as _, Pages, RwLock as _, CLASSES};

use super::*;
use crate::config::Machine;
use crate::testing::{machine, now, thread, Thread, FAR, US};
use crate::{Options, Outcome, Program, Simulation};

static OPEN: LockClass = LockClass { name: "open", rank: 20, sleeps: false, interrupts_off: false };
static CLOSED: LockClass = LockClass { name: "closed", rank: 21, sleeps: false, interrupts_off: true };

/// Threads of one space, each on a CPU of its own.
pub(crate) fn run(threads: Vec<Thread>) -> Outcome {
    let options = Options::new(Schedule::Batched);
    let simulation = Simulation::new(&machine(threads.len() as u16), options).expect("it fits");
    let space = simulation.memory().new_space().expect("a frame");
    for (cpu, (start, body)) in threads.into_iter().enumerate() {
        simulation.spawn(format!("{cpu}"), cpu as u16, start, &space, body).expect("a stack");
    }
    let outcome = simulation.run(|_, _| true).expect("no trace");
    assert_eq!(outcome.violations, 0, "{:?}", outcome.broken);
    outcome
}

/// Named times, in the order in which they were noted.
type Log = Rc<RefCell<Vec<(&'static str, Picoseconds)>>>;

fn note(log: &Log, what: &'static str, program: &Program) {
    log.borrow_mut().push((what, now(program)));
}

fn when(log: &Log, what: &str) -> Picoseconds {
    let log = log.borrow();
    let mut found = log.iter().filter(|(noted, _)| *noted == what);
    let (_, time) = found.next().unwrap_or_else(|| panic!("{what} in {log:?}"));
    assert!(found.next().is_none(), "{what} once in {log:?}");
    *time
}

/// Spends time in a lock. Other CPUs may notice this one meanwhile (`true`), or it runs ahead of them.
fn hold(program: &Program, time: Picoseconds, noticed: bool) {
    if noticed {
        program.compute(time / 2);
        program.compute(time / 2);
    } else {
        program.sim.spend(time);
    }
}

#[test]
fn a_waiter_gets_the_lock_once_it_is_free_and_its_line_has_come() {
    for (class, noticed) in [(&OPEN, true), (&OPEN, false), (&CLOSED, true), (&CLOSED, false)] {
        let log = Log::default();
        let lock = Rc::new(SimLock::new(class, 0));
        let (log0, lock0, log1, lock1) = (log.clone(), lock.clone(), log.clone(), lock);
        let outcome = run(vec![
            thread(0, move |program| {
                let guard = lock0.lock(&program.sim);
                hold(program, 10 * US, noticed);
                note(&log0, "free", program);
                drop(guard);
            }),
            thread(3 * US, move |program| {
                note(&log1, "asked", program);
                let guard = lock1.lock(&program.sim);
                note(&log1, "got", program);
                drop(guard);
            }),
        ]);
        assert_eq!(when(&log, "got"), when(&log, "free") + FAR, "{class:?}, noticed: {noticed}");
        let paid = machine(2).costs.lock + FAR;
        assert_eq!(outcome.reading.lock_wait, when(&log, "got") - when(&log, "asked") - paid);
        assert_eq!(outcome.reading.lock_waits, 1);
    }
}

#[test]
fn a_wait_counts_for_the_class_of_its_lock() {
    let [lru, zone] = [CLASSES[9], CLASSES[11]].map(|class| Rc::new(SimLock::new(class, 0)));
    let taker = |start: Picoseconds| {
        let (lru, zone) = (lru.clone(), zone.clone());
        thread(start, move |program| {
            let guard = lru.lock(&program.sim);
            hold(program, 10 * US, true);
            drop(guard);
            drop(zone.lock(&program.sim));
        })
    };
    let reading = run(vec![taker(0), taker(3 * US)]).reading;
    assert!(reading.lock_wait > 0);
    let waits = CLASSES.iter().zip(reading.lock_wait_of).filter(|(_, time)| *time > 0);
    let waits: Vec<_> = waits.map(|(class, time)| (class.name, time)).collect();
    assert_eq!(waits, [("LRU", reading.lock_wait)]);
}

#[test]
fn a_free_lock_costs_its_instructions_and_the_transfer_of_its_line() {
    let lock = Rc::new(SimLock::new(&OPEN, 0));
    let spent = Rc::new(RefCell::new(Vec::new()));
    let taker = |start: Picoseconds| {
        let (lock, spent) = (lock.clone(), spent.clone());
        thread(start, move |program| {
            for _ in 0..2 {
                let before = now(program);
                drop(lock.lock(&program.sim));
                spent.borrow_mut().push(now(program) - before);
            }
        })
    };
    let outcome = run(vec![taker(0), taker(US * 100)]);
    let own = machine(2).costs.lock;
    assert_eq!(*spent.borrow(), [own, own, own + FAR, own]);
    assert_eq!(outcome.reading.lock_waits, 0);
}

#[test]
fn locks_are_handed_over_first_come_first_served() {
    let lock = Rc::new(SimLock::new(&OPEN, Vec::new()));
    let taker = |name: usize, start: Picoseconds| {
        let lock = lock.clone();
        thread(start, move |program| {
            let mut order = lock.lock(&program.sim);
            program.compute(20 * US);
            order.push(name);
        })
    };
    run(vec![taker(0, 0), taker(1, 6 * US), taker(2, 2 * US), taker(3, 4 * US), taker(4, 30 * US)]);
    assert_eq!(*lock.value.borrow(), [0, 2, 3, 1, 4]);
}

#[test]
fn readers_share_and_a_writer_waits_for_the_last_of_them() {
    for noticed in [true, false] {
        let log = Log::default();
        let lock = Rc::new(SimRwLock::new(&OPEN, 0));
        let reader = |start: Picoseconds, time: Picoseconds, [got, free]: [&'static str; 2]| {
            let (log, lock) = (log.clone(), lock.clone());
            thread(start, move |program| {
                let guard = lock.read(&program.sim);
                note(&log, got, program);
                hold(program, time, noticed);
                note(&log, free, program);
                drop(guard);
            })
        };
        let (writer_log, writer_lock) = (log.clone(), lock.clone());
        run(vec![
            reader(0, 20 * US, ["first got", "first free"]),
            reader(2 * US, 4 * US, ["second got", "second free"]),
            thread(4 * US, move |program| {
                let mut guard = writer_lock.write(&program.sim);
                note(&writer_log, "writer got", program);
                hold(program, 10 * US, noticed);
                *guard += 1;
                note(&writer_log, "writer free", program);
            }),
            // It comes after the writer and waits although readers are inside. Otherwise writers would starve.
            reader(8 * US, 2 * US, ["third got", "third free"]),
        ]);
        assert!(when(&log, "second got") < 4 * US, "{log:?}");
        // A release takes the line. If CPUs notice each other, the third reader has touched it meanwhile.
        let line = if noticed { FAR } else { 0 };
        assert_eq!(when(&log, "writer got"), when(&log, "first free") + line + FAR, "noticed: {noticed}");
        assert_eq!(when(&log, "third got"), when(&log, "writer free") + FAR, "noticed: {noticed}");
    }
}

#[test]
fn readers_behind_a_writer_enter_together() {
    let lock = Rc::new(SimRwLock::new(&OPEN, ()));
    let got = Rc::new(RefCell::new(Vec::new()));
    let holder = lock.clone();
    let mut threads = vec![thread(0, move |program| {
        let guard = holder.write(&program.sim);
        program.compute(10 * US);
        drop(guard);
    })];
    for start in 1..4 {
        let (lock, got) = (lock.clone(), got.clone());
        threads.push(thread(start * US, move |program| {
            let guard = lock.read(&program.sim);
            got.borrow_mut().push(now(program));
            program.compute(10 * US);
            drop(guard);
        }));
    }
    run(threads);
    let got = got.borrow();
    assert!(got.iter().all(|time| *time == got[0]), "{got:?}");
}

#[test]
fn readers_that_come_together_get_the_line_one_after_the_other() {
    let lock = Rc::new(SimRwLock::new(&OPEN, ()));
    let got = Rc::new(RefCell::new(Vec::new()));
    let reader = || {
        let (lock, got) = (lock.clone(), got.clone());
        thread(US, move |program: &Program| {
            // They came to their CPUs one after the other: each waited for the lines of the space.
            program.compute(50 * US - now(program));
            let guard = lock.read(&program.sim);
            got.borrow_mut().push(now(program));
            program.compute(10 * US);
            drop(guard);
        })
    };
    run((0..5).map(|_| reader()).collect());
    let got = got.borrow();
    for (earlier, later) in got.iter().zip(&got[1..]) {
        assert_eq!(later - earlier, FAR, "{got:?}");
    }
}

/// Four readers and a writer come to a lock at once, on a machine changed by `change`. Returns the time at which the
/// last one is done.
fn contend(change: impl FnOnce(&mut Machine)) -> Picoseconds {
    let mut machine = machine(5);
    change(&mut machine);
    let options = Options::new(Schedule::Batched);
    let simulation = Simulation::new(&machine, options).expect("it fits");
    let space = simulation.memory().new_space().expect("a frame");
    let lock = Rc::new(SimRwLock::new(&OPEN, 0));
    for cpu in 0..5 {
        let lock = lock.clone();
        let body = move |program: &Program| {
            for _ in 0..20 {
                if cpu == 0 {
                    *lock.write(&program.sim) += 1;
                } else {
                    let guard = lock.read(&program.sim);
                    program.compute(US / 10);
                    drop(guard);
                }
            }
        };
        simulation.spawn(format!("{cpu}"), cpu, 0, &space, body).expect("a stack");
    }
    simulation.run(|_, _| true).expect("no trace").elapsed
}

#[test]
fn every_transfer_of_a_line_under_contention_costs_time() {
    type Change = fn(&mut Machine);
    let plain = contend(|_| ());
    let changes: [(&str, Change); 3] = [
        ("hand_over", |machine| machine.contention.hand_over = 4),
        ("shared", |machine| machine.contention.shared = 2),
        ("guarded", |machine| machine.contention.guarded = 3),
    ];
    for (name, change) in changes {
        assert!(contend(change) > plain, "{name}");
    }
    assert_eq!(contend(|machine| machine.contention.request = 9), plain, "nothing is flushed");
    assert_eq!(contend(|machine| machine.contention.wake = 9 * US), plain, "no thread sleeps");
}

static SLEEPS: LockClass = LockClass { name: "sleeps", rank: 20, sleeps: true, interrupts_off: false };

/// One thread holds a sleeping lock for 100 us. Three others, on CPUs of their own, come for it. A fifth works all
/// the time and unmaps a page meanwhile. Returns the times at which the three got the lock, and the number of
/// interrupts.
fn wait_asleep(wake: Picoseconds) -> (Vec<Picoseconds>, u64) {
    let mut machine = machine(5);
    machine.contention.wake = wake;
    let options = Options::new(Schedule::Batched);
    let simulation = Simulation::new(&machine, options).expect("it fits");
    let space = simulation.memory().new_space().expect("a frame");
    let (lock, got) = (Rc::new(SimRwLock::new(&SLEEPS, ())), Rc::new(RefCell::new(Vec::new())));
    for cpu in 0..4 {
        let (lock, got) = (lock.clone(), got.clone());
        let body = move |program: &Program| {
            if cpu == 0 {
                let guard = lock.write(&program.sim);
                for _ in 0..100 {
                    program.compute(US);
                }
                drop(guard);
            } else {
                let guard = lock.read(&program.sim);
                got.borrow_mut().push(now(program));
                drop(guard);
            }
        };
        simulation.spawn(format!("{cpu}"), cpu, u64::from(cpu) * US, &space, body).expect("a stack");
    }
    let body = |program: &Program| {
        let base =
            program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(1))).expect("room");
        program.load(base, 1).expect("a mapped page");
        let discarded = program.system_call(|memory, space| memory.discard(space, base, Pages::new(1)));
        discarded.expect("a mapped page");
    };
    simulation.spawn("flushes", 4, 20 * US, &space, body).expect("a stack");
    let outcome = simulation.run(|_, _| true).expect("no trace");
    assert_eq!(outcome.violations, 0, "{:?}", outcome.broken);
    let got = got.borrow().clone();
    (got, outcome.reading.counters.interrupts)
}

#[test]
fn threads_that_sleep_for_a_lock_are_not_interrupted_and_are_woken_one_by_one() {
    let (got, interrupts) = wait_asleep(0);
    assert_eq!(interrupts, 1, "only the holder is interrupted");
    let costs = machine(5).costs;
    assert!(got[0] > 100 * US + costs.interrupt_deliver + costs.context_switch, "{got:?}");
    let (slow, _) = wait_asleep(5 * US);
    for (number, (slow, fast)) in (1..).zip(slow.iter().zip(&got)) {
        // The releasing CPU wakes one after the other.
        assert_eq!(slow - fast, number * 5 * US);
    }
}

#[test]
fn a_thread_that_sleeps_for_a_lock_leaves_its_cpu_to_others() {
    let simulation = {
        let options = Options::new(Schedule::Batched);
        Simulation::new(&machine(2), options).expect("it fits")
    };
    let space = simulation.memory().new_space().expect("a frame");
    let (lock, log) = (Rc::new(SimRwLock::new(&SLEEPS, ())), Log::default());
    for (name, cpu, start) in [("holds", 0, 0), ("waits", 1, US), ("other", 1, 2 * US)] {
        let (lock, log) = (lock.clone(), log.clone());
        let body = move |program: &Program| {
            let guard = (name != "other").then(|| lock.write(&program.sim));
            if guard.is_some() {
                (0..100).for_each(|_| program.compute(US));
            }
            note(&log, name, program);
            drop(guard);
        };
        simulation.spawn(name, cpu, start, &space, body).expect("a stack");
    }
    simulation.run(|_, _| true).expect("no trace");
    let order: Vec<_> = log.borrow().iter().map(|(name, _)| *name).collect();
    assert_eq!(order, ["other", "holds", "waits"]);
}

/// Two CPUs contend for a lock of `class`, and a third asks both for a flush. Returns the times at which the three
/// were done, the holder, the waiter and the flusher, and the time at which the holder's thread began.
fn flush_during(class: &'static LockClass) -> ([Picoseconds; 3], Picoseconds) {
    let lock = Rc::new(SimLock::new(class, ()));
    let done = Rc::new(RefCell::new([0; 3]));
    let contender = |which: usize, start: Picoseconds| {
        let (lock, done) = (lock.clone(), done.clone());
        thread(start, move |program| {
            let guard = lock.lock(&program.sim);
            program.compute(50 * US);
            program.compute(50 * US);
            done.borrow_mut()[which] = now(program);
            drop(guard);
        })
    };
    let flusher = done.clone();
    let outcome = run(vec![
        contender(0, 0),
        contender(1, US),
        thread(10 * US, move |program| {
            let base = program
                .system_call(|memory, space| memory.map_anonymous(space, Pages::new(1)))
                .expect("room for a page");
            program.load(base, 1).expect("a mapped page");
            program
                .system_call(|memory, space| memory.unmap(space, base, Pages::new(1)))
                .expect("a mapped page");
            flusher.borrow_mut()[2] = now(program);
        }),
    ]);
    assert_eq!((outcome.reading.counters.interrupts, outcome.reading.counters.requests), (2, 2));
    let (done, costs) = (*done.borrow(), machine(3).costs);
    (done, costs.context_switch + costs.root_load + costs.invalidate_asid)
}

#[test]
fn interrupts_wait_for_a_lock_that_is_held_with_interrupts_off() {
    let ([holder, waiter, flusher], began) = flush_during(&CLOSED);
    // No CPU is interrupted in the lock. The last answer comes once both have had it, since the waiter has its
    // interrupts off too.
    assert_eq!(holder, began + machine(3).costs.lock + 100 * US);
    assert_eq!(waiter, holder + FAR + 100 * US);
    assert!((waiter..waiter + 5 * US).contains(&flusher), "{flusher} after {waiter}");
}

#[test]
fn cpus_that_hold_or_wait_for_a_lock_with_interrupts_on_answer() {
    let costs = machine(3).costs;
    let handler = costs.interrupt_handle + costs.invalidate_asid + FAR;
    let ([holder, waiter, flusher], began) = flush_during(&OPEN);
    assert!(flusher < 30 * US, "{flusher}");
    assert_eq!(holder, began + costs.lock + handler + 100 * US);
    assert_eq!(waiter, holder + FAR + 100 * US, "the waiter answered while it waited");
}

#[test]
#[cfg(debug_assertions)]
#[should_panic(expected = "lock order: open")]
fn the_order_of_locks_is_checked() {
    let (low, high) = (SimLock::new(&OPEN, ()), SimLock::new(&CLOSED, ()));
    run(vec![thread(0, move |program| {
        let _high = high.lock(&program.sim);
        let _low = low.lock(&program.sim);
    })]);
}
