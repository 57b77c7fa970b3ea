//! The smallest machine that the engine runs on: two CPUs, one page, and a TLB that holds its entry or does not.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::{Rc, Weak};
use std::thread::panicking;

use ceasefire::cores::is_whole;
use ceasefire::{
    AddressSpace, Asid, Bounds, Capabilities, Cpu, CpuId, CpuSet, Engine, Flush, Payment, Platform, Root,
    TableGuard,
};
use ceasefire_atomics::{fence, AtomicU64, Ordering};
use loom::sync::{Mutex, MutexGuard};
use loom::thread::yield_now;

use crate::cpu;
use crate::explorer::private;

pub(crate) type Space = Rc<AddressSpace>;

pub(crate) const COHERENT: &str = "no CPU reads a page through an entry after the flush of the entry";

/// The address of the page.
pub(crate) const PAGE: u64 = 0x1000;
/// What stands in the page once it is used for something else.
const REUSED: u64 = 1;

loom::thread_local! {
    static ME: Cell<usize> = Cell::new(0);
}

/// The hardware of one CPU.
#[derive(Default)]
struct Core {
    /// An interrupt is on its way.
    interrupt: AtomicU64,
    off: Cell<u32>,
    /// The tag of the loaded root, if one is loaded.
    asid: Cell<Option<u16>>,
    /// Bit n: the TLB holds the page's entry under tag n.
    entries: Cell<u64>,
}

pub(crate) struct Machine {
    capabilities: Capabilities,
    cpus: [Cpu<Space>; 2],
    cores: [Core; 2],
    /// The page-table entry; 1 if it leads to the page.
    table: AtomicU64,
    lock: Mutex<()>,
    /// The page.
    page: AtomicU64,
    /// The other CPU has ended its program and sends no more interrupts.
    ended: AtomicU64,
    clock: Cell<u64>,
    engine: RefCell<Weak<Engine<Machine>>>,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

/// The page-table lock, which is held.
pub(crate) struct Locked<'a> {
    space: &'a Space,
    _held: MutexGuard<'a, ()>,
}

// SAFETY: every change of the table holds the lock. It names one space.
unsafe impl TableGuard<Machine> for Locked<'_> {
    fn space(&self) -> &Space {
        self.space
    }
}

/// A machine with an engine and a space, for one execution.
pub(crate) fn machine(capabilities: Capabilities) -> (Rc<Engine<Machine>>, Space) {
    let bounds = Bounds::new(100, 1, Payment::Free).expect("ticks keep it");
    let machine = Machine {
        capabilities,
        cpus: [Cpu::new(), Cpu::new()],
        cores: [Core::default(), Core::default()],
        table: AtomicU64::new(1),
        lock: Mutex::new(()),
        page: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        clock: Cell::new(0),
        engine: RefCell::default(),
    };
    let engine = Rc::new(Engine::new(machine).with_bounds(bounds));
    *engine.platform().engine.borrow_mut() = Rc::downgrade(&engine);
    let mut space = None;
    private(|| {
        assert!(is_whole(&engine));
        let _ = engine.counters([cpu(0), cpu(1)]);
        space = Some(Rc::new(engine.new_space(Root(7))));
    });
    for number in [0, 1] {
        run_as(number, || engine.online());
    }
    (engine, space.expect("it was made"))
}

/// Runs `program` on a CPU.
pub(crate) fn run_as<R>(number: usize, program: impl FnOnce() -> R) -> R {
    let before = ME.with(|me| me.replace(number));
    let result = program();
    ME.with(|me| me.set(before));
    result
}

/// The CPU whose program this thread runs.
fn me() -> usize {
    // After a failure, destructors run outside loom.
    if panicking() {
        0
    } else {
        ME.with(Cell::get)
    }
}

impl Machine {
    fn core(&self) -> &Core {
        &self.cores[me()]
    }

    /// Takes the page-table lock.
    pub(crate) fn lock<'a>(&'a self, space: &'a Space) -> Locked<'a> {
        Locked { space, _held: self.lock.lock().expect("no CPU failed under it") }
    }

    /// Clears the page-table entry. True if it was there.
    pub(crate) fn clear(&self) -> bool {
        self.table.swap(0, Ordering::Relaxed) != 0
    }

