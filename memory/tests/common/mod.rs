//! A machine made of host threads: each thread is a CPU with a software TLB.
//!
//! A TLB entry, once filled, is used without another look at the tables until the platform is told to invalidate it,
//! so a missing flush leaves a stale entry that the checks here find. Interrupts are a flag for each CPU, looked at
//! wherever a real CPU could take one: at each access, while it waits, and when interrupts come on again. A machine
//! made with [`Rig::by_hand`] has one thread that acts as each CPU in turn, and delivers interrupts at once.

// Every test binary uses its own part of this.
#![allow(dead_code)]

mod locks;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ptr;
use std::sync::atomic::{fence, AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use ceasefire::{
    Asid, Capabilities, Cpu, CpuId, CpuSet, HeldLocks, LockClass, PageSize, Platform, Root, Schedule,
    DYNAMIC_ASIDS,
};
use ceasefire_memory::{
    Access, Block, Config, ConfigError, Entry, Event, FaultError, FrameNumber, Machine, Memory, NodeId,
    NodeLayout, ObjectId, SpaceHandle, Table, Work, ENTRIES, KERNEL_ENTRIES, PAGE_BYTES, PAGE_SHIFT,
};

use locks::{Held, RwSpin, SpinLock};

/// What the frames hold that nobody owns.
pub(crate) const POISON: u64 = 0xdead_dead_dead_dead;
/// Words of a frame that are simulated.
const WORDS: usize = 4;
/// What the kernel has in the last entry of every root.
const KERNEL: Entry = Entry::page(FrameNumber::new(1), true);

thread_local! {
    /// Which CPU this thread is.
    static CPU: Cell<usize> = const { Cell::new(usize::MAX) };
    /// How many reasons there are for its interrupts to be off.
    static OFF: Cell<u32> = const { Cell::new(0) };
}

/// One frame: its words, and the table that it is when it is one.
struct Content {
    words: [AtomicU64; WORDS],
    table: OnceLock<Box<Table>>,
    allocated: AtomicBool,
    /// When it was last freed, when its write-out last began, and when another frame last took its page over.
    freed: AtomicU64,
    written: AtomicU64,
    superseded: AtomicU64,
}

/// A TLB entry, and when it was filled.
#[derive(Clone, Copy)]
struct Cached {
    /// Of a huge page: the first of its frames.
    frame: FrameNumber,
    size: PageSize,
    writable: bool,
    dirty: bool,
    filled: u64,
}

/// What is tagged with one ASID, by the address divided by the size.
#[derive(Default)]
struct Entries {
    small: HashMap<u64, Cached>,
    huge: HashMap<u64, Cached>,
}

impl Entries {
    fn of(&mut self, size: PageSize) -> &mut HashMap<u64, Cached> {
        match size {
            PageSize::Small => &mut self.small,
            PageSize::Huge => &mut self.huge,
        }
    }

    fn find(&self, address: u64) -> Option<&Cached> {
        let small = self.small.get(&(address >> PageSize::Small.shift()));
        small.or_else(|| self.huge.get(&(address >> PageSize::Huge.shift())))
    }

    /// Forgets what translates an address, whatever its size, as the processor does.
    fn remove(&mut self, address: u64) {
        for size in [PageSize::Small, PageSize::Huge] {
            self.of(size).remove(&(address >> size.shift()));
        }
    }

    fn clear(&mut self) {
        self.small.clear();
        self.huge.clear();
    }

    /// Whether a part of the 2 MiB at `address` is translated in a size other than `size`.
    fn mixed(&self, address: u64, size: PageSize) -> bool {
        let base = address >> PageSize::Huge.shift();
        match size {
            PageSize::Small => self.huge.contains_key(&base),
            PageSize::Huge => self.small.keys().any(|page| page >> 9 == base),
        }
    }
}

#[derive(Default)]
struct Tlb {
    loaded: Option<(FrameNumber, usize)>,
    entries: [Entries; DYNAMIC_ASIDS],
}

struct Core {
    engine: Cpu<Threads>,
    held: HeldLocks,
    /// How many reasons there are to stay on this CPU.
    pins: AtomicU32,
    pending: AtomicBool,
    tlb: Mutex<Tlb>,
}

/// A moment at which another CPU can be let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    /// Pages were written out; reclaim has cleared translations and may not have flushed them.
    WriteOut,
    /// Pages are about to be read in.
    ReadIn,
    /// A place where others may run.
    Reschedule,
    /// The pages of a file or of the swap device were unlocked.
    Unlock,
    /// A page is about to be copied.
    Copy,
    /// A page that is held is read.
    Load,
    /// A CPU begins to wait for a page.
    Wait,
    /// Work was done.
    Work(Work),
}

