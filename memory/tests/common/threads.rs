//! The machine itself: its CPUs and frames, the violations that it saw, and how a CPU waits.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, Weak};

use ceasefire::{Broadcast, Capabilities, Cpu, CpuId, Flush, PageSize, Platform};
use ceasefire_memory::locks::TABLE;
use ceasefire_memory::shadow::{Misuse, Shadow};
use ceasefire_memory::{
    Block, Config, Entry, FrameNumber, HeldLocks, LockClass, Machine, Memory, NodeId, Protection, Table,
    KERNEL_ENTRIES,
};
use ceasefire_testing::{Scope, Started, Tlb, PROMISES};

use super::locks::Held;
use super::moments::{Hook, Moment};
use super::rig::Space;
use super::tlb::{Cached, Walked};

/// The contents of frames without an owner.
pub(super) const POISON: u64 = 0xdead_dead_dead_dead;
/// Simulated words of a frame.
pub(super) const WORDS: usize = 4;
/// How often a waiting CPU checks before the awaited CPU is taken for lost: minutes.
const FOREVER: u32 = 1 << 30;
/// The same on a machine by hand, where no other CPU acts meanwhile.
const FOREVER_ALONE: u32 = 1 << 10;
/// How often a machine by hand takes locks and reads tables before a loop is taken for endless. The longest test does
/// so 2,275,491 times.
const ENDLESS: u64 = 1 << 23;
/// The kernel's last entry in every root.
pub(super) const KERNEL: Entry = Entry::page(FrameNumber::new(1), true);

thread_local! {
    /// The CPU of this thread.
    pub(super) static CPU: Cell<usize> = const { Cell::new(usize::MAX) };
    /// The number of reasons for its interrupts to be off.
    pub(super) static OFF: Cell<u32> = const { Cell::new(0) };
}

/// One frame: its words, and its entries if it is a table.
pub(super) struct Content {
    pub(super) words: [AtomicU64; WORDS],
    pub(super) table: OnceLock<Box<Table>>,
    pub(super) allocated: AtomicBool,
    /// The times when it was last freed, when its write-out last began, and when another frame last took its page over.
    pub(super) freed: AtomicU64,
    pub(super) written: AtomicU64,
    pub(super) superseded: AtomicU64,
    /// It was released while CPUs may read it, and has not been handed out since.
    pub(super) left: AtomicBool,
}

pub(super) struct Core {
    pub(super) engine: Cpu<ceasefire_memory::SpaceHandle<Threads>>,
    pub(super) held: HeldLocks,
    /// The number of reasons to stay on this CPU.
    pub(super) pins: AtomicU32,
    pub(super) pending: AtomicBool,
    pub(super) tlb: Mutex<Tlb<Cached, Walked>>,
    /// It keeps a space loaded and runs no program.
    pub(super) resting: AtomicBool,
    /// Broadcasts that the CPU has started and not waited for.
    pub(super) started: Mutex<Vec<Started>>,
}

/// The machine.
pub(crate) struct Threads {
    pub(super) capabilities: Capabilities,
    pub(super) cores: Box<[Core]>,
    pub(super) nodes: usize,
    pub(super) first_frame: FrameNumber,
    pub(super) frames: Box<[Content]>,
    /// The places of tables that got the kernel's half and are not freed yet.
    pub(super) roots: Mutex<HashSet<usize>>,
    /// Frames that were released while CPUs may read them, by the block of their page, until it is found again.
    pub(super) left: Mutex<BTreeMap<Block, Vec<FrameNumber>>>,
    pub(super) memory: OnceLock<Weak<Memory<Self>>>,
    pub(super) by_hand: bool,
    pub(super) clock: AtomicU64,
    pub(super) woken: Box<[AtomicBool]>,
    /// Orders the events of frames and the filling of TLB entries.
    pub(super) sequence: AtomicU64,
    pub(super) tables_freed: AtomicU64,
    pub(super) written: AtomicU64,
    /// The contents of the devices.
    pub(super) stored: Mutex<HashMap<Block, [u64; WORDS]>>,
    pub(super) violations: AtomicU64,
    pub(super) first: OnceLock<String>,
    /// A CPU failed: no other CPU waits for it any more.
    pub(super) failed: AtomicBool,
    pub(super) hooks: Mutex<Vec<Hook>>,
    /// The number of hooks: zero, most of the time.
    pub(super) hooked: AtomicUsize,
    /// How often a CPU found a lock taken.
    pub(super) contended: AtomicU64,
    /// What calls on a machine by hand promised when they returned: the ranges, and the use that they still allow.
    pub(super) returned: Mutex<Vec<(u64, u64, Protection)>>,
    /// The translations that were cleared or narrowed for programs on a machine by hand.
    pub(super) withdrawn: Mutex<Vec<(u64, PageSize)>>,
    /// How often a machine by hand took a lock or read a table.
    pub(super) steps: AtomicU64,
    /// The kernel reports that the bytes of free frames change.
    pub(super) alters: AtomicBool,
    pub(super) shadow: Mutex<Shadow>,
    pub(super) misuses: Mutex<Vec<Misuse>>,
}

