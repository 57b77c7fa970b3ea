//! A machine that does what a test says, one step at a time, on one thread.
//!
//! Each CPU has a TLB of its own that never evicts. Interrupts stay on their way until a CPU waits. A test can run code
//! in the middle of a root load or of a wait, as other CPUs would in that window. Broadcasts do the worst that they
//! may: nothing is invalidated before the CPU that started them waits, and then only entries that existed when they
//! started.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Deref;
use std::rc::{Rc, Weak};

use ceasefire::{
    AddressSpace, Asid, Bounds, Broadcast, Capabilities, Cpu, CpuId, CpuSet, Engine, Extent, Flush,
    FlushEvent, Generation, Holders, InterruptsOff, Look, PageSize, Payment, Platform, Reason, Root, Settled,
    SpaceId, DYNAMIC_ASIDS, SINGLE_PAGE_CEILING,
};

use crate::hands::TableLock;

pub(crate) type Space = Rc<AddressSpace>;

/// The operations that the machine was asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    Load { cpu: usize, root: Root, flush: bool },
    LoadKernel { cpu: usize },
    Pages { cpu: usize, start: u64, count: u32, size: PageSize },
    Asid { cpu: usize },
    Interrupt { to: usize },
    Broadcast { cpu: usize, asid: u16, extent: Extent },
    BroadcastEverything { cpu: usize },
    BroadcastWait { cpu: usize },
    Devices { space: SpaceId, flush: Flush },
    Kernel { cpu: usize, extent: Extent },
    KernelDevices { flush: Flush },
    Trace { cpu: usize, event: FlushEvent },
}

/// The points at which a test may step in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
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
}

/// The source of a TLB entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) root: Root,
    pub(crate) stamp: u64,
}

#[derive(Debug, Default)]
struct Hardware {
    root: Option<(Root, Asid)>,
    /// By tag and address, with the moment of the fill.
    entries: BTreeMap<(u16, u64), (Filled, u64)>,
    /// Which of them translate 2 MiB.
    huge: BTreeSet<(u16, u64)>,
    /// Lowest-level tables that the walker remembers, by tag and the address divided by what a table translates.
    walked: BTreeMap<(u16, u64), u64>,
    /// Entries of kernel ranges, by address, with when they were filled, and the walker's tables on the way.
    kernel: BTreeMap<u64, (u64, u64)>,
    kernel_walked: BTreeMap<u64, u64>,
    /// The CPU runs a program, and enters the kernel when it is interrupted.
    in_user: bool,
    /// Broadcasts started and not waited for.
    broadcasts: Vec<Started>,
    kernel_broadcasts: Vec<(Flush, u64)>,
    interrupts_off: u32,
}

/// A broadcast under way: the tag, or none for all tags, and its start.
#[derive(Debug, Clone, Copy)]
struct Started {
    tagged: Option<(u16, Flush)>,
    at: u64,
}

impl Hardware {
    /// Invalidates the entries of the kernel's ranges that `flush` covers and that were filled before `moment`.
    fn forget_kernel(&mut self, flush: Flush, moment: u64) {
        let (entries, tables) = match flush.extent {
            Extent::All => (0..u64::MAX, 0..u64::MAX),
            Extent::Pages { start, count, size } => {
                let end = start.saturating_add(u64::from(count) << size.shift());
                (start..end, start >> 21..end.div_ceil(1 << 21))
            }
        };
        self.kernel.retain(|address, (_, at)| !entries.contains(address) || *at > moment);
        let keeps = !flush.tables;
        self.kernel_walked.retain(|table, at| keeps || !tables.contains(table) || *at > moment);
    }

