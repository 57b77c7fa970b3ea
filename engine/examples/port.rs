//! The smallest port of the engine: a kernel of two CPUs, which are threads, each with a simulated TLB.
//!
//! `cargo run --package ceasefire --example port` shows a strict flush, a batch and a lazy debt.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::thread::yield_now;

use ceasefire::{
    Access, AddressSpace, Asid, Batch, Bounds, Capabilities, Condition, Cpu, CpuId, CpuSet, Engine, Entry,
    Flush, Gather, Owed, PageSize, Platform, Root, Schedule, Settle, TableGuard, Translation,
};

// ANCHOR: embed
/// Debts may stand for 10 ms. Each CPU ticks every 4 ms.
const BOUNDS: Bounds = match Bounds::new(10_000_000, TICK, Settle::Free) {
    Ok(bounds) => bounds,
    Err(_) => panic!("the age is shorter than two ticks"),
};
static ENGINE: Engine<Port> = Engine::new(Port).with_bounds(BOUNDS);
static CPUS: [PerCpu; 2] = [PerCpu::new(), PerCpu::new()];

#[derive(Debug)]
struct Port;

/// A CPU's own data: the engine's part, and the simulated hardware.
#[derive(Debug)]
struct PerCpu {
    engine: Cpu<SpaceRef>,
    interrupted: AtomicBool,
    /// The frame of each page that it has cached, by ASID and page.
    tlb: Mutex<BTreeMap<(Asid, u64), u64>>,
}

/// The kernel's address space, with the engine's part.
#[derive(Debug)]
struct Space {
    coherence: AddressSpace,
    table_lock: Mutex<()>,
}

/// The reference to it. A kernel counts references; the one space here is never freed.
type SpaceRef = &'static Space;

impl AsRef<AddressSpace> for Space {
    fn as_ref(&self) -> &AddressSpace {
        &self.coherence
    }
}
// ANCHOR_END: embed

// ANCHOR: table
/// The page table. An entry is a frame's number, shifted, and bit 0 if programs may load from the frame.
static TABLE: [AtomicU64; 4] = [entry(5), entry(6), entry(7), entry(8)];

struct Pte(u64);

impl Translation for Pte {
    fn entry(&self) -> Entry {
        Entry { access: if self.0 & 1 != 0 { Access::Usable } else { Access::None }, ..Entry::NONE }
    }
}

/// The page-table lock, held.
struct Locked<'a> {
    space: &'a SpaceRef,
    _held: MutexGuard<'a, ()>,
}

impl TableGuard<Port> for Locked<'_> {
    fn space(&self) -> &SpaceRef {
        self.space
    }
}

fn lock(space: &SpaceRef) -> Locked<'_> {
    Locked { space, _held: space.table_lock.lock().unwrap() }
}

/// Clears an entry in one atomic step. Call it with the lock held.
fn take_entry(page: u64) -> Pte {
    Pte(TABLE[page as usize].swap(0, SeqCst))
}
// ANCHOR_END: table

// ANCHOR: platform
// SAFETY: each thread is one CPU and keeps its number. Interrupts arrive in `poll` alone, and only while they are on. Each
// CPU has a `Cpu` of its own. Of these functions only `wait` calls the engine.
unsafe impl Platform for Port {
    type Space = SpaceRef;
    type Saved = bool;

    fn capabilities(&self) -> Capabilities {
        Capabilities { clean_stores_walk: true, asids: true, broadcast: None }
    }
    fn this_cpu(&self) -> CpuId {
        id(ME.get())
    }
    fn cpu(&self, cpu: CpuId) -> &Cpu<SpaceRef> {
        &CPUS[cpu.index()].engine
    }
    fn save_interrupts(&self) -> bool {
        INTERRUPTS_ON.replace(false)
    }
    fn restore_interrupts(&self, were_on: bool) {
        INTERRUPTS_ON.set(were_on);
    }
    fn interrupts_on(&self) -> bool {
        INTERRUPTS_ON.get()
    }
    fn pin(&self) {} // A thread never changes its CPU.
    fn unpin(&self) {}
    fn load_root(&self, _: Root, asid: Asid, flush: bool) {
        // There is one root. `load` asks the engine for the ASID.
        if flush {
            self.invalidate(asid, Flush::ALL);
        }
    }
    fn load_kernel_root(&self) {}
    fn invalidate(&self, asid: Asid, flush: Flush) {
        match flush.addresses() {
            None => tlb(ME.get()).retain(|&(tag, _), _| tag != asid),
            Some(addresses) => addresses.for_each(|address| {
                tlb(ME.get()).remove(&(asid, address >> 12));
            }),
        }
    }
    fn invalidate_all(&self) {
        tlb(ME.get()).clear();
    }
    fn interrupt(&self, targets: &CpuSet) {
        targets.iter().for_each(|cpu| CPUS[cpu.index()].interrupted.store(true, SeqCst));
    }
    fn wait(&self, done: &dyn Fn() -> bool) {
        while !done() {
            poll();
        }
    }
    fn now(&self) -> u64 {
        CLOCK.load(SeqCst)
    }
}

/// A CPU takes its interrupts here.
fn poll() {
    if CPUS[ME.get()].interrupted.swap(false, SeqCst) {
        let _off = ENGINE.interrupts_off();
        ENGINE.handle_interrupt();
    }
    yield_now();
}
// ANCHOR_END: platform