/// The number of CPUs that must run a space of the rig for a global ASID, and the number of flushes between checks.
/// Both are so small that spaces get and lose their global ASIDs all the time.
pub(super) const WIDE: u32 = 2;
pub(super) const LOOK_EVERY: u64 = 4;

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}

impl Threads {
    pub(super) fn new(config: &Config, by_hand: bool, broadcast: Option<Broadcast>) -> Self {
        let capabilities = Capabilities { broadcast, ..PROMISES };
        let frames: usize = config.nodes.iter().map(|node| node.frames as usize).sum();
        let content = |_| Content {
            words: [const { AtomicU64::new(POISON) }; WORDS],
            table: OnceLock::new(),
            allocated: AtomicBool::new(false),
            freed: AtomicU64::new(0),
            written: AtomicU64::new(0),
            superseded: AtomicU64::new(0),
            left: AtomicBool::new(false),
        };
        let core = |_| Core {
            engine: Cpu::new(),
            held: HeldLocks::new(),
            pins: AtomicU32::new(0),
            pending: AtomicBool::new(false),
            tlb: Mutex::default(),
            resting: AtomicBool::new(false),
            started: Mutex::default(),
        };
        Self {
            capabilities,
            cores: (0..config.cpus).map(core).collect(),
            nodes: config.nodes.len(),
            first_frame: config.first_frame,
            frames: (0..frames).map(content).collect(),
            roots: Mutex::default(),
            left: Mutex::default(),
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
            returned: Mutex::default(),
            withdrawn: Mutex::default(),
            steps: AtomicU64::new(0),
            alters: AtomicBool::new(false),
            shadow: Mutex::new(Shadow::new(config)),
            misuses: Mutex::default(),
        }
    }

    pub(super) fn core(&self) -> &Core {
        &self.cores[CPU.get()]
    }

    pub(super) fn content(&self, frame: FrameNumber) -> &Content {
        &self.frames[frame.index() - self.first_frame.index()]
    }

    /// The frame must not be reached through entries filled before now.
    pub(super) fn out_of_reach(&self, content: &Content) {
        content.freed.store(self.next(), Ordering::Release);
        for word in &content.words {
            word.store(POISON, Ordering::Release);
        }
    }

    /// Whether this CPU holds a lock for which another one would spin.
    pub(crate) fn holds_spinning(&self) -> bool {
        !self.core().held.may_sleep()
    }

    /// A point at which a kernel's task may sleep.
    pub(super) fn assert_may_sleep(&self) {
        let core = self.core();
        assert_eq!(OFF.get(), 0, "a task that may sleep has interrupts off");
        assert_eq!(core.pins.load(Ordering::Relaxed), 0, "a task that may sleep is pinned");
        assert!(core.held.may_sleep(), "a task that may sleep holds a lock that spins: {:?}", core.held);
    }

    pub(super) fn violation(&self, what: impl FnOnce() -> String) {
        self.violations.fetch_add(1, Ordering::Relaxed);
        self.first.get_or_init(what);
    }

    /// Checks events and tables; a violation names the rule and the frame.
    pub(super) fn check(&self, right: bool, rule: &str, frame: FrameNumber) {
        if !right {
            self.violation(|| format!("{rule}: {frame:?} on CPU {}", CPU.get()));
        }
    }

    pub(crate) fn violations(&self) -> u64 {
        self.violations.load(Ordering::Relaxed) + self.misuses.lock().unwrap().len() as u64
    }

    pub(crate) fn first_violation(&self) -> Option<&str> {
        self.first.get().map(String::as_str)
    }

