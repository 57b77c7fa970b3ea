//! A CPU's TLB: it never evicts by itself, and holds entries of every size and the walker's tables of every level.

use std::rc::Rc;

use ceasefire::{Asid, Extent, Flush};

use super::entry::{Read, PAGE_SHIFT};
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

/// The entries of one CPU, or of one device.
#[derive(Debug, Default)]
pub(crate) struct Tlb {
    pub(crate) filled: Vec<Filled>,
    pub(crate) walked: Vec<Walked>,
    /// Walks under way; the last entry is read already if there is one.
    pub(crate) walking: Vec<(Walking, Option<Read>)>,
}

/// What an invalidation covers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Invalidation {
    /// The tag; `None` for all ASIDs.
    pub(crate) tag: Option<Tag>,
    pub(crate) flush: Flush,
    /// Only what was filled before this moment.
    pub(crate) before: u64,
    /// Walks that are under way end too.
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
        if !self.tagged(entry.tag) || entry.at > self.before {
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

    /// Whether the ways to the pages go too.
    fn clears_ways(&self) -> bool {
        self.flush.tables || self.flush.extent == Extent::All
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

    pub(crate) fn forget(&mut self, what: Invalidation) {
        self.filled.retain(|entry| !what.removes(entry));
        let clears = what.clears_ways();
        self.walked.retain(|way| {
            !(clears && what.tagged(way.tag) && way.at <= what.before && what.meets(way.prefix, way.shift))
        });
        if what.drains {
            // An invalidation ends every walk under its tag: a walk holds tables that may be freed next.
            self.walking.retain(|(walk, _)| !what.tagged(walk.tag) || walk.at > what.before);
        }
    }
}
