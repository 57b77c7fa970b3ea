//! The memory manager on the machine, and the operations of its programs.

mod locks;
mod machine;
mod record;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ceasefire_memory::{
    Access, Config, Entry, FaultError, Frame, Memory, NodeId, ObjectId, Pages, SpaceHandle, PAGE_BYTES,
    PAGE_SHIFT,
};

use crate::hardware::Hardware;
use crate::platform::Adverse;
use crate::rule::Rule;

pub(crate) use machine::Managed;
pub(crate) use record::Record;

/// A space of the memory manager.
pub(crate) type Space = SpaceHandle<Adverse<Managed>>;

/// The memory manager on a machine, with what a scenario has set up.
#[derive(Debug)]
pub(crate) struct Manager {
    pub(crate) memory: Memory<Adverse<Managed>>,
    spaces: RefCell<Vec<Space>>,
    files: RefCell<Vec<ObjectId>>,
    /// For each CPU, the space whose program it runs.
    runs: Vec<RefCell<Option<Space>>>,
    /// Frames that a scenario keeps from others.
    taken: RefCell<Vec<Frame>>,
    /// The first addresses of mappings.
    starts: RefCell<Vec<u64>>,
    over: Cell<bool>,
    /// Numbers that a scenario's CPUs tell each other, in order with all else.
    flags: [ceasefire_atomics::AtomicU64; 4],
}

