//! A machine made of host threads: each thread is a CPU with a software TLB.
//!
//! A TLB entry, once filled, is used without another look at the tables until the platform is told to invalidate it,
//! so a missing flush leaves a stale entry that the checks here find. Interrupts are a flag for each CPU, looked at
//! wherever a real CPU could take one: at each access, while it waits, and when interrupts come on again. A machine
//! made with [`Rig::by_hand`] has one thread that acts as each CPU in turn, and delivers interrupts at once.

// Every test binary uses its own part of this.
#![allow(dead_code)]

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{fence, AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLockReadGuard, RwLockWriteGuard, TryLockError, Weak};

use ceasefire::{
    Asid, Capabilities, Cpu, CpuId, CpuSet, HeldLocks, Lock, LockClass, PageSize, Platform, Root, RwLock,
    DYNAMIC_ASIDS,
};
use ceasefire_memory::{
    Access, Block, Config, Event, FaultError, FrameNumber, Machine, Memory, NodeId, SpaceHandle, Table, Work,
    PAGE_BYTES, PAGE_SHIFT,
};

/// What the frames hold that nobody owns.
pub(crate) const POISON: u64 = 0xdead_dead_dead_dead;
/// Words of a frame that are simulated.
const WORDS: usize = 4;

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
    /// How often it was freed, and how often its write-out began.
    freed: AtomicU64,
    written: AtomicU64,
}

/// A TLB entry, with what its frame had been through when it was filled.
#[derive(Clone, Copy)]
struct Cached {
    frame: FrameNumber,
    writable: bool,
    dirty: bool,
    freed: u64,
    written: u64,
}

#[derive(Default)]
struct Tlb {
    loaded: Option<(FrameNumber, usize)>,
    entries: [HashMap<u64, Cached>; DYNAMIC_ASIDS],
}

struct Core {
    engine: Cpu<Threads>,
    held: HeldLocks,
    pending: AtomicBool,
    tlb: Mutex<Tlb>,
}

type Hook = Box<dyn FnOnce() + Send>;

fn do_once(hook: &Mutex<Option<Hook>>) {
    let hook = hook.lock().unwrap().take();
    if let Some(hook) = hook {
        hook();
    }
}

