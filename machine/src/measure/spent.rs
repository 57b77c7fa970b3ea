//! Where the CPUs' time goes.
//!
//! A CPU does one thing at a time: it runs its program, handles a fault, flushes, or waits. Each CPU says which (`doing`), and
//! whatever moves its clock is charged to that. What is done inside something else takes precedence: a flush in a fault is a
//! flush, and the handler of an interrupt that comes while its CPU waits for a lock is a flush too. So the parts never
//! overlap, and with the time in which a CPU has nothing to do they add up to the clock. A thread that loses its CPU in the
//! middle of a fault takes that along and goes on with it.

use std::cell::Cell;

use crate::config::Picoseconds;

/// What a CPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    User,
    Walks,
    Faults,
    Flushes,
    Answers,
    Locks,
    Kernel,
    /// A thread has the CPU and leaves it unused: its time is nobody's.
    Nothing,
}

/// Time of all CPUs by what they did.
#[derive(Debug, Default)]
pub(crate) struct Ledger([Cell<Picoseconds>; Doing::Nothing as usize + 1]);

impl Ledger {
    pub(crate) fn charge(&self, doing: Doing, time: Picoseconds) {
        let sum = &self.0[doing as usize];
        sum.set(sum.get() + time);
    }

    pub(crate) fn read(&self) -> Spent {
        let sum = |doing: Doing| self.0[doing as usize].get();
        Spent {
            user: sum(Doing::User),
            walks: sum(Doing::Walks),
            faults: sum(Doing::Faults),
            flushes: sum(Doing::Flushes),
            answers: sum(Doing::Answers),
            locks: sum(Doing::Locks),
            kernel: sum(Doing::Kernel),
        }
    }
}

/// Where the time of all CPUs went, each picosecond in one place. Time in which a CPU had nothing to do is in none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Programs.
    pub user: Picoseconds,
    /// The second level of the TLB, and page walks that found a translation or the lack of one.
    pub walks: Picoseconds,
    /// Page faults, with the reclaim that they do themselves.
    pub faults: Picoseconds,
    /// Invalidating, starting broadcasts, sending interrupts for either, and handling these.
    pub flushes: Picoseconds,
    /// Waiting until others have answered a flush, or broadcasts are done. Handlers that run meanwhile are flushes.
    pub answers: Picoseconds,
    /// Taking locks: until their lines have come, and while others hold them. Likewise.
    pub locks: Picoseconds,
    /// The kernel's other work: system calls, background reclaim, switching.
    pub kernel: Picoseconds,
}

impl Spent {
    /// All of it.
    pub fn sum(&self) -> Picoseconds {
        self.user + self.walks + self.faults + self.flushes + self.answers + self.locks + self.kernel
    }

    /// What was spent since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user: self.user - earlier.user,
            walks: self.walks - earlier.walks,
            faults: self.faults - earlier.faults,
            flushes: self.flushes - earlier.flushes,
            answers: self.answers - earlier.answers,
            locks: self.locks - earlier.locks,
            kernel: self.kernel - earlier.kernel,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use ceasefire::Platform as _;
    use ceasefire_memory::{Lock as _, LockClass};

    use super::*;
    use crate::schedule::lock::SimLock;
    use crate::testing::{alone, now, roomy, run_on, thread, US};
    use crate::Program;

    static CLASS: LockClass = LockClass { name: "test", rank: 20, sleeps: false, interrupts_off: false };

    fn spent(program: &Program) -> Spent {
        program.reading().spent
    }

    /// A page of the program's own, not touched yet.
    fn fresh(program: &Program) -> u64 {
        program.system_call(|memory, space| memory.map_anonymous(space, 1)).expect("room")
    }