/// What to do at a moment, and how often it has to come first.
struct Hook {
    moment: Moment,
    after: u32,
    act: Box<dyn FnOnce() + Send>,
}

/// The machine.
pub(crate) struct Threads {
    cores: Box<[Core]>,
    nodes: usize,
    first_frame: FrameNumber,
    frames: Box<[Content]>,
    /// Where the tables are that got the kernel's half and are not freed yet.
    roots: Mutex<HashSet<usize>>,
    memory: OnceLock<Weak<Memory<Self>>>,
    by_hand: bool,
    clock: AtomicU64,
    woken: Box<[AtomicBool]>,
    /// Orders what happens to frames and when TLB entries were filled.
    sequence: AtomicU64,
    tables_freed: AtomicU64,
    written: AtomicU64,
    /// What the devices hold.
    stored: Mutex<HashMap<Block, [u64; WORDS]>>,
    violations: AtomicU64,
    first: OnceLock<String>,
    /// A CPU failed: nobody waits for it any more.
    failed: AtomicBool,
    hooks: Mutex<Vec<Hook>>,
    /// How many hooks there are: none, most of the time.
    hooked: AtomicUsize,
    /// How often a CPU found a lock taken.
    contended: AtomicU64,
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}

impl Threads {
    fn new(config: &Config, by_hand: bool) -> Self {
        let frames: usize = config.nodes.iter().map(|node| node.frames as usize).sum();
        let content = |_| Content {
            words: [const { AtomicU64::new(POISON) }; WORDS],
            table: OnceLock::new(),
            allocated: AtomicBool::new(false),
            freed: AtomicU64::new(0),
            written: AtomicU64::new(0),
            superseded: AtomicU64::new(0),
        };
        let core = |_| Core {
            engine: Cpu::new(),
            held: HeldLocks::new(),
            pins: AtomicU32::new(0),
            pending: AtomicBool::new(false),
            tlb: Mutex::default(),
        };
        Self {
            cores: (0..config.cpus).map(core).collect(),
            nodes: config.nodes.len(),
            first_frame: config.first_frame,
            frames: (0..frames).map(content).collect(),
            roots: Mutex::default(),
            memory: OnceLock::new(),
            by_hand,
            clock: AtomicU64::new(0),
            woken: config.nodes.iter().map(|_| AtomicBool::new(false)).collect(),
            sequence: AtomicU64::new(1),
            tables_freed: AtomicU64::new(0),
            written: AtomicU64::new(0),
            stored: Mutex::default(),
            violations: AtomicU64::new(0),
            first: OnceLock::new(),
            failed: AtomicBool::new(false),
            hooks: Mutex::default(),
            hooked: AtomicUsize::new(0),
            contended: AtomicU64::new(0),
        }
    }

    fn core(&self) -> &Core {
        &self.cores[CPU.get()]
    }

    fn content(&self, frame: FrameNumber) -> &Content {
        &self.frames[frame.index() - self.first_frame.index()]
    }

    /// A place where a kernel's task may sleep.
    fn assert_may_sleep(&self) {
        let core = self.core();
        assert_eq!(OFF.get(), 0, "a task that may sleep has interrupts off");
        assert_eq!(core.pins.load(Ordering::Relaxed), 0, "a task that may sleep is pinned");
        assert!(core.held.may_sleep(), "a task that may sleep holds a lock that spins: {:?}", core.held);
    }

    fn violation(&self, what: impl FnOnce() -> String) {
        self.violations.fetch_add(1, Ordering::Relaxed);
        self.first.get_or_init(what);
    }

    /// Checks of the events and tables: which rule, and which frame.
    fn check(&self, right: bool, rule: &str, frame: FrameNumber) {
        if !right {
            self.violation(|| format!("{rule}: {frame:?} on CPU {}", CPU.get()));
        }
    }

