//! A small kernel on the engine: page tables, two locks for each space, and the operations that change translations.
//!
//! It does what the guide asks of a kernel, and nothing besides. The oracle learns here what each operation promises:
//! which mappings no CPU may use once it has returned.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::{Deref, Range};
use std::rc::Rc;

use ceasefire::{
    AddressSpace, Asid, Batch, Condition, Engine, Gather, KernelGather, Owed, PageSize, RangeGuard, Root,
    Schedule, Settled, TableGuard, WritePermit,
};

use ceasefire_atomics::Ordering;

use crate::cores::Cores;
use crate::hardware::Hardware;
use crate::ordering::View;
use crate::platform::{Adverse, KERNEL_BASE};
use crate::rule::Rule;
use crate::tables::{Pte, Table, BITS, HUGE, HUGE_PAGES, PAGE_SHIFT, TOP};
use crate::tlb::Tag;

/// A lock of the kernel. A CPU that waits for it answers interrupts.
#[derive(Debug, Default)]
pub(crate) struct Lock {
    held: Cell<bool>,
    /// What the last holder had stored.
    view: RefCell<View>,
}

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Held<'a> {
    lock: &'a Lock,
    hardware: &'a Hardware,
}

impl Lock {
    fn take<'a>(&'a self, hardware: &'a Hardware) -> Held<'a> {
        hardware.step();
        while self.held.replace(true) {
            hardware.take_interrupt();
            hardware.yield_here();
        }
        hardware.learn(&self.view.borrow());
        Held { lock: self, hardware }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.lock.view.borrow_mut() = self.hardware.view();
        self.lock.held.set(false);
        self.hardware.step();
    }
}

/// A program's address space.
#[derive(Debug, Clone)]
pub(crate) struct Space(Rc<Parts>);

#[derive(Debug)]
pub(crate) struct Parts {
    coherence: AddressSpace,
    root: u32,
    /// Guards the entries of all its tables.
    table_lock: Lock,
    /// Keeps new translations out.
    range_lock: Lock,
    /// Every mapping that a page ever had.
    mapped: RefCell<BTreeMap<u64, Vec<u32>>>,
}

impl Deref for Space {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl AsRef<AddressSpace> for Space {
    fn as_ref(&self) -> &AddressSpace {
        &self.coherence
    }
}

/// A page-table lock of a space, held.
#[derive(Debug)]
pub(crate) struct TableLock<'a> {
    space: &'a Space,
    _held: Held<'a>,
}

impl TableGuard<Adverse> for TableLock<'_> {
    fn space(&self) -> &Space {
        self.space
    }
}

/// A space's range lock, held.
#[derive(Debug)]
pub(crate) struct RangeLock<'a> {
    space: &'a Space,
    _held: Held<'a>,
}

impl RangeGuard<Adverse> for RangeLock<'_> {
    fn space(&self) -> &Space {
        self.space
    }
}

/// The mappings that an operation has found gone or taken away. When it returns, no CPU may use them.
#[derive(Debug, Default)]
struct Gone(RefCell<Vec<u32>>);

/// A frame that nobody else owns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page(pub(crate) u32);

/// The kernel on a machine.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) engine: Engine<Adverse>,
    pub(crate) spaces: RefCell<Vec<Space>>,
    /// Guards the kernel's ranges, and every mapping that a page of them ever had.
    range_lock: Lock,
    range_mapped: RefCell<BTreeMap<u64, Vec<u32>>>,
    /// Frames in debt, until they can be redeemed.
    owing: RefCell<Vec<Owed<Page>>>,
    /// Numbers that a scenario's CPUs tell each other, in order with all else.
    pub(crate) flags: [ceasefire_atomics::AtomicU64; 4],
    /// Parts of the engine by themselves.
    pub(crate) cores: Cores,
}

impl Kernel {
    pub(crate) fn new(engine: Engine<Adverse>) -> Self {
        Self {
            engine,
            spaces: RefCell::default(),
            range_lock: Lock::default(),
            range_mapped: RefCell::default(),
            owing: RefCell::default(),
            flags: std::array::from_fn(|_| 0.into()),
            cores: Cores::default(),
        }
    }

    pub(crate) fn hardware(&self) -> &Hardware {
        &self.engine.platform().hardware
    }

    /// Runs an operation and shows it in the history.
    fn doing<R>(&self, what: impl Fn() -> String, body: impl FnOnce() -> R) -> R {
        self.hardware().note(|| format!("> {}", what()));
        let result = body();
        self.hardware().note(|| format!("< {}", what()));
        result
    }

    // Spaces.

