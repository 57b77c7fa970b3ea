//! A kernel on threads of the host, to copy from: what a kernel implements to run the scenarios.
//!
//! ```sh
//! cargo run -p ceasefire-conformance --example template                 # every scenario passes
//! cargo run -p ceasefire-conformance --example template forgets-others  # with one of its flaws
//! ```
//!
//! `Toy` is the kernel: frames, page tables in frames, and a TLB for each CPU, which fills itself and keeps entries until
//! they are flushed. `Thread` is one of its CPUs, and implements what the scenarios ask for.

use std::collections::HashMap;
use std::ops::Range;
use std::process::ExitCode;
use std::slice;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use ceasefire_conformance::{check, scenarios, Away, Cpu, Failed, Job, Kernel, Stage, Verdict, PAGES, TABLE};

/// Something that the kernel does wrongly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It flushes on the CPU that makes the change alone.
    ForgetsOthers,
    /// It flushes no range but the first of a call.
    ForgetsRanges,
    /// It does not flush when a right is taken away.
    ForgetsRights,
    /// It does not flush the address that a page has moved from.
    ForgetsMoves,
    /// It frees frames before it flushes.
    FreesEarly,
    /// CPUs keep the place of a page table that was freed.
    KeepsTables,
    /// It does not flush the kernel's addresses on other CPUs.
    ForgetsKernel,
    /// It does not flush on CPUs that idle, and they do not when they are back at work.
    ForgetsIdle,
    /// The same for CPUs that run another address space.
    ForgetsAway,
    /// A flush while another is under way is left out.
    ForgetsSecond,
    /// It does not wait for CPUs that have interrupts off.
    ForgetsToWait,
    /// It frees the frame of a page that it took on its own account, and has not flushed.
    ForgetsDebts,
}

/// All flaws, by their names on the command line.
pub(crate) const FLAWS: [(&str, Flaw); 12] = [
    ("forgets-others", Flaw::ForgetsOthers),
    ("forgets-ranges", Flaw::ForgetsRanges),
    ("forgets-rights", Flaw::ForgetsRights),
    ("forgets-moves", Flaw::ForgetsMoves),
    ("frees-early", Flaw::FreesEarly),
    ("keeps-tables", Flaw::KeepsTables),
    ("forgets-kernel", Flaw::ForgetsKernel),
    ("forgets-idle", Flaw::ForgetsIdle),
    ("forgets-away", Flaw::ForgetsAway),
    ("forgets-second", Flaw::ForgetsSecond),
    ("forgets-to-wait", Flaw::ForgetsToWait),
    ("forgets-debts", Flaw::ForgetsDebts),
];

const FRAMES: usize = 2048;
/// Page tables, each in a frame of its own. The last one is for the kernel's addresses.
const TABLES: usize = PAGES / TABLE + 1;
/// Page-table entries: a frame's number above two rights.
const PRESENT: u64 = 1;
const WRITABLE: u64 = 2;

/// What a CPU remembers of page tables.
#[derive(Debug, Default)]
struct Tlb {
    entries: HashMap<usize, u64>,
    /// The frames of tables (a page-walk cache).
    tables: HashMap<usize, usize>,
    away: Option<Away>,
    /// What to flush when interrupts are on again; none while they are on.
    waiting: Option<Vec<Range<usize>>>,
}

impl Tlb {
    fn flush(&mut self, ranges: &[Range<usize>], tables: bool) {
        self.entries.retain(|page, _| !ranges.iter().any(|range| range.contains(page)));
        if tables {
            self.tables.clear();
        }
    }
}

/// What the lock of the address space protects.
#[derive(Debug)]
struct Space {
    tables: [Option<usize>; TABLES],
    free: Vec<usize>,
    /// Frames that wait for the flush of the page that they were.
    owing: Vec<(usize, usize)>,
}