    pub(crate) fn assert_no_violation(&self) {
        let (first, misuses) = (self.first.get(), self.misuses.lock().unwrap());
        assert_eq!(
            (self.violations.load(Ordering::Relaxed), &misuses[..]),
            (0, &[][..]),
            "the first: {first:?}"
        );
    }

    pub(crate) fn tables_freed(&self) -> u64 {
        self.tables_freed.load(Ordering::Relaxed)
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The misuses that the shadow saw since the last call.
    pub(crate) fn take_misuses(&self) -> Vec<Misuse> {
        std::mem::take(&mut *self.misuses.lock().unwrap())
    }

    /// The promises of the calls since the last call of this, without those of empty ranges.
    pub(crate) fn take_returned(&self) -> Vec<(u64, u64, Protection)> {
        let mut returned = std::mem::take(&mut *self.returned.lock().unwrap());
        returned.retain(|(start, end, _)| start < end);
        returned
    }

    /// The translations that were cleared or narrowed for programs since the last call of this.
    pub(crate) fn take_withdrawn(&self) -> Vec<(u64, PageSize)> {
        std::mem::take(&mut *self.withdrawn.lock().unwrap())
    }

    /// The frames that were released while CPUs may read them, and not handed out since.
    pub(crate) fn left_owing(&self) -> BTreeSet<FrameNumber> {
        let frames = (self.first_frame.get()..).map(FrameNumber::new).zip(&self.frames);
        let owing = frames.filter(|(_, content)| content.left.load(Ordering::Acquire));
        owing.map(|(frame, _)| frame).collect()
    }

    /// Tells the shadow about an operation of this CPU.
    pub(super) fn watched<R>(&self, tell: impl FnOnce(&mut Shadow, CpuId) -> R) -> R {
        tell(&mut self.shadow.lock().unwrap(), self.this_cpu())
    }

    pub(super) fn report(&self, seen: Result<(), Misuse>) {
        if let Err(misuse) = seen {
            self.misused(misuse);
        }
    }

    /// Whether a space has the kernel's entries in its root.
    pub(crate) fn has_kernel(&self, space: &Space) -> bool {
        self.table(space.root()).get(KERNEL_ENTRIES.end - 1) == KERNEL
    }

    /// Whether background reclaim of a node was woken since the last call.
    pub(crate) fn take_wake(&self, node: NodeId) -> bool {
        self.woken[node.index()].swap(false, Ordering::AcqRel)
    }

    /// How often a CPU found a lock taken.
    pub(crate) fn contended(&self) -> u64 {
        self.contended.load(Ordering::SeqCst)
    }

    pub(super) fn next(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// A broadcast is under way. It takes effect when its CPU waits for it, as late as is allowed.
    pub(super) fn start(&self, scope: Scope, flush: Flush) {
        self.core().started.lock().unwrap().push((scope, flush, u64::MAX));
    }

    /// Sets whether the kernel reports that the bytes of free frames change.
    pub(crate) fn alter_free_frames(&self, alters: bool) {
        self.alters.store(alters, Ordering::SeqCst);
    }

    /// Takes this CPU's pending interrupts, unless they are off.
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

    /// Fails in a loop that does not end, so that a wrong loop fails its test and does not hang it.
    pub(super) fn step(&self) {
        if self.by_hand {
            assert!(self.steps.fetch_add(1, Ordering::Relaxed) < ENDLESS, "a loop does not end");
        }
    }

    /// Lets time pass in a loop that waits for another CPU.
    pub(super) fn spin(&self, spins: &mut u32) {
        self.poll();
        *spins += 1;
        let most = if self.by_hand { FOREVER_ALONE } else { FOREVER };
        assert!(*spins < most, "a CPU waits for an event that does not come");
        if *spins < 32 {
            std::hint::spin_loop();
        } else {
            self.assert_alive();
            std::thread::yield_now();
        }
    }

    /// Fails if another CPU failed, so this one does not wait for it forever.
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

    pub(super) fn acquire<'a, G>(
        &'a self,
        class: &'static LockClass,
        attempt: impl Fn() -> Option<G>,
    ) -> Held<'a, G> {
        self.step();
        if class.rank == TABLE.rank {
            self.reach(Moment::LockTable);
        }
        self.core().held.acquire(class);
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

    pub(super) fn interrupts_back(&self) {
        OFF.set(OFF.get() - 1);
        if !std::thread::panicking() {
            self.poll();
        }
    }
}
