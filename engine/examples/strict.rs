//! A kernel with strict unmaps alone, `cargo run --package ceasefire --example strict`.
//!
//! Two threads are the CPUs. Each has a TLB that it fills from the page table. CPU 0 unmaps a page that a program on CPU
//! 1 loads from. The frame may be freed only when CPU 1 can no longer reach it, or the program ends with an error.

use std::cell::Cell;
use std::panic::catch_unwind;
use std::process::exit;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

use ceasefire::{
    AddressSpace, Asid, Capabilities, Cpu, CpuId, CpuSet, Engine, Entry, Flush, Gather, PageSize, Place,
    Platform, Root, TableGuard, Translation,
};

// The page that is unmapped, its frame, the word in that frame, and the word in a free frame.
const PAGE: usize = 2;
const FRAME: usize = 3;
const WORD: u64 = 42;
const POISON: u64 = 0xdead;

// The hardware. An entry, in the page table or in a TLB, is the number of a frame, or 0.
static FRAMES: [AtomicU64; 4] = [const { AtomicU64::new(POISON) }; 4];
static TABLE: [AtomicUsize; 4] = [const { AtomicUsize::new(0) }; 4];
static TLBS: [[AtomicUsize; 4]; 2] = [const { [const { AtomicUsize::new(0) }; 4] }; 2];
static INTERRUPTED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];
thread_local!(static ME: Cell<usize> = const { Cell::new(0) });

// ANCHOR: state
/// The kernel's reference to an address space.
type Space = Arc<AddressSpace>;

static ENGINE: Engine<Kernel> = Engine::new(Kernel);
static CPUS: [Cpu<Space>; 2] = [const { Cpu::new() }; 2];
/// The lock of the one page table.
static LOCK: Mutex<()> = Mutex::new(());
// ANCHOR_END: state

#[derive(Debug)]
struct Kernel;

// ANCHOR: platform
// SAFETY: each thread is one CPU, and keeps its number. Interrupts arrive in `take_interrupts` alone. Each CPU has a
// `Cpu` of its own. Of these functions only `wait` calls the engine.
unsafe impl Platform for Kernel {
    type Space = Space;
    type Saved = ();

    fn capabilities(&self) -> Capabilities {
        Capabilities::default() // No promise: every load of a root flushes, and nothing is deferred.
    }
    fn this_cpu(&self) -> CpuId {
        CpuId::new(ME.get()).expect("the engine has room for two CPUs")
    }
    fn cpu(&self, cpu: CpuId) -> &Cpu<Space> {
        &CPUS[cpu.index()]
    }
    fn save_interrupts(&self) {} // A thread takes interrupts only where it asks for them.
    fn restore_interrupts(&self, (): ()) {}
    fn interrupts_on(&self) -> bool {
        true
    }
    fn pin(&self) {} // A thread never changes its CPU.
    fn unpin(&self) {}
    fn load_root(&self, _: Root, _: Asid, _: bool) {
        self.invalidate_all(); // Entries have no tags, so each load of a root drops them.
    }
    fn load_kernel_root(&self) {
        self.invalidate_all();
    }
    fn invalidate(&self, _: Asid, flush: Flush) {
        let Some(addresses) = flush.addresses() else { return self.invalidate_all() };
        for address in addresses {
            TLBS[ME.get()][(address >> 12) as usize].store(0, SeqCst);
        }
    }
    fn invalidate_all(&self) {
        TLBS[ME.get()].iter().for_each(|entry| entry.store(0, SeqCst));
    }
    fn interrupt(&self, targets: &CpuSet) {
        targets.iter().for_each(|cpu| INTERRUPTED[cpu.index()].store(true, SeqCst));
    }
    fn wait(&self, done: &dyn Fn() -> bool) {
        while !done() {
            take_interrupts();
        }
    }
    fn now(&self) -> u64 {
        0 // Only batches, lazy debts and broadcasts read the clock.
    }
}
// ANCHOR_END: platform