    pub(crate) fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed)
    }

    pub(crate) fn first_violation(&self) -> Option<&str> {
        self.first.get().map(String::as_str)
    }

    pub(crate) fn assert_no_violation(&self) {
        assert_eq!(self.violations(), 0, "the first: {:?}", self.first.get());
    }

    pub(crate) fn tables_freed(&self) -> u64 {
        self.tables_freed.load(Ordering::Relaxed)
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Whether a space has what the kernel put into its root.
    pub(crate) fn has_kernel(&self, space: &Space) -> bool {
        self.table(space.root()).get(KERNEL_ENTRIES.end - 1) == KERNEL
    }

    /// Whether background reclaim of a node was asked for since the last time this was asked.
    pub(crate) fn take_wake(&self, node: NodeId) -> bool {
        self.woken[node.index()].swap(false, Ordering::AcqRel)
    }

    /// Does `act` when `moment` comes next.
    pub(crate) fn at(&self, moment: Moment, act: impl FnOnce() + Send + 'static) {
        self.after(0, moment, act);
    }

    /// Does `act` when `moment` comes for the time after the next `times`.
    pub(crate) fn after(&self, times: u32, moment: Moment, act: impl FnOnce() + Send + 'static) {
        self.hooks.lock().unwrap().push(Hook { moment, after: times, act: Box::new(act) });
        self.hooked.fetch_add(1, Ordering::SeqCst);
    }

    /// Forgets what was to be done at moments that did not come.
    pub(crate) fn forget_hooks(&self) {
        let hooks = std::mem::take(&mut *self.hooks.lock().unwrap());
        self.hooked.fetch_sub(hooks.len(), Ordering::SeqCst);
    }

    /// Whether all that was to be done at some moment is done.
    pub(crate) fn all_done(&self) -> bool {
        self.hooked.load(Ordering::SeqCst) == 0
    }

    /// How often a CPU found a lock taken.
    pub(crate) fn contended(&self) -> u64 {
        self.contended.load(Ordering::SeqCst)
    }

    fn reach(&self, moment: Moment) {
        if self.hooked.load(Ordering::Relaxed) == 0 {
            return;
        }
        let hook = {
            let mut hooks = self.hooks.lock().unwrap();
            let Some(index) = hooks.iter().position(|hook| hook.moment == moment) else { return };
            if hooks[index].after > 0 {
                hooks[index].after -= 1;
                return;
            }
            hooks.remove(index)
        };
        (hook.act)();
        self.hooked.fetch_sub(1, Ordering::SeqCst);
    }

    fn next(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether the CPU holds an entry for `address` under the ASID that is loaded.
    pub(crate) fn caches(&self, cpu: usize, address: u64) -> bool {
        let tlb = self.cores[cpu].tlb.lock().unwrap();
        tlb.loaded.is_some_and(|(_, asid)| tlb.entries[asid].find(address).is_some())
    }

    /// Takes the interrupts that wait for this CPU, unless they are off.
    pub(crate) fn poll(&self) {
        if OFF.get() > 0 || !self.core().pending.load(Ordering::Acquire) {
            return;
        }
        let Some(memory) = self.memory.get().and_then(Weak::upgrade) else { return };
        while self.core().pending.swap(false, Ordering::SeqCst) {
            OFF.set(1);
            memory.engine().handle_interrupt();
            OFF.set(0);
        }
    }

    /// Lets time pass in a loop that waits for another CPU.
    fn spin(&self, spins: &mut u32) {
        self.poll();
        *spins += 1;
        if *spins < 32 {
            std::hint::spin_loop();
        } else {
            self.assert_alive();
            std::thread::yield_now();
        }
    }

    /// Fails with the others, so that nobody waits for what will not come.
    pub(crate) fn assert_alive(&self) {
        assert!(!self.failed.load(Ordering::Relaxed), "another CPU failed");
    }

    /// Answers interrupts until `done`.
    pub(crate) fn idle_until(&self, done: impl Fn() -> bool) {
        let mut spins = 0;
        while !done() {
            self.spin(&mut spins);
        }
    }

    fn acquire<'a, G>(&'a self, class: &'static LockClass, attempt: impl Fn() -> Option<G>) -> Held<'a, G> {
        self.held_locks().acquire(class);
        if class.interrupts_off {
            OFF.set(OFF.get() + 1);
        }
        let mut spins = 0;
        loop {
            if let Some(guard) = attempt() {
                return Held::new(guard, self, class);
            }
            if spins == 0 {
                self.contended.fetch_add(1, Ordering::SeqCst);
            }
            self.spin(&mut spins);
        }
    }

    fn interrupts_on(&self) {
        OFF.set(OFF.get() - 1);
        self.poll();
    }

    /// One access as the processor does it: the word's value (for a store, the old one), or nothing if it faults.
    fn touch(&self, root: FrameNumber, address: u64, store: Option<u64>) -> Option<u64> {
        let mut tlb = self.core().tlb.lock().unwrap();
        let (loaded, asid) = tlb.loaded.expect("a program runs with its space loaded");
        assert_eq!(loaded, root, "the space that is loaded");
        let hit = tlb.entries[asid].find(address).copied();
        // A store through a clean entry walks again; a fault drops the entry that caused it.
        let usable = |entry: &Cached| store.is_none() || (entry.writable && entry.dirty);
        let entry = if let Some(entry) = hit.filter(usable) {
            entry
        } else {
            tlb.entries[asid].remove(address);
            let entry = self.walk(root, address, store.is_some())?;
            let mixed = tlb.entries[asid].mixed(address, entry.size);
            self.check(!mixed, "R7, translations of both sizes", entry.frame);
            tlb.entries[asid].of(entry.size).insert(address >> entry.size.shift(), entry);
            entry
        };
        let offset = match entry.size {
            PageSize::Small => 0,
            PageSize::Huge => Table::index(address, 0) as u32,
        };
        let frame = FrameNumber::new(entry.frame.get() + offset);
        let content = self.content(frame);
        let since = |moment: &AtomicU64| moment.load(Ordering::Acquire) > entry.filled;
        let current = content.allocated.load(Ordering::Acquire) && !since(&content.freed);
        self.check(current, "R1, an entry leads to a frame freed since", frame);
        self.check(!since(&content.superseded), "R6, an entry leads to an old version", frame);
        let word = &content.words[(address % PAGE_BYTES / 8) as usize % WORDS];
        match store {
            None => Some(word.load(Ordering::Acquire)),
            Some(value) => {
                self.check(!since(&content.written), "R5, a store lands unseen after write-out began", frame);
                Some(word.swap(value, Ordering::AcqRel))
            }
        }
    }

    fn walk(&self, root: FrameNumber, address: u64, store: bool) -> Option<Cached> {
        let mut frame = root;
        let (mut level, mut size) = (3, PageSize::Small);
        while level > 0 {
            let entry = self.table(frame).get(Table::index(address, level));
            if !entry.present() {
                return None;
            }
            if entry.is_huge() {
                size = PageSize::Huge;
                break;
            }
            frame = entry.frame();
            level -= 1;
        }
        let (table, index) = (self.table(frame), Table::index(address, level));
        let entry = loop {
            let entry = table.get(index);
            if !entry.present() || entry.is_huge() != (size == PageSize::Huge) || (store && !entry.writable())
            {
                return None;
            }
            if let Some(used) = table.mark_used(index, entry, store) {
                break used;
            }
        };
        Some(Cached {
            frame: entry.frame(),
            size,
            writable: entry.writable(),
            dirty: entry.dirty(),
            filled: self.sequence.load(Ordering::SeqCst),
        })
    }
}

// SAFETY: the CPU is the thread's own number. It changes only in `Rig::on`, which is not called with interrupts off,
// and in `interrupt` of a machine that has one thread, which comes back before it returns. With interrupts off
// nothing else runs on the thread, as interrupts are polled for. Each CPU has its own place in `cores`, and two
// threads never have the same number at the same time.
unsafe impl Platform for Threads {
    type Space = SpaceHandle<Self>;
    type Lock<T: fmt::Debug> = SpinLock<T>;
    type RwLock<T: fmt::Debug> = RwSpin<T>;

    fn capabilities(&self) -> Capabilities {
        Capabilities { clean_stores_walk: true, asids: true, broadcast: None }
    }

    fn this_cpu(&self) -> CpuId {
        CpuId::new(CPU.get()).expect("this thread is a CPU")
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<Self> {
        &self.cores[cpu.index()].engine
    }

    fn interrupts_off<R>(&self, body: impl FnOnce() -> R) -> R {
        OFF.set(OFF.get() + 1);
        let result = body();
        self.interrupts_on();
        result
    }

    fn pinned<R>(&self, body: impl FnOnce() -> R) -> R {
        let pins = &self.core().pins;
        pins.fetch_add(1, Ordering::Relaxed);
        let result = body();
        pins.fetch_sub(1, Ordering::Relaxed);
        result
    }

    fn load_root(&self, root: Root, asid: Asid, flush: bool) {
        let mut tlb = self.core().tlb.lock().unwrap();
        let asid = usize::from(asid.get());
        let root = FrameNumber::new((root.0 >> PAGE_SHIFT) as u32);
        let kernel = self.table(root).get(KERNEL_ENTRIES.end - 1) == KERNEL;
        self.check(kernel, "a root without the kernel is loaded", root);
        tlb.loaded = Some((root, asid));
        if flush {
            tlb.entries[asid].clear();
        }
        fence(Ordering::SeqCst);
    }

    fn load_kernel_root(&self) {
        self.core().tlb.lock().unwrap().loaded = None;
        fence(Ordering::SeqCst);
    }

    fn invalidate_page(&self, asid: Asid, address: u64, _: PageSize) {
        let mut tlb = self.core().tlb.lock().unwrap();
        tlb.entries[usize::from(asid.get())].remove(address);
    }

    fn invalidate_asid(&self, asid: Asid) {
        self.core().tlb.lock().unwrap().entries[usize::from(asid.get())].clear();
    }

    fn invalidate_all(&self) {
        self.core().tlb.lock().unwrap().entries.iter_mut().for_each(Entries::clear);
    }

    fn interrupt(&self, targets: &CpuSet) {
        for target in targets.iter() {
            self.cores[target.index()].pending.store(true, Ordering::SeqCst);
            if self.by_hand {
                let sender = CPU.replace(target.index());
                self.poll();
                CPU.set(sender);
            }
        }
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        assert_eq!(OFF.get(), 0, "a CPU waits for others with interrupts off");
        self.idle_until(done);
    }

    fn now(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::Relaxed)
    }

    fn held_locks(&self) -> &HeldLocks {
        &self.core().held
    }
}

impl Machine for Threads {
    fn table(&self, frame: FrameNumber) -> &Table {
        let content = self.content(frame);
        self.check(content.allocated.load(Ordering::Acquire), "R2, a freed table is read", frame);
        content.table.get_or_init(|| Box::new(Table::new()))
    }

    fn share_kernel(&self, root: &Table) {
        assert!((0..ENTRIES).all(|index| root.get(index).is_none()), "a new root is not empty");
        root.set(KERNEL_ENTRIES.end - 1, KERNEL);
        self.roots.lock().unwrap().insert(ptr::from_ref(root).addr());
    }

    fn zero(&self, first: FrameNumber, count: u32) {
        for frame in (first.get()..first.get() + count).map(FrameNumber::new) {
            let content = self.content(frame);
            self.check(content.allocated.load(Ordering::Acquire), "a free frame is zeroed", frame);
            for word in &content.words {
                word.store(0, Ordering::Release);
            }
            if let Some(table) = content.table.get() {
                table.clear();
            }
        }
    }

    fn copy(&self, from: FrameNumber, to: FrameNumber, count: u32) {
        self.reach(Moment::Copy);
        for offset in 0..count {
            let content = |first: FrameNumber| self.content(FrameNumber::new(first.get() + offset));
            let (from, to) = (&content(from).words, &content(to).words);
            for (from, to) in from.iter().zip(to) {
                to.store(from.load(Ordering::Acquire), Ordering::Release);
            }
        }
    }

    fn load(&self, frame: FrameNumber, offset: usize, into: &mut [u8]) {
        self.reach(Moment::Load);
        let words = self.content(frame).words.each_ref().map(|word| word.load(Ordering::Acquire));
        for (at, byte) in (offset..).zip(into) {
            *byte = words.get(at / 8).map_or(0, |word| word.to_le_bytes()[at % 8]);
        }
    }

    fn store(&self, frame: FrameNumber, offset: usize, from: &[u8]) {
        let words = &self.content(frame).words;
        for (at, byte) in (offset..).zip(from) {
            let Some(word) = words.get(at / 8) else { break };
            let mut bytes = word.load(Ordering::Acquire).to_le_bytes();
            bytes[at % 8] = *byte;
            word.store(u64::from_le_bytes(bytes), Ordering::Release);
        }
    }

    fn write_out(&self, pages: &[(Block, FrameNumber)]) {
        self.assert_may_sleep();
        for &(block, frame) in pages {
            let content = self.content(frame);
            self.check(content.allocated.load(Ordering::Acquire), "a free frame is written", frame);
            let words = content.words.each_ref().map(|word| word.load(Ordering::Acquire));
            self.stored.lock().unwrap().insert(block, words);
            self.written.fetch_add(1, Ordering::Relaxed);
        }
        self.reach(Moment::WriteOut);
    }

    fn read_in(&self, pages: &[(Block, FrameNumber)]) {
        self.assert_may_sleep();
        self.reach(Moment::ReadIn);
        for &(block, frame) in pages {
            let words = self.stored.lock().unwrap().get(&block).copied();
            self.check(words.is_some(), "read from a device before it was written", frame);
            for (word, value) in self.content(frame).words.iter().zip(words.unwrap_or_default()) {
                word.store(value, Ordering::Release);
            }
        }
    }

    fn wait_for_page(&self, _: FrameNumber, busy: &dyn Fn() -> bool) {
        assert!(self.core().held.is_empty(), "waits for a page while it holds a lock");
        if busy() {
            self.reach(Moment::Wait);
        }
        self.idle_until(|| !busy());
    }

    fn page_ready(&self, _: FrameNumber) {}

    fn node_of(&self, cpu: CpuId) -> NodeId {
        NodeId((cpu.index() % self.nodes) as u16)
    }

    fn wake_reclaim(&self, node: NodeId) {
        self.woken[node.index()].store(true, Ordering::Release);
    }

    fn reschedule(&self) {
        self.assert_may_sleep();
        self.poll();
        self.reach(Moment::Reschedule);
    }

    fn work(&self, work: Work, _: u32) {
        self.reach(Moment::Work(work));
    }

    fn observe(&self, event: Event) {
        match event {
            Event::FrameAllocated(frame) => {
                let was = self.content(frame).allocated.swap(true, Ordering::AcqRel);
                self.check(!was, "handed out twice", frame);
            }
            Event::FrameFreed(frame) => {
                let content = self.content(frame);
                let was = content.allocated.swap(false, Ordering::AcqRel);
                self.check(was, "freed twice", frame);
                content.freed.store(self.next(), Ordering::Release);
                for word in &content.words {
                    word.store(POISON, Ordering::Release);
                }
            }
            Event::TableFreed(frame) => {
                self.tables_freed.fetch_add(1, Ordering::Relaxed);
                let table = self.table(frame);
                let root = self.roots.lock().unwrap().remove(&ptr::from_ref(table).addr());
                let left = (0..ENTRIES).map(|index| table.get(index)).filter(|entry| entry.present());
                let kernel = root.then_some(KERNEL);
                self.check(
                    left.eq(kernel),
                    "a table is freed with translations in it, or a root without the kernel",
                    frame,
                );
            }
            Event::Installed { frame, .. } => {
                let allocated = self.content(frame).allocated.load(Ordering::Acquire);
                self.check(allocated, "a free frame is mapped", frame);
            }
            Event::WriteOut(frame) => {
                self.content(frame).written.store(self.next(), Ordering::Release);
            }
            Event::Superseded(frame) => {
                self.content(frame).superseded.store(self.next(), Ordering::Release);
            }
            Event::Returned { .. } => {}
        }
    }
}

/// The machine with its memory manager.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) memory: Arc<Memory<Threads>>,
}

