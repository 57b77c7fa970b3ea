//! A machine on which the engine runs without time: it counts interrupts and delivers them at once.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};

use ceasefire::{
    AddressSpace, Asid, Broadcast, Capabilities, Cpu, CpuId, CpuSet, Engine, Flush, Holders, Platform, Root,
    MAX_CPUS,
};

/// The ASIDs of x86 that programs may have (Linux: `MAX_ASID_AVAILABLE`), and the pages of one broadcast (AMD EPYC 9004:
/// CPUID leaf `8000_0008`, EDX).
const ASIDS: u32 = 4094;
const BROADCAST_PAGES: u32 = 8;

/// A space that the machine runs.
pub(super) type Space = Rc<AddressSpace>;

/// The machine.
pub(super) struct Hardware {
    cpus: Box<[Cpu<Space>]>,
    here: Cell<CpuId>,
    now_ns: Cell<u64>,
    capabilities: Capabilities,
    engine: OnceCell<Weak<Engine<Hardware>>>,
    /// CPUs that were interrupted and have not answered yet.
    interrupted: RefCell<Vec<CpuId>>,
    interrupts: Cell<u64>,
    /// The interrupts that each CPU sent, and those that it received.
    sent: RefCell<Box<[u64]>>,
    received: RefCell<Box<[u64]>>,
}

impl std::fmt::Debug for Hardware {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hardware").field("cpus", &self.cpus.len()).finish_non_exhaustive()
    }
}

impl Hardware {
    /// A machine with so many CPUs, at most [`MAX_CPUS`].
    pub(super) fn new(cpus: usize, broadcasts: bool) -> Self {
        let cpus = cpus.clamp(1, MAX_CPUS);
        let broadcast =
            broadcasts.then(|| Broadcast::new(ASIDS, BROADCAST_PAGES, Holders::Wide).ok()).flatten();
        Self {
            cpus: (0..cpus).map(|_| Cpu::new()).collect(),
            here: Cell::new(CpuId::new(0).expect("an engine has at least one CPU")),
            now_ns: Cell::new(0),
            capabilities: Capabilities { clean_stores_walk: true, asids: true, broadcast },
            engine: OnceCell::new(),
            interrupted: RefCell::default(),
            interrupts: Cell::new(0),
            sent: RefCell::new(vec![0; cpus].into()),
            received: RefCell::new(vec![0; cpus].into()),
        }
    }

    /// Connects the machine with the engine that runs on it.
    pub(super) fn connect(engine: &Rc<Engine<Self>>) {
        // It is connected once, where it is made.
        let _ = engine.platform().engine.set(Rc::downgrade(engine));
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

    /// The interrupts so far.
    pub(super) fn interrupts(&self) -> u64 {
        self.interrupts.get()
    }

    /// The interrupts so far, by the CPU that sent them.
    pub(super) fn sent(&self) -> Vec<u64> {
        self.sent.borrow().to_vec()
    }

    /// The interrupts so far, by the CPU that received them.
    pub(super) fn received(&self) -> Vec<u64> {
        self.received.borrow().to_vec()
    }

    /// Lets the CPUs that were interrupted answer.
    fn answer(&self) {
        let here = self.here.get();
        while let Some(cpu) = { self.interrupted.borrow_mut().pop() } {
            self.here.set(cpu);
            if let Some(engine) = self.engine.get().and_then(Weak::upgrade) {
                engine.handle_interrupt();
            }
        }
        self.here.set(here);
    }
}

// SAFETY: one thread runs everything, and `here` is the CPU on which it does. It changes only in `at`, between calls of
// the engine, and in `answer`, which `wait` and `spin` call and which restores it. Interrupts arrive there alone, so
// none arrives between `save_interrupts` and `restore_interrupts`, in which the engine does not wait. Each CPU has a
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

    fn broadcast(&self, _: Asid, _: Flush) {}

    fn broadcast_everything(&self) {}

    fn broadcast_wait(&self) {}

    fn interrupt(&self, targets: &CpuSet) {
        let mut received = self.received.borrow_mut();
        self.sent.borrow_mut()[self.here.get().index()] += targets.iter().count() as u64;
        for target in targets.iter() {
            self.interrupts.set(self.interrupts.get() + 1);
            received[target.index()] += 1;
            self.interrupted.borrow_mut().push(target);
        }
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        self.answer();
        assert!(done(), "every CPU has answered");
    }

    fn now(&self) -> u64 {
        self.now_ns.get()
    }
}
