//! A machine that does what a test says, one step at a time, on one thread.
//!
//! Each CPU has a TLB of its own that never evicts. Interrupts stay on their way until a CPU waits. A test can run code
//! in the middle of a root load or of a wait, as other CPUs would in that window. Broadcasts do the worst that they
//! may: nothing is invalidated before the CPU that started them waits, and then only entries that existed when they
//! started.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Deref;
use std::rc::{Rc, Weak};

use ceasefire::{
    AddressSpace, Asid, Bounds, Broadcast, Capabilities, Cpu, CpuId, CpuSet, Engine, Errata, Extent, Flush,
    FlushEvent, Generation, Holders, InterruptsOff, Look, PageSize, Platform, Reason, Root, Settled, SpaceId,
    Walkers,
};

use crate::locks::TableLock;
use crate::tlb::{Scope, Started, Tlb};

/// A space of the machine.
pub type Space = Rc<AddressSpace>;

/// An operation that the machine was asked to do, with the arguments of the call of [`Platform`].
#[allow(missing_docs)] // The fields are named after the arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// [`Platform::load_root`].
    Load { cpu: usize, root: Root, flush: bool },
    /// [`Platform::load_kernel_root`].
    LoadKernel { cpu: usize },
    /// [`Platform::invalidate`] of single pages.
    Pages { cpu: usize, start: u64, count: u32, size: PageSize },
    /// [`Platform::invalidate`] of everything under an ASID.
    Asid { cpu: usize },
    /// [`Platform::interrupt`], of one target.
    Interrupt { to: usize },
    /// [`Platform::broadcast`].
    Broadcast { cpu: usize, asid: u16, extent: Extent },
    /// [`Platform::broadcast_everything`].
    BroadcastEverything { cpu: usize },
    /// [`Platform::broadcast_wait`].
    BroadcastWait { cpu: usize },
    /// [`Platform::invalidate_devices`].
    Devices { space: SpaceId, flush: Flush },
    /// [`Platform::invalidate_kernel`].
    Kernel { cpu: usize, extent: Extent },
    /// [`Platform::invalidate_kernel_devices`].
    KernelDevices { flush: Flush },
    /// [`Platform::trace`].
    Trace { cpu: usize, event: FlushEvent },
}

/// The points at which a test may step in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// A root is about to be loaded: the CPU still runs on the old one.
    BeforeRoot,
    /// A root was just loaded.
    AfterRoot,
    /// A flush of kernel ranges is about to look at the CPUs.
    Look,
    /// A flush has picked its targets and is about to post its request.
    Send,
    /// A flush has sent its interrupts and waits; none was delivered yet.
    Wait,
    /// A flush with interrupts off waits; none of its interrupts was delivered yet.
    Spin,
    /// A CPU waits for its broadcasts; none is done yet.
    BroadcastWait,
    /// A CPU has flushed at its tick.
    Tick,
    /// A CPU has just invalidated entries of its own.
    Invalidated,
}

/// The source of a TLB entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// The root of the walk.
    pub root: Root,
    /// The number that the test gave it.
    pub stamp: u64,
}

#[derive(Debug, Default)]
struct Hardware {
    tlb: Tlb<Filled>,
    /// The CPU runs a program, and enters the kernel when it is interrupted.
    in_user: bool,
    /// Broadcasts started and not waited for.
    broadcasts: Vec<Started>,
    /// Broadcasts waited for once, where they must be [repeated](ceasefire::Errata::repeated).
    repeated: Vec<Started>,
    /// Broadcasts of other CPUs that have waited, where [everyone](ceasefire::Errata::everyone) must.
    foreign: Vec<Started>,
    interrupts_off: u32,
}

/// How the hardware carries broadcasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carried {
    /// To all CPUs, as late as they may be: when they are waited for. Arm, AMD.
    Late,
    /// To all CPUs, before the call returns, so there is nothing to wait for: RISC-V's remote fences.
    AtOnce,
    /// As late as they may be, to the CPUs that have ever run under the ASID: Intel's remote action requests.
    ToHolders,
}