// ANCHOR: strict
/// Unmaps a page for a program: when the call returns, no CPU can use the page's frame.
fn unmap(space: SpaceRef, page: u64) {
    let mut room = [None; 1];
    let free = |frame| {
        assert!(!cached(1, page));
        println!("strict: frame {frame} is free");
    };
    let mut gather = Gather::new(&ENGINE, space.as_ref(), &mut room, free);
    let mut changes = gather.under(ENGINE.settle(lock(&space)));
    let old = changes.clear(page << 12, PageSize::KIB_4, |_| take_entry(page));
    changes.hold(old.0 >> 12);
    assert!(cached(1, page));
    drop(changes); // Flushes, then releases the lock.
    gather.finish();
}
// ANCHOR_END: strict

// ANCHOR: batch
/// Reclaims pages on the kernel's own account. One flush at most covers all pages; then `free` gets the frames.
fn reclaim(space: SpaceRef, pages: &[u64], schedule: Schedule, free: impl FnMut(Owed<u64>)) {
    let mut batch = Batch::<_, _, _>::new(&ENGINE, schedule, free);
    for &page in pages {
        let frame = TABLE[page as usize].load(SeqCst) >> 12;
        let mut unmapping = batch.take(frame);
        unmapping.clear(&lock(&space), page << 12, PageSize::KIB_4, || take_entry(page));
        unmapping.let_go(Condition::default());
        assert!(cached(1, page));
    }
    batch.flush();
}
// ANCHOR_END: batch

fn main() {
    std::panic::set_hook(Box::new(|what| {
        eprintln!("{what}");
        std::process::exit(1); // The other CPU would wait for ever.
    }));
    let space: SpaceRef =
        Box::leak(Box::new(Space { coherence: ENGINE.new_space(Root(0)), table_lock: Mutex::new(()) }));
    start(space);
    let other = std::thread::spawn(move || other_cpu(space));
    reach(1);

    unmap(space, 0);
    assert_eq!(interrupts(), 1);

    reclaim(space, &[1, 2], Schedule::Batched, |frame| {
        assert!(!cached(1, 1) && !cached(1, 2));
        println!("batch: frame {} is free", ENGINE.redeem(frame).expect("a batch pays at its end"));
    });
    assert_eq!(interrupts(), 2, "one for both pages");

    // The flush of two pages was one of everything, so the other CPU loads from the last page again.
    STEP.store(2, SeqCst);
    reach(3);
    // ANCHOR: lazy
    let mut owing = None;
    reclaim(space, &[3], Schedule::Lazy, |frame| owing = Some(frame));
    let owed = ENGINE.redeem(owing.expect("it came out")).expect_err("the other CPU can still load from it");
    assert!(cached(1, 3));
    println!("lazy: frame {} is owing", owed.get());
    CLOCK.fetch_add(TICK, SeqCst);
    tick();
    STEP.store(4, SeqCst); // The other CPU ticks too.
    reach(5);
    assert!(!cached(1, 3));
    let frame = ENGINE.redeem(owed).expect("both CPUs have ticked");
    println!("lazy: frame {frame} is free");
    // ANCHOR_END: lazy
    assert_eq!(interrupts(), 2, "none for the lazy debt");
    other.join().expect("a panic ends the process");
}

/// The other CPU fills its TLB. It answers interrupts while it waits.
fn other_cpu(space: SpaceRef) {
    ME.set(1);
    start(space);
    assert_eq!([0, 1, 2, 3].map(load), [5, 6, 7, 8].map(Some));
    STEP.store(1, SeqCst);
    reach(2);
    assert_eq!([0, 1, 2, 3].map(load), [None, None, None, Some(8)]);
    STEP.store(3, SeqCst);
    reach(4);
    tick();
    STEP.store(5, SeqCst);
}

// ANCHOR: start
/// A CPU comes up and runs the space. Dropping the result of `switch_to` gives up the space that ran before.
fn start(space: SpaceRef) {
    let _off = ENGINE.interrupts_off();
    ENGINE.online();
    drop(ENGINE.switch_to(&space));
}

/// The timer's interrupt.
fn tick() {
    let _off = ENGINE.interrupts_off();
    assert!(!ENGINE.tick(), "no debt is overdue");
}
// ANCHOR_END: start

/// A program's load: through the TLB, or through the page table into the TLB. Yields the frame.
fn load(page: u64) -> Option<u64> {
    let key = (ENGINE.loaded_asid()?, page);
    let entry = TABLE[page as usize].load(SeqCst);
    let mut tlb = tlb(ME.get());
    if !tlb.contains_key(&key) && entry & 1 != 0 {
        tlb.insert(key, entry >> 12);
    }
    tlb.get(&key).copied()
}

impl PerCpu {
    const fn new() -> Self {
        let tlb = Mutex::new(BTreeMap::new());
        Self { engine: Cpu::new(), interrupted: AtomicBool::new(false), tlb }
    }
}

const TICK: u64 = 4_000_000;
static CLOCK: AtomicU64 = AtomicU64::new(0);
/// How far the two CPUs are.
static STEP: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static ME: Cell<usize> = const { Cell::new(0) };
    static INTERRUPTS_ON: Cell<bool> = const { Cell::new(true) };
}

const fn entry(frame: u64) -> AtomicU64 {
    AtomicU64::new(frame << 12 | 1)
}

fn id(cpu: usize) -> CpuId {
    CpuId::new(cpu).expect("the engine has room for two CPUs")
}

fn tlb(cpu: usize) -> MutexGuard<'static, BTreeMap<(Asid, u64), u64>> {
    CPUS[cpu].tlb.lock().unwrap()
}

/// Whether a CPU's TLB has an entry for the page.
fn cached(cpu: usize, page: u64) -> bool {
    tlb(cpu).keys().any(|&(_, cached)| cached == page)
}

fn interrupts() -> u64 {
    ENGINE.counters([id(0), id(1)]).interrupts
}

/// Waits for the other CPU, and answers it meanwhile.
fn reach(step: usize) {
    while STEP.load(SeqCst) < step {
        poll();
    }
}