impl Manager {
    /// Takes over a machine, which has memory for it.
    pub(crate) fn new(hardware: Rc<Hardware>, record: Rc<Record>, config: Config) -> Self {
        let managed = Managed::new(record, config.cpus, config.nodes.len());
        let runs = (0..config.cpus).map(|_| RefCell::default()).collect();
        let memory = Memory::new(Adverse::new(hardware, managed), config).expect("the machine has memory");
        Self {
            memory,
            spaces: RefCell::default(),
            files: RefCell::default(),
            runs,
            taken: RefCell::default(),
            starts: RefCell::default(),
            over: Cell::new(false),
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

    // What a scenario sets up.

    /// Makes a space that all CPUs know by its number.
    pub(crate) fn add_space(&self) -> Space {
        let space = self.memory.new_space().expect("there is a frame for the root");
        self.spaces.borrow_mut().push(space.clone());
        space
    }

    pub(crate) fn space(&self, number: usize) -> Space {
        self.spaces.borrow()[number].clone()
    }

    /// Makes a file that all CPUs know by its number.
    pub(crate) fn add_file(&self, pages: u32) -> ObjectId {
        let file = self.memory.create_file(pages).expect("there are few files");
        self.files.borrow_mut().push(file);
        file
    }

    pub(crate) fn file(&self, number: usize) -> ObjectId {
        self.files.borrow()[number]
    }

    /// Maps anonymous memory in the first space; all CPUs know its first address by its number.
    pub(crate) fn add_anonymous(&self, pages: u64) -> u64 {
        let start = self.memory.map_anonymous(&self.space(0), Pages::new(pages)).expect("there is room");
        self.starts.borrow_mut().push(start);
        start
    }

    /// Maps the first pages of the first file in the first space.
    pub(crate) fn add_shared(&self, pages: u64, writable: bool) -> u64 {
        self.map_file(&self.space(0), self.file(0), 0, pages, writable)
    }

    /// Maps pages of a file; all CPUs know the first address by its number.
    pub(crate) fn map_file(
        &self,
        space: &Space,
        file: ObjectId,
        first: u32,
        pages: u64,
        writable: bool,
    ) -> u64 {
        let start = self.memory.map_shared(space, file, first, Pages::new(pages), writable);
        let start = start.expect("there is room");
        self.starts.borrow_mut().push(start);
        start
    }

    /// The address of a page of the first mapping.
    pub(crate) fn at(&self, page: u64) -> u64 {
        self.starts.borrow()[0] + page * PAGE_BYTES
    }

    // Programs.

    /// This CPU runs a program of the space.
    pub(crate) fn run(&self, space: &Space) {
        drop(self.memory.engine().switch_to(space));
        self.runs[self.hardware().me()].replace(Some(space.clone()));
    }

    /// This CPU runs no program.
    pub(crate) fn leave(&self) {
        self.runs[self.hardware().me()].take();
        drop(self.memory.engine().unload());
    }

    /// The word that the program of this CPU loads, if it may. A fault is handled, and the access tried again.
    pub(crate) fn load(&self, address: u64) -> Option<u64> {
        self.access(address, None).ok()
    }

    /// The program of this CPU stores a word. True if it could.
    pub(crate) fn store(&self, address: u64, word: u64) -> bool {
        self.access(address, Some(word)).is_ok()
    }

    fn access(&self, address: u64, store: Option<u64>) -> Result<u64, FaultError> {
        let space = self.runs[self.hardware().me()].borrow().clone().expect("this CPU runs a program");
        loop {
            if let Some(frame) = self.hardware().access(false, address >> PAGE_SHIFT, store.is_some()) {
                let word = self.record().word(frame);
                if let Some(word) = store {
                    self.record().set_word(frame, word);
                }
                return Ok(word);
            }
            let access = if store.is_some() { Access::Write } else { Access::Read };
            self.memory.fault(&space, address, access)?;
        }
    }

    /// The program of this CPU has loaded a word that it may not see.
    pub(crate) fn wrong(&self, address: u64, word: u64) {
        let what = format!("page {:#x} holds {word}", address >> PAGE_SHIFT);
        self.hardware().break_rule(Rule::Words, self.hardware().me(), what);
    }

    // Operations.

    /// Makes a system call, which may fail: it shows in the history, and the rules hold either way.
    pub(crate) fn call<R>(
        &self,
        what: impl Fn() -> String,
        body: impl FnOnce(&Memory<Adverse<Managed>>) -> R,
    ) {
        self.doing(what, || _ = body(&self.memory));
    }

    pub(crate) fn unmap(&self, space: &Space, start: u64, pages: u64) {
        let what = || format!("munmap {pages} from page {:#x}", start >> PAGE_SHIFT);
        self.call(what, |memory| memory.unmap(space, start, Pages::new(pages)));
    }

    pub(crate) fn discard(&self, space: &Space, start: u64, pages: u64) {
        let what = || format!("madvise discard {pages} from page {:#x}", start >> PAGE_SHIFT);
        self.call(what, |memory| memory.discard(space, start, Pages::new(pages)));
    }

    pub(crate) fn give_up(&self, space: &Space, ranges: &[(u64, u64)]) {
        let ranges: Vec<_> = ranges.iter().map(|&(start, pages)| (start, Pages::new(pages))).collect();
        let what = || format!("madvise free {ranges:x?}");
        self.call(what, |memory| memory.advise_free_ranges(space, &ranges));
    }

    /// Reclaims pages, whether they are in use or not.
    pub(crate) fn page_out(&self, space: &Space, start: u64, pages: u64) {
        let what = || format!("madvise pageout {pages} from page {:#x}", start >> PAGE_SHIFT);
        self.call(what, |memory| memory.advise_page_out(space, start, Pages::new(pages)));
    }

    /// Moves the space's pages to another node.
    pub(crate) fn migrate(&self, space: &Space, from: u16, to: u16) {
        let what = || format!("migrate from node {from} to {to}");
        self.call(what, |memory| memory.migrate_space(space, NodeId(from), NodeId(to)));
    }

    pub(crate) fn sync(&self, file: ObjectId) {
        self.call(|| "sync".to_owned(), |memory| memory.sync(file));
    }

    pub(crate) fn truncate(&self, file: ObjectId, bytes: u64) {
        self.call(|| format!("truncate to {bytes}"), |memory| memory.truncate(file, bytes));
    }

    pub(crate) fn invalidate(&self, file: ObjectId, page: u32) {
        self.call(|| format!("invalidate page {page}"), |memory| memory.invalidate(file, page, 1));
    }

    /// Writes a word at the beginning of a page of a file.
    pub(crate) fn write(&self, file: ObjectId, page: u64, word: u64) {
        let what = || format!("write {word} to page {page} of the file");
        self.call(what, |memory| memory.write(file, page * PAGE_BYTES, &word.to_le_bytes()));
    }

    /// Takes all frames that can be had, so that reclaim finds memory short.
    pub(crate) fn exhaust(&self) {
        let taken = std::iter::from_fn(|| self.memory.allocate_atomic(NodeId(0)));
        self.taken.borrow_mut().extend(taken);
    }

    /// Background reclaim of the first node.
    pub(crate) fn reclaim(&self) {
        self.call(|| "reclaim".to_owned(), |memory| memory.reclaim_node(NodeId(0)));
    }

    /// The clock of this CPU ticks.
    pub(crate) fn tick(&self) {
        let hardware = self.hardware();
        hardware.pass(crate::scenario::TICK);
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

    pub(crate) fn is_over(&self) -> bool {
        self.over.get()
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