type Hook = (Point, Box<dyn FnOnce()>);

/// The platform of a [`Machine`].
pub struct Script {
    engine: Weak<Engine<Script>>,
    cpus: Vec<Cpu<Space>>,
    hardware: Vec<RefCell<Hardware>>,
    this: Cell<usize>,
    capabilities: Capabilities,
    /// How broadcasts are carried, and the CPUs that have ever run under each ASID.
    carried: Cell<Carried>,
    holders: RefCell<BTreeSet<(usize, Asid)>>,
    queued: RefCell<VecDeque<usize>>,
    log: RefCell<Vec<Event>>,
    hook: RefCell<Option<Hook>>,
    time: Cell<u64>,
    /// The results of looks at spaces.
    looks: RefCell<Vec<Look>>,
    /// The number of fills and broadcasts so far, which gives their order.
    moment: Cell<u64>,
    pins: Cell<u32>,
    /// The CPUs for which a hypervisor or hardware flushes.
    elsewhere: RefCell<CpuSet>,
    /// The CPUs that run undisturbed.
    isolated: RefCell<BTreeSet<usize>>,
    /// The entries of the one device that walks spaces' tables.
    device: RefCell<BTreeMap<(SpaceId, u64), u64>>,
    /// The number of waits for walkers.
    awaited: Cell<u32>,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("this", &self.this).finish_non_exhaustive()
    }
}

impl Script {
    fn log(&self, event: Event) {
        self.log.borrow_mut().push(event);
    }

    fn reach(&self, point: Point) {
        if self.hook.borrow().as_ref().is_some_and(|(at, _)| *at == point) {
            let hook = self.hook.take();
            if let Some((_, run)) = hook {
                run();
            }
        }
    }

    fn tick(&self) -> u64 {
        self.moment.set(self.moment.get() + 1);
        self.moment.get()
    }

    fn mine(&self) -> &RefCell<Hardware> {
        &self.hardware[self.this.get()]
    }

    fn as_cpu<R>(&self, cpu: usize, run: impl FnOnce() -> R) -> R {
        let before = self.this.replace(cpu);
        let result = run();
        self.this.set(before);
        result
    }

    fn carry_at_once(&self) {
        if self.carried.get() == Carried::AtOnce {
            self.carry();
        }
    }

    /// The broadcasts that this CPU started take effect.
    fn carry(&self) {
        let Errata { repeated, everyone } =
            self.capabilities.broadcast.map_or(Errata::NONE, Broadcast::errata);
        let mut mine = std::mem::take(&mut self.mine().borrow_mut().broadcasts);
        if repeated && !mine.is_empty() {
            mine = std::mem::replace(&mut self.mine().borrow_mut().repeated, mine);
        }
        let foreign = std::mem::take(&mut self.mine().borrow_mut().foreign);
        for (scope, flush, at) in foreign {
            self.mine().borrow_mut().tlb.invalidate(scope, flush, at);
        }
        for (scope, flush, at) in mine {
            for (cpu, hardware) in self.hardware.iter().enumerate() {
                let holds = |asid| self.holders.borrow().contains(&(cpu, asid));
                if !matches!(scope, Scope::Asid(asid) if self.carried.get() == Carried::ToHolders && !holds(asid))
                {
                    if everyone && cpu != self.this.get() {
                        hardware.borrow_mut().foreign.push((scope, flush, at));
                    } else {
                        hardware.borrow_mut().tlb.invalidate(scope, flush, at);
                    }
                }
            }
        }
    }

    /// A broadcast is under way.
    fn start(&self, scope: Scope, flush: Flush) {
        let started = (scope, flush, self.tick());
        self.mine().borrow_mut().broadcasts.push(started);
    }

