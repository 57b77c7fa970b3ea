//! Access to the state that only the CPU itself touches.

use crate::cpu::{Cpu, Own};
use crate::cpu_set::CpuId;
use crate::platform::{InterruptsOff, Platform};
use crate::Engine;

/// The calling CPU, interrupts off.
pub(crate) struct Here<'a, P: Platform> {
    pub(crate) id: CpuId,
    pub(crate) cpu: &'a Cpu<P::Space>,
    pub(crate) own: &'a mut Own<P::Space>,
}

impl<P: Platform> Engine<P> {
    /// Runs `body` with this CPU's own state, interrupts off. `body` must not come back here.
    pub(crate) fn on_this_cpu<R>(&self, body: impl FnOnce(Here<'_, P>) -> R) -> R {
        let _off = InterruptsOff::new(self.platform());
        let id = self.platform().this_cpu();
        let cpu = self.platform().cpu(id);
        // SAFETY: this is the CPU that `own` belongs to and its interrupts are off, so by `Platform`'s contract
        // nothing else that touches `own` runs on it; no `body` in this crate calls `on_this_cpu` again, so the
        // reference is the only one.
        let own = unsafe { &mut *cpu.own.get() };
        body(Here { id, cpu, own })
    }
}