/// The kernel.
#[derive(Debug)]
pub(crate) struct Toy {
    frames: Vec<[AtomicU64; TABLE]>,
    space: Mutex<Space>,
    tlbs: Vec<Mutex<Tlb>>,
    flushes: AtomicUsize,
    flaw: Option<Flaw>,
}

impl Toy {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn word(&self, frame: usize, index: usize) -> Option<&AtomicU64> {
        self.frames.get(frame).map(|words| &words[index])
    }
}

/// One CPU of the kernel.
#[derive(Debug)]
pub(crate) struct Thread {
    toy: Arc<Toy>,
    number: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Thread {
    fn allocate(space: &mut Space) -> Result<usize, Failed> {
        space.free.pop().ok_or(Failed::NoMemory)
    }

    /// The word of a page-table entry, with its table made if it is missing.
    fn entry(&self, space: &mut Space, page: usize) -> Result<&AtomicU64, Failed> {
        let table = if let Some(table) = space.tables[page / TABLE] {
            table
        } else {
            let table = Self::allocate(space)?;
            self.toy.frames[table].iter().for_each(|word| word.store(0, SeqCst));
            *space.tables[page / TABLE].insert(table)
        };
        Ok(&self.toy.frames[table][page % TABLE])
    }

    fn place(&self, page: usize, word: u64) -> Result<(), Failed> {
        let mut space = lock(&self.toy.space);
        let frame = Self::allocate(&mut space)?;
        self.toy.frames[frame][0].store(word, SeqCst);
        self.entry(&mut space, page)?.store((frame as u64) << 2 | PRESENT | WRITABLE, SeqCst);
        Ok(())
    }

    /// Clears entries and takes out tables that are empty now. Returns their frames.
    fn clear(&self, space: &mut Space, pages: Range<usize>) -> Vec<usize> {
        let mut frames = Vec::new();
        for at in pages.start / TABLE..pages.end.div_ceil(TABLE) {
            let Some(table) = space.tables[at] else { continue };
            for page in pages.clone().filter(|page| page / TABLE == at) {
                let entry = self.toy.frames[table][page % TABLE].swap(0, SeqCst);
                frames.extend((entry & PRESENT != 0).then_some((entry >> 2) as usize));
            }
            if self.toy.frames[table].iter().all(|entry| entry.load(SeqCst) == 0) {
                space.tables[at] = None;
                frames.push(table);
            }
        }
        frames
    }

    /// Flushes ranges of pages on all CPUs. A real kernel interrupts them, and waits.
    fn flush(&self, ranges: &[Range<usize>]) {
        let toy = &self.toy;
        let is_second = toy.flushes.fetch_add(1, SeqCst) > 0;
        let first = ranges.first().map_or(0, |range| range.start);
        let kernel = first >= PAGES;
        let ranges = if toy.has(Flaw::ForgetsRanges) { &ranges[..ranges.len().min(1)] } else { ranges };
        for (cpu, tlb) in toy.tlbs.iter().enumerate() {
            let mut tlb = lock(tlb);
            let forgotten = match toy.flaw {
                Some(Flaw::ForgetsOthers) => true,
                Some(Flaw::ForgetsKernel) => kernel,
                Some(Flaw::ForgetsIdle) => tlb.away == Some(Away::Idle),
                Some(Flaw::ForgetsAway) => tlb.away == Some(Away::OtherSpace),
                Some(Flaw::ForgetsSecond) => is_second,
                _ => false,
            };
            if forgotten && cpu != self.number {
                continue;
            }
            if let Some(waiting) = &mut tlb.waiting {
                waiting.extend_from_slice(ranges);
                drop(tlb);
                self.wait(cpu);
            } else {
                tlb.flush(ranges, !toy.has(Flaw::KeepsTables));
            }
            thread::yield_now();
        }
        toy.flushes.fetch_sub(1, SeqCst);
    }

    /// Waits until a CPU has flushed what waited there.
    fn wait(&self, cpu: usize) {
        let is_left = || lock(&self.toy.tlbs[cpu]).waiting.as_ref().is_some_and(|ranges| !ranges.is_empty());
        while !self.toy.has(Flaw::ForgetsToWait) && is_left() {
            thread::yield_now();
        }
    }

    fn take_away(&self, ranges: &[Range<usize>]) {
        let mut frames = Vec::new();
        {
            let mut space = lock(&self.toy.space);
            for range in ranges {
                frames.extend(self.clear(&mut space, range.clone()));
                frames.extend(
                    space.owing.extract_if(.., |(page, _)| range.contains(page)).map(|(_, frame)| frame),
                );
            }
        }
        let free = |frames: Vec<usize>| lock(&self.toy.space).free.extend(frames);
        if self.toy.has(Flaw::FreesEarly) {
            free(frames);
            (0..200).for_each(|_| thread::yield_now());
            self.flush(ranges);
        } else {
            self.flush(ranges);
            free(frames);
        }
    }

    /// An access, through the TLB. The lock makes it one instant for a flush.
    fn access<R>(&self, page: usize, rights: u64, act: impl FnOnce(&AtomicU64) -> R) -> Option<R> {
        let mut tlb = lock(&self.toy.tlbs[self.number]);
        if tlb.waiting.is_some() {
            // The host may run all CPUs on one of its own: the others get a turn before this one has interrupts on.
            drop(tlb);
            thread::yield_now();
            tlb = lock(&self.toy.tlbs[self.number]);
        }
        let entry = match tlb.entries.get(&page) {
            Some(entry) if entry & rights == rights => *entry,
            _ => {
                let known = tlb.tables.get(&(page / TABLE)).copied();
                let table = known.or_else(|| lock(&self.toy.space).tables[page / TABLE])?;
                tlb.tables.insert(page / TABLE, table);
                let entry = self.toy.frames[table][page % TABLE].load(SeqCst);
                if entry & rights != rights {
                    return None;
                }
                tlb.entries.insert(page, entry);
                entry
            }
        };
        // Where there is no memory, all bits are ones.
        let nothing = AtomicU64::new(u64::MAX);
        Some(act(self.toy.word((entry >> 2) as usize, 0).unwrap_or(&nothing)))
    }
}

impl Cpu for Thread {
    fn number(&self) -> usize {
        self.number
    }