    fn deliver(&self, to: usize) {
        let engine = self.engine.upgrade().expect("the engine is alive while it waits");
        self.as_cpu(to, || {
            self.interrupts_off(|| {
                let from_user = self.mine().borrow().in_user;
                if from_user {
                    engine.enter_kernel();
                }
                engine.handle_interrupt();
                if from_user {
                    engine.enter_user();
                }
            });
        });
    }
}

// SAFETY: everything runs on one thread. `this_cpu` changes in `as_cpu`, which changes it back before the caller
// continues, and in `go`, which checks that interrupts are on. `handle_interrupt` runs on a CPU only while its interrupts are on (`wait` checks). `cpu` indexes an array.
unsafe impl Platform for Script {
    type Space = Space;
    /// Restored on drop, since a test that fails unwinds as another CPU.
    type Saved = usize;

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn this_cpu(&self) -> CpuId {
        id(self.this.get())
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<Self::Space> {
        &self.cpus[cpu.index()]
    }

    fn save_interrupts(&self) -> usize {
        let cpu = self.this.get();
        self.hardware[cpu].borrow_mut().interrupts_off += 1;
        cpu
    }

    fn restore_interrupts(&self, cpu: usize) {
        self.hardware[cpu].borrow_mut().interrupts_off -= 1;
    }

    fn interrupts_on(&self) -> bool {
        self.mine().borrow().interrupts_off == 0
    }

    fn pin(&self) {
        self.pins.set(self.pins.get() + 1);
    }

    fn unpin(&self) {
        self.pins.set(self.pins.get() - 1);
    }

    fn load_root(&self, root: Root, asid: Asid, flush: bool) {
        self.reach(Point::BeforeRoot);
        self.mine().borrow_mut().tlb.load(root, asid, flush);
        self.holders.borrow_mut().insert((self.this.get(), asid));
        self.log(Event::Load { cpu: self.this.get(), root, flush });
        self.reach(Point::AfterRoot);
    }

    fn load_kernel_root(&self) {
        self.mine().borrow_mut().tlb.load_kernel();
        self.log(Event::LoadKernel { cpu: self.this.get() });
    }

    fn invalidate(&self, asid: Asid, flush: Flush) {
        let cpu = self.this.get();
        if self.capabilities.broadcast.is_none() {
            let tlb = &self.mine().borrow().tlb;
            assert_eq!(tlb.loaded().map(|(_, loaded)| loaded), Some(asid), "it goes under the loaded ASID");
        }
        self.mine().borrow_mut().tlb.invalidate(Scope::Asid(asid), flush, u64::MAX);
        self.log(match flush.extent {
            Extent::All => Event::Asid { cpu },
            Extent::Pages { start, count, size } => Event::Pages { cpu, start, count, size },
        });
        self.reach(Point::Invalidated);
    }

    fn invalidate_all(&self) {
        self.mine().borrow_mut().tlb.invalidate(Scope::Programs, Flush::ALL, u64::MAX);
        self.reach(Point::Invalidated);
    }

    fn invalidate_kernel(&self, flush: Flush) {
        self.mine().borrow_mut().tlb.invalidate(Scope::Kernel, flush, u64::MAX);
        self.log(Event::Kernel { cpu: self.this.get(), extent: flush.extent });
        self.reach(Point::Invalidated);
    }

    fn broadcast_kernel(&self, flush: Flush) -> bool {
        self.reach(Point::Look);
        if self.capabilities.broadcast.is_none() {
            return false;
        }
        self.start(Scope::Kernel, flush);
        self.carry_at_once();
        true
    }

    fn runs_undisturbed(&self, cpu: CpuId) -> bool {
        assert_eq!(cpu, self.this_cpu());
        self.isolated.borrow().contains(&cpu.index())
    }

    fn invalidate_kernel_devices(&self, flush: Flush) {
        self.log(Event::KernelDevices { flush });
    }

    fn broadcast(&self, asid: Asid, flush: Flush) {
        let most = self.capabilities.broadcast.expect("the machine broadcasts").pages();
        if let Extent::Pages { count, .. } = flush.extent {
            assert!((1..=most).contains(&count), "{count} pages at once: the hardware takes up to {most}");
        }
        self.start(Scope::Asid(asid), flush);
        self.log(Event::Broadcast { cpu: self.this.get(), asid: asid.get(), extent: flush.extent });
        self.carry_at_once();
    }

    fn broadcast_everything(&self) {
        self.start(Scope::Programs, Flush::ALL);
        self.log(Event::BroadcastEverything { cpu: self.this.get() });
        self.carry_at_once();
    }

    fn broadcast_wait(&self) {
        self.reach(Point::BroadcastWait);
        self.carry();
        self.log(Event::BroadcastWait { cpu: self.this.get() });
    }

    fn await_walkers(&self) {
        self.awaited.set(self.awaited.get() + 1);
    }

    fn invalidate_devices(&self, space: &AddressSpace, flush: Flush) {
        self.device.borrow_mut().retain(|(owner, address), _| {
            let covered = flush.addresses().map_or(true, |mut all| all.any(|each| each == *address));
            *owner != space.id() || !covered
        });
        self.log(Event::Devices { space: space.id(), flush });
    }

    /// Exactly the request, under the tag that the CPU has published.
    fn flush_for(&self, targets: &mut CpuSet, space: SpaceId, flush: Flush) {
        targets.retain(|target| {
            let answers = self.elsewhere.borrow().contains(target);
            if answers {
                let cpu = self.cpu(target);
                let loaded = cpu.loaded();
                assert!(!cpu.is_lazy() && (space == SpaceId::NONE || space == loaded));
                let scope = Scope::Asid(cpu.loaded_asid());
                self.hardware[target.index()].borrow_mut().tlb.invalidate(scope, flush, u64::MAX);
            }
            !answers
        });
    }

    fn interrupt(&self, targets: &CpuSet) {
        for target in targets.iter() {
            assert!(
                self.capabilities
                    .broadcast
                    .map_or(true, |it| it.holders() == Holders::Wide || it.errata().everyone)
                    || self.capabilities.walkers != Walkers::Locked,
                "no CPU is interrupted where every space has a global ASID"
            );
            self.log(Event::Interrupt { to: target.index() });
            self.queued.borrow_mut().push_back(target.index());
        }
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        assert_eq!(self.mine().borrow().interrupts_off, 0, "waits with interrupts on");
        self.reach(Point::Wait);
        while !done() {
            let next = self.queued.borrow_mut().pop_front().expect("no CPU is left that could answer");
            if self.hardware[next].borrow().interrupts_off > 0 {
                // This happens only inside a hook: the target cannot continue before this flush is gone. The flush is
                // released here, and the test delivers the answer afterwards, with `deliver_all`.
                self.queued.borrow_mut().push_front(next);
                return;
            }
            self.deliver(next);
        }
    }

    fn spin(&self) {
        assert_ne!(self.mine().borrow().interrupts_off, 0, "with interrupts on it waits");
        self.reach(Point::Spin);
        let mut queued = self.queued.borrow_mut();
        let next = queued.iter().position(|cpu| self.hardware[*cpu].borrow().interrupts_off == 0);
        let next = next.and_then(|at| queued.remove(at));
        drop(queued);
        if let Some(next) = next {
            self.deliver(next);
        }
    }

    fn looks_at(&self, _: &AddressSpace, _: Generation) -> bool {
        true
    }

    /// Two CPUs are wide, and a space that is not wide gives its ASID back at once.
    fn deserves_asid(&self, _: &AddressSpace, look: Look) -> bool {
        self.looks.borrow_mut().push(look);
        look.running >= 2
    }

    fn now(&self) -> u64 {
        self.time.set(self.time.get() + 1);
        self.time.get()
    }

    fn trace(&self, event: FlushEvent) {
        match event.reason {
            Reason::RemoteSend => self.reach(Point::Send),
            Reason::Tick => self.reach(Point::Tick),
            _ => {}
        }
        self.log(Event::Trace { cpu: self.this.get(), event });
    }
}

/// A machine of scripted CPUs, and the engine that runs on it. Clones are handles on the same machine.
///
/// ```
/// use ceasefire::{Bounds, Flush, PageSize};
/// use ceasefire_testing::{Machine, Point, PROMISES};
///
/// let machine = Machine::new(2, PROMISES, 33, Bounds::STRICT);
/// let space = machine.space(1);
/// machine.switch(1, &space);
/// machine.fill(1, 0x1000, 7);
/// machine.at(Point::Wait, |machine| assert!(machine.cached(1, 0x1000).is_some(), "it has not answered yet"));
/// machine.flush(&space, Flush::page(0x1000, PageSize::KIB_4));
/// assert_eq!((machine.cached(1, 0x1000), machine.interrupted()), (None, vec![1]));
/// ```
#[derive(Debug, Clone)]
pub struct Machine(Rc<Engine<Script>>);

impl Deref for Machine {
    type Target = Engine<Script>;