// ANCHOR: interrupt
/// CPUs take interrupts here. In a kernel this is the handler of the flush vector.
fn take_interrupts() {
    if INTERRUPTED[ME.get()].swap(false, SeqCst) {
        ENGINE.handle_interrupt();
    }
    thread::yield_now();
}
// ANCHOR_END: interrupt

// ANCHOR: life
/// CPU 1 comes online, runs a program of `space` until the program faults, and goes offline.
fn run_program(space: Space) -> Result<(), String> {
    ME.set(1);
    ENGINE.online();
    drop(ENGINE.switch_to(&space)); // The space that ran before, if any.
    while let Some(word) = load(PAGE) {
        if word != WORD {
            return Err(format!("CPU 1 read {word:#x} from a frame that was free"));
        }
        take_interrupts();
    }
    drop(ENGINE.unload()); // The references to the spaces that this CPU has left.
    drop(ENGINE.offline());
    Ok(())
}
// ANCHOR_END: life

/// A program's load, through the TLB of this CPU. It faults (`None`) if no frame is mapped.
fn load(page: usize) -> Option<u64> {
    let entry = &TLBS[ME.get()][page];
    if entry.load(SeqCst) == 0 {
        entry.store(TABLE[page].load(SeqCst), SeqCst); // A walk of the page table.
    }
    let frame = entry.load(SeqCst);
    (frame != 0).then(|| FRAMES[frame].load(SeqCst))
}

// ANCHOR: types
/// An entry that was in the page table.
struct Pte(usize);

impl Translation for Pte {
    fn entry(&self) -> Entry {
        // A kernel looks at the entry's bits. Entries here allow stores, and a CPU may have cached one as dirty.
        if self.0 == 0 {
            Entry::NONE
        } else {
            Entry::DIRTY
        }
    }
}

/// The one name of a frame that is in use.
struct Frame(usize);

/// The page-table lock, held, and the space to which the table belongs.
struct TableLock<'a> {
    space: &'a Space,
    _held: MutexGuard<'static, ()>,
}

// SAFETY: every change of the table holds the lock. There is one space.
unsafe impl TableGuard<Kernel> for TableLock<'_> {
    fn space(&self) -> &Space {
        self.space
    }
}
// ANCHOR_END: types

// ANCHOR: unmap
/// When it returns, no CPU can use the page, and its frame is free.
fn unmap(space: &Space, page: usize) {
    let mut room = [Place::EMPTY; 1];
    let mut gather = Gather::new(&ENGINE, space, &mut room, free);
    let lock = TableLock { space, _held: LOCK.lock().expect("no holder panics") };
    let mut changes = gather.under(ENGINE.settle(lock));
    let take = |_: &TableLock<'_>| Pte(TABLE[page].swap(0, SeqCst));
    changes.clear((page as u64) << 12, PageSize::KIB_4, take, |old| Some(Frame(old.0)));
    drop(changes); // Flushes on every CPU, gives the frame to `free`, and releases the page-table lock.
    gather.finish();
}

/// Frees a frame. The poison shows itself to a program that can still reach the frame.
fn free(Frame(frame): Frame) {
    FRAMES[frame].store(POISON, SeqCst);
    println!("frame {frame} is free");
}
// ANCHOR_END: unmap

fn main() -> Result<(), String> {
    ENGINE.online();
    let space = Arc::new(ENGINE.new_space(Root(0)));
    FRAMES[FRAME].store(WORD, SeqCst);
    TABLE[PAGE].store(FRAME, SeqCst);
    let other = Arc::clone(&space);
    // A panic there ends the whole program, which would wait for CPU 1 otherwise.
    let program = thread::spawn(move || catch_unwind(|| run_program(other)).unwrap_or_else(|_| exit(1)));
    while TLBS[1][PAGE].load(SeqCst) == 0 {
        thread::yield_now();
    }
    unmap(&space, PAGE);
    program.join().expect("its panics end the program")?;
    let interrupts = ENGINE.counters(CpuId::all(2)).interrupts;
    if interrupts != 1 || Arc::strong_count(&space) != 1 {
        return Err(format!("{interrupts} interrupts, not 1, or CPU 1 still refers to the space"));
    }
    println!("CPU 1 was interrupted once, and never read the free frame");
    Ok(())
}