    fn pause(&self) {
        thread::yield_now();
    }

    fn map(&self, page: usize, word: u64) -> Result<(), Failed> {
        self.place(page, word)
    }

    fn unmap(&self, ranges: &[Range<usize>]) -> Result<(), Failed> {
        self.take_away(ranges);
        Ok(())
    }

    fn protect(&self, page: usize) -> Result<(), Failed> {
        self.entry(&mut lock(&self.toy.space), page)?.fetch_and(!WRITABLE, SeqCst);
        if !self.toy.has(Flaw::ForgetsRights) {
            self.flush(slice::from_ref(&(page..page + 1)));
        }
        Ok(())
    }

    fn load(&self, page: usize) -> Option<u64> {
        self.access(page, PRESENT, |word| word.load(SeqCst))
    }

    fn store(&self, page: usize, value: u64) -> bool {
        self.access(page, PRESENT | WRITABLE, |word| word.store(value, SeqCst)).is_some()
    }

    fn reuse(&self, word: u64) -> Result<(), Failed> {
        let mut space = lock(&self.toy.space);
        // The last frames that were freed are the first to be used again.
        let count = space.free.len().min(8);
        let at = space.free.len() - count;
        let taken = space.free.split_off(at);
        drop(space);
        for &frame in &taken {
            self.toy.frames[frame].iter().for_each(|place| place.store(word, SeqCst));
        }
        lock(&self.toy.space).free.extend(taken);
        Ok(())
    }

