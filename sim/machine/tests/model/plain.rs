//! A memory without any machinery: each call takes effect at one instant between its begin and its end.
//!
//! It shows that the model accepts every correct result under any concurrency, and, with a [`Defect`], that the model
//! finds errors.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use ceasefire_machine::{Options, Program, Simulation};

use crate::call::{Advice, Call, Place, Refusal, Reply, Subject};
use crate::flight::Fault;
use crate::model::{Rights, PAGE};
use crate::script::Setup;

/// A defect of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Defect {
    /// One in 50 stores is lost, at random.
    LostStore,
    /// A store through a page that a fork shares is seen by both.
    SharedAfterFork,
    /// Discarding leaves the first page as it is.
    DiscardLeavesOne,
    /// Unmapping leaves the last page.
    UnmapLeavesOne,
    /// Moving leaves the contents of the last page behind.
    RemapLosesOne,
    /// Rights to store stay where they were removed.
    ProtectKeepsStores,
    /// Bytes beyond the new end of a file come back when it grows.
    TruncateKeepsBytes,
    /// A page that was given up and read as zeros comes back.
    FreedComesBack,
    /// A write stops at the end of a page.
    WriteStopsEarly,
    /// A store after a page was given up restores only its own word.
    FreedStoreKeepsHalf,
}

type Bytes = Rc<RefCell<Vec<u8>>>;

#[derive(Debug, Clone)]
struct Page {
    rights: Rights,
    may_write: bool,
    /// The file and the page in it.
    file: Option<(usize, u64)>,
    shared: bool,
    /// Its private content, if it differs from the file's.
    own: Option<Bytes>,
    /// Whether it was given up.
    freed: bool,
    /// The number of the map call that made it.
    mapping: u64,
}

type Pages = BTreeMap<u64, Page>;

/// A plain memory.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    spaces: RefCell<Vec<Pages>>,
    files: RefCell<Vec<Vec<u8>>>,
    /// The bytes of files beyond their ends, for one of the defects.
    tails: RefCell<Vec<Vec<u8>>>,
    fork: RefCell<BTreeMap<usize, Pages>>,
    mappings: Cell<u64>,
    chance: Cell<u64>,
    defect: Option<Defect>,
}