    fn deref(&self) -> &Engine<Script> {
        &self.0
    }
}

/// CPU number `cpu`. Panics if the engine has no room for so many.
fn id(cpu: usize) -> CpuId {
    CpuId::new(cpu).expect("the engine has room for the machine's CPUs")
}

impl Machine {
    /// A machine whose engine has this ceiling of single pages in one flush, and these bounds of lazy debts. Time
    /// advances by a nanosecond each time it is read.
    pub fn new(cpus: usize, capabilities: Capabilities, ceiling: u32, bounds: Bounds) -> Self {
        Self(Rc::new_cyclic(|engine| {
            let script = Script {
                engine: engine.clone(),
                cpus: (0..cpus).map(|_| Cpu::new()).collect(),
                hardware: (0..cpus).map(|_| RefCell::default()).collect(),
                this: Cell::new(0),
                capabilities,
                carried: Cell::new(Carried::Late),
                holders: RefCell::default(),
                queued: RefCell::default(),
                log: RefCell::default(),
                hook: RefCell::default(),
                looks: RefCell::default(),
                time: Cell::new(0),
                moment: Cell::new(0),
                pins: Cell::new(0),
                elsewhere: RefCell::default(),
                isolated: RefCell::default(),
                device: RefCell::default(),
                awaited: Cell::new(0),
            };
            Engine::with_ceiling(script, ceiling).with_bounds(bounds)
        }))
    }

