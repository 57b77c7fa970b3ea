//! The machine as the engine sees it.

use std::fmt;
use std::rc::Rc;

use ceasefire::{
    AddressSpace, Asid, Capabilities, Cpu, CpuId, CpuSet, Extent, Flush, Generation, Look, Platform, Root,
    SpaceId,
};

use super::entry::PAGE_SHIFT;
use super::frame::Allocation;
use super::tlb::{Invalidation, Tag};
use super::Hardware;
use crate::model::promise::Promise;
use crate::model::schedule::below;

/// A kernel on the machine, as far as the platform depends on it.
pub(crate) trait System: Sized {
    /// Its reference to a space.
    type Space: Clone + AsRef<AddressSpace> + fmt::Debug;

    /// The address from which its tables count the pages of its own ranges.
    const KERNEL_BASE: u64;

    /// The frame of a root, and its allocation.
    fn root(hardware: &Hardware, root: Root) -> (u32, Allocation);
}

/// The platform of a kernel: the small one, or the memory manager.
pub(crate) struct Adverse<S: System> {
    pub(crate) hardware: Rc<Hardware>,
    pub(crate) system: S,
    cpus: Vec<Cpu<S::Space>>,
}

impl<S: System> Adverse<S> {
    pub(crate) fn new(hardware: Rc<Hardware>, system: S) -> Self {
        let cpus = (0..hardware.model.cpus).map(|_| Cpu::new()).collect();
        Self { hardware, system, cpus }
    }

    /// The flush as this hardware does it.
    fn kept(&self, mut flush: Flush) -> Flush {
        if !self.hardware.keeps(Promise::WaysGo) {
            flush.tables = false;
        }
        flush
    }

    /// An invalidation of everything under a tag that has already been filled.
    fn invalidation(&self, tag: Option<Tag>, flush: Flush) -> Invalidation {
        let tag = tag.map(|tag| self.hardware.tag(tag));
        Invalidation { tag, flush: self.kept(flush), before: self.hardware.tick(), drains: true }
    }

    fn here(&self, tag: Option<Tag>, flush: Flush) {
        self.hardware.step();
        self.hardware.note(|| format!("invalidate {}", covered(flush)));
        self.hardware.forget(self.hardware.me(), self.invalidation(tag, flush), None);
        self.hardware.pause();
    }

    fn start(&self, tag: Option<Tag>, flush: Flush) {
        self.hardware.step();
        self.hardware.note(|| format!("broadcast {}", covered(flush)));
        let started = (self.invalidation(tag, flush), self.hardware.publish());
        self.hardware.core().started.borrow_mut().push(started);
    }

    /// A flush of kernel ranges in pages of the kernel's tables.
    fn of_kernel(flush: Flush) -> Flush {
        match flush.extent {
            Extent::All => flush,
            Extent::Pages { start, count, size } => {
                Flush { extent: Extent::Pages { start: start - S::KERNEL_BASE, count, size }, ..flush }
            }
        }
    }
}

/// The pages of a flush, for people.
fn covered(flush: Flush) -> String {
    let tables = if flush.tables { " and tables" } else { "" };
    match flush.extent {
        Extent::All => format!("all{tables}"),
        Extent::Pages { start, count, .. } => format!("{count} from page {}{tables}", start >> PAGE_SHIFT),
    }
}

impl<S: System> fmt::Debug for Adverse<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adverse").finish_non_exhaustive()
    }
}

// SAFETY: each CPU is one coroutine, and all of them run on one thread of the host. The number of the coroutine is that
// of its CPU, and never changes. A CPU's handler runs on its own coroutine, while its interrupts are on. `cpu` indexes
// an array. A promise that is broken on purpose breaks rules of the simulated machine and no memory of the host: what
// the engine keeps without a lock, it reaches on the CPU's own coroutine between two steps.
unsafe impl<S: System> Platform for Adverse<S> {
    type Space = S::Space;
    type Saved = ();

    fn capabilities(&self) -> Capabilities {
        self.hardware.model.capabilities
    }

