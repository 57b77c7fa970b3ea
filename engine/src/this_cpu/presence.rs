//! CPUs that come and go.
//!
//! A CPU that is offline answers no request, and hardware need not reach it with broadcasts. So before it goes it uses no
//! entry any more, and when it comes back it holds none. In between no flush may wait for it. One that has picked the CPU
//! before it went, and posts its request afterwards, finds the inbox closed and answers in its place
//! ([`Inbox::post`](crate::cpu::Inbox::post)).

use super::here::Here;
use super::switch::Previous;
use crate::cpu::{Cpu, Own, Slots};
use crate::cpu_set::CpuId;
use crate::platform::Platform;
use crate::Engine;

impl<P: Platform> Engine<P> {
    /// This CPU goes offline: in the context in which it dies, with interrupts off from here on.
    ///
    /// Takes whatever space is loaded off it, answers all that was asked of it, and lets go of what it owes. No flush waits for
    /// it from here on, and no debt. Flushes that tasks have [begun](Engine::begin_flush) on it end without it. It comes
    /// back with [`Engine::online`].
    pub fn offline(&self) -> Previous<P::Space> {
        let (id, previous) = self.on_this_cpu(|mut here| {
            self.load_kernel(&mut here);
            // In this order: see `Inbox::close`.
            here.cpu.inbox.close();
            self.kernel.leave(here.id);
            self.answer_all(&mut here);
            let Here { id, own, .. } = here;
            (id, Previous::one(own.parked.take()))
        });
        self.forgive(id);
        previous
    }

    /// This CPU comes online, for the first time or again: invalidates everything that it holds, and lets others ask it.
    ///
    /// Call it before the CPU runs a space. A CPU that went [offline](Engine::offline) and switches to a space without it
    /// does what it does by then. The kernel uses no range on this CPU before the return that [`Engine::flush_kernel`] may
    /// have flushed meanwhile.
    pub fn online(&self) {
        self.on_this_cpu(|here| self.arrive(here.id, here.cpu, here.own));
    }

    /// Makes what this CPU knows true again: it holds nothing. Then opens its inbox.
    #[cold]
    pub(super) fn arrive(&self, id: CpuId, cpu: &Cpu<P::Space>, own: &mut Own<P::Space>) {
        // What was left behind is older than any slot knows, and ASIDs may have changed hands.
        own.slots = Slots::new();
        self.platform().invalidate_all();
        // Before the inbox is open: a flusher that finds it closed has raised the generation that is read below.
        self.kernel.join(id);
        cpu.inbox.open();
        self.catch_up_kernel(cpu);
    }
}
