//! Locks in simulated time.
//!
//! A lock is a resource with a time at which it becomes free, and a queue, first come first served. Taking it costs
//! its own instructions and, if another CPU had it last, the transfer of its line. Who waits spins: with interrupts on
//! it answers them meanwhile, with interrupts off (a class says which) it does not, and that is how one contended lock
//! makes everybody wait who sends its holder's rivals an interrupt.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::fmt::Debug;
use std::ops::{Deref, DerefMut};

use ceasefire::LockClass;

use crate::config::Picoseconds;
use crate::sim::Sim;
use crate::spent::Doing;
use crate::world::World;

/// Who waits, and for what.
#[derive(Debug, Clone, Copy)]
struct Waiter {
    cpu: usize,
    shared: bool,
}

/// The state of a lock, exclusive or shared.
#[derive(Debug)]
struct Turnstile {
    class: &'static LockClass,
    /// Exclusive holders (0 or 1) and shared ones.
    writers: Cell<u32>,
    readers: Cell<u32>,
    /// When the last exclusive holder let go, and the last of the shared ones: they may have run ahead of who comes now.
    free_at: Cell<Picoseconds>,
    unread_at: Cell<Picoseconds>,
    /// The CPU that touched it last.
    last: Cell<usize>,
    waiters: RefCell<VecDeque<Waiter>>,
}

impl Turnstile {
    fn new(class: &'static LockClass) -> Self {
        Self {
            class,
            writers: Cell::new(0),
            readers: Cell::new(0),
            free_at: Cell::new(0),
            unread_at: Cell::new(0),
            last: Cell::new(usize::MAX),
            waiters: RefCell::default(),
        }
    }

    fn enter(&self, world: &World, shared: bool) {
        world.sync();
        let index = world.here.get();
        let cpu = world.cpu();
        cpu.held.acquire(self.class);
        if self.class.interrupts_off {
            cpu.off.set(cpu.off.get() + 1);
        }
        let last = self.last.replace(index);
        let transfer = if last == index || last == usize::MAX { 0 } else { world.between(last, index) };
        world.spend(world.machine.costs.lock + transfer);
        let before = cpu.clock.get();
        let doing = cpu.doing.replace(Doing::Locks);
        let blocked = self.writers.get() > 0 || (!shared && self.readers.get() > 0);
        if blocked || !self.waiters.borrow().is_empty() {
            self.waiters.borrow_mut().push_back(Waiter { cpu: index, shared });
            // Whoever lets go hands the lock over before it sets the time.
            world.wait();
        } else {
            self.admit(shared);
            let free_at = self.free_at.get().max(if shared { 0 } else { self.unread_at.get() });
            if free_at > before {
                world.spend_until(free_at + transfer);
            }
        }
        cpu.doing.set(doing);
        let waited = world.cpu().clock.get().saturating_sub(before);
        if waited > 0 {
            let tallies = &world.tallies;
            tallies.lock_waits.set(tallies.lock_waits.get() + 1);
            tallies.lock_wait_time.set(tallies.lock_wait_time.get() + waited);
        }
    }

    fn admit(&self, shared: bool) {
        let count = if shared { &self.readers } else { &self.writers };
        count.set(count.get() + 1);
    }

    fn leave(&self, world: &World, shared: bool) {
        let cpu = world.cpu();
        let now = cpu.clock.get();
        let count = if shared { &self.readers } else { &self.writers };
        count.set(count.get() - 1);
        let let_go = if shared { &self.unread_at } else { &self.free_at };
        let_go.set(let_go.get().max(now));
        while self.writers.get() == 0 {
            let mut waiters = self.waiters.borrow_mut();
            let next = match waiters.front() {
                Some(waiter) if waiter.shared || self.readers.get() == 0 => *waiter,
                _ => break,
            };
            waiters.pop_front();
            drop(waiters);
            self.admit(next.shared);
            self.last.set(next.cpu);
            let from = if next.shared { now } else { now.max(self.unread_at.get()) };
            world.wake_at(next.cpu, from + world.between(world.here.get(), next.cpu));
        }
        cpu.held.release(self.class);
        if self.class.interrupts_off {
            cpu.off.set(cpu.off.get() - 1);
            if cpu.off.get() == 0 {
                cpu.on_since.set(now);
            }
        }
    }
}

/// Mutual exclusion in simulated time.
#[derive(Debug)]
pub struct SimLock<T> {
    turnstile: Turnstile,
    value: RefCell<T>,
}

/// Proof of holding a [`SimLock`].
#[derive(Debug)]
pub struct Guard<'a, T> {
    lock: &'a SimLock<T>,
    world: &'a World,
    value: RefMut<'a, T>,
}

impl<T: Debug> ceasefire::Lock<T, Sim> for SimLock<T> {
    type Guard<'a>
        = Guard<'a, T>
    where
        T: 'a;

    fn new(class: &'static LockClass, value: T) -> Self {
        Self { turnstile: Turnstile::new(class), value: RefCell::new(value) }
    }

    fn lock<'a>(&'a self, platform: &'a Sim) -> Guard<'a, T> {
        let world: &World = platform;
        self.turnstile.enter(world, false);
        Guard { lock: self, world, value: self.value.borrow_mut() }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.lock.turnstile.leave(self.world, false);
    }
}

/// Shared or exclusive access in simulated time.
#[derive(Debug)]
pub struct SimRwLock<T> {
    turnstile: Turnstile,
    value: RefCell<T>,
}

/// Proof of shared access to a [`SimRwLock`].
#[derive(Debug)]
pub struct ReadGuard<'a, T> {
    lock: &'a SimRwLock<T>,
    world: &'a World,
    value: Ref<'a, T>,
}

