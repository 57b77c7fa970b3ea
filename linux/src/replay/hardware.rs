//! A machine on which the engine runs without time: it counts requests and delivers them at once. `pending` says which of
//! them would have interrupted.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use ceasefire::{
    AddressSpace, Asid, Bounds, Broadcast, Capabilities, Cpu, CpuId, CpuSet, Engine, Flush, Holders,
    Platform, Root, Walkers, MAX_CPUS,
};

use crate::replay::pending::{Answer, Pending};
use crate::shootdowns::Cause;

/// The ASIDs of x86 that programs may have (Linux: `MAX_ASID_AVAILABLE`), and the pages of one broadcast (AMD EPYC 9004:
/// CPUID leaf `8000_0008`, EDX).
const ASIDS: u32 = 4094;
const BROADCAST_PAGES: u32 = 8;

/// How many CPUs were asked to flush, and how many were interrupted for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// The requests.
    pub requests: u64,
    /// The interrupts: none for a CPU on which a request waited already.
    pub interrupts: u64,
}

impl std::ops::AddAssign for Asked {
    fn add_assign(&mut self, more: Self) {
        self.requests += more.requests;
        self.interrupts += more.interrupts;
    }
}

impl std::ops::Sub for Asked {
    type Output = Self;

    fn sub(self, less: Self) -> Self {
        Self { requests: self.requests - less.requests, interrupts: self.interrupts - less.interrupts }
    }
}

/// A space that the machine runs.
pub(super) type Space = Rc<AddressSpace>;

/// The machine.
pub(super) struct Hardware {
    cpus: Box<[Cpu<Space>]>,
    here: Cell<CpuId>,
    now_ns: Cell<u64>,
    capabilities: Capabilities,
    engine: Weak<Engine<Hardware>>,
    requests: Cell<u64>,
    /// The cause of the requests that are made now.
    cause: Cell<Cause>,
    /// The requests that each CPU sent, and those that it received.
    sent: Box<[Cell<u64>]>,
    received: Box<[Cell<u64>]>,
    pending: RefCell<Pending>,
}

/// A cell has one more.
fn more(count: &Cell<u64>) {
    count.set(count.get() + 1);
}

impl std::fmt::Debug for Hardware {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hardware").field("cpus", &self.cpus.len()).finish_non_exhaustive()
    }
}

impl Hardware {
    /// An engine on a machine with so many CPUs, at most [`MAX_CPUS`].
    pub(super) fn engine(cpus: usize, broadcasts: bool, bounds: Bounds) -> Rc<Engine<Self>> {
        let cpus = cpus.clamp(1, MAX_CPUS);
        let broadcast =
            broadcasts.then(|| Broadcast::new(ASIDS, BROADCAST_PAGES, Holders::Wide).ok()).flatten();
        Rc::new_cyclic(|engine| {
            let hardware = Self {
                cpus: (0..cpus).map(|_| Cpu::new()).collect(),
                here: Cell::new(CpuId::new(0).expect("an engine has at least one CPU")),
                now_ns: Cell::new(0),
                capabilities: Capabilities {
                    clean_stores_walk: true,
                    asids: true,
                    broadcast,
                    walkers: Walkers::Locked,
                },
                engine: engine.clone(),
                requests: Cell::new(0),
                cause: Cell::new(Cause::Other),
                sent: (0..cpus).map(|_| Cell::new(0)).collect(),
                received: (0..cpus).map(|_| Cell::new(0)).collect(),
                pending: RefCell::default(),
            };
            Engine::new(hardware).with_bounds(bounds)
        })
    }

    /// The number of CPUs.
    pub(super) fn cpu_count(&self) -> usize {
        self.cpus.len()
    }

    /// The next calls of the engine are made on a CPU, at a time.
    pub(super) fn at(&self, cpu: CpuId, now_ns: u64) {
        self.here.set(cpu);
        self.now_ns.set(self.now_ns.get().max(now_ns));
    }

    /// The next requests are those of a recorded flush; without answers, of none.
    pub(super) fn tell(&self, answers: &[Answer]) {
        self.pending.borrow_mut().tell(answers);
    }

    /// A CPU asks another one.
    pub(super) fn ask(&self, sender: CpuId, target: CpuId) {
        for count in [&self.requests, &self.sent[sender.index()], &self.received[target.index()]] {
            more(count);
        }
        let (sender, target) = (sender.index() as u32, target.index() as u32);
        self.pending.borrow_mut().ask(sender, target, self.cause.get(), self.now_ns.get());
    }

    /// The next requests are made for a cause.
    pub(super) fn works_for(&self, cause: Cause) {
        self.cause.set(cause);
    }

    /// The requests so far.
    pub(super) fn requests(&self) -> u64 {
        self.requests.get()
    }

    /// The requests so far, and the interrupts that they took.
    pub(super) fn asked(&self) -> Asked {
        Asked { requests: self.requests.get(), interrupts: self.pending.borrow().total() }
    }

    /// The interrupts so far, by cause.
    pub(super) fn interrupts(&self) -> BTreeMap<Cause, u64> {
        self.pending.borrow().interrupts.clone()
    }

    /// The requests so far, by the CPU that sent them.
    pub(super) fn sent(&self) -> Vec<u64> {
        self.sent.iter().map(Cell::get).collect()
    }

    /// The requests so far, by the CPU that received them.
    pub(super) fn received(&self) -> Vec<u64> {
        self.received.iter().map(Cell::get).collect()
    }
}

// SAFETY: one thread runs everything, and `here` is the CPU on which it does. It changes only in `at`, between calls of
// the engine, and in `interrupt`, which restores it. An interrupted CPU is inside no call of the engine. Each CPU has a
// `Cpu` of its own.
unsafe impl Platform for Hardware {
    type Space = Space;
    type Saved = ();

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn this_cpu(&self) -> CpuId {
        self.here.get()
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<Space> {
        &self.cpus[cpu.index()]
    }

    fn save_interrupts(&self) {}

    fn restore_interrupts(&self, (): ()) {}

    fn interrupts_on(&self) -> bool {
        true
    }

    fn pin(&self) {}

    fn unpin(&self) {}

    // There are no translations: only interrupts count.
    fn load_root(&self, _: Root, _: Asid, _: bool) {}

    fn load_kernel_root(&self) {}

    fn invalidate(&self, _: Asid, _: Flush) {}

    fn invalidate_all(&self) {}

    fn invalidate_kernel(&self, _: Flush) {}

    fn broadcast(&self, _: Asid, _: Flush) {}

    fn broadcast_everything(&self) {}

    fn broadcast_wait(&self) {}

    fn broadcast_kernel(&self, _: Flush) -> bool {
        self.capabilities.broadcast.is_some()
    }

    fn interrupt(&self, targets: &CpuSet) {
        let here = self.here.get();
        let engine = self.engine.upgrade().expect("it interrupts");
        for target in targets.iter() {
            self.ask(here, target);
            self.here.set(target);
            engine.handle_interrupt();
        }
        self.here.set(here);
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        assert!(done(), "every CPU answers when it is interrupted");
    }

    fn now(&self) -> u64 {
        self.now_ns.get()
    }
}