impl Rig {
    /// A machine whose CPUs are threads; the calling one is CPU 0 until it says otherwise.
    pub(crate) fn threaded(config: Config) -> Self {
        Self::new(config, false)
    }

    /// A machine with one thread, which acts as CPU 0 and, in [`Rig::on`], as the others.
    pub(crate) fn by_hand(config: Config) -> Self {
        Self::new(config, true)
    }

    fn new(config: Config, by_hand: bool) -> Self {
        CPU.set(0);
        OFF.set(0);
        let memory = Arc::new(Memory::new(Threads::new(&config, by_hand), config).expect("there are frames"));
        memory.platform().memory.set(Arc::downgrade(&memory)).expect("set once");
        Self { memory }
    }

    /// Why there is no machine like this.
    pub(crate) fn refused(config: Config) -> ConfigError {
        Memory::new(Threads::new(&config, true), config).expect_err("such a machine cannot be")
    }

    pub(crate) fn platform(&self) -> &Threads {
        self.memory.platform()
    }

    /// Makes the calling thread a CPU for good.
    pub(crate) fn start(&self, cpu: usize) -> OnPanic<'_> {
        CPU.set(cpu);
        OFF.set(0);
        OnPanic(self.platform())
    }

    /// Does `body` as another CPU.
    pub(crate) fn on<R>(&self, cpu: usize, body: impl FnOnce() -> R) -> R {
        assert!(
            cpu < self.platform().cores.len() && OFF.get() == 0,
            "moved to CPU {cpu} with interrupts off"
        );
        let before = CPU.replace(cpu);
        let result = body();
        CPU.set(before);
        result
    }

    /// Makes the CPU run a program of `space`.
    pub(crate) fn run(&self, space: &SpaceHandle<Threads>) {
        drop(self.memory.engine().switch_to(space));
    }

    pub(crate) fn load(&self, space: &SpaceHandle<Threads>, address: u64) -> Result<u64, FaultError> {
        self.access(space, address, None)
    }

    pub(crate) fn store(
        &self,
        space: &SpaceHandle<Threads>,
        address: u64,
        value: u64,
    ) -> Result<(), FaultError> {
        self.access(space, address, Some(value)).map(drop)
    }

    /// What a program sees: accesses that fault are tried again once the fault was handled.
    fn access(
        &self,
        space: &SpaceHandle<Threads>,
        address: u64,
        store: Option<u64>,
    ) -> Result<u64, FaultError> {
        loop {
            self.platform().poll();
            if let Some(value) = self.platform().touch(space.root(), address, store) {
                return Ok(value);
            }
            let access = if store.is_some() { Access::Write } else { Access::Read };
            self.memory.fault(space, address, access)?;
        }
    }
}

