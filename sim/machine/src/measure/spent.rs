//! The division of the CPUs' time among the kinds of work.
//!
//! A CPU does one kind of work at a time: it runs its program, handles a fault, flushes, or waits. It records the
//! kind in `doing`, and all time that passes on its clock is charged to that. The inner of two nested kinds takes
//! precedence: a flush in a fault is a flush, and so is an interrupt handler that runs while its CPU waits for a
//! lock. So the parts never overlap, and with idle time they add up to the clock. A thread that loses its CPU in the
//! middle of a fault keeps its kind of work and resumes with it.

use std::cell::Cell;

use crate::config::Picoseconds;

/// Defines `Doing`, `Spent` and the reading of a `Ledger` from one list of the parts.
macro_rules! parts {
    ($($(#[$doc:meta])* $part:ident: $doing:ident,)*) => {
        /// The kind of work that a CPU does.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Doing {
            $($doing,)*
            /// A thread has the CPU and leaves it unused. This time is charged to no thread.
            Nothing,
        }

        impl Ledger {
            pub(crate) fn read(&self) -> Spent {
                Spent { $($part: self.0[Doing::$doing as usize].get(),)* }
            }
        }

        /// The time of all CPUs by kind of work, each picosecond counted once. Idle time is not included.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Spent {
            $($(#[$doc])* pub $part: Picoseconds,)*
        }

        impl Spent {
            /// The sum of all parts.
            pub fn sum(&self) -> Picoseconds {
                [$(self.$part),*].iter().sum()
            }

            /// The time spent since an earlier reading.
            #[must_use]
            pub fn since(&self, earlier: &Self) -> Self {
                Self { $($part: self.$part - earlier.$part,)* }
            }
        }
    };
}

parts! {
    /// Running programs.
    user: User,
    /// Looking up the second level of the TLB, and walking the page tables, whether or not the walk finds a
    /// translation.
    walks: Walks,
    /// Handling page faults, including direct reclaim.
    faults: Faults,
    /// Invalidating, starting broadcasts, sending interrupts for either, and handling these interrupts.
    flushes: Flushes,
    /// Waiting for other CPUs to answer a flush, or for broadcasts to be done. Handlers that run meanwhile count as
    /// flushes.
    answers: Answers,
    /// Taking locks: waiting for their cache lines, and for other holders. Handlers that run meanwhile count as
    /// flushes.
    locks: Locks,
    /// The kernel's other work: system calls, background reclaim, switching.
    kernel: Kernel,
}

/// The time of all CPUs by kind of work.
#[derive(Debug, Default)]
pub(crate) struct Ledger([Cell<Picoseconds>; Doing::Nothing as usize + 1]);

impl Ledger {
    pub(crate) fn charge(&self, doing: Doing, time: Picoseconds) {
        let sum = &self.0[doing as usize];
        sum.set(sum.get() + time);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use ceasefire::Platform as _;
    use ceasefire_memory::{Lock as _, LockClass, Pages};

    use super::*;
    use crate::schedule::lock::SimLock;
    use crate::testing::{alone, now, roomy, run_on, thread, US};
    use crate::Program;

    static CLASS: LockClass = LockClass { name: "test", rank: 20, sleeps: false, interrupts_off: false };

    fn spent(program: &Program) -> Spent {
        program.reading().spent
    }

    /// A private page of the program that has not been touched.
    fn fresh(program: &Program) -> u64 {
        program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(1))).expect("room")
    }

    #[test]
    fn each_part_of_an_access_is_charged_exactly_once() {
        alone(|program| {
            let costs = &program.sim.machine.costs;
            let address = fresh(program);
            let (before, begun) = (spent(program), now(program));
            program.store(address, 3, 0).expect("a mapped page");
            let first = spent(program).since(&before);
            assert_eq!(first.sum(), now(program) - begun);
            assert_eq!(first.user, 3 * costs.access);
            assert!(first.faults >= costs.fault && first.walks > 0, "{first:?}");
            assert!(first.locks > 0 && first.locks.is_multiple_of(costs.lock), "free locks: {first:?}");
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
    fn a_handler_during_a_wait_is_charged_as_a_flush_and_the_rest_as_the_wait() {
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
                    // By now the other thread waits for the lock, and its CPU has the space loaded.
                    program.compute(100 * US);
                    let unmap = |memory: &ceasefire_memory::Memory<_>, space: &_| {
                        memory.unmap(space, address, Pages::new(1))
                    };
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
        // The rest is the cost of locks that were free.
        let free = all.locks - outcome.reading.lock_wait;
        assert!(free > 0 && free < 2 * US, "{free}");
        assert_eq!(outcome.reading.counters.interrupts, 1);
        assert!(all.answers > 0 && all.answers <= outcome.reading.answer_wait);
        assert!(all.flushes >= roomy(2).costs.interrupt_handle + roomy(2).costs.interrupt_send);
    }

    #[test]
    fn the_parts_add_up_to_the_time_of_the_threads() {
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
                                memory.unmap(space, address, Pages::new(1))
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
        // Handlers on an idle CPU are charged to no thread.
        assert!(spent.sum() >= threads && spent.sum() - threads < 20 * US, "{spent:?} of {threads}");
        assert_eq!(spent.user, outcome.threads.iter().map(|thread| thread.user).sum::<Picoseconds>());
    }
}