impl Plain {
    pub(crate) fn with(defect: Defect) -> Self {
        Self { defect: Some(defect), ..Self::default() }
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    fn below(&self, bound: u64) -> u64 {
        let next =
            self.chance.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.chance.set(next);
        (next >> 33) % bound
    }

    fn at_once(&self, program: &Program, space: usize, call: &Call) -> Reply {
        let mut spaces = self.spaces.borrow_mut();
        let pages = &mut spaces[space];
        match call {
            Call::Load { address } => self.load(pages, *address),
            Call::Store { address, value } => self.store(pages, *address, *value),
            Call::MapAnonymous { pages: count } => self.map(pages, *count, |_| (None, false, true)),
            Call::MapShared { file, first, pages: count, writable } => {
                self.map(pages, *count, |at| (Some((*file, u64::from(*first) + at)), true, *writable))
            }
            Call::MapPrivate { file, first, pages: count } => {
                self.map(pages, *count, |at| (Some((*file, u64::from(*first) + at)), false, true))
            }
            Call::Unmap { start, bytes } => with_range(*start, *bytes, |from, to| {
                let to = if self.has(Defect::UnmapLeavesOne) { to - 1 } else { to };
                pages.retain(|page, _| !(from..to).contains(page));
                Reply::Done
            }),
            Call::Discard { start, bytes } => with_range(*start, *bytes, |from, to| {
                let from = if self.has(Defect::DiscardLeavesOne) { from + 1 } else { from };
                for (_, page) in pages.range_mut(from..to.max(from)) {
                    (page.own, page.freed) = (None, false);
                }
                Reply::Done
            }),
            Call::Protect { start, bytes, to } => with_mapped(pages, *start, *bytes, |pages, from, end| {
                let range = || from..end;
                if *to == Rights::Write && pages.range(range()).any(|(_, page)| !page.may_write) {
                    return Reply::Refused(Refusal::Wrong);
                }
                for (_, page) in pages.range_mut(range()) {
                    let keeps = self.has(Defect::ProtectKeepsStores) && *to == Rights::Read;
                    page.rights = if keeps { page.rights } else { *to };
                }
                Reply::Done
            }),
            Call::Remap { start, bytes, new_bytes, place } => {
                with_mapped(pages, *start, *bytes, |pages, from, end| {
                    self.remap(pages, (from, end), new_bytes / PAGE, *place)
                })
            }
            Call::Advise { start, bytes, advice } => {
                with_mapped(pages, *start, *bytes, |pages, from, end| {
                    if *advice == Advice::Free {
                        if pages.range(from..end).any(|(_, page)| page.file.is_some()) {
                            return Reply::Refused(Refusal::Wrong);
                        }
                        pages.range_mut(from..end).for_each(|(_, page)| page.freed = page.own.is_some());
                    }
                    Reply::Done
                })
            }
            Call::Lock { start, bytes } | Call::Unlock { start, bytes } => {
                with_mapped(pages, *start, *bytes, |_, _, _| Reply::Done)
            }
            Call::Hint { start, bytes } => with_range(*start, *bytes, |_, _| Reply::Done),
            Call::Fork => {
                let mut copy = pages.clone();
                for page in copy.values_mut().filter(|_| !self.has(Defect::SharedAfterFork)) {
                    page.own = page.own.take().map(|own| Rc::new(RefCell::new(own.borrow().clone())));
                }
                self.fork.borrow_mut().insert(space, copy);
                // Creating a space may take time, in which other threads go on.
                drop(spaces);
                Reply::Space(program.memory().new_space().expect("no other call takes frames"))
            }
            Call::Exit => {
                pages.clear();
                drop(spaces);
                program.system_call(|memory, space| memory.exit(space.clone()));
                Reply::Done
            }
            Call::MigrateSpace { to, .. } if usize::from(*to) >= program.memory().config().nodes.len() => {
                Reply::Refused(Refusal::Wrong)
            }
            Call::MovePages { pages } => Reply::Pages(pages.len()),
            Call::Read { file, offset, bytes } => {
                let file = &self.files.borrow()[*file];
                let from = (*offset as usize).min(file.len());
                let to = (from + *bytes as usize).min(file.len());
                Reply::Read(Some(file[from..to].to_vec()))
            }
            Call::Write { file, offset, data } => self.write(*file, *offset as usize, data),
            Call::Truncate { file, bytes } => {
                drop(spaces);
                self.truncate(*file, *bytes as usize)
            }
            Call::Invalidate { .. } if self.below(8) == 0 => Reply::Refused(Refusal::Busy),
            _ => Reply::Done,
        }
    }

    fn write(&self, file: usize, offset: usize, data: &[u8]) -> Reply {
        let file = &mut self.files.borrow_mut()[file];
        let end = offset + data.len();
        file.resize(file.len().max(end), 0);
        let page_end = (offset / PAGE as usize + 1) * PAGE as usize;
        let stop = if self.has(Defect::WriteStopsEarly) { end.min(page_end) } else { end };
        file[offset..stop].copy_from_slice(&data[..stop - offset]);
        Reply::Done
    }

    fn truncate(&self, file: usize, bytes: usize) -> Reply {
        let pages = bytes.div_ceil(PAGE as usize) as u64;
        // A copy under way counts too.
        for space in self.spaces.borrow_mut().iter_mut().chain(self.fork.borrow_mut().values_mut()) {
            let beyond = |page: &&mut Page| page.file.is_some_and(|(of, index)| of == file && index >= pages);
            space.values_mut().filter(beyond).for_each(|page| page.own = None);
        }
        let contents = &mut self.files.borrow_mut()[file];
        let before = contents.len();
        let tail = &mut self.tails.borrow_mut()[file];
        tail.resize(tail.len().max(before), 0);
        if bytes < before {
            tail[bytes..before].copy_from_slice(&contents[bytes..]);
        }
        contents.resize(bytes, 0);
        if self.has(Defect::TruncateKeepsBytes) && bytes > before {
            tail.resize(tail.len().max(bytes), 0);
            contents[before..].copy_from_slice(&tail[before..bytes]);
        }
        Reply::Done
    }

    fn map(
        &self,
        pages: &mut Pages,
        count: u64,
        page: impl Fn(u64) -> (Option<(usize, u64)>, bool, bool),
    ) -> Reply {
        let start = room(pages, count);
        self.mappings.set(self.mappings.get() + 1);
        for at in 0..count {
            let (file, shared, writable) = page(at);
            let rights = if writable { Rights::Write } else { Rights::Read };
            let mapping = self.mappings.get();
            let page = Page { rights, may_write: writable, file, shared, own: None, freed: false, mapping };
            pages.insert(start + at, page);
        }
        Reply::Address(start * PAGE)
    }

    fn remap(&self, pages: &mut Pages, (from, end): (u64, u64), size: u64, place: Place) -> Reply {
        let Some(first) = pages.get(&from).cloned() else { return Reply::Refused(Refusal::Wrong) };
        let alike = |page: &Page| {
            page.mapping == first.mapping && page.rights == first.rights && page.may_write == first.may_write
        };
        if pages.range(from..end).any(|(_, page)| !alike(page)) {
            return Reply::Refused(Refusal::Wrong);
        }
        let grows_here = pages.range(end.min(from + size)..from + size).next().is_none();
        let to = match place {
            _ if size <= end - from && !matches!(place, Place::At(_)) => from,
            Place::Here | Place::Anywhere if grows_here => from,
            Place::Here => return Reply::Refused(Refusal::Wrong),
            Place::Anywhere => room(pages, size),
            Place::At(address) => {
                let to = address / PAGE;
                if to < end && from < to + size {
                    return Reply::Refused(Refusal::Wrong);
                }
                pages.retain(|page, _| !(to..to + size).contains(page));
                to
            }
        };
        let taken: Vec<Page> = (from..end).filter_map(|page| pages.remove(&page)).collect();
        for at in 0..size {
            let index = first.file.map(|(file, index)| (file, index + at));
            let mut page = match taken.get(at as usize) {
                Some(page) => page.clone(),
                None => Page { own: None, freed: false, file: index, ..first.clone() },
            };
            if self.has(Defect::RemapLosesOne) && at + 1 == size && to != from {
                page.own = None;
            }
            pages.insert(to + at, page);
        }
        Reply::Address(to * PAGE)
    }

    /// The place of the word at an address: in private bytes or in a file.
    fn page<'p>(&self, pages: &'p mut Pages, address: u64, store: bool) -> Result<&'p mut Page, Refusal> {
        let fault = |fault| Err(Refusal::Fault(fault, address & !(PAGE - 1)));
        let Some(page) = pages.get_mut(&(address / PAGE)) else { return fault(Fault::NotMapped) };
        match page.rights {
            Rights::None => return fault(Fault::NoAccess),
            Rights::Read if store => return fault(Fault::ReadOnly),
            _ => {}
        }
        if let Some((file, index)) = page.file {
            if index >= (self.files.borrow()[file].len() as u64).div_ceil(PAGE) {
                return fault(Fault::BeyondEnd);
            }
        }
        Ok(page)
    }

    /// A page that was given up may be dropped now.
    fn maybe_drop(&self, page: &mut Page) {
        if page.freed && self.below(3) == 0 {
            if self.has(Defect::FreedComesBack) {
                return;
            }
            (page.own, page.freed) = (None, false);
        }
    }

    fn load(&self, pages: &mut Pages, address: u64) -> Reply {
        let page = match self.page(pages, address, false) {
            Ok(page) => page,
            Err(refusal) => return Reply::Refused(refusal),
        };
        self.maybe_drop(page);
        if page.freed && self.has(Defect::FreedComesBack) && self.below(3) == 0 {
            return Reply::Loaded(Some(0));
        }
        let inside = (address % PAGE) as usize;
        let word = |bytes: &[u8], at: usize| {
            let mut word = [0; 8];
            let there = bytes.get(at..).unwrap_or_default();
            let count = there.len().min(8);
            word[..count].copy_from_slice(&there[..count]);
            u64::from_le_bytes(word)
        };
        Reply::Loaded(Some(match (&page.own, page.file) {
            (Some(own), _) => word(&own.borrow(), inside),
            (None, Some((file, index))) => word(&self.files.borrow()[file], (index * PAGE) as usize + inside),
            (None, None) => 0,
        }))
    }

    fn store(&self, pages: &mut Pages, address: u64, value: u64) -> Reply {
        let page = match self.page(pages, address, true) {
            Ok(page) => page,
            Err(refusal) => return Reply::Refused(refusal),
        };
        self.maybe_drop(page);
        let inside = (address % PAGE) as usize;
        if self.has(Defect::LostStore) && self.below(50) == 0 {
            return Reply::Done;
        }
        let put = |bytes: &mut [u8], at: usize| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        if let (true, Some((file, index))) = (page.shared, page.file) {
            put(&mut self.files.borrow_mut()[file], (index * PAGE) as usize + inside);
            return Reply::Done;
        }
        let file = page.file;
        let own = page.own.get_or_insert_with(|| {
            let mut bytes = vec![0; PAGE as usize];
            if let Some((file, index)) = file {
                let files = self.files.borrow();
                let there = &files[file][(index * PAGE) as usize..];
                let count = there.len().min(PAGE as usize);
                bytes[..count].copy_from_slice(&there[..count]);
            }
            Rc::new(RefCell::new(bytes))
        });
        if page.freed && self.has(Defect::FreedStoreKeepsHalf) {
            own.borrow_mut()[..PAGE as usize / 2].fill(0);
        }
        put(&mut own.borrow_mut(), inside);
        page.freed = false;
        Reply::Done
    }
}

