//! The engine's platform: the CPU, its TLB, interrupts and waiting.

use std::sync::atomic::{fence, Ordering};

use ceasefire::{
    AddressSpace, Asid, Capabilities, Cpu, CpuId, CpuSet, Flush, Generation, Look, Platform, Root,
};
use ceasefire_memory::shadow::Shadow;
use ceasefire_memory::{Machine, SpaceHandle, KERNEL_ENTRIES};
use ceasefire_testing::Scope;

use super::threads::{Threads, CPU, KERNEL, LOOK_EVERY, OFF, WIDE};
use super::tlb::frame_of;

// SAFETY: the CPU is the thread's own number. It changes only in two places. `Rig::on` is not called with interrupts
// off. `interrupt` of a machine with one thread restores the number before it returns. With interrupts off nothing else
// runs on the thread, because interrupts are polled for. Each CPU has its own place in `cores`, and two threads never
// have the same number at the same time.
unsafe impl Platform for Threads {
    type Space = SpaceHandle<Self>;
    type Saved = ();

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn this_cpu(&self) -> CpuId {
        CpuId::new(CPU.get()).expect("this thread is a CPU")
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<Self::Space> {
        &self.cores[cpu.index()].engine
    }

    fn save_interrupts(&self) {
        OFF.set(OFF.get() + 1);
    }

    fn restore_interrupts(&self, (): ()) {
        self.interrupts_back();
    }

    fn interrupts_on(&self) -> bool {
        OFF.get() == 0
    }

    fn pin(&self) {
        self.core().pins.fetch_add(1, Ordering::Relaxed);
    }

    fn unpin(&self) {
        self.core().pins.fetch_sub(1, Ordering::Relaxed);
    }

    fn spin(&self) {
        panic!("a CPU waits for others with interrupts off");
    }

    fn load_root(&self, root: Root, asid: Asid, flush: bool) {
        self.report(self.watched(|shadow, cpu| shadow.loads(cpu, root, asid, flush)));
        let frame = frame_of(root);
        let kernel = self.table(frame).get(KERNEL_ENTRIES.end - 1) == KERNEL;
        self.check(kernel, "a root without the kernel is loaded", frame);
        self.core().tlb.lock().unwrap().load(root, asid, flush);
        fence(Ordering::SeqCst);
    }

    fn load_kernel_root(&self) {
        self.watched(Shadow::leaves);
        self.core().tlb.lock().unwrap().load_kernel();
        fence(Ordering::SeqCst);
    }

    fn invalidate(&self, asid: Asid, flush: Flush) {
        match flush.addresses() {
            None => self.watched(|shadow, cpu| shadow.forgets_asid(cpu, asid)),
            Some(addresses) => addresses.for_each(|address| {
                self.watched(|shadow, cpu| shadow.forgets_page(cpu, asid, address));
            }),
        }
        self.core().tlb.lock().unwrap().invalidate(Scope::Asid(asid), flush, u64::MAX);
    }

    fn invalidate_all(&self) {
        self.watched(Shadow::forgets_all);
        self.core().tlb.lock().unwrap().invalidate(Scope::Programs, Flush::ALL, u64::MAX);
    }

    fn broadcast(&self, asid: Asid, flush: Flush) {
        self.watched(|shadow, cpu| shadow.broadcasts(cpu, asid, flush.extent));
        self.start(Scope::Asid(asid), flush);
    }

    fn broadcast_everything(&self) {
        self.watched(Shadow::broadcasts_everything);
        self.start(Scope::Programs, Flush::ALL);
    }

    fn broadcast_wait(&self) {
        let started = std::mem::take(&mut *self.core().started.lock().unwrap());
        for core in &self.cores {
            let mut tlb = core.tlb.lock().unwrap();
            for &(scope, flush, until) in &started {
                tlb.invalidate(scope, flush, until);
            }
        }
        self.watched(Shadow::waited);
    }

    fn invalidate_kernel(&self, flush: Flush) {
        self.core().tlb.lock().unwrap().invalidate(Scope::Kernel, flush, u64::MAX);
    }

    fn broadcast_kernel(&self, flush: Flush) -> bool {
        let broadcasts = self.capabilities.broadcast.is_some();
        if broadcasts {
            self.start(Scope::Kernel, flush);
        }
        broadcasts
    }

    fn looks_at(&self, _: &AddressSpace, generation: Generation) -> bool {
        generation.get().is_multiple_of(LOOK_EVERY)
    }

    fn deserves_asid(&self, _: &AddressSpace, look: Look) -> bool {
        look.running >= WIDE
    }

    fn interrupt(&self, targets: &CpuSet) {
        for target in targets.iter() {
            self.cores[target.index()].pending.store(true, Ordering::SeqCst);
            // One thread acts as all CPUs. Only the engine has turned interrupts off, and only the sender's.
            if self.by_hand && OFF.get() == 1 {
                let sender = CPU.replace(target.index());
                OFF.set(0);
                self.poll();
                OFF.set(1);
                CPU.set(sender);
            }
        }
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        self.idle_until(done);
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }
}
