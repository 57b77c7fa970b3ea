//! The events that CPUs report to the [trace](crate::measure::trace).

use crate::config::Picoseconds;
use crate::measure::trace::Recorder;
use crate::world::state::World;
use crate::world::timeline::NEVER;

impl World {
    /// Reports an event of this CPU at its present time, if there is a trace.
    #[inline]
    pub(crate) fn report(&self, event: impl FnOnce(&mut Recorder, usize, Picoseconds)) {
        if self.trace.is_on() {
            self.record(event);
        }
    }

    // Apart, since most runs have no trace.
    #[cold]
    #[inline(never)]
    fn record(&self, event: impl FnOnce(&mut Recorder, usize, Picoseconds)) {
        let Some(mut recorder) = self.trace.recorder() else { return };
        event(&mut recorder, self.here(), self.cpu().clock.get());
        if recorder.is_full() {
            recorder.release(self.passed());
        }
    }

    /// Reports the time that this CPU takes for `work`, if there is a trace.
    #[inline]
    pub(crate) fn report_work(&self, work: impl FnOnce()) {
        let begun = self.cpu().clock.get();
        work();
        self.report(|recorder, cpu, now| recorder.worked(cpu, begun, now));
    }

    /// The time before which no CPU does anything any more. A CPU that has run ahead may still take an interrupt or a
    /// tick at the moment at which it came.
    fn passed(&self) -> Picoseconds {
        let next = |index: usize| {
            let cpu = &self.cpus[index];
            let works = index == self.here() || cpu.task.get().is_some();
            let own = if works { cpu.clock.get() } else { NEVER };
            let handlers = cpu.interrupt.get().min(cpu.next_tick.get()).max(cpu.on_since.get());
            own.min(cpu.wake.get()).min(handlers)
        };
        (0..self.cpus.len()).map(next).min().unwrap_or(NEVER)
    }
}
