//! The calls of the machine to the shadow record.

use ceasefire::CpuId;
use ceasefire_memory::shadow::{Misuse, Shadow};
use ceasefire_memory::SpaceHandle;

use crate::world::state::{Sim, World};

impl World {
    /// Informs the record, if there is one, of an action of this CPU.
    pub(crate) fn tell(&self, tell: impl FnOnce(&mut Shadow, CpuId)) {
        if let (Some(watch), Ok(cpu)) = (&self.watch, CpuId::new(self.here())) {
            watch.with(|shadow| tell(shadow, cpu));
        }
    }

    /// The same, for an action that may be a misuse.
    pub(crate) fn ask(&self, ask: impl FnOnce(&mut Shadow, CpuId) -> Result<(), Misuse>) {
        let mut answer = Ok(());
        self.tell(|shadow, cpu| answer = ask(shadow, cpu));
        if let (Some(watch), Err(misuse)) = (&self.watch, answer) {
            watch.misused(misuse);
        }
    }

    /// This CPU runs no program from now on.
    pub(crate) fn rest(&self) {
        self.tell(Shadow::rests);
        self.noting_record(|| self.memory().engine().enter_lazy());
    }

    /// This CPU runs a program of `space` from now on.
    pub(crate) fn run_space(&self, space: &SpaceHandle<Sim>) {
        self.switch_to(space);
        self.ask(Shadow::runs);
        if let Some(oracle) = &self.oracle {
            oracle.runs(self, self.here());
        }
    }
}