/// The machine.
pub(crate) struct Threads {
    cores: Box<[Core]>,
    nodes: usize,
    frames: Box<[Content]>,
    memory: OnceLock<Weak<Memory<Self>>>,
    by_hand: bool,
    clock: AtomicU64,
    woken: Box<[AtomicBool]>,
    tables_freed: AtomicU64,
    written: AtomicU64,
    /// What the devices hold.
    stored: Mutex<HashMap<Block, [u64; WORDS]>>,
    violations: AtomicU64,
    first: OnceLock<String>,
    /// A CPU failed: nobody waits for it any more.
    failed: AtomicBool,
    /// Done at the next write-out.
    at_write_out: Mutex<Option<Hook>>,
    /// Done at the next place where others may run.
    at_reschedule: Mutex<Option<Hook>>,
    /// Done when reclaim looks at a page while it owes flushes in a space.
    while_owing: Mutex<Option<(SpaceHandle<Threads>, Hook)>>,
    /// Done when the pages of a file are next unlocked.
    at_unlock: Mutex<Option<Hook>>,
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
        };
        let core = |_| Core {
            engine: Cpu::new(),
            held: HeldLocks::new(),
            pending: AtomicBool::new(false),
            tlb: Mutex::default(),
        };
        Self {
            cores: (0..config.cpus).map(core).collect(),
            nodes: config.nodes.len(),
            frames: (0..frames).map(content).collect(),
            memory: OnceLock::new(),
            by_hand,
            clock: AtomicU64::new(0),
            woken: config.nodes.iter().map(|_| AtomicBool::new(false)).collect(),
            tables_freed: AtomicU64::new(0),
            written: AtomicU64::new(0),
            stored: Mutex::default(),
            violations: AtomicU64::new(0),
            first: OnceLock::new(),
            failed: AtomicBool::new(false),
            at_write_out: Mutex::default(),
            at_reschedule: Mutex::default(),
            while_owing: Mutex::default(),
            at_unlock: Mutex::default(),
        }
    }

    fn core(&self) -> &Core {
        &self.cores[CPU.get()]
    }

    fn content(&self, frame: FrameNumber) -> &Content {
        &self.frames[frame.index()]
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

    pub(crate) fn assert_no_violation(&self) {
        assert_eq!(self.violations(), 0, "the first: {:?}", self.first.get());
    }

    pub(crate) fn tables_freed(&self) -> u64 {
        self.tables_freed.load(Ordering::Relaxed)
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Whether background reclaim of a node was asked for since the last time this was asked.
    pub(crate) fn take_wake(&self, node: NodeId) -> bool {
        self.woken[node.index()].swap(false, Ordering::AcqRel)
    }

    /// Does `hook` within the next write-out.
    pub(crate) fn at_write_out(&self, hook: impl FnOnce() + Send + 'static) {
        *self.at_write_out.lock().unwrap() = Some(Box::new(hook));
    }

    /// Does `hook` when reclaim next looks at a page while it owes flushes in `space`.
    pub(crate) fn while_owing(&self, space: &SpaceHandle<Threads>, hook: impl FnOnce() + Send + 'static) {
        *self.while_owing.lock().unwrap() = Some((space.clone(), Box::new(hook)));
    }

    /// Does `hook` at the next place where others may run, with no lock held.
    pub(crate) fn at_reschedule(&self, hook: impl FnOnce() + Send + 'static) {
        *self.at_reschedule.lock().unwrap() = Some(Box::new(hook));
    }

    /// Does `hook` when the pages of a file are next unlocked.
    pub(crate) fn at_unlock(&self, hook: impl FnOnce() + Send + 'static) {
        *self.at_unlock.lock().unwrap() = Some(Box::new(hook));
    }

    /// Whether the CPU holds an entry for `address` under the ASID that is loaded.
    pub(crate) fn caches(&self, cpu: usize, address: u64) -> bool {
        let tlb = self.cores[cpu].tlb.lock().unwrap();
        tlb.loaded.is_some_and(|(_, asid)| tlb.entries[asid].contains_key(&(address >> PAGE_SHIFT)))
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
                return Held { guard, _section: Section { platform: self, class } };
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
        let page = address >> PAGE_SHIFT;
        let hit = tlb.entries[asid].get(&page).copied();
        // A store through a clean entry walks again; a fault drops the entry that caused it.
        let usable = |entry: &Cached| store.is_none() || (entry.writable && entry.dirty);
        let entry = if let Some(entry) = hit.filter(usable) {
            entry
        } else {
            tlb.entries[asid].remove(&page);
            let entry = self.walk(root, address, store.is_some())?;
            tlb.entries[asid].insert(page, entry);
            entry
        };
        let content = self.content(entry.frame);
        let current =
            content.allocated.load(Ordering::Acquire) && content.freed.load(Ordering::Acquire) == entry.freed;
        self.check(current, "R1, an entry leads to a frame freed since", entry.frame);
        let word = &content.words[(address % PAGE_BYTES / 8) as usize % WORDS];
        match store {
            None => Some(word.load(Ordering::Acquire)),
            Some(value) => {
                let unseen = content.written.load(Ordering::Acquire) != entry.written;
                self.check(!unseen, "R5, a store lands unseen after write-out began", entry.frame);
                Some(word.swap(value, Ordering::AcqRel))
            }
        }
    }

    fn walk(&self, root: FrameNumber, address: u64, store: bool) -> Option<Cached> {
        let mut frame = root;
        for level in (1..=3).rev() {
            let entry = self.table(frame).get(Table::index(address, level));
            if !entry.present() {
                return None;
            }
            frame = entry.frame();
        }
        let (table, index) = (self.table(frame), Table::index(address, 0));
        let entry = loop {
            let entry = table.get(index);
            if !entry.present() || (store && !entry.writable()) {
                return None;
            }
            if let Some(used) = table.mark_used(index, entry, store) {
                break used;
            }
        };
        let content = self.content(entry.frame());
        Some(Cached {
            frame: entry.frame(),
            writable: entry.writable(),
            dirty: entry.dirty(),
            freed: content.freed.load(Ordering::Acquire),
            written: content.written.load(Ordering::Acquire),
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
        body()
    }

    fn load_root(&self, root: Root, asid: Asid, flush: bool) {
        let mut tlb = self.core().tlb.lock().unwrap();
        let asid = usize::from(asid.get());
        tlb.loaded = Some((FrameNumber::new((root.0 >> PAGE_SHIFT) as u32), asid));
        if flush {
            tlb.entries[asid].clear();
        }
        fence(Ordering::SeqCst);
    }

    fn load_kernel_root(&self) {
        self.core().tlb.lock().unwrap().loaded = None;
        fence(Ordering::SeqCst);
    }

    fn invalidate_page(&self, asid: Asid, address: u64, size: PageSize) {
        assert_eq!(size, PageSize::Small);
        let mut tlb = self.core().tlb.lock().unwrap();
        tlb.entries[usize::from(asid.get())].remove(&(address >> PAGE_SHIFT));
    }

    fn invalidate_asid(&self, asid: Asid) {
        self.core().tlb.lock().unwrap().entries[usize::from(asid.get())].clear();
    }

    fn invalidate_all(&self) {
        self.core().tlb.lock().unwrap().entries.iter_mut().for_each(HashMap::clear);
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
        for offset in 0..count {
            let content = |first: FrameNumber| self.content(FrameNumber::new(first.get() + offset));
            let (from, to) = (&content(from).words, &content(to).words);
            for (from, to) in from.iter().zip(to) {
                to.store(from.load(Ordering::Acquire), Ordering::Release);
            }
        }
    }

    fn load(&self, frame: FrameNumber, offset: usize, into: &mut [u8]) {
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
        for &(block, frame) in pages {
            let content = self.content(frame);
            self.check(content.allocated.load(Ordering::Acquire), "a free frame is written", frame);
            let words = content.words.each_ref().map(|word| word.load(Ordering::Acquire));
            self.stored.lock().unwrap().insert(block, words);
            self.written.fetch_add(1, Ordering::Relaxed);
        }
        do_once(&self.at_write_out);
    }

    fn read_in(&self, pages: &[(Block, FrameNumber)]) {
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
        assert_eq!(OFF.get(), 0, "rescheduled with interrupts off");
        self.poll();
        do_once(&self.at_reschedule);
    }

    fn work(&self, work: Work, _: u32) {
        if work == Work::ReclaimPage {
            let hook = {
                let mut hook = self.while_owing.lock().unwrap();
                let owes = hook.as_ref().is_some_and(|(space, _)| space.coherence().owes());
                if owes {
                    hook.take()
                } else {
                    None
                }
            };
            if let Some((_, hook)) = hook {
                hook();
            }
        }
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
                content.freed.fetch_add(1, Ordering::AcqRel);
                for word in &content.words {
                    word.store(POISON, Ordering::Release);
                }
            }
            Event::TableFreed(frame) => {
                self.tables_freed.fetch_add(1, Ordering::Relaxed);
                let table = self.table(frame);
                let empty = (0..ceasefire_memory::ENTRIES).all(|index| !table.get(index).present());
                self.check(empty, "a table is freed with translations in it", frame);
            }
            Event::Installed { frame, .. } => {
                let allocated = self.content(frame).allocated.load(Ordering::Acquire);
                self.check(allocated, "a free frame is mapped", frame);
            }
            Event::WriteOut(frame) => {
                self.content(frame).written.fetch_add(1, Ordering::AcqRel);
            }
            Event::Returned { .. } | Event::Superseded(_) => {}
        }
    }
}

/// A lock that is held: first the guard goes, then the lock is forgotten and interrupts come back.
pub(crate) struct Held<'a, G> {
    guard: G,
    _section: Section<'a>,
}

