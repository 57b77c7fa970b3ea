//! A CPU's TLB: it never evicts by itself, and holds entries of every size and the walker's tables of every level.

use std::rc::Rc;

use ceasefire::{Asid, Extent, Flush};

use super::entry::{Read, Shape, PAGE_SHIFT};
use super::frame::Allocation;
use crate::model::ordering::View;

/// The tag of an entry: an ASID, or none for the kernel's ranges, which every tag may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Tag {
    Asid(u16),
    Global,
}

impl From<Asid> for Tag {
    fn from(asid: Asid) -> Self {
        Self::Asid(asid.get())
    }
}

/// A translation that the hardware holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Filled {
    pub(crate) tag: Tag,
    /// The root that was walked.
    pub(crate) root: u32,
    /// The first page, and log2 of how many there are.
    pub(crate) page: u64,
    pub(crate) order: u32,
    pub(crate) frame: u32,
    /// The number that the kernel gave: to the frame's allocation, or to the mapping.
    pub(crate) number: u32,
    pub(crate) writable: bool,
    pub(crate) dirty: bool,
    /// The age of the oldest thing that the walk relied on: an invalidation that began later removes the entry.
    pub(crate) at: u64,
    /// The last moment at which the entry of the last level is known to have stood in its table.
    pub(crate) read: u64,
}

impl Filled {
    pub(crate) fn covers(&self, page: u64) -> bool {
        page >> self.order == self.page >> self.order
    }
}

/// A table that the walker remembers for a range of pages.
#[derive(Debug, Clone)]
pub(crate) struct Walked {
    pub(crate) tag: Tag,
    /// The level of the table, and the pages that it translates: all that are `prefix` after a shift.
    pub(crate) level: u32,
    pub(crate) shift: u32,
    pub(crate) prefix: u64,
    pub(crate) table: u32,
    pub(crate) allocation: Allocation,
    pub(crate) at: u64,
    /// What the way to the table carries.
    pub(crate) way: Option<Rc<View>>,
}

/// A walk under way: the last table that it found, and the pages that it goes to.
#[derive(Debug, Clone)]
pub(crate) struct Walking {
    pub(crate) tag: Tag,
    pub(crate) root: u32,
    pub(crate) page: u64,
    pub(crate) level: u32,
    pub(crate) table: u32,
    pub(crate) allocation: Allocation,
    /// The age of the oldest thing that it relies on.
    pub(crate) at: u64,
    /// The last moment at which its last level is known to have stood.
    pub(crate) read: u64,
    /// What the way to the table carries.
    pub(crate) way: Option<Rc<View>>,
}

impl Walking {
    /// The entry that the walk fills when it has read a leaf.
    pub(crate) fn fills(&self, shape: Shape, leaf: &Read) -> Filled {
        let order = shape.bits * self.level;
        Filled {
            tag: self.tag,
            root: self.root,
            page: self.page >> order << order,
            order,
            frame: leaf.frame,
            number: leaf.number,
            writable: leaf.writable,
            dirty: leaf.dirty,
            at: self.at,
            read: self.read,
        }
    }
}

/// The entries of one CPU, or of one device.
#[derive(Debug, Default)]
pub(crate) struct Tlb {
    pub(crate) filled: Vec<Filled>,
    pub(crate) walked: Vec<Walked>,
    /// Walks that the hardware began by itself; the leaf is read already if there is one.
    pub(crate) walking: Vec<(Walking, Option<Read>)>,
    /// The walk of the CPU's access, in the middle of which anything may happen.
    pub(crate) asked: Option<Walking>,
}

/// What an invalidation covers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Invalidation {
    /// The tag; `None` for all ASIDs.
    pub(crate) tag: Option<Tag>,
    pub(crate) flush: Flush,
    /// Only what was filled before this moment.
    pub(crate) before: u64,
    /// It ends walks that are under way.
    pub(crate) drains: bool,
}

impl Invalidation {
    fn tagged(&self, tag: Tag) -> bool {
        self.tag.map_or(tag != Tag::Global, |mine| mine == tag)
    }