    /// A space; spaces differ in their roots.
    pub fn space(&self, root: u64) -> Space {
        Rc::new(self.0.new_space(Root(root)))
    }

    /// Continues as another CPU.
    ///
    /// # Panics
    /// If the CPU that it leaves has interrupts off, as it has inside the engine.
    pub fn go(&self, cpu: usize) {
        assert!(self.platform().interrupts_on(), "it leaves a CPU whose interrupts are off");
        self.platform().this.set(cpu);
    }

    /// Runs code as another CPU and comes back.
    pub fn on<R>(&self, cpu: usize, run: impl FnOnce(&Engine<Script>) -> R) -> R {
        self.platform().as_cpu(cpu, || run(&self.0))
    }

    /// The same machine, whose hardware carries broadcasts in this way.
    #[must_use]
    pub fn carrying(self, carried: Carried) -> Self {
        self.platform().carried.set(carried);
        self
    }

    /// `cpu` switches to a space.
    pub fn switch(&self, cpu: usize, space: &Space) {
        drop(self.on(cpu, |engine| engine.switch_to(space)));
    }

    /// `cpu` becomes lazy: it keeps its space and runs no program.
    pub fn lazy(&self, cpu: usize) {
        self.on(cpu, Engine::enter_lazy);
    }

    /// The same machine, whose hypervisor or hardware flushes for `cpus`.
    #[must_use]
    pub fn flushing_for(self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.platform().elsewhere.replace(cpus.into_iter().map(id).collect());
        self
    }