    #[test]
    fn each_part_of_an_access_is_charged_once_and_all_of_it_is() {
        alone(|program| {
            let costs = &program.sim.machine.costs;
            let address = fresh(program);
            let (before, begun) = (spent(program), now(program));
            program.store(address, 3, 0).expect("a mapped page");
            let first = spent(program).since(&before);
            assert_eq!(first.sum(), now(program) - begun);
            assert_eq!(first.user, 3 * costs.access);
            assert!(first.faults >= costs.fault && first.walks > 0, "{first:?}");
            assert!(first.locks > 0 && first.locks.is_multiple_of(costs.lock), "free ones: {first:?}");
            assert_eq!((first.flushes, first.answers, first.kernel), (0, 0, 0));
            let before = spent(program);
            program.sim.invalidate_all();
            program.sim.broadcast_everything();
            program.sim.broadcast_wait();
            program.store(address, 1, 0).expect("a mapped page");
            let second = spent(program).since(&before);
            assert_eq!(second.flushes, costs.invalidate_asid + costs.broadcast_send);
            assert_eq!(second.answers, costs.broadcast_wait);
            assert_eq!((second.user, second.faults), (costs.access, 0));
        });
    }

    #[test]
    fn a_handler_in_a_wait_is_a_flush_and_the_rest_is_the_wait() {
        let lock = Rc::new(SimLock::new(&CLASS, ()));
        let found = Rc::new(RefCell::new(Spent::default()));
        let (holder, told) = (lock.clone(), found.clone());
        let outcome = run_on(
            &roomy(2),
            vec![
                thread(0, move |program| {
                    let address = fresh(program);
                    program.store(address, 1, 0).expect("a mapped page");
                    let guard = holder.lock(&program.sim);
                    // The other waits for the lock by now, and has the space loaded.
                    program.compute(100 * US);
                    let unmap =
                        |memory: &ceasefire_memory::Memory<_>, space: &_| memory.unmap(space, address, 4096);
                    drop(guard);
                    program.system_call(unmap).expect("a mapped page");
                    program.compute(100 * US);
                }),
                thread(20 * US, move |program| {
                    let before = spent(program);
                    drop(lock.lock(&program.sim));
                    *told.borrow_mut() = spent(program).since(&before);
                    program.compute(300 * US);
                }),
            ],
        );
        let (waited, all) = (found.borrow().locks, outcome.reading.spent);
        assert!((60 * US..100 * US).contains(&waited), "{waited}");
        // Beside that wait, locks that were free.
        let free = all.locks - outcome.reading.lock_wait;
        assert!(free > 0 && free < 2 * US, "{free}");
        assert_eq!(outcome.reading.counters.interrupts, 1);
        assert!(all.answers > 0 && all.answers <= outcome.reading.answer_wait);
        assert!(all.flushes >= roomy(2).costs.interrupt_handle + roomy(2).costs.interrupt_send);
    }

    #[test]
    fn all_parts_together_are_what_the_threads_took() {
        let outcome = run_on(
            &roomy(2),
            (0..2)
                .map(|number| {
                    thread(number * US, |program| {
                        for _ in 0..20 {
                            let address = fresh(program);
                            program.store(address, 2, 0).expect("a mapped page");
                            program.compute(5 * US);
                            let unmap = |memory: &ceasefire_memory::Memory<_>, space: &_| {
                                memory.unmap(space, address, 4096)
                            };
                            program.system_call(unmap).expect("a mapped page");
                        }
                    })
                })
                .collect(),
        );
        let threads: Picoseconds = outcome.threads.iter().map(|thread| thread.user + thread.system).sum();
        let spent = outcome.reading.spent;
        assert!(spent.answers > 0 && spent.flushes > 0 && spent.kernel > 0, "{spent:?}");
        // An idle CPU's handlers are no thread's.
        assert!(spent.sum() >= threads && spent.sum() - threads < 20 * US, "{spent:?} of {threads}");
        assert_eq!(spent.user, outcome.threads.iter().map(|thread| thread.user).sum::<Picoseconds>());
    }
}
