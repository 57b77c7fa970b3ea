//! The machine: its CPUs, TLBs, walkers, interrupts and broadcasts, each as unhelpful as the architecture allows.
//!
//! Every access to shared memory and every call of the platform is a step. At a step another CPU may go on, the
//! hardware may fill an entry or begin, continue or finish a walk on any CPU, a broadcast may take effect on one CPU
//! and not yet on another, and an interrupt that has long been sent may arrive. What the hardware promises, it keeps;
//! `promise` names each promise, and a scenario can take it away.
//!
//! `entry`, `frame` and `tlb` are its parts, and `paging` is its one view of a kernel's tables. `steps`, `walks`,
//! `accesses`, `allocations`, `invalidations` and `knowledge` say how it acts. `memories` makes the atomic accesses of
//! the code that is checked, and `platform` answers the calls of the engine.

mod accesses;
mod allocations;
pub(crate) mod entry;
pub(crate) mod frame;
mod invalidations;
mod knowledge;
pub(crate) mod memories;
pub(crate) mod paging;
pub(crate) mod platform;
mod steps;
pub(crate) mod tlb;
mod walks;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ceasefire::{Capabilities, CpuId};
use ceasefire_atomics::Ordering;
use shuttle::sync::atomic::AtomicBool;

use self::frame::{Allocation, Frame};
use self::invalidations::Started;
use self::paging::Paging;
use self::tlb::{Filled, Tag, Tlb};
use crate::model::ordering::{Memory, View};
use crate::model::promise::Promise;
use crate::model::removed::Removed;
use crate::model::rule::Rule;
use crate::model::schedule::{below, give_up, steps};
use crate::model::sites::{Access, Site};
use crate::model::timeline::Timeline;

/// The time between two ticks of a CPU's clock, in nanoseconds.
pub(crate) const TICK: u64 = 100;
/// The clocks of two CPUs differ by less, in nanoseconds.
const SKEW: u32 = 8;

/// What a machine is like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model {
    pub(crate) cpus: usize,
    pub(crate) frames: usize,
    pub(crate) devices: usize,
    pub(crate) capabilities: Capabilities,
    /// A hypervisor may flush for CPUs that are not running.
    pub(crate) elsewhere: bool,
    /// Interrupts arrive that cannot be masked.
    pub(crate) unmasked: bool,
    /// Stores may be late.
    pub(crate) late: bool,
    /// The hardware acts by itself at one step in this many; 0 for never.
    pub(crate) eagerness: u32,
    /// What is taken away: promises that the hardware does not keep.
    pub(crate) removed: &'static [Removed],
}

/// One CPU.
#[derive(Debug, Default)]
pub(crate) struct Core {
    pub(crate) tlb: RefCell<Tlb>,
    /// The root that is loaded, with its allocation, and the tag.
    pub(crate) root: Cell<Option<(u32, Allocation, Tag)>>,
    pub(crate) off: Cell<u32>,
    pub(crate) pins: Cell<u32>,
    /// An interrupt is on its way, with what its senders had stored.
    pub(crate) interrupt: RefCell<Option<View>>,
    /// What walks must see, because an invalidation said so.
    floor: RefCell<View>,
    /// Broadcasts that it started and has not waited for.
    started: RefCell<Vec<Started>>,
    /// Broadcasts that it has waited for once, where that is not enough.
    unfinished: RefCell<Vec<Started>>,
    /// The entry by which an access has been translated that has not landed yet.
    in_flight: Cell<Option<Filled>>,
    /// It is offline: broadcasts do not reach it.
    pub(crate) gone: Cell<bool>,
    /// It keeps a space loaded and runs no program.
    pub(crate) resting: Cell<bool>,
    /// It runs its program undisturbed.
    pub(crate) isolated: Cell<bool>,
    /// The last answer to its request has come since it last looked.
    pub(crate) woken: Cell<bool>,
    /// When its code began to walk tables without a lock, if it does.
    walks: Cell<Option<u64>>,
    /// How far its clock is ahead, in nanoseconds.
    ahead: u64,
}

/// A device that walks a space's tables, or the kernel's.
#[derive(Debug, Default)]
pub(crate) struct Device {
    tlb: RefCell<Tlb>,
    /// The root that it walks from, with its allocation.
    pub(crate) root: Cell<Option<(u32, Allocation)>>,
    floor: RefCell<View>,
    /// The entry by which an access has been translated that has not landed yet.
    in_flight: Cell<Option<Filled>>,
}

/// An access, as a store to its thread's location.
#[derive(Debug)]
struct Landed {
    thread: usize,
    location: u32,
    number: u32,
    entry: Filled,
}

/// A rule that was broken, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) rule: Rule,
    pub(crate) what: String,
}

