//! A machine whose CPUs are threads that take turns at random: the actions of one come between any two steps of
//! another.
//!
//! One thread runs at a time, and passes its turn at calls of the platform. So a seed determines the history and
//! reproduces it. The hardware is as unhelpful as it may be. It caches any translation of the loaded root at any moment
//! and evicts nothing by itself. It carries broadcasts only when they are waited for, and only to entries cached before
//! they were started.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;

use ceasefire::{
    AddressSpace, Asid, Bounds, Capabilities, Cpu, CpuId, CpuSet, Engine, Flush, Generation, Look, PageSize,
    Platform, Root, SpaceId, SINGLE_PAGE_CEILING,
};
use ceasefire_testing::{Scope, Started, Tlb};

use crate::script::id;

thread_local! {
    static ME: Cell<usize> = const { Cell::new(0) };
    static ENGINE: RefCell<Option<Arc<Engine<Threads>>>> = const { RefCell::new(None) };
}

/// Pages of a space, numbered from 0.
pub(crate) const PAGES: u64 = 3;

#[derive(Debug, Default)]
struct Hardware {
    /// The frame to which each entry leads, and the root through which it was found.
    tlb: Tlb<(Root, u64)>,
    /// The CPU is offline: broadcasts do not reach it.
    gone: bool,
    /// Broadcasts started and not waited for.
    started: Vec<Started>,
}

/// The state besides the engine.
#[derive(Debug, Default)]
pub(crate) struct World {
    hardware: Vec<Hardware>,
    moment: u64,
    /// All page tables: the frame of each page of each root. Frames are numbered, and no number is used twice.
    pub(crate) tables: HashMap<(Root, u64), u64>,
    /// The frames that no program may reach any more.
    pub(crate) gone: Vec<u64>,
    pub(crate) broken: Option<String>,
}

pub(crate) struct Threads {
    cpus: Vec<Cpu<Arc<AddressSpace>>>,
    capabilities: Capabilities,
    world: Mutex<World>,
    off: Vec<AtomicUsize>,
    interrupted: Vec<AtomicBool>,
    runners: OnceLock<Vec<Thread>>,
    turn: AtomicUsize,
    finished: AtomicUsize,
    /// The turn passes at one call in this many.
    patience: u64,
    random: AtomicU64,
    time: AtomicU64,
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").field("turn", &self.turn).finish_non_exhaustive()
    }
}

/// A thread that fails ends the run. Otherwise the others would wait for it for ever.
struct Fails;

impl Drop for Fails {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

impl Threads {
    /// Whether a CPU has loaded the root.
    pub(crate) fn is_loaded(&self, root: Root) -> bool {
        self.world()
            .hardware
            .iter()
            .any(|hardware| hardware.tlb.loaded().is_some_and(|(loaded, _)| loaded == root))
    }

    /// Whether a CPU has named the space as the one that it runs, and the ASID as its tag. No other CPU has its turn in
    /// this call.
    pub(crate) fn runs_under(&self, cpu: usize, space: SpaceId, asid: Asid) -> bool {
        self.cpus[cpu].loaded() == space && self.cpus[cpu].loaded_asid() == asid
    }

    pub(crate) fn engine(seed: u64, cpus: usize, capabilities: Capabilities, bounds: Bounds) -> Engine<Self> {
        let threads = Self {
            cpus: (0..cpus).map(|_| Cpu::new()).collect(),
            capabilities,
            world: Mutex::new(World {
                hardware: (0..cpus).map(|_| Hardware::default()).collect(),
                ..World::default()
            }),
            off: (0..cpus).map(|_| AtomicUsize::new(0)).collect(),
            interrupted: (0..cpus).map(|_| AtomicBool::new(false)).collect(),
            runners: OnceLock::new(),
            turn: AtomicUsize::new(0),
            finished: AtomicUsize::new(0),
            patience: 2 + seed % 7,
            random: AtomicU64::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            time: AtomicU64::new(0),
        };
        Engine::with_ceiling(threads, SINGLE_PAGE_CEILING).with_bounds(bounds)
    }