    fn away(&self, to: Away, until: &dyn Fn() -> bool) {
        let go = |away| lock(&self.toy.tlbs[self.number]).away = away;
        go(Some(to));
        thread::yield_now();
        while !until() {
            thread::yield_now();
        }
        go(None);
    }

    fn evict(&self, page: usize) -> Result<(), Failed> {
        let mut space = lock(&self.toy.space);
        let frames = self.clear(&mut space, page..page + 1);
        if self.toy.has(Flaw::ForgetsDebts) {
            space.free.extend(frames);
        } else {
            space.owing.extend(frames.into_iter().map(|frame| (page, frame)));
        }
        Ok(())
    }

    fn with_interrupts_off(&self, act: &mut dyn FnMut()) {
        let tlb = || lock(&self.toy.tlbs[self.number]);
        tlb().waiting = Some(Vec::new());
        act();
        let mut tlb = tlb();
        let waiting = tlb.waiting.take().unwrap_or_default();
        tlb.flush(&waiting, !self.toy.has(Flaw::KeepsTables));
    }

    fn remap(&self, from: usize, to: usize) -> Result<(), Failed> {
        {
            let mut space = lock(&self.toy.space);
            let entry = self.entry(&mut space, from)?.swap(0, SeqCst);
            self.entry(&mut space, to)?.store(entry, SeqCst);
        }
        if !self.toy.has(Flaw::ForgetsMoves) {
            self.flush(slice::from_ref(&(from..from + 1)));
        }
        Ok(())
    }

    fn map_kernel(&self, word: u64) -> Result<u64, Failed> {
        self.place(PAGES, word).map(|()| PAGES as u64)
    }

    fn unmap_kernel(&self, address: u64) -> Result<(), Failed> {
        let page = address as usize;
        self.take_away(slice::from_ref(&(page..page + 1)));
        Ok(())
    }

    fn load_kernel(&self, address: u64) -> Option<u64> {
        self.load(address as usize)
    }
}

/// The kernel with so many CPUs, each a thread.
#[derive(Debug)]
pub(crate) struct Threads(Arc<Toy>);

impl Threads {
    /// A kernel, with one of its flaws or none.
    pub(crate) fn new(cpus: usize, flaw: Option<Flaw>) -> Self {
        Self(Arc::new(Toy {
            frames: (0..FRAMES).map(|_| [const { AtomicU64::new(0) }; TABLE]).collect(),
            space: Mutex::new(Space {
                tables: [None; TABLES],
                free: (0..FRAMES).collect(),
                owing: Vec::new(),
            }),
            tlbs: (0..cpus).map(|_| Mutex::default()).collect(),
            flushes: AtomicUsize::new(0),
            flaw,
        }))
    }
}

impl Kernel for Threads {
    type Cpu = Thread;

    fn cpus(&self) -> usize {
        self.0.tlbs.len()
    }

    fn run(&self, job: Job<Thread>) {
        thread::scope(|scope| {
            for number in 0..self.cpus() {
                let cpu = Thread { toy: self.0.clone(), number };
                scope.spawn(move || job.run(&cpu));
            }
        });
    }
}

static STAGE: Stage = Stage::new();

#[allow(dead_code, reason = "the tests have this file as a module")]
fn main() -> ExitCode {
    let name = std::env::args().nth(1);
    let flaw = name.as_ref().and_then(|name| FLAWS.iter().find(|(flaw, _)| flaw == name));
    if name.is_some() && flaw.is_none() {
        let names = FLAWS.map(|(name, _)| name).join(", ");
        eprintln!("the argument is the name of a flaw: {names}");
        return ExitCode::from(2);
    }
    let kernel = Threads::new(4, flaw.map(|(_, flaw)| *flaw));
    let mut broken = false;
    for scenario in scenarios() {
        let verdict = check(&kernel, &STAGE, &scenario, 50);
        println!("{}: {verdict}", scenario.name);
        broken |= matches!(verdict, Verdict::Broken(_));
    }
    ExitCode::from(u8::from(broken))
}