    /// Makes a space that all CPUs know by its number.
    pub(crate) fn add_space(&self) -> Space {
        let space = self.new_space();
        self.spaces.borrow_mut().push(space.clone());
        space
    }

    /// Makes a space.
    pub(crate) fn new_space(&self) -> Space {
        let root = self.new_table();
        let address = u64::from(root) << PAGE_SHIFT | u64::from(self.hardware().allocation(root));
        Space(Rc::new(Parts {
            coherence: self.engine.new_space(Root(address)),
            root,
            table_lock: Lock::default(),
            range_lock: Lock::default(),
            mapped: RefCell::default(),
        }))
    }

    pub(crate) fn space(&self, number: usize) -> Space {
        self.spaces.borrow()[number].clone()
    }

    fn new_table(&self) -> u32 {
        let frame = self.hardware().allocate().expect("scenarios use few frames");
        (0..1 << BITS).for_each(|index| self.hardware().table(frame).set(index, Pte::NONE));
        frame
    }

    fn lock_tables<'a>(&'a self, space: &'a Space) -> TableLock<'a> {
        TableLock { space, _held: space.table_lock.take(self.hardware()) }
    }

    fn lock_range<'a>(&'a self, space: &'a Space) -> RangeLock<'a> {
        RangeLock { space, _held: space.range_lock.take(self.hardware()) }
    }

    fn settled<'a>(&'a self, space: &'a Space) -> Settled<TableLock<'a>> {
        self.engine.settle(self.lock_tables(space))
    }

    // Tables. The caller holds the lock.

    /// The table of `level` on the way to a page, if there is one.
    fn find_table(&self, root: u32, page: u64, level: u32) -> Option<u32> {
        let mut table = root;
        for above in (level + 1..=TOP).rev() {
            let pte = self.hardware().table(table).get(Table::index(page, above));
            if !pte.present() || pte.leaf() {
                return None;
            }
            table = pte.frame();
        }
        Some(table)
    }

    /// The same; tables that are missing are made.
    fn make_table(&self, root: u32, page: u64, level: u32) -> u32 {
        let mut table = root;
        for above in (level + 1..=TOP).rev() {
            let (hardware, index) = (self.hardware(), Table::index(page, above));
            let pte = hardware.table(table).get(index);
            table = if pte.present() {
                pte.frame()
            } else {
                let new = self.new_table();
                hardware.table(table).set(index, Pte::table(new, hardware.allocation(new)));
                new
            };
        }
        table
    }

    /// Stores a translation of a page; `level` 1 is for a huge one.
    fn install(&self, space: &Space, page: u64, level: u32, frame: u32, writable: bool) {
        let hardware = self.hardware();
        let table = self.make_table(space.root, page, level);
        let mapping = hardware.mapping(Tag::Asid(0), page, frame);
        let mut mapped = space.mapped.borrow_mut();
        let list = mapped.entry(page).or_default();
        // From now on a CPU may see the new translation.
        for &old in list.iter() {
            hardware.end_mapping(old, Rule::R7);
        }
        list.push(mapping);
        drop(mapped);
        hardware.note(|| format!("set page {page} -> frame {frame} {}", if writable { "rw" } else { "ro" }));
        hardware.table(table).set(Table::index(page, level), Pte::page(frame, mapping, writable));
    }

    /// Clears a translation under the lock and returns the old entry. All mappings of the page are `gone`.
    fn take(&self, space: &Space, page: u64, level: u32, gone: &Gone) -> Pte {
        gone.0.borrow_mut().extend(space.mapped.borrow().get(&page).into_iter().flatten());
        let Some(table) = self.find_table(space.root, page, level) else { return Pte::NONE };
        let old = self.hardware().table(table).exchange(Table::index(page, level), Pte::NONE);
        self.hardware().note(|| format!("clear page {page}, was {old:?}"));
        old
    }

    /// Takes the right to store away under the lock, and returns the old entry.
    fn narrow(&self, space: &Space, page: u64, gone: &Gone) -> Pte {
        gone.0.borrow_mut().extend(space.mapped.borrow().get(&page).into_iter().flatten());
        let Some(table) = self.find_table(space.root, page, 0) else { return Pte::NONE };
        let old = self.hardware().table(table).narrow(Table::index(page, 0));
        self.hardware().note(|| format!("narrow page {page}, was {old:?}"));
        old
    }

    /// What a page's table says, read without a promise.
    pub(crate) fn peek(&self, space: &Space, page: u64) -> Pte {
        let table = self.find_table(space.root, page, 0);
        table.map_or(Pte::NONE, |table| self.hardware().table(table).get(Table::index(page, 0)))
    }

    fn free(&self, Page(frame): Page) {
        self.hardware().step();
        self.hardware().free(frame);
    }

