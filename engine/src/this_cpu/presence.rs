//! CPUs that go offline and come back.
//!
//! An offline CPU answers no request, and broadcasts need not reach it. So it stops using entries before it goes, and
//! holds none when it comes back. In between no flush may wait for it. A flush may have picked the CPU before it went,
//! and post its request afterwards. It then finds the inbox closed and counts the answer itself (`Inbox::post`).

use super::switch::{give_up_places, Previous};
use crate::cpu::Cpu;
use crate::cpu_set::CpuId;
use crate::limits::PLACES;
use crate::platform::Platform;
use crate::sabotage::Guard;
use crate::Engine;

impl<P: Platform> Engine<P> {
    /// Takes this CPU offline. Call it in the context in which the CPU dies, with interrupts off from here on.
    ///
    /// It unloads the CPU's space, answers all requests to the CPU, and drops its debts. From here on no flush waits
    /// for the CPU, and no debt. Page tables of kernel ranges may be freed (R2), so a CPU that merely halts first
    /// invalidates all its entries: it may walk by cached ones when it wakes. Flushes that tasks have
    /// [begun](Engine::begin_flush) on it end without it. It comes back with [`Engine::online`].
    pub fn offline(&self) -> Previous<P::Space, PLACES> {
        let (id, previous) = self.on_this_cpu(|mut here| {
            self.load_kernel(&mut here);
            // Before the requests are answered: see `Inbox::close`.
            here.cpu.inbox.close();
            // Either order: a flush that still finds the CPU in the set gets its answer, from the CPU or from itself.
            self.kernel.leave(here.id);
            // Either order: a flush that still finds the CPU in the set finds its inbox closed.
            self.answer_all(&mut here);
            (here.id, give_up_places(&mut here))
        });
        self.forgive(id);
        previous
    }

    /// Brings this CPU online, for the first time or again: it invalidates all entries that the CPU holds and opens its
    /// inbox.
    ///
    /// Call it before the CPU uses a kernel range that may be flushed, and before it runs a space. The first switch to a
    /// space does the same if it was not called, on a new CPU and on one that went [offline](Engine::offline).
    ///
    /// Before it returns, the CPU must use no kernel range that [`Engine::flush_kernel`] may have flushed meanwhile.
    pub fn online(&self) {
        self.on_this_cpu(|here| self.arrive(here.id, here.cpu));
    }

    /// Makes the CPU's record true again: it holds no entry. Then opens its inbox.
    #[cold]
    pub(super) fn arrive(&self, id: CpuId, cpu: &Cpu<P::Space>) {
        self.assert_alone(id, cpu);
        // R1, R3, R4: what the slots record stays true, since they promise that no entry is older.
        if self.guarded(Guard::Online) {
            self.platform().invalidate_all();
        }
        self.kernel.join(id);
        // Either order: a flush that misses the CPU, or finds its inbox closed, has raised the generation read below.
        cpu.inbox.open();
        self.catch_up_kernel(cpu);
    }
}