    /// Runs `program` on every CPU until all have ended.
    pub(crate) fn run(engine: &Arc<Engine<Self>>, program: impl Fn(&Engine<Self>, usize) + Sync) {
        let program = &program;
        std::thread::scope(|scope| {
            let start = |me| {
                move || {
                    let _fails = Fails;
                    let threads = engine.platform();
                    ME.set(me);
                    ENGINE.replace(Some(engine.clone()));
                    threads.await_turn();
                    program(engine, me);
                    drop(engine.unload());
                    threads.finished.fetch_add(1, SeqCst);
                    // Other CPUs may have sent requests to this one while it ran a program.
                    while threads.finished.load(SeqCst) < threads.cpus.len() {
                        threads.pause();
                    }
                    threads.hand_on((me + 1) % threads.cpus.len());
                }
            };
            let handles: Vec<_> =
                (0..engine.platform().cpus.len()).map(|me| scope.spawn(start(me))).collect();
            let runners = handles.iter().map(|handle| handle.thread().clone()).collect();
            engine.platform().runners.set(runners).expect("set once");
            handles[0].thread().unpark();
        });
    }

    /// A number below `end`.
    pub(crate) fn random(&self, end: u64) -> u64 {
        let mut x = self.random.load(SeqCst);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.random.store(x, SeqCst);
        (x >> 11) % end
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("a failure ends the run")
    }

    /// This CPU goes offline and comes back after a while.
    pub(crate) fn go_off(&self, engine: &Engine<Self>) {
        let off = engine.interrupts_off();
        drop(engine.offline());
        self.world().hardware[ME.get()].gone = true;
        for _ in 0..self.random(40) {
            self.pause();
        }
        self.world().hardware[ME.get()].gone = false;
        // A CPU that runs a space without `online` comes online by itself.
        if self.random(4) != 0 {
            engine.online();
        }
        drop(off);
    }

    pub(crate) fn pass(&self, nanoseconds: u64) {
        self.time.fetch_add(nanoseconds, SeqCst);
    }

    /// Waits for an action of another CPU, and answers requests meanwhile.
    pub(crate) fn pause(&self) {
        self.deliver();
        self.step();
    }

    fn await_turn(&self) {
        while self.runners.get().is_none() || self.turn.load(SeqCst) != ME.get() {
            std::thread::park();
        }
    }

    fn hand_on(&self, next: usize) {
        self.turn.store(next, SeqCst);
        self.runners.get().expect("all have started")[next].unpark();
    }

    /// Other CPUs may take their turn here.
    fn step(&self) {
        if self.runners.get().is_none() {
            return;
        }
        let count = self.cpus.len();
        if self.random(3) == 0 {
            let (cpu, page) = (self.random(count as u64) as usize, self.random(PAGES));
            self.cache(cpu, page);
        }
        let next = self.random(count as u64) as usize;
        if self.random(self.patience) == 0 && next != ME.get() && self.finished.load(SeqCst) < count {
            self.hand_on(next);
            self.await_turn();
        }
        if self.random(2) == 0 {
            self.deliver();
        }
    }

    fn deliver(&self) {
        let me = ME.get();
        if self.off[me].load(SeqCst) == 0 && self.interrupted[me].swap(false, SeqCst) {
            let engine = ENGINE.with_borrow(Clone::clone).expect("set when the thread began");
            self.interrupts_off(|| engine.handle_interrupt());
        }
    }

    fn cache(&self, cpu: usize, page: u64) {
        let World { hardware, moment, tables, .. } = &mut *self.world();
        let tlb = &mut hardware[cpu].tlb;
        let Some((root, asid)) = tlb.loaded() else { return };
        if let Some(&frame) = tables.get(&(root, page)) {
            *moment += 1;
            if tlb.find(Some(asid), page << 12).is_none() {
                tlb.fill(Some(asid), page << 12, PageSize::KIB_4, (root, frame), *moment);
            }
        }
    }

