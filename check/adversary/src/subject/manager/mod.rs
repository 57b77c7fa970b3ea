//! The memory manager on the machine, and the operations of its programs.

mod locks;
mod machine;
mod managed;
mod record;
mod words;

use std::cell::{Cell, RefCell, RefMut};
use std::rc::Rc;

use ceasefire_memory::{
    Access, Config, Entry, FaultError, Frame, Memory, NodeId, ObjectId, Pages, Placement, Protection,
    SpaceHandle, PAGE_BYTES, PAGE_SHIFT,
};

use self::managed::Managed;
pub(crate) use self::record::Record;
use self::words::Words;
use super::lock::Lock;
use crate::hardware::platform::Adverse;
use crate::hardware::Hardware;
use crate::model::rule::Rule;

/// A space of the memory manager.
pub(crate) type Space = SpaceHandle<Adverse<Managed>>;

/// The memory manager on a machine, with what a scenario has set up.
#[derive(Debug)]
pub(crate) struct Manager {
    pub(crate) memory: Memory<Adverse<Managed>>,
    spaces: RefCell<Vec<Space>>,
    file: Cell<Option<ObjectId>>,
    /// For each CPU, the space whose program it runs.
    runs: Vec<RefCell<Option<Space>>>,
    /// Frames that a scenario keeps from others, and their lock: one CPU may give back what another has taken.
    taken: RefCell<Vec<Frame>>,
    taking: Lock,
    /// The first address of the mapping that was set up.
    start: Cell<u64>,
    words: RefCell<Words>,
    /// Held by calls that change the bytes or the length of the file, as the memory manager asks of its callers.
    changes: Lock,
    /// The last word that a program stored: each stores another.
    last: Cell<u64>,
    /// The places to which mappings have moved so far.
    places: Cell<u64>,
    over: Cell<bool>,
    /// The CPUs that have done their part.
    done: Cell<usize>,
    /// The frames that were free at first.
    free: u64,
    /// Numbers that a scenario's CPUs tell each other, in order with all else.
    flags: [ceasefire_atomics::AtomicU64; 4],
}

fn id(space: &Space) -> u64 {
    space.coherence().id().get()
}

impl Manager {
    /// Takes over a machine, which has memory for it.
    pub(crate) fn new(hardware: Rc<Hardware>, record: Rc<Record>, config: Config) -> Self {
        let managed = Managed::new(record, config.cpus, config.nodes.len(), hardware.model.frames);
        let runs = (0..config.cpus).map(|_| RefCell::default()).collect();
        let memory = Memory::new(Adverse::new(hardware, managed), config).expect("the machine has memory");
        Self {
            free: memory.free_frames(),
            memory,
            spaces: RefCell::default(),
            file: Cell::new(None),
            runs,
            taken: RefCell::default(),
            taking: Lock::default(),
            start: Cell::new(0),
            words: RefCell::default(),
            changes: Lock::default(),
            last: Cell::new(0),
            places: Cell::new(0),
            over: Cell::new(false),
            done: Cell::new(0),
            flags: std::array::from_fn(|_| 0.into()),
        }
    }

    pub(crate) fn hardware(&self) -> &Hardware {
        &self.memory.platform().hardware
    }

    fn record(&self) -> &Record {
        &self.memory.platform().system.record
    }

    /// Runs an operation and shows it in the history.
    pub(crate) fn doing<R>(&self, what: impl Fn() -> String, body: impl FnOnce() -> R) -> R {
        self.memory.platform().begins();
        self.hardware().note(|| format!("> {}", what()));
        let result = body();
        self.hardware().note(|| format!("< {}", what()));
        result
    }

    fn now(&self) -> u64 {
        self.hardware().tick()
    }

