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
use crate::model::schedule::{below, in_some_order};

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

    /// The flush of which devices are told.
    fn told(&self, flush: Flush) -> Flush {
        match flush.extent {
            Extent::Pages { start, size, .. } if !self.hardware.keeps(Promise::DevicesWhole) => {
                Flush { extent: Extent::Pages { start, count: 1, size }, ..flush }
            }
            _ => flush,
        }
    }

    /// An invalidation of what a tag has been filled with already.
    fn invalidation(&self, tag: Option<Tag>, flush: Flush) -> Invalidation {
        if let Extent::Pages { count, .. } = flush.extent {
            assert!(count > 0, "a flush of no page");
        }
        let tag = tag.map(|tag| self.hardware.tag(tag));
        Invalidation { tag, flush: self.kept(flush), before: self.hardware.tick(), drains: true }
    }

    /// Everything that a tag has been filled with already.
    fn all_under(&self, tag: Tag) -> Invalidation {
        self.invalidation(Some(tag), Flush::ALL)
    }

    /// The same invalidation, or one of more.
    fn at_least(what: Invalidation) -> Invalidation {
        let flush = match below(4) {
            0 => Flush { extent: Extent::All, ..what.flush },
            1 => return Invalidation { tag: None, flush: Flush::ALL, ..what },
            _ => what.flush,
        };
        Invalidation { flush, ..what }
    }

    fn here(&self, tag: Option<Tag>, flush: Flush) {
        self.assert_off();
        self.hardware.step();
        self.hardware.note(|| format!("invalidate {}", covered(flush)));
        self.hardware.forget(self.hardware.me(), self.invalidation(tag, flush), None);
        self.hardware.pause();
    }

    fn start(&self, tag: Option<Tag>, flush: Flush) {
        self.hardware.step();
        self.hardware.note(|| format!("broadcast {}", covered(flush)));
        self.hardware.broadcast(self.invalidation(tag, flush));
    }

    fn assert_off(&self) {
        assert!(!self.interrupts_on(), "the engine calls this with interrupts off");
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
    /// The CPU, and how deep its interrupts were off.
    type Saved = (usize, u32);

    fn capabilities(&self) -> Capabilities {
        self.hardware.model.capabilities
    }

    fn this_cpu(&self) -> CpuId {
        self.hardware.this_cpu()
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<S::Space> {
        &self.cpus[cpu.index()]
    }

    fn save_interrupts(&self) -> (usize, u32) {
        let off = &self.hardware.core().off;
        (self.hardware.me(), off.replace(off.get() + 1))
    }

    fn restore_interrupts(&self, (cpu, saved): (usize, u32)) {
        let off = self.hardware.core().off.replace(saved);
        let in_order = (cpu, saved + 1) == (self.hardware.me(), off);
        assert!(in_order || std::thread::panicking(), "restored in another order, or elsewhere");
    }

    fn interrupts_on(&self) -> bool {
        self.hardware.core().off.get() == 0
    }

    fn pin(&self) {
        let core = self.hardware.core();
        core.pins.set(core.pins.get() + 1);
    }

    fn unpin(&self) {
        let pins = &self.hardware.core().pins;
        assert!(pins.get() > 0 || std::thread::panicking(), "the task is not pinned here");
        pins.set(pins.get().saturating_sub(1));
    }

    fn load_root(&self, root: Root, asid: Asid, flush: bool) {
        self.assert_off();
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
        let (me, core, tag) = (hardware.me(), hardware.core(), hardware.tag(asid.into()));
        // The flush comes in the same step, or before it, once the old root is gone. It may not come later: walkers store
        // here.
        let before = below(2) == 0;
        let flush = flush && hardware.keeps(Promise::RootFlushes);
        core.tlb.borrow_mut().end_walks();
        let old = self.all_under(tag);
        if let Some((root, of, under)) = core.root.get().filter(|_| !hardware.keeps(Promise::RootWithTag)) {
            let between = if below(2) == 0 { (frame, allocation, under) } else { (root, of, tag) };
            core.root.set(Some(between));
            hardware.pause();
        }
        if flush && before {
            core.root.set(None);
            hardware.forget(me, old, None);
            hardware.pause();
        }
        core.root.set(Some((frame, allocation, tag)));
        hardware.judge_tag(me, core.root.get());
        if flush && !before {
            hardware.forget(me, old, None);
        }
        hardware.pause();
    }

    fn load_kernel_root(&self) {
        self.assert_off();
        let hardware = &*self.hardware;
        hardware.step();
        hardware.note(|| "root of the kernel".to_owned());
        hardware.fence();
        if hardware.keeps(Promise::RootLeaves) {
            hardware.core().root.set(None);
            hardware.core().tlb.borrow_mut().end_walks();
        }
        hardware.pause();
    }

    /// A hypervisor flushes for CPUs that do not run, or hardware on CPUs that do. A CPU with an access under way by an
    /// entry that is flushed may not be passed over.
    fn flush_for(&self, targets: &mut CpuSet, _: SpaceId, flush: Flush) {
        let hardware = &*self.hardware;
        if !hardware.model.elsewhere {
            return;
        }
        let stored = hardware.view();
        targets.retain(|target| {
            if below(2) == 0 {
                return true;
            }
            let tag = self.cpu(target).loaded_asid().into();
            let what = Self::at_least(self.invalidation(Some(tag), flush));
            // The CPU may have left the space since it was offered, and the tag under which it accessed the page.
            let under_any_tag = Self::at_least(self.invalidation(None, flush));
            let target = target.index();
            if hardware.is_under_way(target, |entry| under_any_tag.removes(entry))
                && hardware.keeps(Promise::ElsewhereDone)
            {
                return true;
            }
            hardware.note(|| format!("flush {} for CPU {target}", covered(what.flush)));
            hardware.forget(target, what, Some(&stored));
            hardware.know(|thread, entry| thread == target && under_any_tag.removes(entry));
            false
        });
        hardware.step();
    }

    fn invalidate(&self, asid: Asid, flush: Flush) {
        if self.capabilities().broadcast.is_none() {
            let loaded = self.hardware.core().root.get().map(|(_, _, tag)| tag);
            assert_eq!(loaded, Some(self.hardware.tag(asid.into())), "it goes under the loaded ASID");
        }
        if self.hardware.keeps(Promise::EveryTag) {
            self.here(Some(asid.into()), flush);
        }
    }

    fn invalidate_all(&self) {
        self.here(None, Flush::ALL);
    }

    /// They arrive in any order, whatever the order in which they were sent.
    fn interrupt(&self, targets: &CpuSet) {
        self.assert_off();
        for target in in_some_order(targets.iter()) {
            self.hardware.step();
            self.hardware.send(target.index());
        }
    }

    /// A CPU that sleeps looks again when the last answer has come, or at a tick.
    fn wait(&self, done: &dyn Fn() -> bool) {
        assert!(self.interrupts_on(), "the engine waits here with interrupts on");
        let (sleeps, woken) = (below(2) == 0, &self.hardware.core().woken);
        woken.set(false);
        while !done() {
            loop {
                self.hardware.wait_a_moment();
                if !sleeps || woken.take() || below(8) == 0 {
                    break;
                }
            }
        }
    }

    fn answered(&self, initiator: CpuId, last: bool) {
        if last {
            self.hardware.cores[initiator.index()].woken.set(true);
        }
    }

    fn spin(&self) {
        self.assert_off();
        self.hardware.yield_here();
    }

    fn broadcast(&self, asid: Asid, flush: Flush) {
        if let (Extent::Pages { count, .. }, Some(broadcast)) = (flush.extent, self.capabilities().broadcast)
        {
            assert!(count <= broadcast.pages(), "{count} pages in one broadcast");
        }
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
        hardware.wait_for_broadcasts();
        hardware.note(|| "waited".to_owned());
        hardware.step();
    }

    fn await_walkers(&self) {
        self.hardware.step();
        self.hardware.await_walks_by_code();
        self.hardware.step();
    }

    fn invalidate_kernel(&self, flush: Flush) {
        if self.hardware.keeps(Promise::GlobalToo) {
            self.here(Some(Tag::Global), Self::of_kernel(flush));
        }
    }

    fn broadcast_kernel(&self, flush: Flush) -> bool {
        // The hardware may carry one flush and not the next.
        let carried = self.capabilities().broadcast.is_some() && below(4) != 0;
        if carried {
            self.start(Some(Tag::Global), Self::of_kernel(flush));
        }
        carried
    }

    fn invalidate_devices(&self, space: &AddressSpace, flush: Flush) {
        self.hardware.step();
        if self.hardware.keeps(Promise::DevicesDone) {
            let (root, _) = S::root(&self.hardware, space.root());
            let what = self.invalidation(None, self.told(flush));
            self.hardware.forget_in_devices(Some(root), what);
        }
        self.hardware.step();
    }

    fn invalidate_kernel_devices(&self, flush: Flush) {
        self.hardware.step();
        if self.hardware.keeps(Promise::DevicesDone) {
            let what = self.invalidation(Some(Tag::Global), Self::of_kernel(flush));
            self.hardware.forget_in_devices(None, what);
        }
    }

    fn runs_undisturbed(&self, cpu: CpuId) -> bool {
        // The kernel may decide otherwise the next time.
        self.hardware.cores[cpu.index()].isolated.get() && below(4) != 0
    }

    fn looks_at(&self, _: &AddressSpace, _: Generation) -> bool {
        below(2) == 0
    }

    /// At random, so spaces come to global ASIDs and leave them all the time.
    fn deserves_asid(&self, _: &AddressSpace, _: Look) -> bool {
        below(4) != 0
    }

    fn now(&self) -> u64 {
        self.hardware.now()
    }
}
