//! This kernel's implementation of [`Platform`] and [`Machine`], the traits that the engine and the memory manager ask
//! for.
//!
//! It shows the work of adopting them: which CPU this is, how it invalidates and loads roots, how it interrupts other
//! CPUs and waits for them, and where the memory manager finds frames, devices and sleep.

#[cfg(ceasefire_sabotage)]
use ceasefire::sabotage::Guard;
use ceasefire::{
    Asid, Broadcast, Capabilities, Cpu, CpuId, CpuSet, Errata, Extent, Flush, FlushEvent, Platform, Root,
};
use ceasefire_kernel_abi::options::{Faults, Mechanism, Options, Without};
use ceasefire_memory::{Block, Event, FrameNumber, Machine, Memory, NodeId, SpaceHandle, Table, PAGE_BYTES};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use spin::Once;

use crate::arch::memory::{direct, publish_code};
use crate::arch::{clock, interrupts, this_cpu, tlb};
use crate::failure::event::{record, What};
use crate::failure::refuse;
use crate::manager::{self, Kernel};
use crate::memory::published::Published;
use crate::memory::sleep::Sleep;
use crate::memory::spin::Spin;
use crate::memory::{answers, device, page_wait, poison, reclaimer};
use crate::threads::{cpu, current, schedule};

static NODES: AtomicUsize = AtomicUsize::new(1);
/// CPUs ignore the requests of other CPUs: mechanism `none`.
static DEAF: AtomicBool = AtomicBool::new(false);
/// Flushes of kernel ranges wait while a CPU runs a program.
static UNDISTURBED: AtomicBool = AtomicBool::new(false);
/// How flushes are broadcast, with mechanisms `broadcast` and `all`.
static BROADCAST: Once<Broadcast> = Once::new();
/// How many times everything was flushed on all CPUs, because ASIDs had run out or to settle debts.
static EVERYTHING: AtomicU64 = AtomicU64::new(0);

/// Makes the kernel's memory manager. Ends the run if the processor lacks a feature that the mechanism needs.
pub(crate) fn set_memory(options: &Options, make: impl FnOnce() -> Memory<Kernel>) {
    // Before the engine exists, which reads the capabilities once.
    if options.mechanism.broadcasts() {
        let missing =
            |what| refuse(format_args!("mechanism {}: this processor has no {what}", options.mechanism));
        BROADCAST.call_once(|| {
            let broadcast = tlb::broadcasting().unwrap_or_else(missing);
            let has = |fault| options.errata == fault || options.errata == Faults::Both;
            let of_processor = broadcast.errata();
            broadcast.with_errata(Errata {
                repeated: of_processor.repeated || has(Faults::Repeated),
                everyone: of_processor.everyone || has(Faults::Everyone),
            })
        });
    }
    manager::set(make);
    let memory = manager::memory();
    NODES.store(memory.config().nodes.len(), Ordering::Relaxed);
    DEAF.store(options.mechanism == Mechanism::None, Ordering::Relaxed);
    UNDISTURBED.store(options.undisturbed, Ordering::Relaxed);
    if let Some(without) = options.without {
        remove_guard(memory, without);
    }
}

#[cfg(ceasefire_sabotage)]
fn remove_guard(memory: &Memory<Kernel>, without: Without) {
    memory.engine().remove_guard(match without {
        Without::Slot => return memory.remove_guard(ceasefire_memory::sabotage::Guard::Slot),
        Without::Stamp => Guard::Stamp,
        Without::Settle => Guard::Settle,
        Without::KernelFlush => Guard::KernelFlush,
        Without::KernelEntry => Guard::KernelEntry,
    });
}

#[cfg(not(ceasefire_sabotage))]
fn remove_guard(_: &Memory<Kernel>, without: Without) {
    refuse(format_args!("without {}: the kernel was built without --cfg ceasefire_sabotage", without.name()));
}

/// How many times everything was flushed on all CPUs so far.
pub(crate) fn broadcasts_everything() -> u64 {
    EVERYTHING.load(Ordering::Relaxed)
}