    fn this_cpu(&self) -> CpuId {
        self.hardware.this_cpu()
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<S::Space> {
        &self.cpus[cpu.index()]
    }

    fn save_interrupts(&self) {
        let core = self.hardware.core();
        core.off.set(core.off.get() + 1);
    }

    fn restore_interrupts(&self, (): ()) {
        let core = self.hardware.core();
        core.off.set(core.off.get() - 1);
    }

    fn interrupts_on(&self) -> bool {
        self.hardware.core().off.get() == 0
    }

    fn pin(&self) {
        let core = self.hardware.core();
        core.pins.set(core.pins.get() + 1);
    }

    fn unpin(&self) {
        let core = self.hardware.core();
        core.pins.set(core.pins.get() - 1);
    }

    fn load_root(&self, root: Root, asid: Asid, flush: bool) {
        let hardware = &*self.hardware;
        hardware.step();
        let (frame, allocation) = S::root(hardware, root);
        hardware.note(|| {
            let how = if flush { ", flushing" } else { "" };
            format!("root {frame} under tag {}{how}", asid.get())
        });
        if hardware.keeps(Promise::RootBarrier) {
            hardware.fence();
        }
        let core = hardware.core();
        let tag = hardware.tag(asid.into());
        let flush = flush && hardware.keeps(Promise::RootFlushes);
        core.tlb.borrow_mut().walking.clear();
        // The flush comes in the same step, or before it, once the old root is gone.
        if flush && below(2) == 0 {
            core.root.set(None);
            hardware.forget(hardware.me(), self.invalidation(Some(tag), Flush::ALL), None);
            hardware.pause();
        }
        core.root.set(Some((frame, allocation, tag)));
        hardware.judge_tag(hardware.me(), core.root.get());
        if flush {
            hardware.forget(hardware.me(), self.invalidation(Some(tag), Flush::ALL), None);
        }
        hardware.pause();
    }

    fn load_kernel_root(&self) {
        let hardware = &*self.hardware;
        hardware.step();
        hardware.note(|| "root of the kernel".to_owned());
        hardware.fence();
        if hardware.keeps(Promise::RootLeaves) {
            hardware.core().root.set(None);
            hardware.core().tlb.borrow_mut().walking.retain(|(walk, _)| walk.tag == Tag::Global);
        }
        hardware.pause();
    }

    /// A hypervisor flushes for CPUs that are not running. Between two steps no CPU is; one whose access is translated
    /// and has not landed may not be passed over.
    fn flush_for(&self, targets: &mut CpuSet, _: SpaceId, flush: Flush) {
        let hardware = &*self.hardware;
        if !hardware.model.elsewhere {
            return;
        }
        let stored = hardware.view();
        targets.retain(|target| {
            let core = &hardware.cores[target.index()];
            let running = core.in_flight.get().is_some() && hardware.keeps(Promise::ElsewhereDone);
            if running || below(2) == 0 {
                return true;
            }
            hardware.note(|| format!("flush for CPU {target:?}"));
            let what = self.invalidation(None, Flush { tables: flush.tables, ..Flush::ALL });
            hardware.forget(target.index(), what, Some(&stored));
            hardware.know_idle(target.index());
            false
        });
        hardware.step();
    }

    fn invalidate(&self, asid: Asid, flush: Flush) {
        if self.hardware.keeps(Promise::EveryTag) {
            self.here(Some(asid.into()), flush);
        }
    }

    fn invalidate_all(&self) {
        self.here(None, Flush::ALL);
    }

    fn interrupt(&self, targets: &CpuSet) {
        for target in targets.iter() {
            self.hardware.step();
            self.hardware.send(target.index());
        }
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        while !done() {
            self.hardware.take_interrupt();
            self.hardware.yield_here();
        }
    }

    fn spin(&self) {
        self.hardware.yield_here();
    }

    fn broadcast(&self, asid: Asid, flush: Flush) {
        if self.hardware.keeps(Promise::EveryTag) {
            self.start(Some(asid.into()), flush);
        }
    }

    fn broadcast_everything(&self) {
        self.start(None, Flush::ALL);
    }

    fn broadcast_wait(&self) {
        let hardware = &*self.hardware;
        hardware.step();
        let mine = std::mem::take(&mut *hardware.core().started.borrow_mut());
        if hardware.keeps(Promise::WaitIsForOwn) {
            for thread in (0..hardware.cores.len()).filter(|&thread| !hardware.cores[thread].gone.get()) {
                for (what, view) in &mine {
                    hardware.forget(thread, *what, Some(view));
                }
                hardware.pause();
            }
        }
        let now = hardware.tick();
        while hardware.keeps(Promise::AccessesLand) && !hardware.has_landed(now) {
            hardware.yield_here();
        }
        for (what, _) in &mine {
            hardware.know_done(what);
        }
        hardware.note(|| "waited".to_owned());
        hardware.step();
    }

    fn invalidate_kernel(&self, flush: Flush) {
        if self.hardware.keeps(Promise::GlobalToo) {
            self.here(Some(Tag::Global), Self::of_kernel(flush));
        }
    }

    fn broadcast_kernel(&self, flush: Flush) -> bool {
        let carried = self.hardware.model.capabilities.broadcast.is_some();
        if carried {
            self.start(Some(Tag::Global), Self::of_kernel(flush));
        }
        carried
    }

    fn invalidate_devices(&self, space: &AddressSpace, flush: Flush) {
        self.hardware.step();
        if self.hardware.keeps(Promise::DevicesDone) {
            let (root, _) = S::root(&self.hardware, space.root());
            let what = self.invalidation(None, Flush { tables: true, ..flush });
            self.hardware.forget_in_devices(Some(root), what);
        }
        self.hardware.step();
    }

    fn invalidate_kernel_devices(&self, flush: Flush) {
        self.hardware.step();
        if self.hardware.keeps(Promise::DevicesDone) {
            let what = self.invalidation(Some(Tag::Global), Self::of_kernel(Flush { tables: true, ..flush }));
            self.hardware.forget_in_devices(None, what);
        }
    }

    fn runs_undisturbed(&self, cpu: CpuId) -> bool {
        self.hardware.cores[cpu.index()].isolated.get()
    }

    fn looks_at(&self, _: &AddressSpace, _: Generation) -> bool {
        below(2) == 0
    }

    /// At random, so spaces come to global ASIDs and leave them all the time.
    fn deserves_asid(&self, _: &AddressSpace, look: Look) -> bool {
        look.running > 0 && below(4) != 0
    }

    fn now(&self) -> u64 {
        self.hardware.now()
    }
}