    /// Puts a hidden entry in a translation's place under the lock, and returns the old entry.
    fn conceal(&self, space: &Space, page: u64) -> Pte {
        let Some(table) = self.find_table(space.root, page, 0) else { return Pte::NONE };
        let old = self.hardware().table(table).hide(Table::index(page, 0));
        self.hardware().note(|| format!("hide page {page}, was {old:?}"));
        old
    }

    /// A call that took mappings away has returned.
    fn promise(&self, gone: &Gone, promise: impl Fn(&Hardware, u32)) {
        gone.0.borrow().iter().for_each(|&mapping| promise(self.hardware(), mapping));
    }

    // Operations.

    /// Maps a new frame; returns it.
    pub(crate) fn map(&self, space: &Space, page: u64, writable: bool) -> u32 {
        let frame = self.allocate();
        self.map_frame(space, page, frame, writable);
        frame
    }

    /// Maps a frame that others map too.
    pub(crate) fn map_frame(&self, space: &Space, page: u64, frame: u32, writable: bool) {
        let _range = self.lock_range(space);
        let _table = self.settled(space);
        self.install(space, page, 0, frame, writable);
    }

    /// Maps a huge page; its first frame is returned.
    pub(crate) fn map_huge(&self, space: &Space, page: u64, writable: bool) -> u32 {
        let frame = self.allocate();
        let _range = self.lock_range(space);
        let _table = self.settled(space);
        self.install(space, page, 1, frame, writable);
        frame
    }

    /// A frame for new data. Frames in debt are used once their debt is settled.
    pub(crate) fn allocate(&self) -> u32 {
        let waiting = std::mem::take(&mut *self.owing.borrow_mut());
        for owed in waiting {
            match self.engine.redeem(owed) {
                Ok(page) => self.free(page),
                Err(owed) => self.owing.borrow_mut().push(owed),
            }
        }
        self.hardware().allocate().expect("scenarios use few frames")
    }

    /// Unmaps pages and frees their frames, as munmap does.
    pub(crate) fn unmap(&self, space: &Space, pages: Range<u64>) {
        self.unmap_with_room::<4>(space, pages);
    }

