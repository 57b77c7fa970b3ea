//! The machine: its CPUs, TLBs, walkers, interrupts and broadcasts, each as unhelpful as the architecture allows.
//!
//! Every access to shared memory and every call of the platform is a step. At a step another CPU may go on, the
//! hardware may fill an entry or begin, continue or finish a walk on any CPU, a broadcast may take effect on one CPU
//! and not yet on another, and an interrupt that has long been sent may arrive. What the hardware promises, it keeps;
//! `promise` names each promise, and a scenario can take it away.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ceasefire::{Capabilities, CpuId};
use ceasefire_atomics::{Checker, Ordering, Place};
use shuttle::sync::atomic::AtomicBool;

use crate::ordering::{Memory, View};
use crate::paging::{Paging, Read};
use crate::promise::Promise;
use crate::rule::Rule;
use crate::scenario::Removed;
use crate::schedule::{self, below, give_up, steps};
use crate::sites::{self, common, Access, Kind, Site};
use crate::timeline::Timeline;
use crate::tlb::{Filled, Invalidation, Tag, Tlb, Walked, Walking};

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
    pub(crate) root: Cell<Option<(u32, u32, Tag)>>,
    pub(crate) off: Cell<u32>,
    pub(crate) pins: Cell<u32>,
    /// An interrupt is on its way, with what its senders had stored.
    pub(crate) interrupt: RefCell<Option<View>>,
    /// What walks must see, because an invalidation said so.
    floor: RefCell<View>,
    /// Broadcasts that it started and has not waited for, with what it had stored.
    pub(crate) started: RefCell<Vec<(Invalidation, View)>>,
    /// An access has been translated and has not landed yet: when it began.
    pub(crate) in_flight: Cell<Option<u64>>,
    /// How often its walks were ended.
    drained: Cell<u64>,
    /// It is offline: broadcasts do not reach it.
    pub(crate) gone: Cell<bool>,
    /// It keeps a space loaded and runs no program.
    pub(crate) resting: Cell<bool>,
    /// It runs its program undisturbed.
    pub(crate) isolated: Cell<bool>,
}

/// A device that walks a space's tables, or the kernel's.
#[derive(Debug, Default)]
pub(crate) struct Device {
    tlb: RefCell<Tlb>,
    pub(crate) root: Cell<Option<(u32, u32)>>,
    floor: RefCell<View>,
}

