//! A machine on which the engine runs without time: it counts interrupts and delivers them at once.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use ceasefire::{
    AddressSpace, Asid, Bounds, Broadcast, Capabilities, Cpu, CpuId, CpuSet, Engine, Flush, Holders,
    Platform, Root, Walkers, MAX_CPUS,
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
    engine: Weak<Engine<Hardware>>,
    interrupts: Cell<u64>,
    /// The interrupts that each CPU sent.
    sent: Box<[Cell<u64>]>,
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
                interrupts: Cell::new(0),
                sent: (0..cpus).map(|_| Cell::new(0)).collect(),
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

    /// The interrupts so far.
    pub(super) fn interrupts(&self) -> u64 {
        self.interrupts.get()
    }

    /// The interrupts so far, by the CPU that sent them.
    pub(super) fn sent(&self) -> Vec<u64> {
        self.sent.iter().map(Cell::get).collect()
    }

    /// The interrupts so far, by the CPU that received them.
    pub(super) fn received(&self) -> Vec<u64> {
        self.cpus.iter().map(|cpu| cpu.counters().interrupts).collect()
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

    fn broadcast(&self, _: Asid, _: Flush) {}

    fn broadcast_everything(&self) {}

    fn broadcast_wait(&self) {}

    fn interrupt(&self, targets: &CpuSet) {
        let (here, mut sent) = (self.here.get(), 0);
        let engine = self.engine.upgrade().expect("it interrupts");
        for target in targets.iter() {
            self.here.set(target);
            engine.handle_interrupt();
            sent += 1;
        }
        self.here.set(here);
        self.sent[here.index()].set(self.sent[here.index()].get() + sent);
        self.interrupts.set(self.interrupts.get() + sent);
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        assert!(done(), "every CPU answers when it is interrupted");
    }

    fn now(&self) -> u64 {
        self.now_ns.get()
    }
}