    /// The same with room for so many frames: a gather that is full flushes by itself.
    pub(crate) fn unmap_with_room<const ROOM: usize>(&self, space: &Space, pages: Range<u64>) {
        self.doing(
            || format!("munmap pages {pages:?}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { None }; ROOM];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                for page in pages.clone() {
                    let mut changes = gather.under(self.settled(space));
                    let old = changes
                        .clear(address(page), PageSize::KIB_4, |lock| self.take(lock.space, page, 0, &gone));
                    if old.present() {
                        changes.hold(Page(old.frame()));
                    }
                }
                gather.finish();
                self.promise(&gone, |hardware, mapping| hardware.end_mapping(mapping, Rule::R3));
            },
        );
    }

    /// Unmaps one page without keeping faults out: the flush comes before the unlock, as madvise does.
    pub(crate) fn discard(&self, space: &Space, page: u64) {
        self.doing(
            || format!("madvise page {page}"),
            || {
                let gone = Gone::default();
                let mut room = [const { None }; 4];
                let gather = Gather::new(&self.engine, &space.coherence, &mut room, |page| self.free(page));
                gather.finish_under(self.settled(space), |changes| {
                    let old = changes
                        .clear(address(page), PageSize::KIB_4, |lock| self.take(lock.space, page, 0, &gone));
                    if old.present() {
                        changes.hold(Page(old.frame()));
                    }
                });
                self.promise(&gone, |hardware, mapping| hardware.end_mapping(mapping, Rule::R3));
            },
        );
    }

    /// Takes the right to store away, as mprotect does.
    pub(crate) fn protect(&self, space: &Space, pages: Range<u64>) {
        self.doing(
            || format!("mprotect pages {pages:?}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { None::<Page> }; 1];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                for page in pages.clone() {
                    let mut changes = gather.under(self.settled(space));
                    changes
                        .narrow(address(page), PageSize::KIB_4, |lock| self.narrow(lock.space, page, &gone));
                }
                gather.finish();
                self.promise(&gone, |hardware, mapping| {
                    hardware.narrow_mapping(mapping, Rule::R3);
                });
            },
        );
    }

    /// Moves a page to another place in the space, as mremap does.
    pub(crate) fn move_page(&self, space: &Space, from: u64, to: u64) {
        self.doing(
            || format!("mremap page {from} to {to}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { None::<Page> }; 1];
                let mut gather =
                    Gather::new(&self.engine, &space.coherence, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                let old = changes
                    .clear(address(from), PageSize::KIB_4, |lock| self.take(lock.space, from, 0, &gone));
                if old.present() {
                    self.install(space, to, 0, old.frame(), old.writable());
                }
                drop(changes);
                gather.finish();
                self.promise(&gone, |hardware, mapping| hardware.end_mapping(mapping, Rule::R3));
                drop(range);
            },
        );
    }

    /// Unmaps the pages of a lowest-level table and frees the table too.
    pub(crate) fn unmap_with_table(&self, space: &Space, first: u64) {
        self.unmap_with_table_in::<8>(space, first);
    }

    /// The same with room for so many things.
    pub(crate) fn unmap_with_table_in<const ROOM: usize>(&self, space: &Space, first: u64) {
        let first = first / HUGE_PAGES * HUGE_PAGES;
        let pages = first..first + HUGE_PAGES;
        self.doing(
            || format!("munmap pages {pages:?} with their table"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { None }; ROOM];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                for page in pages.clone() {
                    let old = changes
                        .clear(address(page), PageSize::KIB_4, |lock| self.take(lock.space, page, 0, &gone));
                    if old.present() {
                        changes.hold(Page(old.frame()));
                    }
                }
                let table = changes
                    .unlink(address(first), PageSize::KIB_4, |lock| self.take(lock.space, first, 1, &gone));
                if table.present() {
                    changes.hold(Page(table.frame()));
                }
                drop(changes);
                gather.finish();
                self.promise(&gone, |hardware, mapping| hardware.end_mapping(mapping, Rule::R3));
            },
        );
    }

    /// Replaces four pages by a huge one: their frames and their table are freed.
    pub(crate) fn collapse(&self, space: &Space, first: u64) {
        let pages = first..first + HUGE_PAGES;
        self.doing(
            || format!("collapse pages {pages:?}"),
            || {
                let gone = Gone::default();
                let new = self.allocate();
                let range = self.lock_range(space);
                let mut room = [const { None }; 8];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                for page in pages.clone() {
                    let old = changes
                        .clear(address(page), PageSize::KIB_4, |lock| self.take(lock.space, page, 0, &gone));
                    if old.present() {
                        changes.hold(Page(old.frame()));
                    }
                }
                let table = changes
                    .unlink(address(first), PageSize::KIB_4, |lock| self.take(lock.space, first, 1, &gone));
                if table.present() {
                    changes.hold(Page(table.frame()));
                }
                // The old translations are gone everywhere before the new one is visible.
                changes.flush();
                self.promise(&gone, |hardware, mapping| hardware.end_mapping(mapping, Rule::R7));
                self.install(space, first, 1, new, true);
                drop(changes);
                gather.finish();
            },
        );
    }

    /// Unmaps a huge page.
    pub(crate) fn unmap_huge(&self, space: &Space, first: u64) {
        self.doing(
            || format!("munmap huge page {first}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { None }; 4];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                let old = changes.clear(address(first), HUGE, |lock| self.take(lock.space, first, 1, &gone));
                if old.present() {
                    changes.hold(Page(old.frame()));
                }
                drop(changes);
                gather.finish();
                self.promise(&gone, |hardware, mapping| hardware.end_mapping(mapping, Rule::R3));
            },
        );
    }

    /// Unmaps a small page and a huge one behind it with one flush.
    pub(crate) fn unmap_both(&self, space: &Space, small: u64, huge: u64) {
        self.doing(
            || format!("munmap page {small} and huge page {huge}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { None }; 4];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                let old = changes
                    .clear(address(small), PageSize::KIB_4, |lock| self.take(lock.space, small, 0, &gone));
                changes.hold(Page(old.frame()));
                let old = changes.clear(address(huge), HUGE, |lock| self.take(lock.space, huge, 1, &gone));
                changes.hold(Page(old.frame()));
                drop(changes);
                gather.finish();
                self.promise(&gone, |hardware, mapping| hardware.end_mapping(mapping, Rule::R3));
            },
        );
    }

    /// Takes the right to store away on the kernel's own account.
    pub(crate) fn soften(&self, space: &Space, page: u64) {
        self.doing(
            || format!("narrow page {page} in a batch"),
            || {
                let gone = Gone::default();
                let mut batch: Batch<'_, _, _, _, 4> =
                    Batch::new(&self.engine, Schedule::Lazy, |_: Owed<()>| ());
                let lock = self.lock_tables(space);
                let mut unmapping = batch.take(());
                unmapping.narrow(&lock, address(page), PageSize::KIB_4, || self.narrow(space, page, &gone));
                unmapping.hold();
                drop(lock);
                batch.flush();
            },
        );
    }

    /// Uses a free frame for a moment, so that a frame in debt that is free again changes hands.
    pub(crate) fn allocate_and_free(&self) {
        let frame = self.allocate();
        self.free(Page(frame));
    }

    /// Ends a space and gives its ASID back. Its pages and tables stay.
    pub(crate) fn end_space(&self, space: &Space) {
        let asid = space.coherence.asid().filter(|asid| *asid != Asid::SHARED);
        while self.engine.retire(space.as_ref()).is_err() {
            self.hardware().take_interrupt();
            self.hardware().yield_here();
        }
        if let Some(asid) = asid {
            self.hardware().give_back(space.root, asid.into());
        }
        self.hardware().note(|| format!("end of space {}", space.coherence.id().get()));
    }

    /// Takes pages away on the kernel's own account, and frees their frames: reclaim.
    pub(crate) fn reclaim(&self, space: &Space, pages: &[u64], schedule: Schedule) {
        self.doing(
            || format!("reclaim pages {pages:?}"),
            || {
                let gone = Gone::default();
                let release = |owed: Owed<Page>| match self.engine.redeem(owed) {
                    Ok(page) => self.free(page),
                    Err(owed) => {
                        self.hardware().note(|| format!("frame {} is let go, owing", owed.get().0));
                        // Its content is somewhere else by now, so no store may land in it.
                        let frame = owed.get().0;
                        self.hardware().declare_clean(frame, self.hardware().allocation(frame));
                        self.owing.borrow_mut().push(owed);
                    }
                };
                let mut batch: Batch<'_, _, _, _, 4> = Batch::new(&self.engine, schedule, release);
                for &page in pages {
                    let lock = self.lock_tables(space);
                    let pte = self.peek(space, page);
                    if !pte.present() && !pte.hidden() {
                        continue;
                    }
                    let mut unmapping = batch.take(Page(pte.frame()));
                    let old = unmapping
                        .clear(&lock, address(page), PageSize::KIB_4, || self.take(space, page, 0, &gone));
                    if old.dirty() {
                        unmapping.hold();
                    } else {
                        unmapping.let_go(Condition::default());
                    }
                    drop(lock);
                }
                batch.flush();
            },
        );
    }

    /// Takes a page that several spaces map away from all of them.
    pub(crate) fn reclaim_shared(&self, spaces: &[Space], page: u64, schedule: Schedule) {
        self.doing(
            || format!("reclaim page {page} of {} spaces", spaces.len()),
            || {
                let gone = Gone::default();
                let pte = self.peek(&spaces[0], page);
                if !pte.present() {
                    return;
                }
                let release = |owed: Owed<Page>| self.free(self.engine.pay(owed));
                let mut batch: Batch<'_, _, _, _, 4> = Batch::new(&self.engine, schedule, release);
                let mut unmapping = batch.take(Page(pte.frame()));
                for space in spaces {
                    let lock = self.lock_tables(space);
                    unmapping
                        .clear(&lock, address(page), PageSize::KIB_4, || self.take(space, page, 0, &gone));
                }
                unmapping.hold();
                batch.flush();
            },
        );
    }

    /// Writes a page out: it must be clean before, and it stays mapped for loads.
    pub(crate) fn write_out(&self, space: &Space, page: u64) {
        self.doing(
            || format!("write-out of page {page}"),
            || {
                let gone = Gone::default();
                let mut batch: Batch<'_, _, _, _, 4> =
                    Batch::new(&self.engine, Schedule::Batched, |_: Owed<Page>| ());
                let lock = self.lock_tables(space);
                let pte = self.peek(space, page);
                if !pte.present() {
                    return;
                }
                let allocation = self.hardware().allocation(pte.frame());
                let mut unmapping = batch.take(Page(pte.frame()));
                unmapping.narrow(&lock, address(page), PageSize::KIB_4, || self.narrow(space, page, &gone));
                unmapping.withhold();
                drop(lock);
                if let Some(permit) = batch.write_permit() {
                    self.write(permit, allocation);
                }
            },
        );
    }

    /// Clears a page to write it out and free it.
    pub(crate) fn reclaim_dirty(&self, space: &Space, page: u64) {
        self.doing(
            || format!("page-out of page {page}"),
            || {
                let gone = Gone::default();
                let mut batch: Batch<'_, _, _, _, 4> =
                    Batch::new(&self.engine, Schedule::Batched, |_: Owed<Page>| ());
                let lock = self.lock_tables(space);
                let pte = self.peek(space, page);
                if !pte.present() {
                    return;
                }
                let allocation = self.hardware().allocation(pte.frame());
                let mut unmapping = batch.take(Page(pte.frame()));
                unmapping.clear(&lock, address(page), PageSize::KIB_4, || self.take(space, page, 0, &gone));
                unmapping.withhold();
                drop(lock);
                if let Some(permit) = batch.write_permit() {
                    let page = self.write(permit, allocation);
                    batch.flush();
                    self.free(page);
                }
            },
        );
    }

    fn write(&self, permit: WritePermit<Page>, allocation: u32) -> Page {
        let frame = permit.page().0;
        self.hardware().note(|| format!("frame {frame} is clean, and is written"));
        self.hardware().declare_clean(frame, allocation);
        self.hardware().step();
        permit.into_page()
    }

    /// Moves a page to another frame and frees the old one: migration.
    pub(crate) fn migrate(&self, space: &Space, page: u64, schedule: Schedule) {
        self.doing(
            || format!("migrate page {page}"),
            || {
                let gone = Gone::default();
                let new = self.allocate();
                let from = Cell::new(None);
                let mut batch: Batch<'_, _, _, _, 4> =
                    Batch::new(&self.engine, schedule, |owed: Owed<Page>| {
                        from.set(Some(owed));
                    });
                let lock = self.lock_tables(space);
                let pte = self.peek(space, page);
                if !pte.present() && !pte.hidden() {
                    drop(lock);
                    self.free(Page(new));
                    return;
                }
                let mut unmapping = batch.take(Page(pte.frame()));
                let old = unmapping
                    .clear(&lock, address(page), PageSize::KIB_4, || self.take(space, page, 0, &gone));
                unmapping.hold();
                drop(lock);
                batch.flush();
                drop(batch);
                // No translation appears while another operation keeps them out.
                let range = self.lock_range(space);
                let lock = self.settled(space);
                if !self.peek(space, page).present() {
                    self.install(space, page, 0, new, old.writable());
                }
                drop(lock);
                drop(range);
                if let Some(owed) = from.take() {
                    self.free(self.engine.pay(owed));
                }
            },
        );
    }

    /// A fault of a program: maps a new frame if there is none. It does not wait for operations that keep no faults out.
    pub(crate) fn fault(&self, space: &Space, page: u64) {
        let new = self.allocate();
        let lock = self.settled(space);
        if self.peek(space, page).present() {
            drop(lock);
            self.free(Page(new));
        } else {
            self.install(space, page, 0, new, true);
        }
    }

    /// A fault that waits for operations that keep faults out.
    pub(crate) fn fault_in(&self, space: &Space, page: u64) {
        let _range = self.lock_range(space);
        self.fault(space, page);
    }

    /// A store fault on a page that is shared: maps a copy. The old frame stays somebody else's.
    pub(crate) fn copy_on_write(&self, space: &Space, page: u64) {
        self.doing(
            || format!("copy of page {page}"),
            || {
                let gone = Gone::default();
                let new = self.allocate();
                let mut room = [const { None::<Page> }; 1];
                let gather = Gather::new(&self.engine, &space.coherence, &mut room, |page| self.free(page));
                gather.finish_under(self.settled(space), |changes| {
                    changes
                        .clear(address(page), PageSize::KIB_4, |lock| self.take(lock.space, page, 0, &gone));
                    changes.flush();
                    self.install(space, page, 0, new, true);
                });
            },
        );
    }

    /// Hides a page to see who uses it next, as NUMA balancing does.
    pub(crate) fn hide(&self, space: &Space, page: u64) {
        self.doing(
            || format!("hide page {page}"),
            || {
                let mut batch: Batch<'_, _, _, _, 4> =
                    Batch::new(&self.engine, Schedule::Batched, |_: Owed<()>| ());
                let lock = self.lock_tables(space);
                let mut unmapping = batch.take(());
                unmapping.narrow(&lock, address(page), PageSize::KIB_4, || self.conceal(space, page));
                unmapping.hold();
                drop(lock);
                batch.flush();
            },
        );
    }

    /// Splits a huge page: its frame is copied to small ones, for loads only.
    pub(crate) fn split(&self, space: &Space, first: u64) {
        self.doing(
            || format!("split huge page {first}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { None }; 2];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                let old = changes.clear(address(first), HUGE, |lock| self.take(lock.space, first, 1, &gone));
                // One size has gone everywhere before another is visible.
                changes.flush();
                self.promise(&gone, |hardware, mapping| hardware.end_mapping(mapping, Rule::R7));
                for page in first..first + HUGE_PAGES {
                    let frame = self.allocate();
                    self.install(space, page, 0, frame, false);
                }
                if old.present() {
                    changes.hold(Page(old.frame()));
                }
                drop(changes);
                gather.finish();
            },
        );
    }

    /// Lets a second space use the lowest-level table of the first.
    pub(crate) fn share_table(&self, from: &Space, to: &Space, first: u64) {
        let Some(table) = self.find_table(from.root, first, 0) else { return };
        let above = self.make_table(to.root, first, 1);
        let pte = Pte::table(table, self.hardware().allocation(table));
        self.hardware().table(above).set(Table::index(first, 1), pte);
    }

    /// Takes a shared table out of a space. The table and its pages stay the other's.
    pub(crate) fn unshare(&self, space: &Space, first: u64) {
        self.doing(
            || format!("unshare the table of page {first}"),
            || {
                let gone = Gone::default();
                let range = self.lock_range(space);
                let mut room = [const { None::<Page> }; 1];
                let mut gather = Gather::keeping(&self.engine, &range, &mut room, |page| self.free(page));
                let mut changes = gather.under(self.settled(space));
                changes.detach(address(first), PageSize::KIB_4, address(HUGE_PAGES), |lock| {
                    self.take(lock.space, first, 1, &gone)
                });
                drop(changes);
                gather.finish();
            },
        );
    }

    /// A walk by the kernel's own code, with interrupts off and no lock (Linux: `get_user_pages_fast`).
    pub(crate) fn walk(&self, space: &Space, page: u64) {
        let _off = self.engine.interrupts_off();
        let mut expected = (space.root, self.hardware().allocation(space.root));
        for level in (0..=TOP).rev() {
            if self.hardware().allocation_in_use(expected.0) != Some(expected.1) {
                let what =
                    format!("the kernel's walk to page {page} reads table {}, which was freed", expected.0);
                self.hardware().break_rule(Rule::R2, self.hardware().me(), what);
                return;
            }
            let pte = self.hardware().table(expected.0).get(Table::index(page, level));
            if !pte.present() || pte.leaf() {
                return;
            }
            expected = (pte.frame(), pte.number());
            self.hardware().pause();
        }
    }

    // Kernel ranges.

    /// Maps a frame in the kernel's ranges.
    pub(crate) fn map_kernel(&self, page: u64) -> u32 {
        let frame = self.allocate();
        let hardware = self.hardware();
        let _lock = self.range_lock.take(hardware);
        let root = hardware.kernel_root.get().unwrap_or_else(|| {
            let root = self.new_table();
            hardware.kernel_root.set(Some((root, hardware.allocation(root))));
            (root, hardware.allocation(root))
        });
        let table = self.make_table(root.0, page, 0);
        let mapping = hardware.mapping(Tag::Global, page, frame);
        let mut mapped = self.range_mapped.borrow_mut();
        let list = mapped.entry(page).or_default();
        for &old in list.iter() {
            hardware.end_mapping(old, Rule::R7);
        }
        list.push(mapping);
        drop(mapped);
        hardware.note(|| format!("set kernel page {page} -> frame {frame}"));
        hardware.table(table).set(Table::index(page, 0), Pte::page(frame, mapping, true));
        frame
    }

    /// Unmaps a page of the kernel's ranges and frees its frame; with its table, if that is asked for.
    pub(crate) fn unmap_kernel(&self, page: u64, with_table: bool) {
        self.doing(
            || format!("unmap kernel page {page}{}", if with_table { " and its table" } else { "" }),
            || {
                let hardware = self.hardware();
                let lock = self.range_lock.take(hardware);
                let Some((root, _)) = hardware.kernel_root.get() else { return };
                let Some(table) = self.find_table(root, page, 0) else { return };
                let mut places = [const { None }; 2];
                let mut gather = KernelGather::new(&self.engine, &mut places, |page| self.free(page));
                let at = KERNEL_BASE + address(page);
                let old = gather.clear(at, PageSize::KIB_4, || {
                    hardware.table(table).exchange(Table::index(page, 0), Pte::NONE)
                });
                hardware.note(|| format!("clear kernel page {page}"));
                if old.present() {
                    gather.hold(Page(old.frame()));
                }
                if with_table {
                    let above = self.find_table(root, page, 1).expect("there is a lowest one");
                    let unlinked = gather.unlink(at, PageSize::KIB_4, || {
                        hardware.table(above).exchange(Table::index(page, 1), Pte::NONE)
                    });
                    gather.hold(Page(unlinked.frame()));
                }
                gather.finish();
                for mapping in self.range_mapped.borrow().get(&page).into_iter().flatten() {
                    hardware.end_mapping(*mapping, Rule::R3);
                }
                drop(lock);
            },
        );
    }

    // What runs on a CPU.

    /// A timer tick.
    pub(crate) fn tick(&self) {
        self.hardware().pass(crate::scenario::TICK);
        self.hardware().note(|| "tick".to_owned());
        let off = self.engine.interrupts_off();
        let overdue = self.engine.tick();
        drop(off);
        if overdue {
            self.engine.pay_overdue();
        }
    }

    /// This CPU runs no program, and keeps its space loaded.
    pub(crate) fn rest(&self) {
        self.hardware().note(|| "lazy".to_owned());
        self.hardware().core().resting.set(true);
        self.engine.enter_lazy();
    }

    /// This CPU runs no program, on the kernel's own tables.
    pub(crate) fn leave(&self) {
        self.hardware().note(|| "leaves its space".to_owned());
        drop(self.engine.unload());
    }

    /// This CPU goes offline and comes back.
    pub(crate) fn sleep(&self, steps: u32) {
        let hardware = self.hardware();
        let off = self.engine.interrupts_off();
        hardware.note(|| "offline".to_owned());
        drop(self.engine.offline());
        hardware.core().gone.set(true);
        (0..steps).for_each(|_| hardware.yield_here());
        hardware.core().gone.set(false);
        // An interrupt that was sent before is not delivered to a CPU that starts anew.
        hardware.core().interrupt.take();
        hardware.note(|| "online".to_owned());
        self.engine.online();
        drop(off);
    }

    /// This CPU's program runs undisturbed for some steps, and enters the kernel again.
    pub(crate) fn isolate(&self, steps: u32) {
        let off = self.engine.interrupts_off();
        self.hardware().core().isolated.set(true);
        self.hardware().note(|| "enters its program".to_owned());
        self.engine.enter_user();
        (0..steps).for_each(|_| self.hardware().yield_here());
        self.engine.enter_kernel();
        self.hardware().core().isolated.set(false);
        self.hardware().note(|| "enters the kernel".to_owned());
        drop(off);
    }

    /// The device walks the tables of a space from here on.
    pub(crate) fn attach_device(&self, space: &Space) {
        space.coherence.attach_device();
        self.hardware().start_device((space.root, self.hardware().allocation(space.root)));
    }

    /// The device stops.
    pub(crate) fn detach_device(&self, space: &Space) {
        self.hardware().stop_device();
        space.coherence.detach_device();
    }

    /// The device stores to a page of its space.
    pub(crate) fn device_store(&self, page: u64) -> Option<u32> {
        self.hardware().device_access(false, page, true)
    }

    /// The device loads from a page of the kernel's ranges.
    pub(crate) fn device_load_kernel(&self, page: u64) -> Option<u32> {
        self.hardware().device_access(true, page, false)
    }

    /// Tells the other CPUs that a stage of the scenario is done.
    pub(crate) fn raise(&self, flag: usize) {
        self.flags[flag].store(1, Ordering::Release);
    }

    /// Waits for a stage of the scenario.
    pub(crate) fn wait_for(&self, flag: usize) {
        while self.flags[flag].load(Ordering::Acquire) == 0 {
            self.hardware().take_interrupt();
            self.hardware().yield_here();
        }
    }

    /// This CPU begins to run a program of the space.
    pub(crate) fn run(&self, space: &Space) {
        self.hardware().note(|| format!("> switch to space {}", space.coherence.id().get()));
        drop(self.engine.switch_to(space));
        self.hardware().core().resting.set(false);
        self.hardware().note(|| format!("< switch to space {}", space.coherence.id().get()));
    }

    /// This CPU's program loads from a page. A CPU that rests runs no program.
    pub(crate) fn load(&self, page: u64) -> Option<u32> {
        self.use_page(page, false)
    }

    /// This CPU's program stores to a page.
    pub(crate) fn store(&self, page: u64) -> Option<u32> {
        self.use_page(page, true)
    }

    fn use_page(&self, page: u64, store: bool) -> Option<u32> {
        let runs = !self.hardware().core().resting.get();
        runs.then(|| self.hardware().access(false, page, store)).flatten()
    }

    /// The handler of an interrupt that cannot be masked reads page 1 of the program that runs here, if it may.
    pub(crate) fn read_if_allowed(&self) {
        let spaces = self.spaces.borrow().clone();
        if let Some(space) = spaces.iter().find(|space| self.engine.may_access(&space.coherence)) {
            let loaded = self.hardware().core().root.get().map(|(root, ..)| root);
            if loaded == Some(space.root) {
                self.hardware().access(false, 1, false);
            } else {
                let what = "a handler may access a space that is not loaded".to_owned();
                self.hardware().break_rule(Rule::R4, self.hardware().me(), what);
            }
        }
    }

    /// The kernel loads from a page of its ranges on this CPU.
    pub(crate) fn load_kernel(&self, page: u64) -> Option<u32> {
        self.hardware().access(true, page, false)
    }
}

/// The address of a page.
pub(crate) fn address(page: u64) -> u64 {
    page << PAGE_SHIFT
}
