//! A machine on which the engine runs without time: it has no translations, and interrupts are answered at once.

use std::cell::Cell;
use std::fmt;
use std::rc::{Rc, Weak};

use ceasefire::{
    AddressSpace, Asid, Bounds, Capabilities, Cpu, CpuId, CpuSet, Engine, Flush, Platform, Root,
};

/// A machine that counts interrupts and does nothing else. One thread plays all its CPUs in turn.
///
/// ```
/// use std::rc::Rc;
/// use ceasefire::{AddressSpace, Bounds, Flush, PageSize, Root};
/// use ceasefire_testing::{Silent, PROMISES};
///
/// let engine = Silent::<Rc<AddressSpace>>::engine(2, PROMISES, Bounds::STRICT);
/// let space = Rc::new(engine.new_space(Root(1)));
/// engine.platform().go(1);
/// drop(engine.switch_to(&space));
/// engine.platform().go(0);
/// engine.flush(&space, Flush::page(0x1000, PageSize::KIB_4));
/// assert_eq!((engine.platform().sent(), engine.platform().received()), (vec![1, 0], vec![0, 1]));
/// ```
pub struct Silent<S> {
    cpus: Box<[Cpu<S>]>,
    capabilities: Capabilities,
    here: Cell<CpuId>,
    now_ns: Cell<u64>,
    engine: Weak<Engine<Silent<S>>>,
    /// The interrupts that each CPU sent.
    sent: Box<[Cell<u64>]>,
}

impl<S> fmt::Debug for Silent<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Silent").field("cpus", &self.cpus.len()).finish_non_exhaustive()
    }
}

impl<S: Clone + AsRef<AddressSpace> + fmt::Debug> Silent<S> {
    /// An engine on a machine with so many CPUs. Its calls are made on the first of them, at time 0.
    ///
    /// # Panics
    /// Unless there are 1 to [`MAX_CPUS`](ceasefire::MAX_CPUS) CPUs.
    pub fn engine(cpus: usize, capabilities: Capabilities, bounds: Bounds) -> Rc<Engine<Self>> {
        assert!((1..=ceasefire::MAX_CPUS).contains(&cpus), "a machine of {cpus} CPUs");
        Rc::new_cyclic(|engine| {
            let silent = Self {
                cpus: (0..cpus).map(|_| Cpu::new()).collect(),
                capabilities,
                here: Cell::new(CpuId::new(0).expect("an engine has at least one CPU")),
                now_ns: Cell::new(0),
                engine: engine.clone(),
                sent: (0..cpus).map(|_| Cell::new(0)).collect(),
            };
            Engine::new(silent).with_bounds(bounds)
        })
    }

    /// The next calls of the engine are made on CPU number `cpu`.
    ///
    /// # Panics
    /// If the engine has no room for such a CPU.
    pub fn go(&self, cpu: usize) {
        self.here.set(CpuId::new(cpu).expect("a CPU of the machine"));
    }

    /// Sets the time in nanoseconds, unless it is later already.
    pub fn set_time(&self, now_ns: u64) {
        self.now_ns.set(self.now_ns.get().max(now_ns));
    }

    /// The interrupts so far, by the CPU that sent them.
    pub fn sent(&self) -> Vec<u64> {
        self.sent.iter().map(Cell::get).collect()
    }

    /// The interrupts so far, by the CPU that received them.
    pub fn received(&self) -> Vec<u64> {
        self.cpus.iter().map(|cpu| cpu.counters().interrupts).collect()
    }
}

// SAFETY: one thread runs everything, and `here` is the CPU on which it does. It changes only in `go`, between calls of
// the engine, and in `interrupt`, which restores it. An interrupted CPU is inside no call of the engine. `cpu` indexes
// an array, so each CPU has a `Cpu` of its own.
unsafe impl<S: Clone + AsRef<AddressSpace> + fmt::Debug> Platform for Silent<S> {
    type Space = S;
    type Saved = ();

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn this_cpu(&self) -> CpuId {
        self.here.get()
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<S> {
        &self.cpus[cpu.index()]
    }

    fn save_interrupts(&self) {}

    fn restore_interrupts(&self, (): ()) {}

    fn interrupts_on(&self) -> bool {
        true
    }

    fn pin(&self) {}

    fn unpin(&self) {}

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
        let count = &self.sent[here.index()];
        count.set(count.get() + sent);
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        assert!(done(), "every CPU answers when it is interrupted");
    }

    fn now(&self) -> u64 {
        self.now_ns.get()
    }
}
