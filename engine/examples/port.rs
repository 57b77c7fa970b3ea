//! The smallest port of the engine, `cargo run --package ceasefire --example port`: two threads, each a CPU with a
//! simulated TLB. It shows a strict flush, a batch and a lazy debt.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::{cell::Cell, panic::catch_unwind, process::exit, thread};

use ceasefire::{
    AddressSpace, Asid, Batch, Bounds, Capabilities, Condition, Cpu, CpuId, CpuSet, Engine, Entry, Flush,
    Gather, Owed, PageSize, Payment, Platform, Root, Schedule, TableGuard,
};

static ENGINE: Engine<Port> = Engine::new(Port).with_bounds(BOUNDS);
static CPUS: [Cpu<Space>; 2] = [Cpu::new(), Cpu::new()];
type Space = &'static AddressSpace; // A kernel that frees spaces counts the references.
/// Debts may be 10 ms old. Each CPU ticks every 4 ms.
const BOUNDS: Bounds =
    if let Ok(bounds) = Bounds::new(10_000_000, 4_000_000, Payment::Free) { bounds } else { panic!() };

// The hardware. Page n leads to frame n. Bit n of the page table or of a TLB is the entry for page n.
static TABLE: AtomicU64 = AtomicU64::new(0b1111);
static LOCK: Mutex<()> = Mutex::new(());
static TLBS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static INTERRUPTED: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];
static CLOCK: AtomicU64 = AtomicU64::new(0);
thread_local!(static ME: Cell<usize> = const { Cell::new(0) });

#[derive(Debug)]
struct Port;

// SAFETY: each thread is one CPU and keeps its number. Interrupts arrive in `poll` alone. Each CPU has a `Cpu` of its
// own. Of these functions only `wait` calls the engine.
unsafe impl Platform for Port {
    type Space = Space;
    type Saved = ();
    fn capabilities(&self) -> Capabilities {
        Capabilities { clean_stores_walk: true, asids: false, broadcast: None }
    }
    fn this_cpu(&self) -> CpuId {
        CpuId::new(ME.get()).expect("the engine has room for two CPUs")
    }
    fn cpu(&self, cpu: CpuId) -> &Cpu<Space> {
        &CPUS[cpu.index()]
    }
    fn save_interrupts(&self) {}
    fn restore_interrupts(&self, (): ()) {}
    fn interrupts_on(&self) -> bool {
        true
    }
    fn pin(&self) {} // A thread never changes its CPU.
    fn unpin(&self) {}
    fn load_root(&self, _: Root, _: Asid, _: bool) {
        self.invalidate_all(); // Entries have no tags.
    }
    fn load_kernel_root(&self) {}
    fn invalidate(&self, _: Asid, flush: Flush) {
        let Some(addresses) = flush.addresses() else { return self.invalidate_all() };
        let kept = addresses.fold(u64::MAX, |kept, address| kept & !(1 << (address >> 12)));
        TLBS[ME.get()].fetch_and(kept, SeqCst);
    }
    fn invalidate_all(&self) {
        TLBS[ME.get()].store(0, SeqCst);
    }
    fn interrupt(&self, targets: &CpuSet) {
        targets.iter().for_each(|cpu| INTERRUPTED[cpu.index()].store(true, SeqCst));
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

/// A CPU takes interrupts here: those of other CPUs, and its timer's.
fn poll() {
    INTERRUPTED[ME.get()].swap(false, SeqCst).then(|| ENGINE.handle_interrupt());
    assert!(!ENGINE.tick(), "no debt is overdue");
    thread::yield_now();
}

/// The second CPU runs a program that loads from every page.
fn run_program(space: Space) {
    ME.set(1);
    ENGINE.online();
    drop(ENGINE.switch_to(&space));
    loop {
        TLBS[1].fetch_or(TABLE.load(SeqCst), SeqCst);
        poll();
    }
}

/// The page-table lock, held, with the space that the table belongs to.
impl TableGuard<Port> for (Space, MutexGuard<'static, ()>) {
    fn space(&self) -> &Space {
        &self.0
    }
}

/// Clears an entry in one atomic step.
fn take_entry(page: u64) -> Entry {
    [Entry::NONE, Entry::READ_ONLY][(TABLE.fetch_and(!(1 << page), SeqCst) >> page & 1) as usize]
}

/// Unmaps a page for a program: when the call returns, no CPU can use its frame.
fn unmap(space: Space, page: u64) {
    let mut room = [None; 1];
    let mut gather = Gather::new(&ENGINE, space, &mut room, |page| println!("strict: frame {page} is free"));
    let mut changes = gather.under(ENGINE.settle((space, LOCK.lock().unwrap())));
    changes.clear(page << 12, PageSize::KIB_4, |_| take_entry(page));
    changes.hold(page);
    // Here the changes flush and then release the lock; the gather releases the frame.
}

/// Reclaims pages. At most one flush covers them; then `free` gets their frames.
fn reclaim(space: Space, pages: &[u64], schedule: Schedule, free: impl FnMut(Owed<u64>)) {
    let mut batch = Batch::<_, _, _>::new(&ENGINE, schedule, free);
    for &page in pages {
        let mut unmapping = batch.take(page);
        unmapping.clear(&(space, LOCK.lock().unwrap()), page << 12, PageSize::KIB_4, || take_entry(page));
        unmapping.release_in_debt(Condition::default());
    }
    batch.flush();
}

fn main() {
    let space: Space = Box::leak(Box::new(ENGINE.new_space(Root(0))));
    thread::spawn(move || catch_unwind(|| run_program(space)).map_err(|_| exit(1)));
    let cached = || TLBS[1].load(SeqCst);
    Port.wait(&|| cached() == 0b1111);
    unmap(space, 0);
    assert_eq!((cached() & 0b0001, CPUS[1].counters().interrupts), (0, 1));
    Port.wait(&|| cached() == 0b1110);
    let free = |frame| println!("batch: frame {} is free", ENGINE.redeem(frame).expect("the batch has paid"));
    reclaim(space, &[1, 2], Schedule::Batched, free);
    assert_eq!((cached() & 0b0110, CPUS[1].counters().interrupts), (0, 2));
    Port.wait(&|| cached() == 0b1000);
    let mut owing = None;
    reclaim(space, &[3], Schedule::Lazy, |frame| owing = Some(frame));
    let owed = ENGINE.redeem(owing.expect("it came out")).expect_err("the program can still load from it");
    println!("lazy: frame {} is owing", owed.get());
    assert_eq!(cached(), 0b1000);
    CLOCK.fetch_add(4_000_000, SeqCst); // The second CPU ticks.
    Port.wait(&|| ENGINE.is_settled(owed.stamp()));
    println!("lazy: frame {} is free", ENGINE.redeem(owed).expect("the second CPU has ticked"));
    assert_eq!((cached(), CPUS[1].counters().interrupts), (0, 2));
}