/// The lowest free place, well above all small addresses.
fn room(pages: &Pages, count: u64) -> u64 {
    let mut start = 512;
    while pages.range(start..start + count).next().is_some() {
        start += 512;
    }
    start
}

/// Applies an operation to a range of pages, if the range is valid.
fn with_range(start: u64, bytes: u64, body: impl FnOnce(u64, u64) -> Reply) -> Reply {
    let end = start.checked_add(bytes).filter(|&end| end <= ceasefire_memory::USER_END);
    let whole = start.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE) && bytes > 0;
    match end {
        Some(end) if whole => body(start / PAGE, end / PAGE),
        _ => Reply::Refused(Refusal::Wrong),
    }
}

/// The same, if all of it is mapped.
fn with_mapped(
    pages: &mut Pages,
    start: u64,
    bytes: u64,
    body: impl FnOnce(&mut Pages, u64, u64) -> Reply,
) -> Reply {
    with_range(start, bytes, |from, to| {
        if (to - from) as usize == pages.range(from..to).count() {
            body(pages, from, to)
        } else {
            Reply::Refused(Refusal::Wrong)
        }
    })
}

impl Subject for Plain {
    fn options(&self, setup: &Setup) -> Options {
        Options {
            slack: u64::from(setup.slack) * 1000,
            configure: Box::new(|config| config.objects = 16),
            broadcast: setup.broadcasts(),
            ..Options::new(setup.schedule())
        }
    }

