//! A small kernel on the engine: page tables, two locks for each space, and the operations that change translations.
//!
//! It does what the guide asks of a kernel, and nothing besides. The oracle learns here what each operation promises:
//! which mappings no CPU may use once it has returned.

mod batches;
mod calls;
mod cpus;
mod ranges;
mod shapes;
pub(crate) mod tables;
mod walkers;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::rc::Rc;

use ceasefire::{AddressSpace, Engine, Owed, RangeGuard, Root, Settled, TableGuard};

use self::tables::{MappingNumber, Pte, Table, Tables, BITS, TOP};
use super::cores::Cores;
use super::lock::{Held, Lock};
use crate::hardware::entry::PAGE_SHIFT;
use crate::hardware::frame::Allocation;
use crate::hardware::platform::{Adverse, System};
use crate::hardware::tlb::Tag;
use crate::hardware::Hardware;
use crate::model::ordering::View;
use crate::model::rule::Rule;

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
    mapped: RefCell<BTreeMap<u64, Vec<MappingNumber>>>,
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

// SAFETY: every change of the space's tables holds the lock. It names one space.
unsafe impl TableGuard<Adverse<Small>> for TableLock<'_> {
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

// SAFETY: scenarios map under this lock, or use no gather that relies on it. It names one space.
unsafe impl RangeGuard<Adverse<Small>> for RangeLock<'_> {
    fn space(&self) -> &Space {
        self.space
    }
}

/// The mappings that an operation has found gone or taken away. When it returns, no CPU may use them.
#[derive(Debug, Default)]
struct Gone(RefCell<Vec<MappingNumber>>);

/// A frame that nobody else owns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page(pub(crate) u32);

/// The first address of the kernel's ranges.
const KERNEL_BASE: u64 = 1 << 40;

/// The small kernel as the platform sees it.
#[derive(Debug)]
pub(crate) struct Small;

impl System for Small {
    type Space = Space;

    const KERNEL_BASE: u64 = KERNEL_BASE;

    /// A root carries its allocation, so a root that was freed is not taken for its successor.
    fn root(_: &Hardware, root: Root) -> (u32, Allocation) {
        ((root.0 >> PAGE_SHIFT) as u32, Allocation(root.0 as u32 % (1 << PAGE_SHIFT)))
    }
}

/// The frames of the machine that it runs on.
pub(crate) const FRAMES: usize = 160;

/// The kernel on a machine.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) engine: Engine<Adverse<Small>>,
    tables: Rc<Tables>,
    free: RefCell<Vec<u32>>,
    /// What CPUs had stored and seen that gave frames back: the allocator's lock carries it.
    freed: RefCell<View>,
    pub(crate) spaces: RefCell<Vec<Space>>,
    /// Guards the kernel's ranges, and every mapping that a page of them ever had.
    range_lock: Lock,
    range_mapped: RefCell<BTreeMap<u64, Vec<MappingNumber>>>,
    /// Frames in debt, until they can be redeemed.
    owing: RefCell<Vec<Owed<Page>>>,
    /// Numbers that a scenario's CPUs tell each other, in order with all else.
    pub(crate) flags: [ceasefire_atomics::AtomicU64; 4],
    /// Parts of the engine by themselves.
    pub(crate) cores: Cores,
}

