//! How a flush of kernel ranges reaches every online CPU.

use crate::cpu::{Asked, Cpu};
use crate::cpu_set::{CpuId, CpuSet};
use crate::flush::{work, Flush, Work};
use crate::platform::{Platform, Reason};
use crate::sabotage::Guard;
use crate::space::{Generation, SpaceId};
use crate::Engine;

impl<P: Platform> Engine<P> {
    /// Flushes a part of the kernel's ranges on every online CPU and every device that shares the kernel's tables,
    /// before it returns.
    ///
    /// Change the page tables first: the flush covers all changes that were made before the call. It reaches lazy and
    /// idle CPUs too. A CPU that runs a program [undisturbed](Platform::runs_undisturbed) flushes at its next [entry
    /// into the kernel](Engine::enter_kernel) instead. It is interrupted only if `flush.tables` is set, since its
    /// walker may read freed page-table pages while the program runs. More pages than the engine's ceiling are flushed
    /// as everything.
    ///
    /// If `flush.tables` is set, it also waits for the kernel's own [walkers](crate::Walkers).
    ///
    /// Every CPU must call [`Engine::online`] before it uses a range that may be flushed. Interrupts should be on. With
    /// interrupts off, this CPU answers other CPUs' requests while it waits, and nothing else.
    pub fn flush_kernel(&self, flush: Flush) {
        // R1, R2
        if !self.guarded(Guard::KernelFlush) {
            return;
        }
        let limited = flush.limited(self.ceiling);
        let platform = self.platform();
        let interrupted = platform.pinned(|| {
            // Before the look at the CPUs: one that comes online or enters the kernel reads it afterwards.
            let generation = self.kernel.generation.raise();
            if platform.broadcast_kernel(limited) {
                self.finish_flush(SpaceId::KERNEL, limited);
                return false;
            }
            self.ask_everyone(generation, limited);
            true
        });
        if flush.tables {
            self.await_walkers(None, interrupted);
        }
        // R1, R2
        if self.guarded(Guard::KernelDevices) {
            platform.invalidate_kernel_devices(flush);
        }
    }

    /// Interrupts every online CPU to which the flush is not deferred, does this CPU's part, and waits. The caller is
    /// pinned.
    fn ask_everyone(&self, generation: Generation, flush: Flush) {
        let platform = self.platform();
        let me = platform.this_cpu();
        let mut targets = CpuSet::new();
        targets.unite(&self.kernel.online);
        // This CPU flushes whether it has come online or not.
        targets.remove(me);
        if !flush.tables {
            targets.retain(|cpu| !platform.cpu(cpu).seen.mode.defer());
        }
        let asked = Asked { space: SpaceId::KERNEL, generation, flush };
        let ticket = self.ask_themselves(&mut targets, asked);
        self.on_this_cpu(|here| self.answer_kernel(here.cpu, asked, Reason::LocalShootdown));
        self.await_answers(ticket);
    }

    /// Does this CPU's part of a request for the kernel's ranges, in any space. True if anything had to be invalidated.
    /// Interrupts are off.
    #[cold]
    pub(crate) fn answer_kernel(&self, cpu: &Cpu<P::Space>, asked: Asked, reason: Reason) -> bool {
        let local = cpu.seen.mode.reached();
        if asked.generation <= local {
            return false;
        }
        let newest = self.kernel.generation.load();
        let flush = match work(asked.flush.extent, local, asked.generation, newest) {
            Work::Nothing => return false,
            Work::Pages => asked.flush,
            Work::Everything => Flush::ALL,
        };
        self.bring_up_to(newest, cpu, flush, reason);
        true
    }

    /// Catches up with all flushes of kernel ranges that this CPU has missed. True if there were any. Interrupts are
    /// off.
    pub(crate) fn catch_up_kernel(&self, cpu: &Cpu<P::Space>) -> bool {
        let newest = self.kernel.generation.load();
        if cpu.seen.mode.reached() >= newest {
            return false;
        }
        self.bring_up_to(newest, cpu, Flush::ALL, Reason::TaskSwitch);
        true
    }

    /// Does `flush` on this CPU, which has then done every flush of kernel ranges up to `newest`.
    fn bring_up_to(&self, newest: Generation, cpu: &Cpu<P::Space>, flush: Flush, reason: Reason) {
        self.invalidate_kernel(cpu, flush, reason);
        cpu.seen.mode.reach(newest);
    }

    /// Invalidates entries of kernel ranges on this CPU. Interrupts are off.
    pub(super) fn invalidate_kernel(&self, cpu: &Cpu<P::Space>, flush: Flush, reason: Reason) {
        self.platform().invalidate_kernel(flush);
        cpu.tally.invalidated(flush.pages());
        self.trace(reason, flush.pages(), SpaceId::KERNEL);
    }

    /// Checks in debug builds that a CPU that is online is so in this engine.
    pub(crate) fn assert_alone(&self, id: CpuId, cpu: &Cpu<P::Space>) {
        // A checker would take the look for an access of the protocol.
        #[cfg(not(ceasefire_checked))]
        debug_assert!(
            cpu.inbox.is_closed() || self.kernel.online.contains(id),
            "{id:?} came online in another engine"
        );
        #[cfg(ceasefire_checked)]
        let _ = (self, id, cpu);
    }

    /// Whether `cpu` is online, so that flushes of kernel ranges reach it.
    pub fn is_online(&self, cpu: CpuId) -> bool {
        self.kernel.online.contains(cpu)
    }
}