    /// Invalidates the entries tagged with `asid` that lie in `extent` and were filled before `moment`. With `tables`,
    /// the tables on the way to them go too. Without, it looks only for the stated size, unless several are `mixed`.
    fn forget(&mut self, asid: u16, Flush { extent, tables: way, mixed }: Flush, moment: u64) {
        let (entries, tables) = match extent {
            Extent::All => (0..u64::MAX, 0..u64::MAX),
            Extent::Pages { start, count, size } => {
                let end = start.saturating_add(u64::from(count) << size.shift());
                (start..end, start >> 21..end.div_ceil(1 << 21))
            }
        };
        let huge = &self.huge;
        let passed_over = |entry: &(u16, u64)| match extent {
            Extent::Pages { size, .. } if !way && !mixed => huge.contains(entry) != (size == PageSize::MIB_2),
            _ => false,
        };
        self.entries.retain(|entry, (_, at)| {
            entry.0 != asid || !entries.contains(&entry.1) || *at > moment || passed_over(entry)
        });
        let keeps = !way && extent != Extent::All;
        self.walked
            .retain(|(tag, table), at| keeps || *tag != asid || !tables.contains(table) || *at > moment);
    }
}

/// How the hardware carries broadcasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carried {
    /// To all CPUs, as late as they may be: when they are waited for. Arm, AMD.
    Late,
    /// To all CPUs, before the call returns, so there is nothing to wait for: RISC-V's remote fences.
    AtOnce,
    /// As late as they may be, to the CPUs that have ever run under the ASID: Intel's remote action requests.
    ToHolders,
}

type Hook = (Point, Box<dyn FnOnce()>);

