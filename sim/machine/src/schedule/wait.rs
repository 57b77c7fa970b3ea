//! Threads that wait for a page or for a device.
//!
//! A waiting thread sleeps, and its CPU runs other threads. A thread that holds a lock cannot leave its CPU, so it
//! waits there, with interrupts on. If all its locks sleep, like those of a fault that reads a file, the CPU counts
//! as idle meanwhile. It is lazy, so no flush of pages interrupts it. Its timer does not tick, and the time is
//! charged to no thread.

use ceasefire_memory::{Block, FrameNumber, SpaceHandle};

use crate::config::{Picoseconds, Storage};
use crate::measure::spent::Doing;
use crate::world::state::{Sim, World};
use crate::world::task::{Kind, Sleep, Stop};
use crate::world::timeline::NEVER;

impl World {
    /// Puts the running thread to sleep until `busy` returns false. It asks again each time the frame's page is
    /// ready.
    ///
    /// # Panics
    /// If the thread must wait but cannot sleep: outside of any thread, pinned, with interrupts off, or with a lock
    /// held.
    pub(crate) fn wait_for_page(&self, frame: FrameNumber, busy: &dyn Fn() -> bool) {
        while busy() {
            let cpu = self.cpu();
            assert!(self.running.in_task(), "waiting for {frame:?} where no thread runs that could sleep");
            assert!(cpu.may_be_left(), "waiting for {frame:?} pinned, with interrupts off or a lock held");
            let Some(id) = cpu.task.get() else { unreachable!("a thread runs") };
            self.waiters.borrow_mut().entry(frame.get()).or_default().push(id);
            self.running.stop(Stop::Sleep(Sleep::Amid));
        }
    }

    /// Wakes the threads that wait for a frame's page, in order of arrival.
    pub(crate) fn page_ready(&self, frame: FrameNumber) {
        let waiters = self.waiters.borrow_mut().remove(&frame.get());
        for id in waiters.into_iter().flatten() {
            self.wake_task(id, Sleep::Amid);
        }
    }

    /// Writes pages out, with the bytes that they hold now.
    pub(crate) fn write_out(&self, pages: &[(Block, FrameNumber)]) {
        let taken: Option<Vec<_>> = self.contents.as_ref().map(|contents| {
            pages.iter().map(|&(block, frame)| (block, contents.take(&self.ram, frame))).collect()
        });
        self.transfer(pages.len(), |storage| storage.write);
        if let Some((contents, taken)) = self.contents.as_ref().zip(taken) {
            for (block, page) in taken {
                contents.keep(block, page);
            }
        }
    }

    /// Reads pages in, with the bytes that their blocks hold now.
    ///
    /// # Panics
    /// If a block of the swap device was never written out.
    pub(crate) fn read_in(&self, pages: &[(Block, FrameNumber)]) {
        let found: Option<Vec<_>> = self
            .contents
            .as_ref()
            .map(|contents| pages.iter().map(|&(block, frame)| (frame, contents.find(block))).collect());
        self.transfer(pages.len(), |storage| storage.read);
        if let Some((contents, found)) = self.contents.as_ref().zip(found) {
            for (frame, page) in found {
                contents.deliver(&self.ram, frame, &page);
            }
        }
    }

    /// Submits `count` pages to the device, if there is one, and waits for the last.
    fn transfer(&self, count: usize, service: impl Fn(&Storage) -> Picoseconds) {
        self.spend(self.machine.costs.write_out * count as u64);
        let Some((storage, device)) = self.storage.as_ref().filter(|_| !self.standing.get()) else { return };
        let (now, service) = (self.cpu().clock.get(), service(storage));
        let last = (0..count).map(|_| device.borrow_mut().submit(now, service)).max();
        self.wait_until(last.unwrap_or(now));
    }

    /// The running thread waits until `time`.
    pub(crate) fn wait_until(&self, time: Picoseconds) {
        let cpu = self.cpu();
        if cpu.may_be_left() && cpu.clock.get() < time {
            self.running.stop(Stop::Until(time));
            return;
        }
        let idle = self.idle_space();
        let begun = cpu.clock.get();
        let doing = cpu.doing.get();
        if idle.is_some() {
            self.rest();
            cpu.next_tick.set(NEVER);
            cpu.doing.set(Doing::Nothing);
            cpu.asleep_since.set(begun);
            self.all_look_again();
        }
        while cpu.clock.get() < time {
            cpu.wake.set(time);
            self.running.pause();
        }
        let waking = self.wake_up(time);
        self.stall(waking);
        cpu.doing.set(doing);
        if let Some(space) = idle {
            cpu.system.set(cpu.system.get() - waking - time.saturating_sub(begun));
            cpu.next_tick.set(self.timer.after(self.here(), cpu.clock.get()));
            self.run_space(&space);
        }
    }