struct Section<'a> {
    platform: &'a Threads,
    class: &'static LockClass,
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        self.platform.held_locks().release(self.class);
        if self.class.interrupts_off {
            self.platform.interrupts_on();
        }
        if self.class.rank == ceasefire_memory::locks::PAGES.rank {
            do_once(&self.platform.at_unlock);
        }
    }
}

impl<G: Deref> Deref for Held<'_, G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Held<'_, G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

fn got<G>(attempt: Result<G, TryLockError<G>>) -> Option<G> {
    match attempt {
        Ok(guard) => Some(guard),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Poisoned(_)) => panic!("a CPU failed while it held this lock"),
    }
}

#[derive(Debug)]
pub(crate) struct SpinLock<T> {
    class: &'static LockClass,
    value: Mutex<T>,
}

impl<T: fmt::Debug> Lock<T, Threads> for SpinLock<T> {
    type Guard<'a>
        = Held<'a, MutexGuard<'a, T>>
    where
        T: 'a;

    fn new(class: &'static LockClass, value: T) -> Self {
        Self { class, value: Mutex::new(value) }
    }

    fn lock<'a>(&'a self, platform: &'a Threads) -> Self::Guard<'a> {
        platform.acquire(self.class, || got(self.value.try_lock()))
    }
}

#[derive(Debug)]
pub(crate) struct RwSpin<T> {
    class: &'static LockClass,
    value: std::sync::RwLock<T>,
    /// Readers let writers go first, else these might wait forever.
    writers: AtomicU64,
}

impl<T: fmt::Debug> RwLock<T, Threads> for RwSpin<T> {
    type Read<'a>
        = Held<'a, RwLockReadGuard<'a, T>>
    where
        T: 'a;
    type Write<'a>
        = Held<'a, RwLockWriteGuard<'a, T>>
    where
        T: 'a;

    fn new(class: &'static LockClass, value: T) -> Self {
        Self { class, value: std::sync::RwLock::new(value), writers: AtomicU64::new(0) }
    }

    fn read<'a>(&'a self, platform: &'a Threads) -> Self::Read<'a> {
        platform.acquire(self.class, || {
            let free = self.writers.load(Ordering::Relaxed) == 0;
            free.then(|| got(self.value.try_read())).flatten()
        })
    }

    fn write<'a>(&'a self, platform: &'a Threads) -> Self::Write<'a> {
        self.writers.fetch_add(1, Ordering::Relaxed);
        let held = platform.acquire(self.class, || got(self.value.try_write()));
        self.writers.fetch_sub(1, Ordering::Relaxed);
        held
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