    /// The pages, as a range.
    fn pages(&self) -> (u64, u64) {
        match self.flush.extent {
            Extent::All => (0, u64::MAX),
            Extent::Pages { start, count, size } => {
                let end = start + (u64::from(count) << size.shift());
                (start >> PAGE_SHIFT, end >> PAGE_SHIFT)
            }
        }
    }

    /// Whether it removes an entry. A page by its address removes the entry that covers the address, of whatever size;
    /// addresses lie a page of the stated size apart.
    pub(crate) fn removes(&self, entry: &Filled) -> bool {
        // What was read through a way that stays is no older than the read.
        let age = if self.flush.tables { entry.at } else { entry.read };
        if !self.tagged(entry.tag) || age > self.before {
            return false;
        }
        match self.flush.extent {
            Extent::All => true,
            Extent::Pages { start, count, size } => {
                // Told that all are of one size, the hardware looks for no other.
                let looks = self.flush.mixed || entry.order == size.shift() - PAGE_SHIFT;
                let page = |number| (start + (number << size.shift())) >> PAGE_SHIFT;
                looks && (0..u64::from(count)).any(|number| entry.covers(page(number)))
            }
        }
    }

    /// Whether it removes a table for pages that are `prefix` after a shift from what a walker remembers. Told that no
    /// table is freed, it removes none.
    fn clears(&self, tag: Tag, at: u64, prefix: u64, shift: u32) -> bool {
        self.flush.tables && self.tagged(tag) && at <= self.before && self.meets(prefix, shift)
    }

    /// Whether it ends a walk: one that has read a leaf that it removes, or that holds a table that it removes. Another
    /// walk goes on, and reads what is left to read as a walk that starts now.
    fn ends(&self, shape: Shape, walk: &Walking, leaf: Option<&Read>) -> bool {
        let shift = shape.bits * (walk.level + 1);
        leaf.is_some_and(|leaf| self.removes(&walk.fills(shape, leaf)))
            || self.clears(walk.tag, walk.at, walk.page >> shift, shift)
    }

    fn meets(&self, prefix: u64, shift: u32) -> bool {
        let (start, end) = self.pages();
        let (first, last) = (prefix << shift, (prefix + 1) << shift);
        first < end && start < last
    }
}

impl Tlb {
    /// The entry for a page.
    pub(crate) fn find(&self, tag: Tag, page: u64) -> Option<Filled> {
        self.filled.iter().find(|entry| entry.tag == tag && entry.covers(page)).copied()
    }

    /// Adds an entry; true if it did. The hardware keeps an older one for the same address, if there is one.
    pub(crate) fn fill(&mut self, entry: Filled) -> bool {
        let held = |old: &Filled| old.tag == entry.tag && old.page == entry.page && old.order == entry.order;
        let new = !self.filled.iter().any(held);
        if new {
            self.filled.push(entry);
        }
        new
    }

    pub(crate) fn drop_page(&mut self, tag: Tag, page: u64) {
        self.filled.retain(|entry| entry.tag != tag || !entry.covers(page));
    }

    /// The lowest table that the walker remembers for a page.
    pub(crate) fn way(&self, tag: Tag, page: u64) -> Option<Walked> {
        let leads = |way: &&Walked| way.tag == tag && page >> way.shift == way.prefix;
        self.walked.iter().filter(leads).min_by_key(|way| way.level).cloned()
    }

    pub(crate) fn remember(&mut self, way: Walked) {
        let known = |old: &Walked| old.tag == way.tag && old.level == way.level && old.prefix == way.prefix;
        if !self.walked.iter().any(known) {
            self.walked.push(way);
        }
    }

    pub(crate) fn forget(&mut self, shape: Shape, what: Invalidation) {
        self.filled.retain(|entry| !what.removes(entry));
        self.walked.retain(|way| !what.clears(way.tag, way.at, way.prefix, way.shift));
        if what.drains {
            self.walking.retain(|(walk, leaf)| !what.ends(shape, walk, leaf.as_ref()));
            self.asked = self.asked.take().filter(|walk| !what.ends(shape, walk, None));
        }
    }

    /// The walks of programs end: another root is loaded.
    pub(crate) fn end_walks(&mut self) {
        self.walking.retain(|(walk, _)| walk.tag == Tag::Global);
    }
}