/// The machine.
#[derive(Debug)]
pub(crate) struct Hardware {
    pub(crate) model: Model,
    pub(crate) cores: Vec<Core>,
    pub(crate) devices: Vec<Device>,
    paging: Rc<dyn Paging>,
    frames: RefCell<Vec<Frame>>,
    /// The pages that the hardware may look at by itself: of the loaded space, and of the kernel.
    hot: RefCell<Vec<(Tag, u64)>>,
    /// The root of the kernel's ranges, with its allocation.
    pub(crate) kernel_root: Cell<Option<(u32, Allocation)>>,
    views: RefCell<Memory>,
    /// The accesses to frames, oldest first.
    landed: RefCell<Vec<Landed>>,
    /// For each location, the values that were stored there, and when.
    stored: RefCell<Vec<Vec<(u64, u64)>>>,
    /// The location that a walker has read last, and how many newer values it had.
    walked: Cell<(u32, u32)>,
    /// Before a walker reads: what the way to the table carried. Afterwards: what the entry carried.
    way: RefCell<Option<Rc<View>>>,
    moment: Cell<u64>,
    time: Cell<u64>,
    /// Where shuttle may let another CPU go on.
    point: AtomicBool,
    /// The CPU for which the setting up is done, before the CPUs start.
    acting: Cell<Option<usize>>,
    /// The thread on whose behalf a walker reads.
    walker: Cell<Option<usize>>,
    /// The record looks at the newest values, which is no access of any CPU.
    looking: Cell<bool>,
    handler: fn(),
    /// Handles an interrupt that cannot be masked.
    unmasked: fn(),
    /// A CPU handles one now.
    handles: Cell<bool>,
    /// The place of the access that is made now.
    site: Cell<Site>,
    /// The access whose ordering is weaker than its source says.
    weakened: Option<(Access, Ordering)>,
    /// A load may read an old value once in so many times. What a store leaves out shows in old values.
    freshness: u32,
    /// A late store is made at one step in so many. A pair of statements that is exchanged may show only while a store
    /// before it is late.
    lateness: u32,
    /// The programs that have not ended.
    running: Cell<usize>,
    /// What CPUs had stored and seen when they began to wait for walkers.
    awaited: RefCell<View>,
    /// Roots with tags that were given back: no CPU may run one under the other.
    given_back: RefCell<Vec<(u32, Tag)>>,
    pub(crate) timeline: RefCell<Timeline>,
    broken: RefCell<Option<Broken>>,
}

impl Hardware {
    pub(crate) fn new(
        model: Model,
        paging: Rc<dyn Paging>,
        recorded: bool,
        (handler, unmasked): (fn(), fn()),
    ) -> Self {
        let threads = model.cpus + model.devices;
        let atomic = !model.removed.contains(&Removed::Promise(Promise::MultiCopyAtomic));
        let views = Memory::new(threads, atomic);
        let weakened = model.removed.iter().find_map(|removed| match removed {
            Removed::Ordering(access, to) => Some((*access, *to)),
            _ => None,
        });
        let exchanged = model.removed.iter().any(|removed| matches!(removed, Removed::Order(_)));
        Self {
            model,
            cores: (0..model.cpus).map(|_| Core { ahead: below(SKEW).into(), ..Core::default() }).collect(),
            devices: (0..model.devices).map(|_| Device::default()).collect(),
            paging,
            frames: RefCell::new(vec![Frame::default(); model.frames]),
            hot: RefCell::default(),
            kernel_root: Cell::new(None),
            views: RefCell::new(views),
            landed: RefCell::default(),
            stored: RefCell::default(),
            walked: Cell::new((0, 0)),
            way: RefCell::default(),
            moment: Cell::new(1),
            time: Cell::new(0),
            point: AtomicBool::new(false),
            acting: Cell::new(Some(0)),
            walker: Cell::new(None),
            looking: Cell::new(false),
            handler,
            unmasked,
            handles: Cell::new(false),
            site: Cell::new(Site::NOWHERE),
            weakened,
            freshness: 1 << below(4),
            lateness: if exchanged { 2 << below(5) } else { 2 },
            running: Cell::new(threads),
            awaited: RefCell::default(),
            given_back: RefCell::default(),
            timeline: RefCell::new(Timeline::new(threads, model.devices, recorded)),
            broken: RefCell::new(None),
        }
    }

    /// The tag as this hardware knows it: without ASIDs, all entries are alike.
    pub(crate) fn tag(&self, tag: Tag) -> Tag {
        match tag {
            Tag::Asid(_) if !self.model.capabilities.asids => Tag::Asid(0),
            tag => tag,
        }
    }

    // Which thread acts.

    /// The number of the thread that acts: a CPU, or after the CPUs a device.
    pub(crate) fn me(&self) -> usize {
        self.acting.get().unwrap_or_else(|| usize::from(shuttle::current::me()) - 1)
    }