    fn create_files(&self, _: &Simulation, pages: &[u32]) {
        let empty = |&pages: &u32| vec![0; pages as usize * PAGE as usize];
        self.files.replace(pages.iter().map(empty).collect());
        self.tails.replace(vec![Vec::new(); pages.len()]);
        self.spaces.replace(vec![Pages::new(); 8]);
    }

    fn supports(&self, _: &Call) -> bool {
        true
    }

    fn call(&self, program: &Program, space: usize, call: &Call) -> Reply {
        let pause = || {
            if self.below(2) == 0 {
                program.compute(self.below(4_000_000));
            }
        };
        if *call == Call::Exit {
            return self.at_once(program, space, call);
        }
        pause();
        let reply = self.at_once(program, space, call);
        pause();
        reply
    }

    fn forked(&self, parent: usize, child: usize) {
        let copy = self.fork.borrow_mut().remove(&parent).unwrap_or_default();
        let mut spaces = self.spaces.borrow_mut();
        let count = spaces.len().max(child + 1);
        spaces.resize(count, Pages::new());
        spaces[child] = copy;
    }

    fn file_bytes(&self, _: &Program, file: usize) -> Option<u64> {
        Some(self.files.borrow()[file].len() as u64)
    }

    fn finish(&self, simulation: &Simulation) -> Result<(), String> {
        simulation.memory().list_collected();
        Ok(())
    }
}