/// Tells the others when its CPU fails, so that they do not wait for it.
pub(crate) struct OnPanic<'a>(&'a Threads);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::Relaxed);
        }
    }
}

/// An address space of the rig.
pub(crate) type Space = SpaceHandle<Threads>;

/// Two nodes, whose frames begin at a number that nobody takes for an index by accident.
pub(crate) fn config(frames: u32) -> Config {
    let nodes = vec![NodeLayout::new(frames / 2), NodeLayout::new(frames - frames / 2)];
    let first_frame = FrameNumber::new(5_003);
    Config { first_frame, objects: 64, ..Config::new(nodes, 2, Schedule::Batched) }
}

/// A machine of two CPUs on two nodes, with a space that both run.
pub(crate) fn shared_space(frames: u32) -> (Rig, Space) {
    let rig = Rig::by_hand(config(frames));
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    rig.on(1, || rig.run(&space));
    (rig, space)
}

/// Ends the program and checks that nothing is left of it.
pub(crate) fn finish(rig: &Rig, space: Space, files: &[ObjectId], free: u64) {
    rig.on(1, || drop(rig.memory.engine().unload()));
    rig.memory.exit(space);
    for &file in files {
        rig.memory.delete_file(file);
    }
    rig.memory.list_collected();
    assert_eq!(rig.memory.free_frames(), free, "frames were lost or found");
    rig.platform().assert_no_violation();
}

/// Looks at pages until all that is unused was reclaimed, by asking for more than there is.
pub(crate) fn exhaust(rig: &Rig) -> Vec<Space> {
    let mut spaces = Vec::new();
    while let Ok(space) = rig.memory.new_space() {
        spaces.push(space);
    }
    spaces
}

pub(crate) fn end(rig: &Rig, spaces: Vec<Space>) {
    for space in spaces {
        rig.memory.exit(space);
    }
}

/// The address of page `page` of a range.
pub(crate) fn at(start: u64, page: u64) -> u64 {
    start + page * PAGE_BYTES
}

/// Numbers that are the same in every run (splitmix64).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}
