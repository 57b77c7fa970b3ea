//! Access to the state that belongs to one CPU alone, from that CPU.
//!
//! The state has no lock. It is safe to touch only on its own CPU with interrupts off, which [`Engine::on_this_cpu`]
//! ensures.

use crate::cpu::{Cpu, Own};
use crate::cpu_set::CpuId;
use crate::platform::{InterruptsOff, Platform};
use crate::Engine;

/// The calling CPU, with interrupts off.
pub(crate) struct Here<'a, P: Platform> {
    pub(crate) id: CpuId,
    pub(crate) cpu: &'a Cpu<P::Space>,
    pub(crate) own: &'a mut Own<P::Space>,
}

impl<P: Platform> Engine<P> {
    /// Runs `body` with this CPU's own state and interrupts off. `body` must not call this function again.
    pub(crate) fn on_this_cpu<R>(&self, body: impl FnOnce(Here<'_, P>) -> R) -> R {
        let _off = InterruptsOff::new(self.platform());
        let id = self.platform().this_cpu();
        let cpu = self.platform().cpu(id);
        // SAFETY: `own` belongs to this CPU, and its interrupts are off. By `Platform`'s contract no other code that
        // touches `own` runs on it. No `body` in this crate calls `on_this_cpu` again, so the reference is the only
        // one.
        let own = unsafe { &mut *cpu.own.get() };
        body(Here { id, cpu, own })
    }
}
