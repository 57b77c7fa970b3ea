//! The kernel's page tables for an area.
//!
//! The tables above the lowest level are made with the area, one for each GiB and one for each 512 GiB, and stay. So no
//! root ever changes once it has the kernel's half, and only tables of the lowest level come and go. The area's lock is
//! held while they change.

use core::ops::Range;

use crate::address::{FrameNumber, PAGE_SHIFT};
use crate::frames::allocate::OutOfMemory;
use crate::frames::frame::Frame;
use crate::kernel_ranges::stock::Stock;
use crate::machine::{Machine, Work};
use crate::tables::entry::Entry;
use crate::tables::table::{Table, ENTRIES, LEAF_SHIFT, TOP};
use crate::Memory;

/// The tables under the kernel's root.
pub(super) struct KernelTables<'m, P: Machine> {
    memory: &'m Memory<P>,
    root: FrameNumber,
}

impl<'m, P: Machine> KernelTables<'m, P> {
    /// Makes the tables above the lowest level for the addresses `range`.
    pub(super) fn new(
        memory: &'m Memory<P>,
        root: FrameNumber,
        range: Range<u64>,
    ) -> Result<Self, OutOfMemory> {
        let tables = Self { memory, root };
        let mut at = range.start;
        while at < range.end {
            let mut frame = root;
            for level in (2..=TOP).rev() {
                if !tables.entry(frame, at, level).present() {
                    let mut stock = Stock::new(memory);
                    stock.fill(1)?;
                    tables.link(frame, at, level, stock.take());
                }
                frame = tables.entry(frame, at, level).frame();
            }
            at = ((at >> (LEAF_SHIFT + 9)) + 1) << (LEAF_SHIFT + 9);
        }
        Ok(tables)
    }

    /// How many tables of the lowest level are missing for `range`.
    pub(super) fn missing(&self, range: Range<u64>) -> usize {
        leaves(range).filter(|&at| self.leaf(at).is_none()).count()
    }

    /// Makes `address` lead to `frame`. A missing table is taken from `stock`.
    pub(super) fn map(&self, address: u64, frame: Frame, stock: &mut Stock<'m, P>) {
        let leaf = self.leaf(address).unwrap_or_else(|| {
            let table = stock.take();
            let number = table.number();
            self.link(self.above(address), address, 1, table);
            number
        });
        self.memory.touches(leaf, 1);
        let table = self.memory.platform().table(leaf);
        debug_assert!(!table.get(Table::index(address, 0)).present(), "{address:#x} is mapped already");
        table.set(Table::index(address, 0), Entry::kernel(frame.into_number()));
    }

    /// Takes the translation of `address` away. Returns the old entry.
    pub(super) fn clear(&self, address: u64) -> Entry {
        let leaf = self.leaf(address).unwrap_or_else(|| unreachable!("{address:#x} is mapped"));
        self.memory.touches(leaf, 1);
        self.memory.platform().table(leaf).exchange(Table::index(address, 0), Entry::NONE)
    }

    /// The addresses in `range` at which tables without any translation begin.
    pub(super) fn empty(&self, range: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        leaves(range).filter(|&at| {
            self.leaf(at).is_some_and(|leaf| {
                let table = self.memory.platform().table(leaf);
                (0..ENTRIES).all(|index| table.get(index).is_none())
            })
        })
    }

    /// Unlinks the table that translates `address`, which exists and is empty.
    pub(super) fn unlink(&self, address: u64) -> Frame {
        self.memory.platform().work(Work::TableChange, 1);
        let above = self.memory.platform().table(self.above(address));
        Frame::owned(above.exchange(Table::index(address, 1), Entry::NONE).frame())
    }

    fn entry(&self, table: FrameNumber, address: u64, level: u32) -> Entry {
        self.memory.platform().table(table).get(Table::index(address, level))
    }

    fn link(&self, above: FrameNumber, address: u64, level: u32, table: Frame) {
        self.memory.platform().work(Work::TableChange, 1);
        let entry = Entry::table(table.into_number());
        self.memory.platform().table(above).set(Table::index(address, level), entry);
    }

    /// The table above the lowest level for `address`.
    fn above(&self, address: u64) -> FrameNumber {
        (2..=TOP).rev().fold(self.root, |table, level| self.entry(table, address, level).frame())
    }

    /// The table of the lowest level for `address`.
    fn leaf(&self, address: u64) -> Option<FrameNumber> {
        let entry = self.entry(self.above(address), address, 1);
        entry.present().then(|| entry.frame())
    }
}

/// The first addresses of the tables of the lowest level that translate a part of `range`.
fn leaves(range: Range<u64>) -> impl Iterator<Item = u64> {
    let first = range.start >> LEAF_SHIFT << LEAF_SHIFT;
    (first..range.end).step_by(1 << LEAF_SHIFT)
}

const _: () = assert!(LEAF_SHIFT == PAGE_SHIFT + 9);