/// Proof of exclusive access to a [`SimRwLock`].
#[derive(Debug)]
pub struct WriteGuard<'a, T> {
    lock: &'a SimRwLock<T>,
    world: &'a World,
    value: RefMut<'a, T>,
}

impl<T: Debug> ceasefire::RwLock<T, Sim> for SimRwLock<T> {
    type Read<'a>
        = ReadGuard<'a, T>
    where
        T: 'a;
    type Write<'a>
        = WriteGuard<'a, T>
    where
        T: 'a;

    fn new(class: &'static LockClass, value: T) -> Self {
        Self { turnstile: Turnstile::new(class), value: RefCell::new(value) }
    }

    fn read<'a>(&'a self, platform: &'a Sim) -> ReadGuard<'a, T> {
        let world: &World = platform;
        self.turnstile.enter(world, true);
        ReadGuard { lock: self, world, value: self.value.borrow() }
    }

    fn write<'a>(&'a self, platform: &'a Sim) -> WriteGuard<'a, T> {
        let world: &World = platform;
        self.turnstile.enter(world, false);
        WriteGuard { lock: self, world, value: self.value.borrow_mut() }
    }
}

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.turnstile.leave(self.world, true);
    }
}

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.turnstile.leave(self.world, false);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::rc::Rc;

    use ceasefire::{Lock as _, RwLock as _, Schedule};

    use super::*;
    use crate::config::{builtin, Latency, Machine, Node, Topology};
    use crate::{Options, Outcome, Program, Simulation};

    pub(crate) const US: Picoseconds = 1_000_000;
    /// Between any two CPUs.
    pub(crate) const FAR: Picoseconds = 104_000;

    static OPEN: LockClass = LockClass { name: "open", rank: 20, sleeps: false, interrupts_off: false };
    static CLOSED: LockClass = LockClass { name: "closed", rank: 21, sleeps: false, interrupts_off: true };

    /// One node of `cpus`, all equally far from each other.
    pub(crate) fn machine(cpus: u16) -> Machine {
        let mut machine = builtin("1-socket").expect("a listed name").expect("a valid file");
        let node = Node { cpus: (0..cpus).collect(), bytes: 4 << 20, tier: 0 };
        machine.topology = Topology::new(vec![node]).expect("a valid topology");
        machine.latency = Latency::uniform(cpus, FAR);
        machine
    }

    /// What a thread does, and when it starts.
    pub(crate) type Thread = (Picoseconds, Box<dyn FnOnce(&Program)>);

    pub(crate) fn thread(start: Picoseconds, body: impl FnOnce(&Program) + 'static) -> Thread {
        (start, Box::new(body))
    }

    /// Threads of one space, each on a CPU of its own.
    pub(crate) fn run(threads: Vec<Thread>) -> Outcome {
        let exact = Options { slack: Some(0), ..Options::new(Schedule::Batched) };
        let simulation = Simulation::new(&machine(threads.len() as u16), exact).expect("it fits");
        let space = simulation.memory().new_space().expect("a frame");
        for (cpu, (start, body)) in threads.into_iter().enumerate() {
            simulation.spawn(format!("{cpu}"), cpu as u16, start, &space, body).expect("a stack");
        }
        let outcome = simulation.run(|_, _| true).expect("no trace");
        assert_eq!(outcome.violations, 0, "{:?}", outcome.broken);
        outcome
    }

    pub(crate) fn now(program: &Program) -> Picoseconds {
        program.sim.cpu().clock.get()
    }

    /// What happened when, in the order in which it was noted.
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

    /// A time in a lock during which others may notice this CPU (`true`) or it runs ahead of them.
    fn hold(program: &Program, time: Picoseconds, noticed: bool) {
        if noticed {
            program.compute(time / 2);
            program.compute(time / 2);
        } else {
            program.sim.spend(time);
        }
    }

    #[test]
    fn who_waits_gets_the_lock_when_its_holder_lets_go_and_the_line_has_come() {
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
    fn a_free_lock_costs_its_instructions_and_the_way_from_the_last_cpu() {
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
                // After the writer: it waits although readers are inside, else writers would starve.
                reader(8 * US, 2 * US, ["third got", "third free"]),
            ]);
            assert!(when(&log, "second got") < 4 * US, "{log:?}");
            assert_eq!(when(&log, "writer got"), when(&log, "first free") + FAR, "noticed: {noticed}");
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

    /// Two CPUs contend for a lock of `class`; meanwhile a third asks both for a flush. When each of the three was
    /// done: the holder, the one that waits, and the one that flushes; and when the holder's thread began.
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
                    .system_call(|memory, space| memory.map_anonymous(space, 1))
                    .expect("room for a page");
                program.load(base, 1).expect("a mapped page");
                program.system_call(|memory, space| memory.unmap(space, base, 4096)).expect("a mapped page");
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
        // Nobody is interrupted in the lock, so the last answer comes when both had it: the one that waits has its
        // interrupts off as well.
        assert_eq!(holder, began + machine(3).costs.lock + 100 * US);
        assert_eq!(waiter, holder + FAR + 100 * US);
        assert!((waiter..waiter + 5 * US).contains(&flusher), "{flusher} after {waiter}");
    }

    #[test]
    fn who_holds_or_waits_for_a_lock_with_interrupts_on_answers() {
        let costs = machine(3).costs;
        let handler = costs.interrupt_handle + costs.invalidate_asid + FAR;
        let ([holder, waiter, flusher], began) = flush_during(&OPEN);
        assert!(flusher < 30 * US, "{flusher}");
        assert_eq!(holder, began + costs.lock + handler + 100 * US);
        assert_eq!(waiter, holder + FAR + 100 * US, "the one that waits answered while it waited");
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
}
