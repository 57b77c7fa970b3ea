//! Puts the beginnings and the ends of waits together.

use foldhash::HashMap;

use crate::events::{Kind, LockKind, Name, Names, Work};
use crate::recording::Row;
use crate::shootdowns::{Cause, Doing};

/// A wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The thread that waited; 0 if an interrupt of an idle CPU did.
    pub thread: u32,
    /// Its process.
    pub process: u32,
    /// Its name.
    pub program: Name,
    /// The lock's address in the kernel.
    pub lock: u64,
    /// The kind of lock.
    pub kind: LockKind,
    /// What the thread did in the kernel.
    pub cause: Cause,
    /// The beginning.
    pub began_ns: u64,
    /// The end.
    pub ended_ns: u64,
    /// The part of it during which interrupts for flushes of other threads of the process were under way.
    pub flush_ns: u64,
}

impl Wait {
    /// The time for which the thread waited, in nanoseconds.
    pub fn ns(&self) -> u64 {
        self.ended_ns - self.began_ns
    }

    /// Whether it is no contention: the kernel's own threads sleep on semaphores until there is work for them.
    pub fn is_idle(&self) -> bool {
        self.process == 0 && self.kind == LockKind::Semaphore
    }
}

/// Puts the beginnings and the ends of waits together.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// For each thread, the waits under way, the innermost last: a handler of an interrupt may wait while the thread
    /// does. Every idle CPU is a thread of its own.
    open: HashMap<(u32, u32), Vec<Open>>,
    /// The thread and the process that sent each interrupt for a flush that is under way, by the call's number.
    sent: HashMap<u64, (u32, u32)>,
    /// For each process that flushes, how long interrupts were under way.
    flushing: HashMap<u32, Flushing>,
}

/// A wait that is under way.
#[derive(Debug)]
struct Open {
    wait: Wait,
    /// The time for which interrupts of the process were under way until its beginning; none if the thread itself
    /// sent one that is.
    flushed_ns: Option<u64>,
}

/// The interrupts of a process's flushes.
#[derive(Debug, Clone, Copy, Default)]
struct Flushing {
    pending: u32,
    /// The time at which the first of them was sent.
    since_ns: u64,
    /// The time for which there were any, before that.
    total_ns: u64,
}

impl Flushing {
    fn until(&self, now_ns: u64) -> u64 {
        let last_ns = if self.pending > 0 { now_ns.saturating_sub(self.since_ns) } else { 0 };
        self.total_ns.saturating_add(last_ns)
    }
}

impl Waits {
    /// Learns from the next event, and calls `emit` with a wait that it ends. `doing` is asked for what the event's
    /// thread does where that matters.
    pub(crate) fn add(
        &mut self,
        row: &Row,
        doing: impl FnOnce() -> Doing,
        names: &Names,
        emit: impl FnOnce(&Wait),
    ) {
        let event = &row.event;
        let waiter = (event.thread, if event.thread == 0 { event.cpu } else { 0 });
        match event.kind {
            Kind::WaitBegan { lock, kind } => {
                let flushed_ns = self.flushed_ns(row);
                let open = self.open.entry(waiter).or_default();
                // It goes from spinning to sleeping.
                if let Some(at) = open.iter().position(|open| open.wait.lock == lock) {
                    open.truncate(at + 1);
                    return;
                }
                let wait = Wait {
                    thread: event.thread,
                    process: row.process,
                    program: row.program,
                    lock,
                    kind,
                    cause: doing().cause_of_wait(kind, names.get(row.program)),
                    began_ns: event.time_ns,
                    ended_ns: event.time_ns,
                    flush_ns: 0,
                };
                open.push(Open { wait, flushed_ns });
            }
            Kind::WaitEnded { lock, .. } => {
                let Some(open) = self.open.get_mut(&waiter) else { return };
                let Some(at) = open.iter().position(|open| open.wait.lock == lock) else { return };
                open.truncate(at + 1);
                let Some(Open { mut wait, flushed_ns }) = open.pop() else { return };
                if open.is_empty() {
                    self.open.remove(&waiter);
                }
                wait.ended_ns = event.time_ns;
                let flushing = self.flushing.get(&wait.process).copied().unwrap_or_default();
                wait.flush_ns =
                    flushed_ns.map_or(0, |before| flushing.until(event.time_ns).saturating_sub(before));
                emit(&wait);
            }
            Kind::Stack { functions } => {
                let open = self.open.get_mut(&waiter).and_then(|open| open.last_mut());
                if let Some(open) = open {
                    open.wait.cause = Cause::of_stack_of_wait(names.get(functions));
                }
            }
            // The memory of the kernel's own threads is no process's.
            Kind::Sent { work: Work::Flush, call, .. } if row.process != 0 => {
                self.handled(call, event.time_ns);
                self.sent.insert(call, (event.thread, row.process));
                let flushing = self.flushing.entry(row.process).or_default();
                if flushing.pending == 0 {
                    flushing.since_ns = event.time_ns;
                }
                flushing.pending += 1;
            }
            Kind::HandlerEnded { call, .. } => self.handled(call, event.time_ns),
            // What was under way may have ended, on any CPU.
            Kind::Lost { .. } => {
                self.open.clear();
                self.sent.clear();
                for flushing in self.flushing.values_mut() {
                    flushing.pending = 0;
                }
            }
            // The thread is out of the kernel, or was: it does not wait.
            Kind::CallBegan { .. } | Kind::CallEnded { .. } | Kind::Fault { .. } if !self.open.is_empty() => {
                self.open.remove(&waiter);
            }
            Kind::ThreadBegan { thread, .. } if !self.open.is_empty() => {
                self.open.remove(&(thread, 0));
            }
            _ => {}
        }
    }

