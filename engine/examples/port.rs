//! The smallest port of the engine, `cargo run --package ceasefire --example port`: two threads, each a CPU with a
//! simulated TLB. It shows a strict flush, a batch and a lazy debt.

use std::cell::Cell;
use std::panic::catch_unwind;
use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::thread;

use ceasefire::{
    AddressSpace, Asid, Batch, Bounds, Capabilities, Condition, Cpu, CpuId, CpuSet, Engine, Entry, Flush,
    Gather, Owed, PageSize, Payment, Place, Platform, Root, Schedule, TableGuard, Walkers,
};

/// A reference to an address space. A kernel that frees spaces counts the references.
type Space = &'static AddressSpace;

/// The period of each CPU's timer, in nanoseconds.
const TICK: u64 = 4_000_000;

/// The greatest age of a debt: 10 ms.
const BOUNDS: Bounds = match Bounds::new(10_000_000, TICK, Payment::Free) {
    Ok(bounds) => bounds,
    Err(_) => panic!("a debt may be older than two ticks"),
};

static ENGINE: Engine<Port> = Engine::new(Port).with_bounds(BOUNDS);

/// The engine's state of each CPU. A kernel has it in its per-CPU data.
static CPUS: [Cpu<Space>; 2] = [Cpu::new(), Cpu::new()];

// The hardware. Page n leads to frame n. Bit n of the page table, or of a TLB, is the entry for page n.
static TABLE: AtomicU64 = AtomicU64::new(0b1111);
static TLBS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
static INTERRUPTED: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// The page-table lock.
static LOCK: Mutex<()> = Mutex::new(());

thread_local!(
    /// The number of the CPU that this thread is.
    static ME: Cell<usize> = const { Cell::new(0) }
);

#[derive(Debug)]
struct Port;

// SAFETY: each thread is one CPU and keeps its number. Interrupts arrive in `poll` alone. Each CPU has a `Cpu` of its
// own. Of these functions only `wait` calls the engine.
unsafe impl Platform for Port {
    type Space = Space;
    type Saved = ();

    fn capabilities(&self) -> Capabilities {
        Capabilities { clean_stores_walk: true, asids: false, broadcast: None, walkers: Walkers::Locked }
    }

    fn this_cpu(&self) -> CpuId {
        CpuId::new(ME.get()).expect("the engine has room for two CPUs")
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<Space> {
        &CPUS[cpu.index()]
    }

    // A thread takes interrupts only in `poll`, so there is nothing to turn off.
    fn save_interrupts(&self) {}

    fn restore_interrupts(&self, (): ()) {}

    fn interrupts_on(&self) -> bool {
        true
    }

    // A thread never changes its CPU.
    fn pin(&self) {}

    fn unpin(&self) {}

    // Entries carry no tags, so a new root makes them useless.
    fn load_root(&self, _: Root, _: Asid, _: bool) {
        self.invalidate_all();
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
        for cpu in targets.iter() {
            INTERRUPTED[cpu.index()].store(true, SeqCst);
        }
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
    if INTERRUPTED[ME.get()].swap(false, SeqCst) {
        ENGINE.handle_interrupt();
    }
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
// SAFETY: every change of the table holds the lock. There is one space.
unsafe impl TableGuard<Port> for (Space, MutexGuard<'static, ()>) {
    fn space(&self) -> &Space {
        &self.0
    }
}

/// Clears an entry in one atomic step.
fn take_entry(page: u64) -> Entry {
    let old = TABLE.fetch_and(!(1 << page), SeqCst);
    if old & (1 << page) == 0 {
        Entry::NONE
    } else {
        Entry::READ_ONLY
    }
}

/// The one name of a frame that is in use. Page N has frame N.
#[derive(Debug)]
struct Frame(u64);

/// Unmaps a page for a program: when the call returns, no CPU can use its frame.
fn unmap(space: Space, page: u64) {
    let free = |Frame(number)| println!("strict: frame {number} is free");
    let mut room = [Place::EMPTY; 1];
    let mut gather = Gather::new(&ENGINE, space, &mut room, free);
    let mut changes = gather.under(ENGINE.settle((space, LOCK.lock().unwrap())));
    changes.clear(page << 12, PageSize::KIB_4, |_| take_entry(page), |_| Some(Frame(page)));
    // Here the changes flush and then release the lock; the gather releases the frame.
}

/// Reclaims pages. At most one flush covers them; then `free` gets their frames.
fn reclaim(space: Space, pages: &[u64], schedule: Schedule, free: impl FnMut(Owed<Frame>)) {
    let mut batch = Batch::<_, _, _>::new(&ENGINE, schedule, free);
    for &page in pages {
        let mut unmapping = batch.take(Frame(page));
        let lock = (space, LOCK.lock().unwrap());
        unmapping.clear(&lock, page << 12, PageSize::KIB_4, |_| take_entry(page));
        unmapping.release_in_debt(Condition::UNKEPT);
    }
    batch.flush();
}

fn main() {
    let space: Space = Box::leak(Box::new(ENGINE.new_space(Root(0))));
    thread::spawn(move || catch_unwind(|| run_program(space)).map_err(|_| exit(1)));
    let cached = || TLBS[1].load(SeqCst);
    Port.wait(&|| cached() == 0b1111);

    unmap(space, 0);
    // The other CPU has lost the page, after one interrupt.
    assert_eq!((cached() & 0b0001, CPUS[1].counters().interrupts), (0, 1));
    Port.wait(&|| cached() == 0b1110);

    let free = |owed| {
        let Frame(number) = ENGINE.redeem(owed).expect("the batch has paid");
        println!("batch: frame {number} is free");
    };
    reclaim(space, &[1, 2], Schedule::Batched, free);
    // One more interrupt for both pages.
    assert_eq!((cached() & 0b0110, CPUS[1].counters().interrupts), (0, 2));
    Port.wait(&|| cached() == 0b1000);

    let mut owing = None;
    reclaim(space, &[3], Schedule::Lazy, |frame| owing = Some(frame));
    let owed = ENGINE.redeem(owing.expect("it came out")).expect_err("the program can still load from it");
    println!("lazy: frame {} is owing", owed.get().0);
    assert_eq!(cached(), 0b1000);
    // The second CPU ticks, which settles the debt without an interrupt.
    CLOCK.fetch_add(TICK, SeqCst);
    Port.wait(&|| ENGINE.is_settled(owed.stamp()));
    let Frame(number) = ENGINE.redeem(owed).expect("the second CPU has ticked");
    println!("lazy: frame {number} is free");
    assert_eq!((cached(), CPUS[1].counters().interrupts), (0, 2));
}