    /// The space of the running thread, if it is a program's thread and its CPU is idle while it waits.
    fn idle_space(&self) -> Option<SpaceHandle<Sim>> {
        let cpu = self.cpu();
        let free = cpu.off.get() == 0 && cpu.pins.get() == 0 && cpu.held.may_sleep();
        match &self.tasks.borrow()[cpu.task.get().filter(|_| free)?.0].kind {
            Kind::Program(space) => Some(space.clone()),
            Kind::Kernel(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::num::NonZeroU32;
    use std::rc::Rc;

    use ceasefire::Schedule;
    use ceasefire_memory::{FrameNumber, Lock as _, LockClass, Machine, Memory, Pages, Store};

    use super::*;
    use crate::hardware::contents::stored_word;
    use crate::schedule::lock::SimLock;
    use crate::testing::{machine, now, Notes, FAR, US};
    use crate::{Options, Outcome, Program, Simulation};

    static LOCK: LockClass = LockClass { name: "test", rank: 20, sleeps: false, interrupts_off: false };

    static SLEEPS: LockClass = LockClass { name: "sleeps", rank: 20, sleeps: true, interrupts_off: false };

    const PAGE: FrameNumber = FrameNumber::new(1000);
    const STORAGE: Storage =
        Storage { queue_depth: NonZeroU32::new(2).unwrap(), read: 100 * US, write: 30 * US };

    /// A machine of `cpus`, with one space.
    struct Bench {
        simulation: Simulation,
        space: SpaceHandle<Sim>,
    }

    impl Bench {
        fn new(cpus: u16, storage: Option<Storage>) -> Self {
            let options = Options { contents: true, ..Options::new(Schedule::Batched) };
            let machine = crate::config::Machine { storage, ..machine(cpus) };
            let simulation = Simulation::new(&machine, options).expect("it fits");
            let space = simulation.memory().new_space().expect("a frame");
            Self { simulation, space }
        }

        fn thread(&self, cpu: u16, start: Picoseconds, body: impl FnOnce(&Program) + 'static) {
            self.simulation.spawn(format!("{cpu}"), cpu, start, &self.space, body).expect("a stack");
        }

        fn run(&self) -> Outcome {
            self.simulation.run(|_, _| true).expect("no trace")
        }
    }

    fn block(index: u32) -> Block {
        Block { store: Store::Swap, index }
    }

    /// `count` blocks from `first` on, each with a frame.
    fn pages(first: u32, count: u32) -> Vec<(Block, FrameNumber)> {
        (first..first + count).map(|index| (block(index), FrameNumber::new(900 + index))).collect()
    }

    #[test]
    fn waiters_wake_in_order_of_arrival_when_the_page_is_ready() {
        let bench = Bench::new(2, None);
        let (busy, notes) = (Rc::new(Cell::new(true)), Notes::default());
        // All threads are on one CPU, which runs the next when one sleeps.
        for (name, start) in [("second", 20 * US), ("first", 0), ("third", 40 * US)] {
            let (busy, notes) = (busy.clone(), notes.clone());
            bench.thread(1, start, move |program| {
                program.sim.wait_for_page(PAGE, &|| busy.get());
                notes.borrow_mut().push((name, now(program) >= 100 * US));
            });
        }
        bench.thread(0, 0, move |program| {
            program.compute(100 * US);
            busy.set(false);
            program.sim.page_ready(PAGE);
            program.compute(50 * US);
        });
        bench.run();
        assert_eq!(*notes.borrow(), [("first", true), ("second", true), ("third", true)]);
    }

    #[test]
    fn a_thread_woken_too_early_sleeps_again() {
        let bench = Bench::new(2, None);
        let (busy, ended) = (Rc::new(Cell::new(true)), Rc::new(Cell::new(0)));
        let (flag, told) = (busy.clone(), ended.clone());
        bench.thread(1, 0, move |program| {
            program.sim.wait_for_page(PAGE, &|| flag.get());
            told.set(now(program));
        });
        bench.thread(0, 0, move |program| {
            program.compute(50 * US);
            program.sim.page_ready(PAGE);
            program.compute(50 * US);
            busy.set(false);
            program.sim.page_ready(FrameNumber::new(3));
            program.compute(50 * US);
            program.sim.page_ready(PAGE);
        });
        bench.run();
        assert!(ended.get() > 150 * US, "{}", ended.get());
    }

    #[test]
    fn a_thread_does_not_go_on_before_it_slept() {
        let bench = Bench::new(3, None);
        let (busy, ended) = (Rc::new(Cell::new(true)), Rc::new(Cell::new(0)));
        let (flag, told) = (busy.clone(), ended.clone());
        bench.thread(0, 0, move |program| {
            // This CPU is ahead of the others, unnoticed by them: CPU 2 could get the thread before this time.
            program.sim.spend(100 * US);
            program.sim.wait_for_page(PAGE, &|| flag.get());
            told.set(now(program));
        });
        bench.thread(1, 10 * US, move |program| {
            program.compute(40 * US);
            busy.set(false);
            program.sim.page_ready(PAGE);
        });
        bench.run();
        assert!(ended.get() > 100 * US, "{}", ended.get());
    }

    #[test]
    fn a_waiter_resumes_on_its_cpu_and_is_charged_no_time_meanwhile() {
        let bench = Bench::new(3, None);
        let (busy, flag) = (Rc::new(Cell::new(true)), Rc::new(Cell::new(0)));
        let (locked, ended) = (busy.clone(), flag.clone());
        bench.thread(2, 0, move |program| {
            program.sim.wait_for_page(PAGE, &|| locked.get());
            assert_eq!(program.sim.here(), 2);
            ended.set(now(program));
        });
        bench.thread(1, 0, move |program| {
            program.compute(100 * US);
            busy.set(false);
            program.sim.page_ready(PAGE);
            assert!(flag.get() == 0, "the waiter has not had its turn yet");
            let ready = now(program);
            program.compute(100 * US);
            assert_eq!(flag.get(), ready + program.sim.machine.costs.context_switch);
        });
        let outcome = bench.run();
        let waiter = outcome.threads.iter().find(|thread| thread.name == "2").expect("it ran");
        let costs = machine(3).costs;
        // CPU 1 has had the lines of the space before.
        let arrival = costs.context_switch + costs.root_load + costs.invalidate_asid + 2 * FAR;
        assert_eq!((waiter.user, waiter.system), (0, arrival + costs.context_switch));
    }

    #[test]
    fn a_thread_does_not_wait_for_a_page_that_is_ready() {
        let bench = Bench::new(1, None);
        bench.simulation.sim.wait_for_page(PAGE, &|| false);
        bench.thread(0, 0, |program| {
            let begun = now(program);
            program.sim.wait_for_page(PAGE, &|| false);
            assert_eq!(now(program), begun);
        });
        bench.run();
    }

    #[test]
    #[should_panic(expected = "waiting for frame 0x3e8 where no thread runs that could sleep")]
    fn waiting_between_runs_is_refused() {
        Bench::new(1, None).simulation.sim.wait_for_page(PAGE, &|| true);
    }

    #[test]
    #[should_panic(expected = "waiting for frame 0x3e8 pinned, with interrupts off or a lock held")]
    fn waiting_with_a_lock_held_is_refused() {
        let bench = Bench::new(1, None);
        bench.thread(0, 0, |program| {
            let lock = SimLock::new(&LOCK, ());
            let _guard = lock.lock(&program.sim);
            program.sim.wait_for_page(PAGE, &|| true);
        });
        bench.run();
    }

    #[test]
    #[should_panic(expected = "a thread leaves its CPU pinned, with interrupts off, or with HeldLocks")]
    fn a_thread_that_ends_while_it_is_pinned_is_caught() {
        let bench = Bench::new(1, None);
        bench.thread(0, 0, |program| program.sim.cpus[0].pins.set(1));
        bench.run();
    }

    #[test]
    #[should_panic(expected = "deadlock: 1 threads wait")]
    fn a_page_that_is_never_ready_is_a_deadlock() {
        let bench = Bench::new(1, None);
        bench.thread(0, 0, |program| program.sim.wait_for_page(PAGE, &|| true));
        bench.run();
    }

    /// The time that a call took that transfers pages, on a CPU of its own.
    fn took(storage: Option<Storage>, locked: bool, call: impl FnOnce(&Sim) + 'static) -> Picoseconds {
        let bench = Bench::new(1, storage);
        let result = Rc::new(Cell::new(0));
        let told = result.clone();
        bench.thread(0, 0, move |program| {
            let lock = SimLock::new(&LOCK, ());
            let guard = locked.then(|| lock.lock(&program.sim));
            let begun = now(program);
            call(&program.sim);
            told.set(now(program) - begun);
            drop(guard);
        });
        bench.run();
        result.get()
    }

    #[test]
    fn a_transfer_takes_its_submissions_and_one_round_for_each_full_queue() {
        let costs = machine(1).costs;
        let (submit, switch) = (costs.write_out, costs.context_switch);
        let write = |count: u32| move |sim: &Sim| Machine::write_out(sim, &pages(0, count));
        let both = |sim: &Sim| {
            Machine::write_out(sim, &pages(0, 3));
            Machine::read_in(sim, &pages(0, 3));
        };
        assert_eq!(took(None, false, write(5)), 5 * submit);
        assert_eq!(took(Some(STORAGE), false, write(0)), 0);
        assert_eq!(took(Some(STORAGE), false, write(2)), 2 * submit + 30 * US + switch);
        assert_eq!(took(Some(STORAGE), false, write(5)), 5 * submit + 90 * US + switch);
        assert_eq!(took(Some(STORAGE), false, both), 6 * submit + 60 * US + 200 * US + 2 * switch);
        // With a lock held no other thread gets the CPU, so there is no switch back.
        assert_eq!(took(Some(STORAGE), true, both), 6 * submit + 60 * US + 200 * US);
    }

    #[test]
    fn two_cpus_share_the_device() {
        let bench = Bench::new(2, Some(STORAGE));
        let ends = Notes::default();
        for cpu in 0..2 {
            let ends = ends.clone();
            bench.thread(cpu, u64::from(cpu) * US, move |program| {
                let before = now(program);
                program.sim.write_out(&pages(u32::from(cpu) * 4, 2));
                ends.borrow_mut().push((cpu, before, now(program)));
            });
        }
        bench.run();
        let costs = machine(2).costs;
        let &[(0, first, first_end), (1, _, second_end)] = &ends.borrow()[..] else { panic!("{ends:?}") };
        let submitted = first + 2 * costs.write_out;
        assert_eq!(first_end, submitted + 30 * US + costs.context_switch);
        assert_eq!(second_end, submitted + 60 * US + costs.context_switch);
    }

    #[test]
    fn a_cpu_runs_other_threads_while_one_waits_for_a_device() {
        let bench = Bench::new(1, Some(STORAGE));
        let notes = Notes::default();
        let (writer, other) = (notes.clone(), notes.clone());
        bench.thread(0, 0, move |program| {
            program.sim.write_out(&pages(0, 1));
            writer.borrow_mut().push(("written", now(program)));
        });
        bench.thread(0, US, move |program| {
            for _ in 0..50 {
                program.compute(US);
            }
            other.borrow_mut().push(("computed", now(program)));
        });
        bench.run();
        let costs = machine(1).costs;
        let arrival = costs.context_switch + costs.root_load + costs.invalidate_asid;
        let done = arrival + costs.write_out + 30 * US;
        let &[("written", written), ("computed", computed)] = &notes.borrow()[..] else {
            panic!("{notes:?}")
        };
        // The other thread gives way at its first step after the device is done.
        assert!((done..done + 2 * US).contains(&(written - costs.context_switch)), "{written} after {done}");
        assert!(computed < 100 * US, "{computed}: the other computed while the device worked");
        let slice = costs.time_slice;
        assert!(slice > 100 * US, "{slice}: the other did not give way for the end of its slice");
    }

    #[test]
    fn a_cpu_that_waits_for_a_device_with_a_lock_held_answers_interrupts() {
        for locked in [false, true] {
            let bench = Bench::new(2, Some(STORAGE));
            let flushed = Rc::new(Cell::new(0));
            let told = flushed.clone();
            bench.thread(0, 0, move |program| {
                let lock = SimLock::new(&LOCK, ());
                let _guard = locked.then(|| lock.lock(&program.sim));
                program.sim.write_out(&pages(0, 1));
            });
            bench.thread(1, 10 * US, move |program| {
                let map = |memory: &Memory<Sim>, space: &_| memory.map_anonymous(space, Pages::new(1));
                let base = program.system_call(map).expect("room");
                program.load(base, 1).expect("a mapped page");
                let unmap = |memory: &Memory<Sim>, space: &_| memory.unmap(space, base, Pages::new(1));
                program.system_call(unmap).expect("a mapped page");
                told.set(now(program));
            });
            bench.run();
            assert!((10 * US..29 * US).contains(&flushed.get()), "{}: locked: {locked}", flushed.get());
        }
    }

    #[test]
    fn a_cpu_is_idle_while_its_thread_waits_for_a_device_with_locks_that_sleep() {
        for (class, interrupts) in [(&SLEEPS, 0), (&LOCK, 1)] {
            // A write takes longer than the period of the timer.
            let slow = Storage { write: 10_000 * US, ..STORAGE };
            let bench = Bench::new(2, Some(slow));
            let (ticks, base) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            let (told, shared) = (ticks.clone(), base.clone());
            bench.thread(0, 0, move |program| {
                program.compute(20 * US);
                program.load(shared.get(), 1).expect("a mapped page");
                let lock = SimLock::new(class, ());
                let _guard = lock.lock(&program.sim);
                program.sim.write_out(&pages(0, 1));
                told.set(program.sim.cpus[0].ticks.get());
            });
            bench.thread(1, 0, move |program| {
                // One page stays, and with it its page-table page. If that were freed, the flush would interrupt a
                // lazy CPU too.
                let map = |memory: &Memory<Sim>, space: &_| memory.map_anonymous(space, Pages::new(2));
                base.set(program.system_call(map).expect("room"));
                program.compute(100 * US);
                let unmap = |memory: &Memory<Sim>, space: &_| memory.unmap(space, base.get(), Pages::new(1));
                program.system_call(unmap).expect("a mapped page");
            });
            let outcome = bench.run();
            assert_eq!((outcome.violations, outcome.reading.counters.interrupts), (0, interrupts));
            assert_eq!(ticks.get(), 2 * interrupts, "at 4 and 8 ms");
            let waiter = outcome.threads.iter().find(|thread| thread.name == "0").expect("it ran");
            assert!(waiter.ended > Some(10_000 * US));
            assert_eq!(waiter.system >= 10_000 * US, interrupts == 1, "idle time is charged to no thread");
        }
    }

    #[test]
    fn a_device_initially_holds_words_of_their_own_for_a_file() {
        let bench = Bench::new(1, None);
        bench.thread(0, 0, |program| {
            let file = program.memory().open_stored_file(3).expect("a free object");
            let map =
                |memory: &Memory<Sim>, space: &_| memory.map_shared(space, file, 0, Pages::new(3), false);
            let base = program.system_call(map).expect("room");
            assert_eq!(program.load(base + 2 * 4096 + 64, 1), Ok(stored_word(file, 2 * 4096 + 64)));
            assert_eq!(program.reading().statistics.read, 1);
        });
        bench.run();
    }

    #[test]
    fn a_block_keeps_the_bytes_that_the_page_had_when_its_write_out_began() {
        let bench = Bench::new(2, Some(STORAGE));
        let (frame, other) = (FrameNumber::new(900), FrameNumber::new(901));
        bench.thread(0, 0, move |program| {
            let sim = &program.sim;
            sim.store(frame, 8, b"before");
            Machine::write_out(sim, &[(block(7), frame)]);
            let mut bytes = [0; 6];
            sim.load(frame, 8, &mut bytes);
            assert_eq!(&bytes, b"during", "the other thread stored meanwhile");
            Machine::read_in(sim, &[(block(7), other)]);
            sim.load(other, 8, &mut bytes);
            assert_eq!(&bytes, b"before");
            Machine::copy(sim, other, FrameNumber::new(903), 1);
            Machine::zero(sim, frame, 2);
            for (at, expected) in [(900, [0; 6]), (901, [0; 6]), (903, *b"before")] {
                sim.load(FrameNumber::new(at), 8, &mut bytes);
                assert_eq!(bytes, expected, "frame {at}");
            }
        });
        bench.thread(1, 10 * US, move |program| program.sim.store(frame, 8, b"during"));
        bench.run();
    }

    #[test]
    #[should_panic(expected = "index: 3 }, which it never wrote out")]
    fn reading_a_block_that_was_never_written_is_refused() {
        Bench::new(1, None).simulation.sim.read_in(&pages(3, 1));
    }

    #[test]
    fn a_machine_is_dropped_while_threads_wait() {
        let bench = Bench::new(2, Some(STORAGE));
        bench.thread(0, 0, |program| program.sim.wait_for_page(PAGE, &|| true));
        bench.thread(1, 0, |program| loop {
            program.sim.write_out(&pages(0, 1));
        });
        let mut steps = 0;
        let outcome = bench.simulation.run(|_, _| {
            steps += 1;
            steps < 3
        });
        assert!(outcome.is_ok());
    }
}