    /// The same machine, whose `cpus` run undisturbed.
    #[must_use]
    pub fn isolating(self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.platform().isolated.borrow_mut().extend(cpus);
        self
    }

    /// `cpu` leaves the kernel for a program.
    pub fn enter_user(&self, cpu: usize) {
        self.on(cpu, |engine| engine.platform().interrupts_off(|| engine.enter_user()));
        self.platform().hardware[cpu].borrow_mut().in_user = true;
    }

    /// `cpu` enters the kernel.
    pub fn enter_kernel(&self, cpu: usize) {
        self.platform().hardware[cpu].borrow_mut().in_user = false;
        self.on(cpu, |engine| engine.platform().interrupts_off(|| engine.enter_kernel()));
    }

    /// Whether `cpu` runs a program.
    pub fn in_user(&self, cpu: usize) -> bool {
        self.platform().hardware[cpu].borrow().in_user
    }

    /// The hardware of `cpu` caches a translation of a kernel range.
    pub fn fill_kernel(&self, cpu: usize, address: u64, stamp: u64) {
        let now = self.platform().tick();
        let tlb = &mut self.platform().hardware[cpu].borrow_mut().tlb;
        tlb.fill(None, address, PageSize::KIB_4, Filled { root: Root(0), stamp }, now);
        tlb.remember(None, address, (), now);
    }

    /// The entry that `cpu` has cached of the kernel's ranges for `address`.
    pub fn kernel_cached(&self, cpu: usize, address: u64) -> Option<u64> {
        self.platform().hardware[cpu].borrow().tlb.find(None, address).map(|filled| filled.stamp)
    }

    /// Whether the walker of `cpu` remembers the lowest-level table of `address` in the kernel's ranges.
    pub fn kernel_walked(&self, cpu: usize, address: u64) -> bool {
        self.platform().hardware[cpu].borrow().tlb.walked(None, address).is_some()
    }

    /// Nothing happens at the next point after all.
    pub fn forget_hook(&self) {
        self.platform().hook.take();
    }

    /// Turns the interrupts of `cpu` off.
    pub fn off(&self, cpu: usize) -> InterruptsOff<'_, Script> {
        self.platform().as_cpu(cpu, || self.interrupts_off())
    }

    /// Whether the current CPU has interrupts on, and how often its task is pinned.
    pub fn kept(&self) -> (bool, u32) {
        (self.platform().interrupts_on(), self.platform().pins.get())
    }

    /// The timer of `cpu` ticks. True if a debt is too old.
    pub fn tick(&self, cpu: usize) -> bool {
        self.on(cpu, |engine| engine.platform().interrupts_off(|| engine.tick()))
    }

    /// The result of the last look at a space.
    ///
    /// # Panics
    /// If the engine has not looked at one.
    pub fn last_look(&self) -> Look {
        *self.platform().looks.borrow().last().expect("a flush, and then a look")
    }

    /// Time passes.
    pub fn pass(&self, nanoseconds: u64) {
        let time = &self.platform().time;
        time.set(time.get() + nanoseconds);
    }

    /// Sets the act for the next time that the machine reaches `point`.
    ///
    /// # Panics
    /// If another act still waits for its point.
    pub fn at(&self, point: Point, run: impl FnOnce(&Machine) + 'static) {
        let machine = self.clone();
        let before = self.platform().hook.replace(Some((point, Box::new(move || run(&machine)))));
        assert!(before.is_none(), "the hook before this one never ran");
    }

    /// Delivers the interrupts that are on their way.
    pub fn deliver_all(&self) {
        let next = || self.platform().queued.borrow_mut().pop_front();
        while let Some(cpu) = next() {
            self.platform().deliver(cpu);
        }
    }

    /// The hardware of `cpu` caches a translation of its loaded space.
    pub fn fill(&self, cpu: usize, address: u64, stamp: u64) {
        self.fill_page(cpu, address, PageSize::KIB_4, stamp);
    }