/// A frame of memory.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Frame {
    pub(crate) allocated: bool,
    /// How often it was handed out.
    pub(crate) allocation: u32,
    /// When it was last handed out.
    since: u64,
    /// When it was last declared clean.
    pub(crate) clean: u64,
    /// Its content: every access is a store there.
    content: u32,
    /// Every store to it is a store there.
    stored: u32,
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
    pub(crate) kernel_root: Cell<Option<(u32, u32)>>,
    views: RefCell<Memory>,
    /// For each location, the values that were stored there, and when.
    stored: RefCell<Vec<Vec<(u64, u64)>>>,
    /// The location that a walker has read last, and how many newer values it had.
    walked: Cell<(u32, u32)>,
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
        let mut views = Memory::new(threads, atomic);
        let frames = (0..model.frames)
            .map(|_| Frame { content: views.add(0), stored: views.add(0), ..Frame::default() })
            .collect();
        let weakened = model.removed.iter().find_map(|removed| match removed {
            Removed::Ordering(access, to) => Some((*access, *to)),
            _ => None,
        });
        let exchanged = model.removed.iter().any(|removed| matches!(removed, Removed::Order(_)));
        Self {
            model,
            cores: (0..model.cpus).map(|_| Core::default()).collect(),
            devices: (0..model.devices).map(|_| Device::default()).collect(),
            paging,
            frames: RefCell::new(frames),
            hot: RefCell::default(),
            kernel_root: Cell::new(None),
            views: RefCell::new(views),
            stored: RefCell::default(),
            walked: Cell::new((0, 0)),
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
        self.views.borrow_mut().settle_thread(self.me());
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

    // Steps.

    /// A point at which anything may happen.
    pub(crate) fn step(&self) {
        if self.pause() && self.me() < self.cores.len() {
            if self.model.unmasked && below(4) == 0 {
                self.take_unmasked();
            }
            if below(2) == 0 {
                self.take_interrupt();
            }
        }
    }

    /// A point at which other CPUs and the hardware may act, but no interrupt arrives here. True if it was one.
    pub(crate) fn pause(&self) -> bool {
        if self.acting.get().is_some() || self.walker.get().is_some() {
            return false;
        }
        self.point.load(Ordering::SeqCst);
        self.make_late();
        self.act_by_itself();
        true
    }

    /// A store that the thread has gone past is made now, or still not.
    fn make_late(&self) {
        if self.views.borrow().is_late(self.me()) && below(self.lateness) == 0 {
            self.views.borrow_mut().make_late(self.me());
        }
    }

    /// A CPU that waits lets others go first.
    pub(crate) fn yield_here(&self) {
        if self.acting.get().is_none() {
            shuttle::thread::yield_now();
            self.make_late();
            self.act_by_itself();
        }
    }

    /// Often stands still, while others go on. Its late stores stay late.
    fn linger(&self) {
        if self.acting.get().is_none() && self.walker.get().is_none() && below(2) == 0 {
            for _ in 0..1 << below(8) {
                shuttle::thread::yield_now();
                if self.model.unmasked && self.me() < self.cores.len() {
                    self.take_unmasked();
                }
            }
        }
    }

    /// Waits for another CPU, and answers interrupts meanwhile.
    pub(crate) fn wait_a_moment(&self) {
        self.take_interrupt();
        self.yield_here();
    }

    pub(crate) fn take_interrupt(&self) {
        let core = self.core();
        if core.off.get() > 0 {
            return;
        }
        let Some(view) = core.interrupt.take() else { return };
        if self.keeps(Promise::InterruptCarries) {
            self.views.borrow_mut().learn(self.me(), &view);
        }
        self.note(|| "deliver".to_owned());
        core.off.set(1);
        (self.handler)();
        core.off.set(0);
    }

    /// An interrupt that cannot be masked arrives, but none arrives while one is handled.
    fn take_unmasked(&self) {
        if !self.handles.replace(true) {
            let off = &self.core().off;
            off.set(off.get() + 1);
            (self.unmasked)();
            off.set(off.get() - 1);
            self.handles.set(false);
        }
    }

    pub(crate) fn send(&self, target: usize) {
        self.note(|| format!("send to CPU {target}"));
        let mine = if self.keeps(Promise::InterruptCarries) { self.view() } else { View::default() };
        self.cores[target].interrupt.borrow_mut().get_or_insert_default().join(&mine);
    }

    /// A full barrier of the hardware's own.
    pub(crate) fn fence(&self) {
        if self.keeps(Promise::Consistent) {
            self.views.borrow_mut().fence(self.me(), Ordering::SeqCst);
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.time.get()
    }

    pub(crate) fn pass(&self, nanoseconds: u64) {
        self.time.set(self.time.get() + nanoseconds);
    }

    pub(crate) fn keeps(&self, promise: Promise) -> bool {
        !self.model.removed.contains(&Removed::Promise(promise))
    }

    /// What this thread has stored and seen, for another thread that learns it by a lock.
    pub(crate) fn view(&self) -> View {
        let mut views = self.views.borrow_mut();
        views.settle_thread(self.me());
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

    // Frames and mappings.

    /// The allocator hands a frame out.
    pub(crate) fn hand_out(&self, frame: u32) {
        let since = self.tick();
        let mut frames = self.frames.borrow_mut();
        let state = &mut frames[frame as usize];
        (state.allocated, state.since) = (true, since);
        state.allocation += 1;
        let reused = state.allocation > 1;
        drop(frames);
        if reused {
            self.note(|| format!("reuse frame {frame}"));
        }
    }

    /// A frame goes back to the allocator. Its next user overwrites it, so every access to it must have happened
    /// before.
    pub(crate) fn take_back(&self, frame: u32) {
        self.note(|| format!("free frame {frame}"));
        let content = self.frames.borrow()[frame as usize].content;
        if self.misses(content) {
            let what = format!("frame {frame} is freed by a CPU that does not know of the last access to it");
            self.break_rule(Rule::R1, self.me(), what);
        }
        self.frames.borrow_mut()[frame as usize].allocated = false;
    }

    /// Whether each access is judged by what the CPU that ends it knows. Without a guard the run goes on to the use of a
    /// stale entry, which says more.
    fn looks(&self) -> bool {
        self.model.removed.iter().all(|removed| matches!(removed, Removed::Ordering(..) | Removed::Order(_)))
    }

    pub(crate) fn allocation(&self, frame: u32) -> u32 {
        self.frames.borrow()[frame as usize].allocation
    }

    /// The allocation of a frame that is in use.
    pub(crate) fn allocation_in_use(&self, frame: u32) -> Option<u32> {
        let state = self.frames.borrow()[frame as usize];
        state.allocated.then_some(state.allocation)
    }

    /// The allocation of a frame at an earlier moment, as far as it matters: 0, which none has, if it was another.
    pub(crate) fn allocation_at(&self, frame: u32, moment: u64) -> u32 {
        let state = self.frames.borrow()[frame as usize];
        if state.since <= moment {
            state.allocation
        } else {
            0
        }
    }

    /// From now on, stores to the frame must set its mark anew.
    ///
    /// The page that was `put` into the frame with this allocation is clean, and the CPU must know of the last store to
    /// it. It may have left the frame since.
    pub(crate) fn declare_clean(&self, frame: u32, put: Option<u32>) {
        let Frame { stored, allocation, .. } = self.frames.borrow()[frame as usize];
        if put == Some(allocation) && self.misses(stored) {
            let what = format!("frame {frame} is clean for a CPU that does not know of the last store to it");
            self.break_rule(Rule::R5, self.me(), what);
        }
        let now = self.tick();
        self.frames.borrow_mut()[frame as usize].clean = now;
    }

    /// The hardware may look at the page from now on.
    pub(crate) fn warm(&self, tag: Tag, page: u64) {
        let mut hot = self.hot.borrow_mut();
        if !hot.contains(&(tag, page)) {
            hot.push((tag, page));
        }
    }

    /// Judges the use of an entry.
    fn judge(&self, column: usize, entry: &Filled, root: u32, store: bool) {
        let frame = self.frames.borrow()[entry.frame as usize];
        let found = if entry.tag != Tag::Global && entry.root != root {
            let what = format!("page {} leads to frame {}, of another space", entry.page, entry.frame);
            Some((Rule::R4, what))
        } else {
            self.paging.judge(entry, frame, store)
        };
        if let Some((rule, what)) = found {
            self.break_rule(rule, column, what);
        }
    }

    /// The tag is not the space's any more, whose tables start at `root`.
    pub(crate) fn give_back(&self, root: u32, tag: Tag) {
        let tag = self.tag(tag);
        self.given_back.borrow_mut().push((root, tag));
        for (number, core) in self.cores.iter().enumerate() {
            self.judge_tag(number, core.root.get());
        }
    }

    /// Judges the tag under which a CPU runs.
    pub(crate) fn judge_tag(&self, column: usize, loaded: Option<(u32, u32, Tag)>) {
        let Some((root, _, tag)) = loaded else { return };
        if self.given_back.borrow().contains(&(root, tag)) {
            let what = format!("root {root} is loaded under a tag that was given back");
            self.break_rule(Rule::R4, column, what);
        }
    }

    // Walks.

    pub(crate) fn tick(&self) -> u64 {
        self.moment.set(self.moment.get() + 1);
        self.moment.get()
    }

    /// The last moment at which the value that a walker has just read stood in its location, or one that is the `same`.
    pub(crate) fn stood(&self, same: impl Fn(u64) -> bool) -> u64 {
        let (location, newer) = self.walked.get();
        let stored = self.stored.borrow();
        let values = stored.get(location as usize).map_or(&[][..], |values| values);
        let newer = &values[values.len().saturating_sub(newer as usize)..];
        newer.iter().find(|(value, _)| !same(*value)).map_or_else(|| self.tick(), |(_, moment)| *moment)
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

    /// Reads as the walker of a thread.
    fn as_walker<R>(&self, thread: usize, body: impl FnOnce() -> R) -> R {
        let before = self.walker.replace(Some(thread));
        let result = body();
        self.walker.set(before);
        result
    }

    /// The first table of a walk: the lowest that the walker remembers, or the root.
    fn begin_walk(&self, tlb: &Tlb, tag: Tag, (root, allocation): (u32, u32), page: u64) -> Walking {
        let at = self.tick();
        match tlb.way(tag, page) {
            // As old as the way that it takes.
            Some(Walked { level, table, allocation, at, .. }) => {
                Walking { tag, root, page, level, table, allocation, at, read: at }
            }
            None => Walking {
                tag,
                root,
                page,
                level: self.paging.shape().top,
                table: root,
                allocation,
                at,
                read: at,
            },
        }
    }

    /// Reads one entry on the way. A walk that ends fills an entry, or finds nothing.
    fn walk_on(&self, thread: usize, tlb: &mut Tlb, walk: Walking) -> Walk {
        let state = self.frames.borrow()[walk.table as usize];
        if !state.allocated || state.allocation != walk.allocation {
            let what = format!("the walk to page {} reads table {}, which was freed", walk.page, walk.table);
            self.break_rule(Rule::R2, thread, what);
            return Walk::Nothing;
        }
        let shape = self.paging.shape();
        let index = shape.index(walk.page, walk.level);
        let pte = self.as_walker(thread, || self.paging.read(self, walk.table, index, walk.level));
        if !pte.present {
            return Walk::Nothing;
        }
        if pte.leaf {
            return Walk::Leaf(Walking { read: pte.stood, ..walk }, pte);
        }
        if walk.level == 0 {
            return Walk::Nothing;
        }
        let (level, table, allocation) = (walk.level - 1, pte.frame, pte.number);
        let shift = shape.bits * walk.level;
        let prefix = walk.page >> shift;
        tlb.remember(Walked { tag: walk.tag, level, shift, prefix, table, allocation, at: walk.at });
        Walk::On(Walking { level, table, allocation, ..walk })
    }

    /// Marks the entry that a walk has read. `None` if it is another by now.
    fn mark(&self, thread: usize, walk: Walking, pte: Read, store: bool) -> Option<(Walking, Read)> {
        let (index, atomic) =
            (self.paging.shape().index(walk.page, walk.level), self.keeps(Promise::MarksAtomic));
        let marked = self.as_walker(thread, || self.paging.mark(walk.table, index, pte, store, atomic))?;
        let read = if marked.bits == pte.bits { walk.read } else { self.tick() };
        Some((Walking { read, ..walk }, marked))
    }

    fn filled(&self, walk: Walking, pte: Read) -> Filled {
        let order = self.paging.shape().bits * walk.level;
        let page = walk.page >> order << order;
        Filled {
            tag: walk.tag,
            root: walk.root,
            page,
            order,
            frame: pte.frame,
            number: pte.number,
            writable: pte.writable,
            dirty: pte.dirty,
            at: walk.at,
            read: walk.read,
        }
    }

    fn fill(&self, column: usize, tlb: &mut Tlb, entry: Filled) {
        if tlb.fill(entry) {
            self.note_on(column, || {
                format!("fill page {} -> frame {}{}", entry.page, entry.frame, rights(&entry))
            });
        }
    }

    /// The hardware may do something that nobody asked for.
    fn act_by_itself(&self) {
        if self.model.eagerness == 0 || below(self.model.eagerness) != 0 {
            return;
        }
        let thread = below((self.cores.len() + self.devices.len()) as u32) as usize;
        let hot = self.hot.borrow();
        if hot.is_empty() {
            return;
        }
        let (tag, page) = hot[below(hot.len() as u32) as usize];
        drop(hot);
        if thread >= self.cores.len() {
            let tlb = &self.devices[thread - self.cores.len()].tlb;
            let root = if tag == Tag::Global { self.kernel_root.get() } else { self.device_root(thread) };
            if let Some(root) = root {
                let tag = if tag == Tag::Global { tag } else { Tag::Asid(0) };
                self.walk_by_itself(thread, &mut tlb.borrow_mut(), tag, root, page);
            }
            return;
        }
        self.carry_by_itself(thread);
        let core = &self.cores[thread];
        let root = if tag == Tag::Global {
            self.kernel_root.get().map(|root| (root, tag))
        } else {
            core.root.get().map(|(root, allocation, tag)| ((root, allocation), tag))
        };
        if let Some((root, tag)) = root {
            self.walk_by_itself(thread, &mut core.tlb.borrow_mut(), tag, root, page);
        }
    }

    fn walk_by_itself(&self, thread: usize, tlb: &mut Tlb, tag: Tag, root: (u32, u32), page: u64) {
        let mut walk = if tlb.walking.is_empty() || below(2) == 0 {
            Walk::On(self.begin_walk(tlb, tag, root, page))
        } else {
            let chosen = below(tlb.walking.len() as u32) as usize;
            match tlb.walking.swap_remove(chosen) {
                (walking, Some(pte)) => Walk::Leaf(walking, pte),
                (walking, None) => Walk::On(walking),
            }
        };
        loop {
            // It may stop half-way, and go on later: also between the last read and the fill.
            let stops = below(4) == 0;
            match walk {
                Walk::Nothing => return,
                Walk::On(walking) if stops => return tlb.walking.push((walking, None)),
                Walk::Leaf(walking, pte) if stops => return tlb.walking.push((walking, Some(pte))),
                Walk::On(walking) => walk = self.walk_on(thread, tlb, walking),
                Walk::Leaf(walking, pte) => {
                    if let Some((walking, pte)) = self.mark(thread, walking, pte, false) {
                        self.fill(thread, tlb, self.filled(walking, pte));
                    }
                    return;
                }
            }
        }
    }

    /// A broadcast of another CPU takes effect on this one now.
    fn carry_by_itself(&self, thread: usize) {
        let issuer = &self.cores[below(self.cores.len() as u32) as usize];
        let started = issuer.started.borrow();
        if !started.is_empty() {
            let (what, view) = &started[below(started.len() as u32) as usize];
            self.forget(thread, *what, Some(view));
        }
    }

    // Invalidations.

    /// Removes entries of a CPU's TLB.
    pub(crate) fn forget(&self, thread: usize, mut what: Invalidation, stored: Option<&View>) {
        let core = &self.cores[thread];
        what.drains = self.keeps(Promise::WalksEnd);
        what.tag = what.tag.map(|tag| self.tag(tag));
        if what.drains {
            core.drained.set(core.drained.get() + 1);
        }
        if let Some(view) = stored {
            core.floor.borrow_mut().join(view);
        }
        core.tlb.borrow_mut().forget(what);
    }

    /// Removes entries of the devices that walk from this root, or of all.
    pub(crate) fn forget_in_devices(&self, root: Option<u32>, what: Invalidation) {
        let stored = self.view();
        for device in &self.devices {
            if root.is_none() || root == device.root.get().map(|(root, _)| root) {
                device.floor.borrow_mut().join(&stored);
                device.tlb.borrow_mut().forget(what);
            }
        }
        if !self.devices.is_empty() {
            self.outlast();
        }
    }

    /// What this CPU has stored, walks see from here on.
    pub(crate) fn publish(&self) -> View {
        let stored = self.view();
        self.cores.iter().for_each(|core| core.floor.borrow_mut().join(&stored));
        stored
    }

    /// The device starts to walk from this root. It sees all that is published.
    pub(crate) fn start_device(&self, root: (u32, u32)) {
        let device = &self.devices[0];
        device.floor.borrow_mut().join(&self.view());
        device.floor.borrow_mut().join(&self.views.borrow().published());
        device.root.set(Some(root));
        self.pause();
    }

    /// The device stops, and its TLB holds no entry of a program.
    pub(crate) fn stop_device(&self) {
        let device = &self.devices[0];
        device.root.set(None);
        let before = self.tick();
        let flush = ceasefire::Flush::ALL;
        device.tlb.borrow_mut().forget(Invalidation { tag: None, flush, before, drains: true });
        self.outlast();
        self.pause();
    }

    /// An access lands in a frame.
    fn touch(&self, entry: &Filled, store: bool) {
        let Frame { content, stored, .. } = self.frames.borrow()[entry.frame as usize];
        let mut views = self.views.borrow_mut();
        views.touch(self.me(), content);
        if let Some(used) = self.paging.used(entry) {
            views.touch(self.me(), used);
        }
        if store {
            views.touch(self.me(), stored);
        }
    }

    /// A location for the accesses through a mapping: each is a store there.
    pub(crate) fn add_used(&self) -> u32 {
        self.views.borrow_mut().add(0)
    }

    /// Whether this CPU must know of the last access there, and does not.
    pub(crate) fn misses(&self, used: u32) -> bool {
        self.looks() && !self.views.borrow().knows(self.me(), used)
    }

    /// Every access by the hardware so far has happened before what this CPU does next: an invalidation of all TLBs, or
    /// of a device's, is done.
    pub(crate) fn outlast(&self) {
        let mut views = self.views.borrow_mut();
        let frames = self.frames.borrow();
        let accessed = frames.iter().flat_map(|frame| [frame.content, frame.stored]);
        accessed.chain(self.paging.all_used()).for_each(|location| views.teach(self.me(), location));
    }

    /// Whether every access that was translated before now has landed.
    pub(crate) fn has_landed(&self, before: u64) -> bool {
        let me = self.me();
        let lands = |(number, core): (usize, &Core)| {
            number == me || core.in_flight.get().is_none_or(|at| at > before)
        };
        self.cores.iter().enumerate().all(lands)
    }

    // Accesses.

    /// An access of the program that runs here, or of the kernel to its ranges. Returns the frame; `None` if it faults.
    pub(crate) fn access(&self, kernel: bool, page: u64, store: bool) -> Option<u32> {
        self.step();
        let thread = self.me();
        let core = self.core();
        let (root, allocation, tag) = if kernel {
            self.kernel_root.get().map(|(root, allocation)| (root, allocation, Tag::Global))?
        } else {
            core.root.get()?
        };
        let entry = loop {
            let hit = core.tlb.borrow().find(tag, page);
            if let Some(entry) = hit.filter(|entry| !store || entry.writable && entry.dirty) {
                break entry;
            }
            core.tlb.borrow_mut().drop_page(tag, page);
            let drained = core.drained.get();
            let walking = self.begin_walk(&core.tlb.borrow(), tag, (root, allocation), page);
            let mut walk = Walk::On(walking);
            let leaf = loop {
                match walk {
                    Walk::Nothing => break None,
                    Walk::Leaf(walking, pte) => break Some((walking, pte)),
                    Walk::On(walking) => {
                        self.pause();
                        if core.drained.get() != drained {
                            break None;
                        }
                        walk = self.walk_on(thread, &mut core.tlb.borrow_mut(), walking);
                    }
                }
            };
            if core.drained.get() != drained {
                continue;
            }
            let Some((walking, pte)) = leaf else {
                self.note(|| format!("fault at page {page}"));
                return None;
            };
            if store && !pte.writable {
                self.note(|| format!("fault at page {page}"));
                return None;
            }
            if store && !pte.dirty {
                self.pause();
            }
            let Some((walking, pte)) = self.mark(thread, walking, pte, store) else { continue };
            let entry = self.filled(walking, pte);
            self.fill(thread, &mut core.tlb.borrow_mut(), entry);
            break entry;
        };
        // It is translated, and lands a moment later.
        core.in_flight.set(Some(self.tick()));
        self.pause();
        core.in_flight.set(None);
        self.touch(&entry, store);
        let what = if store { "store" } else { "load" };
        self.note(|| format!("{what} page {page} in frame {}", entry.frame));
        self.judge(thread, &entry, root, store);
        Some(entry.frame + (page - entry.page) as u32)
    }

    fn device_root(&self, thread: usize) -> Option<(u32, u32)> {
        self.devices[thread - self.cores.len()].root.get()
    }

    /// An access of a device, to a space or to the kernel's ranges.
    pub(crate) fn device_access(&self, kernel: bool, page: u64, store: bool) -> Option<u32> {
        self.pause();
        let thread = self.me();
        let tlb = &self.devices[thread - self.cores.len()].tlb;
        let (root, tag) = if kernel {
            (self.kernel_root.get()?, Tag::Global)
        } else {
            (self.device_root(thread)?, Tag::Asid(0))
        };
        let hit = tlb.borrow().find(tag, page);
        let entry = if let Some(entry) = hit.filter(|entry| !store || entry.writable) {
            entry
        } else {
            let mut tlb = tlb.borrow_mut();
            tlb.drop_page(tag, page);
            let mut walk = Walk::On(self.begin_walk(&tlb, tag, root, page));
            loop {
                match walk {
                    Walk::Nothing => return None,
                    Walk::On(walking) => walk = self.walk_on(thread, &mut tlb, walking),
                    Walk::Leaf(walking, pte) => {
                        if store && !pte.writable {
                            return None;
                        }
                        let entry = self.filled(walking, pte);
                        self.fill(thread, &mut tlb, entry);
                        break entry;
                    }
                }
            }
        };
        self.note(|| {
            format!("{} page {page} in frame {}", if store { "store" } else { "load" }, entry.frame)
        });
        self.touch(&entry, store);
        self.judge(thread, &entry, root.0, store);
        Some(entry.frame)
    }
}

fn rights(entry: &Filled) -> &'static str {
    match (entry.writable, entry.dirty) {
        (_, true) => " dirty",
        (true, false) => " rw",
        (false, false) => " ro",
    }
}

/// How far a walk has come.
enum Walk {
    Nothing,
    On(Walking),
    Leaf(Walking, Read),
}

/// The machine whose CPUs make this thread's accesses.
pub(crate) struct Memories(pub(crate) Rc<Hardware>);

impl Memories {
    /// The ordering of the access that is made now, as this machine keeps it. `weaker` is what is left of `SeqCst`
    /// without consistency.
    fn kept(&self, kind: Kind, order: Ordering, weaker: Ordering) -> Ordering {
        let access = Access { site: self.0.site.get(), kind };
        match self.0.weakened {
            Some((weakened, to)) if weakened == access => common(order, to),
            _ if order == Ordering::SeqCst && !self.0.keeps(Promise::Consistent) => weaker,
            _ => order,
        }
    }

    /// Notes the access that is made now, and its ordering.
    fn note(&self, kind: Kind, order: Ordering) {
        sites::note(Access { site: self.0.site.get(), kind }, order);
    }

    fn pick(&self, bound: u32) -> u32 {
        if below(self.0.freshness) == 0 {
            below(bound)
        } else {
            0
        }
    }
}

impl Checker for Memories {
    fn run(&self) -> u32 {
        schedule::run()
    }

    fn at(&self, place: &'static Place<'static>) {
        self.0.site.set(Site { file: place.file(), line: place.line(), column: place.column() });
    }

    fn register(&self, value: u64) -> u32 {
        self.0.views.borrow_mut().add(value)
    }

    fn load(&self, location: u32, order: Ordering) -> u64 {
        let machine = &*self.0;
        if machine.looking.get() {
            return machine.views.borrow().peek(machine.me(), location, &View::default(), &mut |_| 0);
        }
        if let Some(thread) = machine.walker.get() {
            let cpus = machine.cores.len();
            let floor = machine
                .cores
                .get(thread)
                .map_or_else(|| &machine.devices[thread - cpus].floor, |core| &core.floor);
            let newer = Cell::new(0);
            let pick: &mut dyn FnMut(u32) -> u32 = &mut |bound| {
                newer.set(self.pick(bound));
                newer.get()
            };
            let value = machine.views.borrow().peek(thread, location, &floor.borrow(), pick);
            machine.walked.set((location, newer.get()));
            return value;
        }
        self.note(Kind::Load, order);
        let order = self.kept(Kind::Load, order, Ordering::Acquire);
        // A weakened access often shows what it may: that is what the run is for.
        let weakened = machine.weakened.is_some_and(|(access, _)| access.site == machine.site.get());
        machine.step();
        let freely = weakened && below(2) == 0;
        let mut pick = |bound| if freely { below(bound) } else { self.pick(bound) };
        machine.views.borrow_mut().load(machine.me(), location, order, &mut pick)
    }

    fn store(&self, location: u32, value: u64, order: Ordering) {
        let machine = &*self.0;
        self.note(Kind::Store, order);
        let order = self.kept(Kind::Store, order, Ordering::Release);
        machine.step();
        machine.tick();
        machine.note_stored(location, value);
        let late = machine.model.late && machine.acting.get().is_none() && order != Ordering::SeqCst;
        let mut views = machine.views.borrow_mut();
        if late && below(2) == 0 {
            views.store_late(machine.me(), location, value, order);
        } else {
            views.store(machine.me(), location, value, order);
        }
    }

    fn update(
        &self,
        location: u32,
        success: Ordering,
        failure: Ordering,
        change: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        let machine = &*self.0;
        let mut stored = None;
        let mut noting = |old| {
            stored = change(old);
            stored
        };
        let result = if machine.walker.get().is_some() {
            machine.views.borrow_mut().mark(location, &mut noting)
        } else {
            let orders = (
                self.kept(Kind::Exchange, success, Ordering::AcqRel),
                self.kept(Kind::Failure, failure, Ordering::Acquire),
            );
            let site = machine.site.get();
            machine.step();
            let mut pick = |bound| self.pick(bound);
            let result =
                machine.views.borrow_mut().update(machine.me(), location, orders, &mut noting, &mut pick);
            let (kind, order) =
                if result.is_ok() { (Kind::Exchange, success) } else { (Kind::Failure, failure) };
            sites::note(Access { site, kind }, order);
            result
        };
        if let (Ok(_), Some(value)) = (&result, stored) {
            machine.tick();
            machine.note_stored(location, value);
        }
        result
    }

    fn fence(&self, order: Ordering) {
        let machine = &*self.0;
        self.note(Kind::Fence, order);
        let order = self.kept(Kind::Fence, order, Ordering::AcqRel);
        machine.step();
        machine.views.borrow_mut().fence(machine.me(), order);
    }

    fn between(&self) {
        self.0.linger();
    }
}