/// Whether this CPU is answering a request and must ignore it.
fn is_deaf() -> bool {
    DEAF.load(Ordering::Relaxed) && cpu::here().answering.load(Ordering::Relaxed)
}

/// Records an invalidation by its first address and number of pages. One of all addresses is recorded as `all`, the
/// ASID or `u64::MAX` for every tag, and `u64::MAX` pages.
fn record_invalidation(extent: Extent, all: u64) {
    let (what, pages) = match extent {
        Extent::All => (all, u64::MAX),
        Extent::Pages { start, count, .. } => (start, u64::from(count)),
    };
    record(What::Invalidated, what, pages);
}

// SAFETY: `this_cpu` comes from a register of the CPU. Only the scheduler moves a thread to another CPU; it refuses to
// move a pinned thread, and code that runs with interrupts off does not enter it. `save_interrupts` turns interrupts
// off, and the only other way into a CPU's code, an NMI, ends the run. Each `Cpu` lies in its CPU's own data. The
// engine's calls with interrupts off are a few instructions that call nothing. Cloning a space counts a reference;
// dropping the last one gives memory back to the heap, which does not know the engine. `run` waits for broadcasts
// before another thread runs.
unsafe impl Platform for Kernel {
    type Space = SpaceHandle<Self>;
    /// Whether interrupts were on.
    type Saved = bool;

    fn capabilities(&self) -> Capabilities {
        Capabilities { broadcast: BROADCAST.get().copied(), ..tlb::capabilities() }
    }

    fn this_cpu(&self) -> CpuId {
        CpuId::new(this_cpu::number()).unwrap_or_else(|error| unreachable!("{error}"))
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<Self::Space> {
        &cpu::of(cpu).engine
    }

    fn save_interrupts(&self) -> bool {
        let were_on = interrupts::are_on();
        if were_on {
            interrupts::off();
        }
        were_on
    }

    fn restore_interrupts(&self, were_on: bool) {
        if were_on {
            interrupts::on();
        }
    }

    fn interrupts_on(&self) -> bool {
        interrupts::are_on()
    }

    fn pin(&self) {
        current::thread().pin();
    }

    fn unpin(&self) {
        current::thread().unpin();
    }

    fn load_root(&self, root: Root, asid: Asid, flush: bool) {
        record(What::Loaded, root.0, u64::from(asid.get()));
        tlb::load_root(root, asid, flush);
    }

    fn load_kernel_root(&self) {
        record(What::Loaded, 0, 0);
        tlb::load_kernel_root();
    }

    fn invalidate(&self, asid: Asid, flush: Flush) {
        record_invalidation(flush.extent, u64::from(asid.get()));
        if !is_deaf() {
            tlb::invalidate(asid, flush);
        }
    }

    fn invalidate_all(&self) {
        record_invalidation(Extent::All, u64::MAX);
        if !is_deaf() {
            tlb::invalidate_all();
        }
    }

    fn interrupt(&self, targets: &CpuSet) {
        record(What::Asks, targets.len() as u64, 0);
        for target in targets.iter() {
            interrupts::send_shootdown(target.index());
        }
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        debug_assert!(interrupts::are_on(), "a CPU that waits for other CPUs must answer them meanwhile");
        let begun = clock::now();
        answers::halt_until("other CPUs' answers", done);
        // Only this CPU writes it: the thread is pinned while it waits.
        let waited = &cpu::here().answer_wait;
        waited.store(waited.load(Ordering::Relaxed) + (clock::now() - begun), Ordering::Relaxed);
    }

    fn answered(&self, initiator: CpuId, last: bool) {
        if last {
            answers::wake(cpu::of(initiator));
        }
    }

    fn broadcast(&self, asid: Asid, flush: Flush) {
        tlb::broadcast(asid, flush);
    }

    fn broadcast_everything(&self) {
        EVERYTHING.fetch_add(1, Ordering::Relaxed);
        tlb::broadcast_everything();
    }

    fn broadcast_wait(&self) {
        tlb::broadcast_wait();
    }

    fn invalidate_kernel(&self, flush: Flush) {
        record_invalidation(flush.extent, u64::MAX);
        if !is_deaf() {
            tlb::invalidate_kernel(flush);
        }
    }

    fn broadcast_kernel(&self, flush: Flush) -> bool {
        BROADCAST.get().is_some() && tlb::broadcast_kernel(flush)
    }

    fn runs_undisturbed(&self, _: CpuId) -> bool {
        UNDISTURBED.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        clock::now()
    }

    fn trace(&self, event: FlushEvent) {
        let pages = event.pages.map_or(u64::MAX, u64::from);
        record(What::Flushed, event.reason as u64, pages);
        // A call that moves or reclaims many pages may last long.
        cpu::here().note_progress();
    }
}

/// The bytes of a frame.
fn bytes(frame: FrameNumber) -> *mut u8 {
    direct(u64::from(frame.get()) * PAGE_BYTES)
}

impl Machine for Kernel {
    type Lock<T: core::fmt::Debug> = Spin<T>;
    type RwLock<T: core::fmt::Debug> = Sleep<T>;
    type Rcu<T: Clone + core::fmt::Debug> = Published<T>;