    /// The time so far for which interrupts of a row's process were under way; none if its thread sent one that is.
    fn flushed_ns(&self, row: &Row) -> Option<u64> {
        let flushing = self.flushing.get(&row.process).copied().unwrap_or_default();
        let is_own =
            flushing.pending > 0 && self.sent.values().any(|(thread, _)| *thread == row.event.thread);
        (!is_own).then(|| flushing.until(row.event.time_ns))
    }

    /// An interrupt is under way no more, if it was.
    fn handled(&mut self, call: u64, now_ns: u64) {
        let Some((_, process)) = self.sent.remove(&call) else { return };
        let Some(flushing) = self.flushing.get_mut(&process) else { return };
        if flushing.pending == 1 {
            flushing.total_ns = flushing.until(now_ns);
        }
        flushing.pending = flushing.pending.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::events::{Event, SystemCall};

    /// Threads 10 to 19 are of process 1, 20 to 29 of process 2, and so on.
    struct World {
        waits: Waits,
        names: Names,
        doing: Doing,
        done: Vec<Wait>,
    }

    impl World {
        fn new() -> Self {
            let (waits, names, doing) = (Waits::default(), Names::default(), Doing::default());
            Self { waits, names, doing, done: Vec::new() }
        }

        fn at(&mut self, time_ns: u64, thread: u32, kind: Kind) {
            let program = self.names.add("program");
            let row = Row {
                event: Event { time_ns, cpu: thread % 10, thread, kind },
                process: thread / 10,
                program,
            };
            self.waits.add(&row, || self.doing, &self.names, |wait| self.done.push(*wait));
        }

        fn sent(&mut self, time_ns: u64, thread: u32, call: u64) {
            let site = self.names.add("site");
            self.at(time_ns, thread, Kind::Sent { target: 9, work: Work::Flush, call, site });
        }

        fn handled(&mut self, time_ns: u64, call: u64) {
            self.at(time_ns, 59, Kind::HandlerEnded { work: Work::Flush, call });
        }

        /// The length of each wait, and the part of it that passed during flushes.
        fn times(&self) -> Vec<(u64, u64)> {
            self.done.iter().map(|wait| (wait.ns(), wait.flush_ns)).collect()
        }
    }

    const fn began(lock: u64) -> Kind {
        Kind::WaitBegan { lock, kind: LockKind::SleepWrite }
    }

    const fn ended(lock: u64) -> Kind {
        Kind::WaitEnded { lock, result: 0 }
    }

    #[test]
    fn a_wait_has_its_lock_its_length_and_its_cause() {
        let mut world = World::new();
        world.doing.learn(&Kind::CallBegan { call: SystemCall::Munmap, address: 0, bytes: 0, flags: 0 });
        world.at(100, 11, began(7));
        world.at(130, 11, ended(7));
        let program = world.names.add("program");
        let expected = Wait {
            thread: 11,
            process: 1,
            program,
            lock: 7,
            kind: LockKind::SleepWrite,
            cause: Cause::Munmap,
            began_ns: 100,
            ended_ns: 130,
            flush_ns: 0,
        };
        assert_eq!(world.done, [expected]);
    }

    #[test]
    fn a_mutex_that_spins_and_then_sleeps_is_one_wait_and_a_lock_inside_is_another() {
        let mut world = World::new();
        world.at(100, 11, began(7));
        world.at(110, 11, began(8));
        world.at(112, 11, ended(8));
        world.at(120, 11, began(7));
        world.at(150, 11, ended(7));
        world.at(160, 11, ended(7));
        assert_eq!(world.times(), [(2, 0), (50, 0)]);
    }

    #[test]
    fn the_time_of_flushes_counts_once_and_only_within_the_wait() {
        let mut world = World::new();
        world.sent(90, 12, 1);
        world.at(100, 11, began(7));
        world.sent(105, 12, 2);
        world.handled(110, 1);
        world.handled(120, 2);
        // Between two flushes.
        world.sent(130, 13, 3);
        world.at(140, 11, ended(7));
        world.handled(150, 3);
        assert_eq!(world.times(), [(40, 30)]);
    }

    #[test]
    fn flushes_of_other_processes_of_the_kernel_and_of_the_thread_itself_do_not_count() {
        let mut world = World::new();
        world.sent(90, 21, 1);
        world.sent(90, 3, 2);
        world.at(100, 11, began(7));
        world.at(100, 4, began(7));
        world.at(140, 11, ended(7));
        world.at(140, 4, ended(7));
        world.sent(150, 11, 3);
        world.at(160, 11, began(7));
        world.at(170, 11, ended(7));
        assert_eq!(world.times(), [(40, 0), (40, 0), (10, 0)]);
    }

    #[test]
    fn a_wait_during_which_events_were_lost_counts_as_none() {
        let mut world = World::new();
        world.sent(90, 12, 1);
        world.at(100, 11, began(7));
        world.at(110, 55, Kind::Lost { events: 3 });
        world.at(120, 11, ended(7));
        world.at(130, 11, began(7));
        world.handled(135, 1);
        world.at(140, 11, ended(7));
        assert_eq!(world.times(), [(10, 0)]);
    }

    #[test]
    fn a_thread_that_is_out_of_the_kernel_does_not_wait() {
        let mut world = World::new();
        world.at(100, 11, began(7));
        world.at(110, 11, Kind::Fault { address: 0, code: 6 });
        world.at(500, 11, began(7));
        world.at(510, 11, ended(7));
        assert_eq!(world.times(), [(10, 0)]);
    }

    #[test]
    fn idle_cpus_wait_each_for_itself() {
        let mut world = World::new();
        let program = world.names.add("swapper");
        for (time_ns, cpu, kind) in
            [(100, 1, began(7)), (110, 2, began(7)), (120, 1, ended(7)), (150, 2, ended(7))]
        {
            let row = Row { event: Event { time_ns, cpu, thread: 0, kind }, process: 0, program };
            world.waits.add(&row, || world.doing, &world.names, |wait| world.done.push(*wait));
        }
        assert_eq!(world.times(), [(20, 0), (40, 0)]);
    }

    #[test]
    fn a_stack_tells_the_cause_of_the_wait_before_it() {
        for (functions, cause) in [
            ("rwsem_down_write_slowpath;down_write;__vm_munmap;__x64_sys_munmap", Cause::Munmap),
            (
                "rwsem_down_read_slowpath;down_read;lock_mm_and_find_vma;do_user_addr_fault;exc_page_fault",
                Cause::Fault,
            ),
            ("futex_wake;do_futex;__x64_sys_futex", Cause::Other),
        ] {
            let mut world = World::new();
            let name = world.names.add(functions);
            world.doing.learn(&Kind::Fault { address: 0, code: 6 });
            world.at(100, 11, Kind::WaitBegan { lock: 7, kind: LockKind::Spin });
            world.at(100, 11, Kind::Stack { functions: name });
            world.at(110, 11, ended(7));
            assert_eq!(world.done[0].cause, cause, "{functions}");
        }
    }

    proptest! {
        #[test]
        fn the_time_during_flushes_is_that_of_a_count_by_nanoseconds(
            flushes in prop::collection::vec((0_u64..60, 1_u64..30, 12_u32..15), 0..8),
            (begin, length) in (0_u64..60, 1_u64..60),
        ) {
            let mut world = World::new();
            let site = world.names.add("site");
            let mut events = vec![(begin, 11, began(7)), (begin + length, 11, ended(7))];
            for (call, (sent, for_ns, thread)) in (0..).zip(&flushes) {
                events.push((*sent, *thread, Kind::Sent { target: 9, work: Work::Flush, call, site }));
                events.push((sent + for_ns, 59, Kind::HandlerEnded { work: Work::Flush, call }));
            }
            events.sort_by_key(|(time_ns, ..)| *time_ns);
            for (time_ns, thread, kind) in events {
                world.at(time_ns, thread, kind);
            }
            let is_under_way = |now: &u64| flushes.iter().any(|(sent, for_ns, _)| (*sent..sent + for_ns).contains(now));
            let expected = (begin..begin + length).filter(is_under_way).count() as u64;
            prop_assert_eq!(world.times(), [(length, expected)]);
        }
    }
}