    fn words(&self) -> RefMut<'_, Words> {
        self.words.borrow_mut()
    }

    // What a scenario sets up.

    /// Makes a space that all CPUs know by its number.
    pub(crate) fn add_space(&self) -> Space {
        let space = self.memory.new_space().expect("there is a frame for the root");
        self.spaces.borrow_mut().push(space.clone());
        space
    }

    /// Makes a child of the first space, which all CPUs know by its number.
    pub(crate) fn add_child(&self) -> Space {
        let child = self.fork(&self.space(0)).expect("there are frames for its tables");
        self.spaces.borrow_mut().push(child.clone());
        child
    }

    pub(crate) fn space(&self, number: usize) -> Space {
        self.spaces.borrow()[number].clone()
    }

    /// Makes the file.
    pub(crate) fn add_file(&self, pages: u32) {
        let file = self.memory.create_file(pages).expect("there is room for one");
        self.words().file_made(pages);
        self.file.set(Some(file));
    }

    pub(crate) fn file(&self) -> ObjectId {
        self.file.get().expect("the scenario has made it")
    }

    /// Maps memory in the first space.
    pub(crate) fn add_memory(&self, pages: u64) {
        let start = self.map_memory(&self.space(0), pages).expect("there is room");
        self.start.set(start);
    }

    /// Maps pages of the file in the first space.
    pub(crate) fn add_shared(&self, first: u32, pages: u64, writable: bool) {
        let start = self.map_file(&self.space(0), first, pages, writable).expect("there is room");
        self.start.set(start);
    }

    /// The address of a page of the mapping that was set up.
    pub(crate) fn at(&self, page: u64) -> u64 {
        self.start.get() + page * PAGE_BYTES
    }

    // Programs.

    /// This CPU runs a program of the space.
    pub(crate) fn run(&self, space: &Space) {
        drop(self.memory.engine().switch_to(space));
        self.runs[self.hardware().me()].replace(Some(space.clone()));
    }

    /// The space whose program this CPU runs.
    pub(crate) fn runs(&self) -> Space {
        self.runs[self.hardware().me()].borrow().clone().expect("this CPU runs a program")
    }

    /// This CPU has done its part.
    pub(crate) fn is_done(&self) {
        self.done.set(self.done.get() + 1);
    }

    /// Waits for the other CPUs, and ends all spaces and the file. Then all frames must be free.
    pub(crate) fn end_all(&self) {
        self.is_done();
        while self.done.get() < self.runs.len() {
            self.hardware().wait_a_moment();
        }
        self.relent();
        for space in self.spaces.take() {
            self.exit(space);
        }
        if let Some(file) = self.file.take() {
            self.memory.delete_file(file);
        }
        // Pages on their way to the lists are held.
        self.memory.list_collected();
        let free = self.memory.free_frames();
        assert_eq!(free, self.free, "free frames, and as many as there were at first");
    }

    /// This CPU runs no program.
    pub(crate) fn leave(&self) {
        self.runs[self.hardware().me()].take();
        drop(self.memory.engine().unload());
    }

    /// The program of this CPU loads a word. A fault is handled, and the access tried again. True if it could.
    pub(crate) fn load(&self, address: u64) -> bool {
        self.access(address, false).is_ok()
    }

    /// The program of this CPU stores a word that no other store stores. True if it could.
    pub(crate) fn store(&self, address: u64) -> bool {
        self.access(address, true).is_ok()
    }

    fn access(&self, address: u64, store: bool) -> Result<(), FaultError> {
        let space = self.runs();
        let (id, page, begin) = (id(&space), address >> PAGE_SHIFT, self.now());
        loop {
            if let Some(frame) = self.hardware().access(false, page, store) {
                let (record, end) = (self.record(), self.now());
                if store {
                    self.last.set(self.last.get() + 1);
                    record.set_word(frame, self.last.get());
                    self.words().stored(id, page, self.last.get(), begin, end);
                } else if !self.words().allows(id, page, record.word(frame), begin, end) {
                    let what = format!("page {page:#x} holds {}", record.word(frame));
                    self.hardware().break_rule(Rule::Words, self.hardware().me(), what);
                }
                return Ok(());
            }
            let access = if store { Access::Write } else { Access::Read };
            self.memory.fault(&space, address, access)?;
        }
    }

    // Operations.

    /// Makes a system call, which may fail: the rules hold either way.
    fn call<R>(&self, what: impl Fn() -> String, body: impl FnOnce(&Memory<Adverse<Managed>>) -> R) -> R {
        self.doing(what, || body(&self.memory))
    }

    fn maps(
        &self,
        space: &Space,
        pages: u64,
        first: Option<u64>,
        map: impl FnOnce() -> Option<u64>,
    ) -> Option<u64> {
        let begin = self.now();
        self.words().maps(id(space), begin);
        let start = map();
        let mapped = start.map(|start| start >> PAGE_SHIFT..(start >> PAGE_SHIFT) + pages);
        self.words().mapped(id(space), mapped, first, begin..self.now());
        start
    }

    /// Maps memory.
    pub(crate) fn map_memory(&self, space: &Space, pages: u64) -> Option<u64> {
        let map = || self.memory.map_anonymous(space, Pages::new(pages)).ok();
        self.maps(space, pages, None, || self.call(|| format!("mmap {pages}"), |_| map()))
    }

    /// Maps pages of the file.
    pub(crate) fn map_file(&self, space: &Space, first: u32, pages: u64, writable: bool) -> Option<u64> {
        let map = || self.memory.map_shared(space, self.file(), first, Pages::new(pages), writable).ok();
        let what = || format!("mmap {pages} of the file from {first}");
        self.maps(space, pages, Some(first.into()), || self.call(what, |_| map()))
    }

    /// Unmaps a whole mapping.
    pub(crate) fn unmap(&self, space: &Space, start: u64, pages: u64) {
        let what = || format!("munmap {pages} from page {:#x}", start >> PAGE_SHIFT);
        if self.call(what, |memory| memory.unmap(space, start, Pages::new(pages))).is_ok() {
            self.words().unmapped(id(space), start >> PAGE_SHIFT, self.now());
        }
    }

    /// Moves a mapping to an address where none was, or its first pages if no program uses the others.
    pub(crate) fn remap(&self, space: &Space, start: u64, pages: u64) {
        const FIRST: u64 = 1 << 40;
        const APART: u64 = 1 << 21;
        let begin = self.now();
        self.places.set(self.places.get() + 1);
        let to = FIRST + APART * self.places.get();
        let what =
            || format!("mremap {pages} from page {:#x} to {:#x}", start >> PAGE_SHIFT, to >> PAGE_SHIFT);
        let pages = Pages::new(pages);
        let remap = |memory: &Memory<_>| memory.remap(space, start, pages, pages, Placement::At(to));
        if self.call(what, remap).is_ok() {
            let life = begin..self.now();
            self.words().moved(id(space), start >> PAGE_SHIFT, to >> PAGE_SHIFT, life);
        }
    }

    /// Makes pages read as zeros, from now on or, if they are not `sure` to, when memory is short.
    fn zeroes<E>(
        &self,
        space: &Space,
        ranges: &[(u64, Pages)],
        sure: bool,
        call: impl FnOnce() -> Result<(), E>,
    ) {
        let begin = self.now();
        for &(start, pages) in ranges {
            let pages = start >> PAGE_SHIFT..(start >> PAGE_SHIFT) + pages.get();
            self.words().zeroes(id(space), &pages, begin, sure);
        }
        let result = call();
        self.words().done(begin, self.now(), result.is_ok());
    }

    pub(crate) fn discard(&self, space: &Space, start: u64, pages: u64) {
        let what = || format!("madvise discard {pages} from page {:#x}", start >> PAGE_SHIFT);
        let pages = Pages::new(pages);
        self.zeroes(space, &[(start, pages)], true, || {
            self.call(what, |memory| memory.discard(space, start, pages))
        });
    }

    /// The program will not miss what ranges of memory hold.
    pub(crate) fn give_up(&self, space: &Space, ranges: &[(u64, u64)]) {
        let ranges: Vec<_> = ranges.iter().map(|&(start, pages)| (start, Pages::new(pages))).collect();
        let what =
            || format!("madvise free {} ranges from page {:#x}", ranges.len(), ranges[0].0 >> PAGE_SHIFT);
        self.zeroes(space, &ranges, false, || {
            self.call(what, |memory| memory.advise_free_ranges(space, &ranges))
        });
    }

    /// Reclaims pages, whether they are in use or not.
    pub(crate) fn page_out(&self, space: &Space, start: u64, pages: u64) {
        let what = || format!("madvise pageout {pages} from page {:#x}", start >> PAGE_SHIFT);
        _ = self.call(what, |memory| memory.advise_page_out(space, start, Pages::new(pages)));
    }

    /// Reclaims pages on the kernel's own account, so debts may stand.
    pub(crate) fn reclaim_range(&self, space: &Space, start: u64, pages: u64) {
        let what = || format!("reclaim {pages} from page {:#x}", start >> PAGE_SHIFT);
        _ = self.call(what, |memory| memory.reclaim_range(space, start, Pages::new(pages)));
    }

    pub(crate) fn protect(&self, space: &Space, start: u64, pages: u64, protection: Protection) {
        let what = || format!("mprotect {protection:?} {pages} from page {:#x}", start >> PAGE_SHIFT);
        _ = self.call(what, |memory| memory.protect(space, start, Pages::new(pages), protection));
    }

    /// Hides pages, to learn of their use.
    pub(crate) fn hint(&self, space: &Space, start: u64, pages: u64) {
        let what = || format!("hide {pages} from page {:#x}", start >> PAGE_SHIFT);
        _ = self.call(what, |memory| memory.hint(space, start, Pages::new(pages)));
    }

    /// Allows pages of 2 MiB.
    pub(crate) fn allow_huge(&self, space: &Space, start: u64, pages: u64) {
        let what = || format!("madvise huge {pages} from page {:#x}", start >> PAGE_SHIFT);
        _ = self.call(what, |memory| memory.advise_huge(space, start, Pages::new(pages), true));
    }

    /// Gathers small pages into a huge one. True if there is one now.
    pub(crate) fn collapse(&self, space: &Space, address: u64) -> bool {
        let what = || format!("madvise collapse page {:#x}", address >> PAGE_SHIFT);
        self.call(what, |memory| memory.collapse(space, address)) == Ok(true)
    }

    /// Moves the space's pages to another node.
    pub(crate) fn migrate(&self, space: &Space, from: u16, to: u16) {
        let what = || format!("migrate from node {from} to {to}");
        _ = self.call(what, |memory| memory.migrate_space(space, NodeId(from), NodeId(to)));
    }

    /// The child of a space.
    pub(crate) fn fork(&self, parent: &Space) -> Option<Space> {
        let begin = self.now();
        let child = self.call(|| "fork".to_owned(), |memory| memory.fork(parent)).ok()?;
        self.words().forked(id(parent), id(&child), begin..self.now());
        Some(child)
    }

    /// Ends a space that no other CPU runs.
    pub(crate) fn exit(&self, space: Space) {
        self.leave();
        self.call(|| "exit".to_owned(), |memory| memory.exit(space));
    }

    pub(crate) fn sync(&self) {
        self.call(|| "sync".to_owned(), |memory| memory.sync(self.file()));
    }

    /// Drops a page of the file from memory.
    pub(crate) fn invalidate(&self, page: u32) {
        _ = self.call(|| format!("invalidate page {page}"), |memory| memory.invalidate(self.file(), page, 1));
    }

    fn writes<E>(&self, pages: std::ops::Range<usize>, word: u64, call: impl FnOnce() -> Result<(), E>) {
        let _alone = self.changes.take(self.hardware());
        let begin = self.now();
        let first = pages.start;
        self.words().writes(pages, word, begin);
        let result = call();
        self.words().done(begin, self.now(), result.is_ok());
        if result.is_err() {
            self.words().shortened(first, begin, self.now());
        }
    }

    /// Sets the length of the file to so many pages.
    pub(crate) fn truncate(&self, pages: u64) {
        let what = || format!("truncate to {pages} pages");
        self.writes(pages as usize..usize::MAX, 0, || {
            self.call(what, |memory| memory.truncate(self.file(), pages * PAGE_BYTES))
        });
    }

    /// Writes a word at the beginning of a page of the file.
    pub(crate) fn write(&self, page: u32) {
        self.last.set(self.last.get() + 1);
        let (page, word) = (page as usize, self.last.get());
        let what = || format!("write {word} to page {page} of the file");
        self.writes(page..page + 1, word, || {
            self.call(what, |memory| memory.write(self.file(), page as u64 * PAGE_BYTES, &word.to_le_bytes()))
        });
    }

    /// Reads the word at the beginning of a page of the file.
    pub(crate) fn read(&self, page: u32) {
        let (begin, mut bytes) = (self.now(), [0; 8]);
        let what = || format!("read page {page} of the file");
        let read = |memory: &Memory<_>| memory.read(self.file(), u64::from(page) * PAGE_BYTES, &mut bytes);
        if self.call(what, read) == Ok(bytes.len()) {
            let (word, end) = (u64::from_le_bytes(bytes), self.now());
            if !self.words().file_allows(page as usize, word, begin, end) {
                let what = format!("page {page} of the file holds {word}");
                self.hardware().break_rule(Rule::Words, self.hardware().me(), what);
            }
        }
    }

    /// Takes all frames that can be had, so that reclaim finds memory short.
    pub(crate) fn exhaust(&self) {
        let taken: Vec<_> = std::iter::from_fn(|| self.memory.allocate_atomic(NodeId(0))).collect();
        let _held = self.taking.take(self.hardware());
        self.taken.borrow_mut().extend(taken);
    }

    /// Gives the frames back.
    pub(crate) fn relent(&self) {
        let held = self.taking.take(self.hardware());
        let taken = self.taken.take();
        drop(held);
        for frame in taken {
            self.memory.free(frame);
        }
    }

    /// The mappings of a space, as first addresses and pages.
    pub(crate) fn mappings(&self, space: &Space) -> Vec<(u64, u64)> {
        let pages = self.words().alive(id(space));
        pages.into_iter().map(|pages| (pages.start << PAGE_SHIFT, pages.end - pages.start)).collect()
    }

    /// Background reclaim of the first node.
    pub(crate) fn reclaim(&self) {
        self.call(|| "reclaim".to_owned(), |memory| memory.reclaim_node(NodeId(0)));
    }

    /// The clock of this CPU ticks.
    pub(crate) fn tick(&self) {
        let hardware = self.hardware();
        hardware.pass_tick();
        let core = hardware.core();
        core.off.set(core.off.get() + 1);
        self.memory.tick();
        core.off.set(core.off.get() - 1);
        while let Some(node) = self.memory.platform().take_woken() {
            self.doing(|| "background reclaim".to_owned(), || self.memory.reclaim_node(node));
        }
    }

    // What the CPUs of a scenario tell each other.

    pub(crate) fn set_flag(&self, flag: usize) {
        self.flags[flag].store(1, ceasefire_atomics::Ordering::Release);
    }

    pub(crate) fn await_flag(&self, flag: usize) {
        while self.flags[flag].load(ceasefire_atomics::Ordering::Acquire) == 0 {
            self.hardware().wait_a_moment();
        }
    }

    /// The scenario's operation is over. The CPUs learn it out of band: no order follows from it.
    pub(crate) fn end(&self) {
        self.over.set(true);
    }

    /// Waits until the entry of the first space for an address is so, or until the operation is over. No access is made,
    /// and no order follows from it: a scenario begins an operation at the moment that matters.
    pub(crate) fn await_entry(&self, address: u64, so: impl Fn(Option<Entry>) -> bool) {
        let root = self.space(0).root().get();
        while !self.over.get() && !so(self.record().look(self.hardware(), root, address >> PAGE_SHIFT)) {
            self.hardware().wait_a_moment();
        }
    }

    /// Accesses again and again, until some time after the operation is over or until an access fails.
    pub(crate) fn until_over(&self, access: impl Fn() -> bool) {
        let mut after = 0;
        while after < 3 && access() {
            after += u32::from(self.over.get());
            self.hardware().wait_a_moment();
        }
    }
}