    fn table(&self, frame: FrameNumber) -> &Table {
        tlb::table(frame)
    }

    fn share_kernel(&self, root: &Table) {
        tlb::share_kernel(root);
    }

    fn publish_kernel(&self) {
        tlb::publish_kernel();
    }

    fn zero(&self, first: FrameNumber, count: u32) {
        // SAFETY: the frames belong to the memory manager alone, and the kernel maps them all the time.
        unsafe { bytes(first).write_bytes(0, count as usize * PAGE_BYTES as usize) };
    }

    fn copy(&self, from: FrameNumber, to: FrameNumber, count: u32) {
        // SAFETY: as above for `to`. The memory manager guarantees that nothing stores to `from` meanwhile.
        unsafe {
            core::ptr::copy_nonoverlapping(bytes(from), bytes(to), count as usize * PAGE_BYTES as usize);
        };
        let first = u64::from(to.get());
        (first..first + u64::from(count)).for_each(publish_code);
    }

    fn load(&self, frame: FrameNumber, offset: usize, into: &mut [u8]) {
        debug_assert!(offset + into.len() <= PAGE_BYTES as usize);
        // SAFETY: within a frame that the memory manager holds. Programs may store to it at the same time. As with
        // read(2), the copy then has some old and some new bytes.
        unsafe { core::ptr::copy_nonoverlapping(bytes(frame).add(offset), into.as_mut_ptr(), into.len()) };
    }

    fn store(&self, frame: FrameNumber, offset: usize, from: &[u8]) {
        debug_assert!(offset + from.len() <= PAGE_BYTES as usize);
        // SAFETY: as above.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), bytes(frame).add(offset), from.len()) };
        publish_code(u64::from(frame.get()));
    }

    fn write_out(&self, pages: &[(Block, FrameNumber)]) {
        device::write(pages);
    }

    fn read_in(&self, pages: &[(Block, FrameNumber)]) {
        device::read(pages);
        for (_, frame) in pages {
            publish_code(u64::from(frame.get()));
        }
    }

    fn wait_for_page(&self, frame: FrameNumber, busy: &dyn Fn() -> bool) {
        page_wait::for_page(frame, busy);
    }

    fn page_ready(&self, frame: FrameNumber) {
        page_wait::page_ready(frame);
    }

    fn node_of(&self, cpu: CpuId) -> NodeId {
        NodeId((cpu.index() * NODES.load(Ordering::Relaxed) / cpu::all().len()) as u16)
    }

    fn wake_reclaim(&self, node: NodeId) {
        reclaimer::wake(node);
    }

    fn reschedule(&self) {
        cpu::here().note_progress();
        if current::thread().held.may_sleep() {
            schedule::give_way();
        }
    }

    fn observe(&self, event: Event<'_>) {
        match event {
            Event::Left { frame, .. } => poison::left(frame),
            Event::FrameFreed(frame) => poison::freed(frame),
            Event::FrameAllocated(frame) => poison::allocated(frame),
            _ => {}
        }
    }
}