    /// The same with the translation of 2 MiB at `address`.
    pub fn fill_huge(&self, cpu: usize, address: u64, stamp: u64) {
        self.fill_page(cpu, address, PageSize::MIB_2, stamp);
    }

    fn fill_page(&self, cpu: usize, address: u64, size: PageSize, stamp: u64) {
        let now = self.platform().tick();
        let tlb = &mut self.platform().hardware[cpu].borrow_mut().tlb;
        let (root, asid) = tlb.loaded().expect("a root is loaded");
        tlb.fill(Some(asid), address, size, Filled { root, stamp }, now);
        tlb.remember(Some(asid), address, (), now);
    }

    /// The device caches a translation of `space`.
    pub fn device_fill(&self, space: &AddressSpace, address: u64, stamp: u64) {
        self.platform().device.borrow_mut().insert((space.id(), address), stamp);
    }

    /// The translation that the device would use for `address` of `space`.
    pub fn device_cached(&self, space: &AddressSpace, address: u64) -> Option<u64> {
        self.platform().device.borrow().get(&(space.id(), address)).copied()
    }

    /// Whether the walker of `cpu` remembers the lowest-level table of `address` under `asid`.
    pub fn walked(&self, cpu: usize, asid: Asid, address: u64) -> bool {
        self.platform().hardware[cpu].borrow().tlb.walked(Some(asid), address).is_some()
    }

    /// The task on CPU `from` moves to `to`: the switch waits for its broadcasts.
    pub fn move_task(&self, from: usize, to: usize) {
        if from != to && self.platform().capabilities.broadcast.is_some() {
            self.platform().as_cpu(from, || self.platform().broadcast_wait());
        }
        self.go(to);
    }

    /// A page-table lock, just taken, under which the space is settled.
    pub fn settled(&self, space: &Space) -> Settled<TableLock<Space>> {
        self.settle(TableLock(space.clone()))
    }

    /// The translation that `cpu` would use for `address` now.
    pub fn cached(&self, cpu: usize, address: u64) -> Option<Filled> {
        let tlb = &self.platform().hardware[cpu].borrow().tlb;
        tlb.loaded().and_then(|(_, asid)| tlb.find(Some(asid), address).copied())
    }

    /// All translations that `cpu` could use now, with their addresses.
    pub fn usable(&self, cpu: usize) -> Vec<(u64, Filled)> {
        let tlb = &self.platform().hardware[cpu].borrow().tlb;
        let Some((_, asid)) = tlb.loaded() else { return Vec::new() };
        tlb.entries(Some(asid)).map(|(address, filled)| (address, *filled)).collect()
    }

    /// The root in the hardware of `cpu`.
    pub fn root(&self, cpu: usize) -> Option<Root> {
        self.platform().hardware[cpu].borrow().tlb.loaded().map(|(root, _)| root)
    }

    /// The number of [waits for walkers](Platform::await_walkers) so far.
    pub fn awaited(&self) -> u32 {
        self.platform().awaited.get()
    }

    /// The engine's state of `cpu`.
    pub fn cpu(&self, cpu: usize) -> &Cpu<Space> {
        &self.platform().cpus[cpu]
    }

    /// The events since the last look.
    pub fn events(&self) -> Vec<Event> {
        self.platform().log.take()
    }

    /// The CPUs that were interrupted since the last look.
    pub fn interrupted(&self) -> Vec<usize> {
        let to = |event| if let Event::Interrupt { to } = event { Some(to) } else { None };
        self.events().into_iter().filter_map(to).collect()
    }

    /// The trace since the last look: CPU, reason, pages.
    pub fn traced(&self) -> Vec<(usize, Reason, Option<u32>)> {
        let line = |event| match event {
            Event::Trace { cpu, event } => Some((cpu, event.reason, event.pages)),
            _ => None,
        };
        self.events().into_iter().filter_map(line).collect()
    }
}