    /// Whether the page-table entry leads to the page.
    pub(crate) fn is_mapped(&self) -> bool {
        self.table.load(Ordering::Relaxed) != 0
    }

    /// Uses the page for something else.
    pub(crate) fn reuse(&self) {
        self.page.store(REUSED, Ordering::Relaxed);
    }

    /// A load of the program that this CPU runs.
    pub(crate) fn access(&self) {
        let core = self.core();
        let asid = core.asid.get().expect("a root is loaded");
        if core.entries.get() & 1 << asid == 0 {
            if !self.is_mapped() {
                return;
            }
            core.entries.set(core.entries.get() | 1 << asid);
        }
        assert_ne!(self.page.load(Ordering::Relaxed), REUSED, "{COHERENT}");
    }

    /// Whether this CPU holds the entry under its tag.
    pub(crate) fn holds_entry(&self) -> bool {
        let core = self.core();
        core.asid.get().is_some_and(|asid| core.entries.get() & 1 << asid != 0)
    }

    /// The tag under which a CPU runs.
    pub(crate) fn asid_of(&self, number: usize) -> Option<u16> {
        self.cores[number].asid.get()
    }

    /// Takes an interrupt, if there is one.
    pub(crate) fn poll(&self) {
        let core = self.core();
        if core.interrupt.swap(0, Ordering::Acquire) != 0 {
            let engine = self.engine.borrow().upgrade().expect("the engine lives");
            core.off.set(core.off.get() + 1);
            engine.handle_interrupt();
            core.off.set(core.off.get() - 1);
        }
    }

    /// The other CPU may stop to wait for interrupts.
    pub(crate) fn end(&self) {
        self.ended.store(1, Ordering::Release);
    }

    /// Takes interrupts until the other CPU has ended.
    pub(crate) fn idle(&self) {
        while self.ended.load(Ordering::Acquire) == 0 {
            self.poll();
            yield_now();
        }
    }
}

// SAFETY: each CPU is one thread of loom, and all of them run on one thread of the host. A thread keeps its number
// while it runs a CPU's program. Interrupts arrive in `poll` alone, which the engine calls only from `wait`. `cpu`
// indexes an array.
unsafe impl Platform for Machine {
    type Space = Space;
    type Saved = ();

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn this_cpu(&self) -> CpuId {
        cpu(me())
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<Space> {
        &self.cpus[cpu.index()]
    }

    fn save_interrupts(&self) {
        let core = self.core();
        core.off.set(core.off.get() + 1);
    }

    fn restore_interrupts(&self, (): ()) {
        let core = self.core();
        core.off.set(core.off.get().saturating_sub(1));
    }

    fn interrupts_on(&self) -> bool {
        panicking() || self.core().off.get() == 0
    }

    fn pin(&self) {}

    fn unpin(&self) {}

    fn load_root(&self, _: Root, asid: Asid, flush: bool) {
        let core = self.core();
        core.asid.set(Some(asid.get()));
        if flush {
            core.entries.set(core.entries.get() & !(1 << asid.get()));
        }
        fence(Ordering::SeqCst);
    }

    fn load_kernel_root(&self) {
        self.core().asid.set(None);
        fence(Ordering::SeqCst);
    }

    fn invalidate(&self, asid: Asid, _: Flush) {
        let core = self.core();
        core.entries.set(core.entries.get() & !(1 << asid.get()));
    }

    fn invalidate_all(&self) {
        self.core().entries.set(0);
    }

    fn interrupt(&self, targets: &CpuSet) {
        for target in targets.iter() {
            self.cores[target.index()].interrupt.swap(1, Ordering::Release);
        }
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        while !panicking() && !done() {
            self.poll();
            yield_now();
        }
    }

    fn spin(&self) {
        yield_now();
    }

    fn broadcast(&self, asid: Asid, _: Flush) {
        for core in &self.cores {
            core.entries.set(core.entries.get() & !(1 << asid.get()));
        }
    }

    fn broadcast_everything(&self) {
        self.cores.iter().for_each(|core| core.entries.set(0));
    }

    fn broadcast_wait(&self) {}

    fn invalidate_kernel(&self, _: Flush) {}

    fn now(&self) -> u64 {
        self.clock.set(self.clock.get() + 1);
        self.clock.get()
    }
}