impl Kernel {
    pub(crate) fn new(engine: Engine<Adverse<Small>>, tables: Rc<Tables>) -> Self {
        Self {
            engine,
            tables,
            // The frame freed last is handed out first.
            free: RefCell::new((0..FRAMES as u32).rev().collect()),
            freed: RefCell::default(),
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
        let Allocation(allocation) = self.hardware().allocation(root);
        let address = u64::from(root) << PAGE_SHIFT | u64::from(allocation);
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

    fn take_frame(&self) -> u32 {
        let frame = self.free.borrow_mut().pop().expect("scenarios use few frames");
        self.hardware().learn(&self.freed.borrow());
        self.hardware().hand_out(frame);
        frame
    }

    fn new_table(&self) -> u32 {
        let frame = self.take_frame();
        (0..1 << BITS).for_each(|index| self.tables.table(frame).set(index, Pte::NONE));
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
            let pte = self.tables.table(table).get(Table::index(page, above));
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
            let pte = self.tables.table(table).get(index);
            table = if pte.present() {
                pte.frame()
            } else {
                let new = self.new_table();
                self.tables.table(table).set(index, Pte::table(new, hardware.allocation(new)));
                new
            };
        }
        table
    }

    /// Stores a translation of a page; `level` 1 is for a huge one.
    fn install(&self, space: &Space, page: u64, level: u32, frame: u32, writable: bool) {
        let hardware = self.hardware();
        let table = self.make_table(space.root, page, level);
        let mapping = self.tables.mapping(hardware, Tag::Asid(0), page, frame);
        let mut mapped = space.mapped.borrow_mut();
        let list = mapped.entry(page).or_default();
        // From now on a CPU may see the new translation.
        for &old in list.iter() {
            self.tables.end_mapping(self.hardware(), old, Rule::R7);
        }
        list.push(mapping);
        drop(mapped);
        hardware.note(|| format!("set page {page} -> frame {frame} {}", if writable { "rw" } else { "ro" }));
        self.tables.table(table).set(Table::index(page, level), Pte::page(frame, mapping, writable));
    }

    /// Clears a translation under the lock and returns the old entry. All mappings of the page are `gone`.
    fn take(&self, space: &Space, page: u64, level: u32, gone: &Gone) -> Pte {
        gone.0.borrow_mut().extend(space.mapped.borrow().get(&page).into_iter().flatten());
        let Some(table) = self.find_table(space.root, page, level) else { return Pte::NONE };
        let old = self.tables.table(table).exchange(Table::index(page, level), Pte::NONE);
        self.hardware().note(|| format!("clear page {page}, was {old:?}"));
        old
    }

    /// Takes the right to store away under the lock, and returns the old entry.
    fn narrow(&self, space: &Space, page: u64, gone: &Gone) -> Pte {
        gone.0.borrow_mut().extend(space.mapped.borrow().get(&page).into_iter().flatten());
        let Some(table) = self.find_table(space.root, page, 0) else { return Pte::NONE };
        let old = self.tables.table(table).narrow(Table::index(page, 0));
        self.hardware().note(|| format!("narrow page {page}, was {old:?}"));
        old
    }

    /// What a page's table says, read without a promise.
    pub(crate) fn peek(&self, space: &Space, page: u64) -> Pte {
        let table = self.find_table(space.root, page, 0);
        table.map_or(Pte::NONE, |table| self.tables.table(table).get(Table::index(page, 0)))
    }

    fn free(&self, Page(frame): Page) {
        self.hardware().step();
        self.hardware().take_back(frame);
        self.freed.borrow_mut().join(&self.hardware().view());
        self.free.borrow_mut().push(frame);
    }

    /// Puts a hidden entry in a translation's place under the lock, and returns the old entry.
    fn conceal(&self, space: &Space, page: u64) -> Pte {
        let Some(table) = self.find_table(space.root, page, 0) else { return Pte::NONE };
        let old = self.tables.table(table).hide(Table::index(page, 0));
        self.hardware().note(|| format!("hide page {page}, was {old:?}"));
        old
    }

    /// A call that took mappings away has returned.
    fn end(&self, gone: &Gone, rule: Rule) {
        self.promise(gone, |tables, mapping| tables.end_mapping(self.hardware(), mapping, rule));
    }

    /// Makes a promise for each mapping that a call took away or narrowed.
    fn promise(&self, gone: &Gone, promise: impl Fn(&Tables, MappingNumber)) {
        gone.0.borrow().iter().for_each(|&mapping| promise(&self.tables, mapping));
    }
}

/// The address of a page.
pub(crate) fn address(page: u64) -> u64 {
    page << PAGE_SHIFT
}