pub(crate) struct Script {
    engine: OnceCell<Weak<Engine<Script>>>,
    cpus: Vec<Cpu<Rc<AddressSpace>>>,
    hardware: Vec<RefCell<Hardware>>,
    this: Cell<usize>,
    capabilities: Capabilities,
    /// How broadcasts are carried, and the CPUs that have ever run under each ASID.
    carried: Cell<Carried>,
    holders: RefCell<BTreeSet<(usize, u16)>>,
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
            let hook = self.hook.borrow_mut().take();
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
        let kernel = std::mem::take(&mut self.mine().borrow_mut().kernel_broadcasts);
        for (flush, at) in kernel {
            self.hardware.iter().for_each(|hardware| hardware.borrow_mut().forget_kernel(flush, at));
        }
        let mine = std::mem::take(&mut self.mine().borrow_mut().broadcasts);
        for Started { tagged, at } in mine {
            for (cpu, hardware) in self.hardware.iter().enumerate() {
                let mut hardware = hardware.borrow_mut();
                match tagged {
                    Some((asid, _)) if self.carried.get() == Carried::ToHolders && !self.held(cpu, asid) => {}
                    Some((asid, flush)) => hardware.forget(asid, flush, at),
                    None => {
                        hardware.entries.retain(|_, (_, filled)| *filled > at);
                        hardware.walked.retain(|_, filled| *filled > at);
                    }
                }
            }
        }
    }

    fn held(&self, cpu: usize, asid: u16) -> bool {
        self.holders.borrow().contains(&(cpu, asid))
    }

    fn deliver(&self, to: usize) {
        let engine = self.engine.get().and_then(Weak::upgrade).expect("the engine is alive while it waits");
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

// SAFETY: everything runs on one thread. `this_cpu` changes only in `as_cpu`, which changes it back before the caller
// continues. `handle_interrupt` runs on a CPU only while its interrupts are on (`wait` checks). `cpu` indexes an array.
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
        {
            let mut hardware = self.mine().borrow_mut();
            hardware.root = Some((root, asid));
            self.holders.borrow_mut().insert((self.this.get(), asid.get()));
            if flush {
                hardware.forget(asid.get(), Flush::ALL, u64::MAX);
            }
        }
        self.log(Event::Load { cpu: self.this.get(), root, flush });
        self.reach(Point::AfterRoot);
    }

    fn load_kernel_root(&self) {
        self.mine().borrow_mut().root = None;
        self.log(Event::LoadKernel { cpu: self.this.get() });
    }

    /// Exactly what the flush says: walkers keep their entries unless tables are freed.
    fn invalidate(&self, asid: Asid, flush: Flush) {
        let cpu = self.this.get();
        let mut hardware = self.mine().borrow_mut();
        if self.capabilities.broadcast.is_none() {
            assert_eq!(hardware.root.map(|(_, loaded)| loaded), Some(asid), "it goes under the loaded ASID");
        }
        hardware.forget(asid.get(), flush, u64::MAX);
        drop(hardware);
        self.log(match flush.extent {
            Extent::All => Event::Asid { cpu },
            Extent::Pages { start, count, size } => Event::Pages { cpu, start, count, size },
        });
    }

    fn invalidate_all(&self) {
        self.mine().borrow_mut().entries.clear();
        self.mine().borrow_mut().walked.clear();
    }

    fn invalidate_kernel(&self, flush: Flush) {
        self.mine().borrow_mut().forget_kernel(flush, u64::MAX);
        self.log(Event::Kernel { cpu: self.this.get(), extent: flush.extent });
    }

    fn broadcast_kernel(&self, flush: Flush) -> bool {
        self.reach(Point::Look);
        if self.capabilities.broadcast.is_none() {
            return false;
        }
        let at = self.tick();
        self.mine().borrow_mut().kernel_broadcasts.push((flush, at));
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
        let started = Started { tagged: Some((asid.get(), flush)), at: self.tick() };
        self.mine().borrow_mut().broadcasts.push(started);
        self.log(Event::Broadcast { cpu: self.this.get(), asid: asid.get(), extent: flush.extent });
        self.carry_at_once();
    }

    fn broadcast_everything(&self) {
        let started = Started { tagged: None, at: self.tick() };
        self.mine().borrow_mut().broadcasts.push(started);
        self.log(Event::BroadcastEverything { cpu: self.this.get() });
        self.carry_at_once();
    }

    fn broadcast_wait(&self) {
        self.reach(Point::BroadcastWait);
        self.carry();
        self.log(Event::BroadcastWait { cpu: self.this.get() });
    }

    fn invalidate_devices(&self, space: &AddressSpace, flush: Flush) {
        self.device.borrow_mut().retain(|(owner, address), _| {
            let covered = match flush.extent {
                Extent::All => true,
                Extent::Pages { start, count, size } => {
                    (start..start + (u64::from(count) << size.shift())).contains(address)
                }
            };
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
                let asid = cpu.loaded_asid().get();
                self.hardware[target.index()].borrow_mut().forget(asid, flush, u64::MAX);
            }
            !answers
        });
    }

    fn interrupt(&self, targets: &CpuSet) {
        for target in targets.iter() {
            assert!(
                self.capabilities.broadcast.map_or(true, |it| it.holders() == Holders::Wide),
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
        if event.reason == Reason::RemoteSend {
            self.reach(Point::Send);
        }
        if event.reason == Reason::Tick {
            self.reach(Point::Tick);
        }
        self.log(Event::Trace { cpu: self.this.get(), event });
    }
}

/// A handle on the machine and its engine.
#[derive(Debug, Clone)]
pub(crate) struct Machine(Rc<Engine<Script>>);

impl Deref for Machine {
    type Target = Engine<Script>;

    fn deref(&self) -> &Engine<Script> {
        &self.0
    }
}

pub(crate) fn id(cpu: usize) -> CpuId {
    CpuId::new(cpu).unwrap()
}

/// Everything but broadcasts.
pub(crate) const PROMISES: Capabilities =
    Capabilities { clean_stores_walk: true, asids: true, broadcast: None };

/// A machine that promises everything but broadcasts.
pub(crate) fn machine(cpus: usize) -> Machine {
    machine_with(cpus, PROMISES)
}

/// Everything, with `asids` ASIDs, of which every space gets one.
pub(crate) fn every(asids: u32) -> Capabilities {
    let broadcast = Broadcast::new(asids, 4, Holders::Every).expect("enough ASIDs");
    Capabilities { broadcast: Some(broadcast), ..PROMISES }
}

/// Everything, with `asids` ASIDs beside the slots, for spaces that two CPUs run at once.
pub(crate) fn wide(asids: u32) -> Capabilities {
    let broadcast = Broadcast::new(DYNAMIC_ASIDS as u32 + asids, 4, Holders::Wide).expect("enough ASIDs");
    Capabilities { broadcast: Some(broadcast), ..PROMISES }
}

/// A machine that broadcasts, with `asids` ASIDs, of which every space gets one.
pub(crate) fn broadcasting(cpus: usize, asids: u32) -> Machine {
    machine_with(cpus, every(asids))
}

/// A machine that broadcasts for spaces that two CPUs run at once, and interrupts for the others.
pub(crate) fn hybrid(cpus: usize, asids: u32) -> Machine {
    machine_with(cpus, wide(asids))
}

/// The same, whose batches may leave debts.
pub(crate) fn lazy_hybrid(cpus: usize, asids: u32) -> Machine {
    lazy_with(cpus, wide(asids), Payment::Free)
}

/// A machine that broadcasts for every space, whose batches may leave debts.
pub(crate) fn lazy_broadcasting(cpus: usize, asids: u32) -> Machine {
    lazy_with(cpus, every(asids), Payment::Free)
}

pub(crate) fn machine_with(cpus: usize, capabilities: Capabilities) -> Machine {
    build(cpus, capabilities, SINGLE_PAGE_CEILING)
}

/// A machine that promises everything, with a flush ceiling of its own.
pub(crate) fn machine_with_ceiling(cpus: usize, ceiling: u32) -> Machine {
    build(cpus, PROMISES, ceiling)
}

/// A machine that promises everything but broadcasts, whose lazy batches may leave debts of up to 1000 ns. Time
/// advances by a nanosecond each time it is read.
pub(crate) fn lazy(cpus: usize) -> Machine {
    lazy_until(cpus, Payment::Free)
}

/// The same, with debts settled as `settle` says.
pub(crate) fn lazy_until(cpus: usize, payment: Payment) -> Machine {
    lazy_with(cpus, PROMISES, payment)
}

/// A machine whose batches may leave debts of up to 1000 ns, with these promises.
pub(crate) fn lazy_with(cpus: usize, capabilities: Capabilities, payment: Payment) -> Machine {
    let bounds = Bounds::new(1000, 100, payment).expect("they can be kept");
    within(cpus, capabilities, SINGLE_PAGE_CEILING, bounds)
}

fn build(cpus: usize, capabilities: Capabilities, ceiling: u32) -> Machine {
    within(cpus, capabilities, ceiling, Bounds::STRICT)
}

pub(crate) fn within(cpus: usize, capabilities: Capabilities, ceiling: u32, bounds: Bounds) -> Machine {
    let script = Script {
        engine: OnceCell::new(),
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
    };
    let engine = Rc::new(Engine::with_ceiling(script, ceiling).with_bounds(bounds));
    engine.platform().engine.set(Rc::downgrade(&engine)).expect("set once");
    Machine(engine)
}

impl Machine {
    /// A space; spaces differ in their roots.
    pub(crate) fn space(&self, root: u64) -> Space {
        Rc::new(self.0.new_space(Root(root)))
    }

    /// Continues as another CPU.
    pub(crate) fn go(&self, cpu: usize) {
        self.platform().this.set(cpu);
    }

    /// Runs code as another CPU and comes back.
    pub(crate) fn on<R>(&self, cpu: usize, run: impl FnOnce(&Engine<Script>) -> R) -> R {
        self.platform().as_cpu(cpu, || run(&self.0))
    }

    /// The same machine, whose hardware carries broadcasts in this way.
    pub(crate) fn carrying(self, carried: Carried) -> Self {
        self.platform().carried.set(carried);
        self
    }

    pub(crate) fn switch(&self, cpu: usize, space: &Space) {
        drop(self.on(cpu, |engine| engine.switch_to(space)));
    }

    pub(crate) fn lazy(&self, cpu: usize) {
        self.on(cpu, Engine::enter_lazy);
    }

    /// The same machine, whose hypervisor or hardware flushes for `cpus`.
    pub(crate) fn flushing_for(self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.platform().elsewhere.replace(cpus.into_iter().map(id).collect());
        self
    }

    /// The same machine, whose `cpus` run undisturbed.
    pub(crate) fn isolating(self, cpus: impl IntoIterator<Item = usize>) -> Self {
        self.platform().isolated.borrow_mut().extend(cpus);
        self
    }

    /// `cpu` leaves the kernel for a program.
    pub(crate) fn enter_user(&self, cpu: usize) {
        self.on(cpu, |engine| engine.platform().interrupts_off(|| engine.enter_user()));
        self.platform().hardware[cpu].borrow_mut().in_user = true;
    }

    /// `cpu` enters the kernel.
    pub(crate) fn enter_kernel(&self, cpu: usize) {
        self.platform().hardware[cpu].borrow_mut().in_user = false;
        self.on(cpu, |engine| engine.platform().interrupts_off(|| engine.enter_kernel()));
    }

    /// Whether `cpu` runs a program.
    pub(crate) fn in_user(&self, cpu: usize) -> bool {
        self.platform().hardware[cpu].borrow().in_user
    }

    /// The hardware of `cpu` caches a translation of a kernel range.
    pub(crate) fn fill_kernel(&self, cpu: usize, address: u64, stamp: u64) {
        let now = self.platform().tick();
        let mut hardware = self.platform().hardware[cpu].borrow_mut();
        hardware.kernel.insert(address, (stamp, now));
        hardware.kernel_walked.insert(address >> 21, now);
    }

    /// The entry that `cpu` has cached of the kernel's ranges for `address`.
    pub(crate) fn kernel_cached(&self, cpu: usize, address: u64) -> Option<u64> {
        self.platform().hardware[cpu].borrow().kernel.get(&address).map(|(stamp, _)| *stamp)
    }

    /// Whether the walker of `cpu` remembers the lowest-level table of `address` in the kernel's ranges.
    pub(crate) fn kernel_walked(&self, cpu: usize, address: u64) -> bool {
        self.platform().hardware[cpu].borrow().kernel_walked.contains_key(&(address >> 21))
    }

    /// Nothing happens at the next point after all.
    pub(crate) fn forget_hook(&self) {
        self.platform().hook.take();
    }

    /// Turns the interrupts of `cpu` off.
    pub(crate) fn off(&self, cpu: usize) -> InterruptsOff<'_, Script> {
        self.platform().as_cpu(cpu, || self.interrupts_off())
    }

    /// Whether the current CPU has interrupts on, and how often its task is pinned.
    pub(crate) fn kept(&self) -> (bool, u32) {
        (self.platform().interrupts_on(), self.platform().pins.get())
    }

    /// The timer of `cpu` ticks. True if a debt is too old.
    pub(crate) fn tick(&self, cpu: usize) -> bool {
        self.on(cpu, |engine| engine.platform().interrupts_off(|| engine.tick()))
    }

    /// The result of the last look at a space.
    pub(crate) fn last_look(&self) -> Look {
        *self.platform().looks.borrow().last().expect("a flush, and then a look")
    }

    /// Time passes.
    pub(crate) fn pass(&self, nanoseconds: u64) {
        let time = &self.platform().time;
        time.set(time.get() + nanoseconds);
    }

    /// Sets the act for the next time that the machine reaches `point`.
    pub(crate) fn at(&self, point: Point, run: impl FnOnce(&Machine) + 'static) {
        let machine = self.clone();
        let before = self.platform().hook.replace(Some((point, Box::new(move || run(&machine)))));
        assert!(before.is_none(), "the hook before this one never ran");
    }

    /// Delivers the interrupts that are on their way.
    pub(crate) fn deliver_all(&self) {
        loop {
            let next = self.platform().queued.borrow_mut().pop_front();
            let Some(next) = next else { return };
            self.platform().deliver(next);
        }
    }

    /// The hardware of `cpu` caches a translation of its loaded space.
    pub(crate) fn fill(&self, cpu: usize, address: u64, stamp: u64) {
        let mut hardware = self.platform().hardware[cpu].borrow_mut();
        let (root, asid) = hardware.root.expect("a root is loaded");
        let now = self.platform().tick();
        hardware.entries.insert((asid.get(), address), (Filled { root, stamp }, now));
        hardware.walked.insert((asid.get(), address >> 21), now);
    }

    /// The same with the translation of 2 MiB at `address`.
    pub(crate) fn fill_huge(&self, cpu: usize, address: u64, stamp: u64) {
        self.fill(cpu, address, stamp);
        let hardware = &mut *self.platform().hardware[cpu].borrow_mut();
        let (_, asid) = hardware.root.expect("a space is loaded");
        hardware.huge.insert((asid.get(), address));
    }

    /// The device caches a translation of `space`.
    pub(crate) fn device_fill(&self, space: &AddressSpace, address: u64, stamp: u64) {
        self.platform().device.borrow_mut().insert((space.id(), address), stamp);
    }

    /// The translation that the device would use for `address` of `space`.
    pub(crate) fn device_cached(&self, space: &AddressSpace, address: u64) -> Option<u64> {
        self.platform().device.borrow().get(&(space.id(), address)).copied()
    }

    /// Whether the walker of `cpu` remembers the lowest-level table of `address` under `asid`.
    pub(crate) fn walked(&self, cpu: usize, asid: Asid, address: u64) -> bool {
        self.platform().hardware[cpu].borrow().walked.contains_key(&(asid.get(), address >> 21))
    }

    /// The task on CPU `from` moves to `to`: the switch waits for its broadcasts.
    pub(crate) fn move_task(&self, from: usize, to: usize) {
        if from != to && self.platform().capabilities.broadcast.is_some() {
            self.platform().as_cpu(from, || self.platform().broadcast_wait());
        }
        self.go(to);
    }

    /// A page-table lock, just taken, under which the space is settled.
    pub(crate) fn settled(&self, space: &Space) -> Settled<TableLock<Space>> {
        self.settle(TableLock(space.clone()))
    }

    /// The translation that `cpu` would use for `address` now.
    pub(crate) fn cached(&self, cpu: usize, address: u64) -> Option<Filled> {
        let hardware = self.platform().hardware[cpu].borrow();
        hardware
            .root
            .and_then(|(_, asid)| hardware.entries.get(&(asid.get(), address)).map(|(filled, _)| *filled))
    }

    /// All translations that `cpu` could use now.
    pub(crate) fn usable(&self, cpu: usize) -> Vec<(u64, Filled)> {
        let hardware = self.platform().hardware[cpu].borrow();
        let Some((_, asid)) = hardware.root else { return Vec::new() };
        let mine = hardware.entries.iter().filter(|((tag, _), _)| *tag == asid.get());
        mine.map(|((_, address), (filled, _))| (*address, *filled)).collect()
    }

    /// The root in the hardware of `cpu`.
    pub(crate) fn root(&self, cpu: usize) -> Option<Root> {
        self.platform().hardware[cpu].borrow().root.map(|(root, _)| root)
    }

    pub(crate) fn cpu(&self, cpu: usize) -> &Cpu<Rc<AddressSpace>> {
        &self.platform().cpus[cpu]
    }

    /// The events since the last look.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.platform().log.take()
    }

    /// The CPUs that were interrupted since the last look.
    pub(crate) fn interrupted(&self) -> Vec<usize> {
        let to = |event| if let Event::Interrupt { to } = event { Some(to) } else { None };
        self.events().into_iter().filter_map(to).collect()
    }

    /// The trace since the last look: CPU, reason, pages.
    pub(crate) fn traced(&self) -> Vec<(usize, Reason, Option<u32>)> {
        let line = |event| match event {
            Event::Trace { cpu, event } => Some((cpu, event.reason, event.pages)),
            _ => None,
        };
        self.events().into_iter().filter_map(line).collect()
    }
}
