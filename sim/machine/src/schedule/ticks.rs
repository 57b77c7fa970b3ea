//! The delivery of the timer's ticks.

use crate::config::Picoseconds;
use crate::measure::spent::Doing;
use crate::world::state::World;
use crate::world::timeline::NEVER;

impl World {
    /// CPUs other than `running` take their ticks up to `time`. No other event of theirs may come before that.
    pub(crate) fn take_ticks_until(&self, time: Picoseconds, running: Option<usize>) {
        let here = self.here();
        while self.timer.next() <= time {
            let (index, tick) = self.timer.advance();
            let cpu = &self.cpus[index];
            if cpu.off.get() == 0 && cpu.next_tick.get() <= tick && Some(index) != running {
                self.cpus.turn_to(index);
                self.take_tick();
                if cpu.wake.get() != NEVER {
                    cpu.wake.set(cpu.wake.get().max(cpu.clock.get()));
                }
                self.requeue(index);
            }
        }
        self.cpus.turn_to(here);
    }

    /// Takes this CPU's tick at the moment it came, or at which interrupts were turned on again. Work that the CPU
    /// has done since then is delayed by the time that the tick takes.
    pub(crate) fn take_tick(&self) {
        let cpu = self.cpu();
        let (start, ahead) = (cpu.next_tick.get().max(cpu.on_since.get()), cpu.clock.get());
        cpu.next_tick.set(self.timer.after(self.here(), start));
        cpu.ticks.set(cpu.ticks.get() + 1);
        cpu.clock.set(start);
        cpu.off.set(1);
        let was_in_task = self.running.leave_task();
        self.report(|recorder, cpu, _| recorder.handles(cpu, true));
        self.during(Doing::Kernel, || self.spend(self.machine.tick));
        self.memory().tick();
        if let Some(oracle) = &self.oracle {
            oracle.ticks(self);
        }
        self.report(|recorder, cpu, _| recorder.handles(cpu, false));
        self.running.enter_task(was_in_task);
        cpu.off.set(0);
        let end = cpu.clock.get();
        if end == start {
            cpu.clock.set(ahead);
            return;
        }
        cpu.on_since.set(end);
        if ahead > start {
            cpu.clock.set(ahead + (end - start));
        } else if cpu.task.get().is_some() {
            // The CPU waited until the tick came.
            cpu.system.set(cpu.system.get() + (start - ahead));
            self.tallies.spent.charge(cpu.doing.get(), start - ahead);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    use ceasefire::{Platform as _, Schedule};

    use super::*;
    use crate::testing::{machine, US};
    use crate::{Options, Program, Simulation};

    const MS: Picoseconds = 1000 * US;

    type Body = Box<dyn FnOnce(&Program)>;

    /// Runs one thread on each of the first CPUs of a machine of four with a tick every 4 ms, and returns the ticks
    /// of each CPU.
    fn ticks(bodies: Vec<Body>) -> [u64; 4] {
        let options = Options::new(Schedule::Batched);
        assert_eq!(options.tick, 4 * MS);
        let simulation = Simulation::new(&machine(4), options).expect("it fits");
        let space = simulation.memory().new_space().expect("a frame");
        for (cpu, body) in bodies.into_iter().enumerate() {
            simulation.spawn(format!("{cpu}"), cpu as u16, 0, &space, body).expect("a stack");
        }
        simulation.run(|_, _| true).expect("no trace");
        let count = |cpu: usize| simulation.sim.cpus[cpu].ticks.get();
        [count(0), count(1), count(2), count(3)]
    }

    fn compute(time: Picoseconds) -> Body {
        Box::new(move |program| {
            for _ in 0..time / (100 * US) {
                program.compute(100 * US);
            }
        })
    }

    #[test]
    fn a_busy_cpu_ticks_every_period_and_an_idle_one_never() {
        // A CPU that runs alone never waits for another. Beside others it does.
        assert_eq!(ticks(vec![compute(41 * MS)]), [10, 0, 0, 0]);
        // The ticks of the second CPU begin at 1 ms. The third CPU's thread ends before its first tick.
        assert_eq!(ticks(vec![compute(41 * MS), compute(42 * MS), compute(MS)]), [10, 11, 0, 0]);
    }

    #[test]
    fn one_tick_is_taken_when_interrupts_are_turned_on_again() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let notes = seen.clone();
        let counted = ticks(vec![Box::new(move |program| {
            let tally = || program.sim.cpus[0].ticks.get();
            program.sim.interrupts_off(|| {
                for _ in 0..13 {
                    program.compute(MS);
                    program.sim.sync();
                }
                notes.borrow_mut().push(tally());
            });
            program.sim.sync();
            notes.borrow_mut().push(tally());
            program.compute(4 * MS);
            notes.borrow_mut().push(tally());
        })]);
        assert_eq!((seen.borrow().clone(), counted), (vec![0, 1, 2], [2, 0, 0, 0]));
    }

    #[test]
    fn a_cpu_that_waits_for_an_answer_takes_ticks() {
        let done = Rc::new(Cell::new(false));
        let (flag, seen) = (done.clone(), Rc::new(Cell::new(0)));
        let told = seen.clone();
        let waits = Box::new(move |program: &Program| program.sim.wait(&|| done.get()));
        let answers = Box::new(move |program: &Program| {
            for _ in 0..90 {
                program.compute(100 * US);
            }
            // Noted before the answer comes.
            told.set(program.sim.cpus[0].ticks.get());
            flag.set(true);
            let now = crate::testing::now(program);
            program.sim.wake_at(0, now);
        });
        let counted = ticks(vec![waits, answers]);
        assert_eq!((seen.get(), counted[0]), (2, 2));
    }
}
