//! The order in which CPUs go on, and the delivery of interrupts.

use crate::config::Picoseconds;
use crate::measure::spent::Doing;
use crate::measure::trace::Recorder;
use crate::world::state::World;
use crate::world::timeline::NEVER;

/// The time between two looks of a CPU that waits with interrupts off: 100 ns.
const MOMENT: Picoseconds = 100_000;

impl World {
    /// A point where CPUs can notice each other. A CPU that is further behind goes first, and interrupts that have
    /// arrived are taken.
    #[inline]
    pub(crate) fn sync(&self) {
        if !self.running.in_task() {
            return;
        }
        if let Some(speculation) = &self.speculation {
            self.speculate(speculation);
        }
        let now = self.cpu().clock.get();
        if now > self.horizon.get().saturating_add(self.slack) {
            self.let_others_go_on();
        } else {
            if self.timer.next() <= now {
                self.take_ticks_until(now.min(self.horizon.get()), Some(self.here()));
            }
            self.take_interrupts();
        }
    }

    /// The CPU goes on once no other CPU is further behind. Its interrupts are taken in their turn among all events.
    #[inline(never)]
    fn let_others_go_on(&self) {
        let cpu = self.cpu();
        cpu.wake.set(cpu.clock.get());
        self.running.pause();
    }

    /// Waits until a time is set at which this CPU goes on.
    pub(crate) fn wait(&self) {
        self.cpu().wake.set(NEVER);
        self.running.pause();
    }

    /// The CPU waits for a moment with interrupts off, in which no interrupt wakes it.
    pub(crate) fn spin(&self) {
        self.during(Doing::Answers, || self.stall(MOMENT));
        self.cpu().wake.set(self.cpu().clock.get());
        self.running.pause();
    }

    /// Sets the time at which a waiting CPU goes on.
    pub(crate) fn wake_at(&self, index: usize, time: Picoseconds) {
        let cpu = &self.cpus[index];
        cpu.wake.set(time.max(cpu.clock.get()));
        self.requeue(index);
    }

    /// Updates the time of a CPU's next event.
    pub(crate) fn requeue(&self, index: usize) {
        let cpu = &self.cpus[index];
        let next = cpu.wake.get().min(cpu.next_interrupt());
        self.timeline.set(index, next);
        self.horizon.set(self.horizon.get().min(next));
    }

    /// The time of the earliest event; [`NEVER`] if no event can come any more.
    pub(crate) fn earliest(&self) -> Picoseconds {
        self.timeline.earliest()
    }

    /// Gives CPUs their turns, always the one with the earliest event, until no event comes before `time`, no program
    /// runs any more, or `most` turns are over. Returns the number of turns.
    pub(crate) fn take_turns(&self, time: Picoseconds, most: u64) -> u64 {
        let mut turns = 0;
        while self.earliest() < time {
            self.take_turn();
            turns += 1;
            if turns == most || self.alive.get() == 0 {
                break;
            }
        }
        turns
    }

    /// Gives the CPU with the earliest event its turn.
    #[inline]
    fn take_turn(&self) {
        let earliest = self.earliest();
        if self.timer.next() <= earliest {
            self.take_ticks_until(earliest, None);
        }
        let Some(index) = self.timeline.take_first() else { return };
        self.horizon.set(self.timeline.earliest());
        self.cpus.turn_to(index);
        let cpu = self.cpu();
        if cpu.next_interrupt() <= cpu.wake.get() {
            self.take_interrupt();
            if cpu.wake.get() != NEVER {
                cpu.wake.set(cpu.wake.get().max(cpu.clock.get()));
            }
        } else {
            let wake = cpu.wake.replace(NEVER);
            if cpu.task.get().is_some() {
                self.spend_until(wake);
            } else {
                cpu.clock.set(cpu.clock.get().max(wake));
            }
            self.run_task();
        }
        self.requeue(index);
    }

    /// Takes the interrupts that have arrived and the timer's tick, if interrupts are on.
    #[inline]
    pub(crate) fn take_interrupts(&self) {
        let cpu = self.cpu();
        while cpu.off.get() == 0 && cpu.interrupt.get() <= cpu.clock.get() {
            self.take_interrupt();
        }
        if cpu.off.get() == 0 && cpu.next_tick.get() <= cpu.clock.get() {
            self.take_tick();
        }
    }

    /// Handles one interrupt at the moment it arrived, or at which interrupts were turned on again. Work that the CPU
    /// has done since then is delayed by the time that the handler takes.
    fn take_interrupt(&self) {
        let cpu = self.cpu();
        let arrival = cpu.interrupt.replace(NEVER).max(cpu.on_since.get());
        let asleep = cpu.asleep_since.get() != NEVER;
        let start = arrival + self.wake_up(arrival);
        let ahead = cpu.clock.get();
        if start > ahead && cpu.task.get().is_some() {
            self.stall(start - ahead);
        }
        cpu.clock.set(start);
        cpu.off.set(1);
        let was_in_task = self.running.leave_task();
        self.report(Recorder::interrupted);
        self.during(Doing::Flushes, || {
            self.spend(self.machine.costs.interrupt_handle);
            self.memory().engine().handle_interrupt();
        });
        self.report(Recorder::returns);
        self.running.enter_task(was_in_task);
        cpu.off.set(0);
        let end = cpu.clock.get();
        cpu.on_since.set(end);
        if asleep {
            cpu.asleep_since.set(end);
        }
        if ahead > start {
            cpu.clock.set(ahead + (end - start));
        }
    }
}