    /// The program of `root` that runs on this CPU uses all its pages.
    pub(crate) fn access(&self, root: Root) {
        let me = ME.get();
        for page in 0..PAGES {
            self.cache(me, page);
            let mut world = self.world();
            let tlb = &world.hardware[me].tlb;
            let Some((loaded, asid)) = tlb.loaded() else { continue };
            let filled = tlb.find(Some(asid), page << 12).copied();
            let wrong = filled.is_some_and(|(of, frame)| of != root || world.gone.contains(&frame));
            if loaded != root || wrong {
                let what = format!("CPU {me} runs {root:?} on {loaded:?} and finds {page} as {filled:?}");
                world.broken.get_or_insert(what);
            }
        }
    }

    /// Changes this CPU's hardware.
    fn mine(&self, change: impl FnOnce(&mut Hardware)) {
        self.step();
        change(&mut self.world().hardware[ME.get()]);
        self.step();
    }

    fn start(&self, scope: Scope, flush: Flush) {
        let mut world = self.world();
        world.moment += 1;
        let now = world.moment;
        world.hardware[ME.get()].started.push((scope, flush, now));
    }
}

// SAFETY: each thread is one CPU. Only the thread whose turn it is runs, and `handle_interrupt` runs on a CPU's own
// thread while its interrupts are on.
unsafe impl Platform for Threads {
    type Space = Arc<AddressSpace>;
    type Saved = ();

    fn capabilities(&self) -> Capabilities {
        self.step();
        self.capabilities
    }

    fn this_cpu(&self) -> CpuId {
        id(ME.get())
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<Self::Space> {
        self.step();
        &self.cpus[cpu.index()]
    }

    fn save_interrupts(&self) {
        self.off[ME.get()].fetch_add(1, SeqCst);
    }

    fn restore_interrupts(&self, (): ()) {
        self.off[ME.get()].fetch_sub(1, SeqCst);
    }

    fn interrupts_on(&self) -> bool {
        self.off[ME.get()].load(SeqCst) == 0
    }

    fn pin(&self) {
        self.step();
    }

    fn unpin(&self) {}

    fn spin(&self) {
        assert!(!self.interrupts_on(), "with interrupts on it waits");
        self.step();
    }

    fn load_root(&self, root: Root, asid: Asid, flush: bool) {
        self.mine(|hardware| hardware.tlb.load(root, asid, false));
        if flush {
            self.invalidate(asid, Flush::ALL);
        }
    }

    fn load_kernel_root(&self) {
        self.mine(|hardware| hardware.tlb.load_kernel());
    }

    fn invalidate(&self, asid: Asid, flush: Flush) {
        self.mine(|hardware| hardware.tlb.invalidate(Scope::Asid(asid), flush, u64::MAX));
    }

    fn invalidate_all(&self) {
        self.mine(|hardware| hardware.tlb.invalidate(Scope::Programs, Flush::ALL, u64::MAX));
    }

    fn interrupt(&self, targets: &CpuSet) {
        targets.iter().for_each(|target| self.interrupted[target.index()].store(true, SeqCst));
        self.step();
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        assert_eq!(self.off[ME.get()].load(SeqCst), 0, "waits with interrupts on");
        while !done() {
            self.pause();
        }
    }

    fn broadcast(&self, asid: Asid, flush: Flush) {
        self.start(Scope::Asid(asid), flush);
    }

    fn broadcast_everything(&self) {
        self.start(Scope::Programs, Flush::ALL);
    }

    fn broadcast_wait(&self) {
        self.step();
        let World { hardware, .. } = &mut *self.world();
        for (scope, flush, until) in std::mem::take(&mut hardware[ME.get()].started) {
            for hardware in hardware.iter_mut().filter(|hardware| !hardware.gone) {
                hardware.tlb.invalidate(scope, flush, until);
            }
        }
    }

    fn looks_at(&self, _: &AddressSpace, _: Generation) -> bool {
        self.random(2) == 0
    }

    /// At random, so spaces come and go.
    fn deserves_asid(&self, _: &AddressSpace, look: Look) -> bool {
        look.running > 0 && self.random(4) != 0
    }

    fn now(&self) -> u64 {
        self.time.fetch_add(1, SeqCst)
    }
}