    pub(crate) fn this_cpu(&self) -> CpuId {
        CpuId::new(self.me()).expect("the machine has no more CPUs than the engine was built for")
    }

    pub(crate) fn core(&self) -> &Core {
        &self.cores[self.me()]
    }

    /// Does a part of the setting up as a CPU. Nothing else happens meanwhile.
    pub(crate) fn act<R>(&self, cpu: usize, body: impl FnOnce() -> R) -> R {
        let before = self.acting.replace(Some(cpu));
        let result = body();
        self.acting.set(before);
        result
    }

    /// The setting up is done: every CPU knows of it, and they start.
    pub(crate) fn start(&self) {
        self.views.borrow_mut().settle();
        self.acting.set(None);
    }

    /// The thread's program has ended. A CPU goes on answering interrupts until all programs have ended.
    pub(crate) fn retire(&self) {
        self.views.borrow_mut().complete(self.me());
        self.running.set(self.running.get() - 1);
        while self.running.get() > 0 {
            if self.me() < self.cores.len() {
                self.take_interrupt();
            }
            self.yield_here();
        }
    }

    /// Everything has ended, and the checks at the end are made as CPU 0.
    pub(crate) fn end(&self) {
        self.views.borrow_mut().settle();
        self.acting.set(Some(0));
    }

    // Walks by code.

    /// The kernel's code on this CPU begins to walk tables without a lock. It sees what CPUs had stored that have begun
    /// to wait for walkers.
    pub(crate) fn begin_walk_by_code(&self) {
        self.learn(&self.awaited.borrow());
        self.core().walks.set(Some(self.tick()));
    }

    pub(crate) fn end_walk_by_code(&self) {
        self.core().walks.set(None);
    }

    /// Waits for all walks by code that have begun.
    pub(crate) fn await_walks_by_code(&self) {
        self.awaited.borrow_mut().join(&self.view());
        let now = self.tick();
        let under_way = |core: &Core| core.walks.get().is_some_and(|began| began < now);
        while self.keeps(Promise::WalkersEnd) && self.cores.iter().any(under_way) {
            self.wait_a_moment();
        }
    }

    // Promises, the clock, and the knowledge of threads.

    /// A full barrier of the hardware's own.
    pub(crate) fn fence(&self) {
        if self.keeps(Promise::Consistent) {
            self.views.borrow_mut().fence(self.me(), Ordering::SeqCst);
        }
    }

    /// The time by this CPU's clock. It stands still between two ticks of any CPU.
    pub(crate) fn now(&self) -> u64 {
        self.time.get() + self.core().ahead
    }

    /// The time between two ticks of the clock passes.
    pub(crate) fn pass_tick(&self) {
        self.time.set(self.time.get() + TICK);
    }

    pub(crate) fn keeps(&self, promise: Promise) -> bool {
        !self.model.removed.contains(&Removed::Promise(promise))
    }

    /// What this thread has stored and seen, for another thread that learns it by a lock.
    pub(crate) fn view(&self) -> View {
        let mut views = self.views.borrow_mut();
        views.complete(self.me());
        views.view(self.me())
    }

    pub(crate) fn learn(&self, view: &View) {
        self.views.borrow_mut().learn(self.me(), view);
    }

    // The history.

    /// Notes an event in the column of the thread that acts.
    pub(crate) fn note(&self, text: impl FnOnce() -> String) {
        self.note_on(self.me(), text);
    }

    fn note_on(&self, column: usize, text: impl FnOnce() -> String) {
        let mut timeline = self.timeline.borrow_mut();
        timeline.mix(column as u64 | u64::from(steps()) << 8);
        if timeline.recorded() {
            timeline.add(steps(), column, text());
        }
    }

    /// A rule is broken. The run ends.
    pub(crate) fn break_rule(&self, rule: Rule, column: usize, what: String) {
        if self.broken.borrow().is_some() {
            return;
        }
        self.note_on(column, || format!("!! {rule}: {what}"));
        *self.broken.borrow_mut() = Some(Broken { rule, what });
        give_up();
    }

    pub(crate) fn broken(&self) -> Option<Broken> {
        self.broken.borrow().clone()
    }

    // Moments.

    pub(crate) fn tick(&self) -> u64 {
        self.moment.set(self.moment.get() + 1);
        self.moment.get()
    }

    fn note_stored(&self, location: u32, value: u64) {
        let mut stored = self.stored.borrow_mut();
        if stored.len() <= location as usize {
            stored.resize(location as usize + 1, Vec::new());
        }
        stored[location as usize].push((value, self.moment.get()));
    }

    /// Reads the newest values, without a step.
    pub(crate) fn look<R>(&self, body: impl FnOnce() -> R) -> R {
        let before = self.looking.replace(true);
        let result = body();
        self.looking.set(before);
        result
    }
}
