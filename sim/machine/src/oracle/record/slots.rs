//! The slots: each is a CPU and an ASID under which the CPU has cached entries.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use ceasefire::PageSize;

use crate::hardware::numbers::number_of;
use crate::oracle::record::entry::{Entry, Holding};
use crate::oracle::record::page_set::PageSet;
use crate::oracle::rule::Rule;

/// No slot.
const NONE: u32 = u32::MAX;

/// A CPU's entries under one ASID.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) cpu: usize,
    pub(crate) asid: u16,
    /// The number of the space from whose tables the entries come.
    pub(crate) space: usize,
    /// The number of entries that the CPU may hold.
    pub(crate) live: usize,
    /// The moment of the last flush of all entries. Those that were filled by then are dead.
    flushed: u64,
    /// Entries that the CPU may hold and must not use again, by their size and number: a page, the frame to which
    /// they lead there, and the rule that a use would break. The CPU must invalidate them before it runs the space.
    forbidden: BTreeMap<(PageSize, u64), (u64, u32, Rule)>,
    /// A set of pages that has all for which the CPU may hold small entries, once anything asked for those.
    pub(crate) pages: Option<PageSet>,
}

impl Slot {
    /// Forbids the use of an entry that the CPU may hold, for the first rule that it would break: `page` is one for
    /// which it leads to `frame`.
    pub(crate) fn forbid(&mut self, size: PageSize, page: u64, frame: u32, rule: Rule) {
        self.forbidden.entry((size, number_of(page, size))).or_insert((page, frame, rule));
    }

    /// Any entry of the page of that size may be used again.
    pub(crate) fn allow(&mut self, size: PageSize, page: u64) {
        if !self.forbidden.is_empty() {
            self.forbidden.remove(&(size, number_of(page, size)));
        }
    }

    /// Takes the forbidden entries: a page of each, the frame, and the rule.
    pub(crate) fn take_forbidden(&mut self) -> impl Iterator<Item = (u64, u32, Rule)> {
        std::mem::take(&mut self.forbidden).into_values()
    }

    /// All entries were invalidated. Returns their number.
    pub(crate) fn flush(&mut self, now: u64) -> usize {
        self.flushed = now;
        self.forbidden.clear();
        self.pages.iter_mut().for_each(PageSet::clear);
        std::mem::take(&mut self.live)
    }

    /// Whether the CPU may still hold an entry of this slot.
    pub(crate) fn holds(&self, entry: Entry) -> bool {
        entry.filled > self.flushed
    }
}

/// All slots.
#[derive(Debug)]
pub(crate) struct Slots {
    /// The numbers of each CPU's slots, by ASID.
    numbers: Box<[Vec<u32>]>,
    all: Vec<Slot>,
}

impl Slots {
    pub(crate) fn new(cpus: usize) -> Self {
        Self { numbers: vec![Vec::new(); cpus].into(), all: Vec::new() }
    }

    /// The number of a CPU's slot of an ASID, if it has ever cached an entry there.
    pub(crate) fn find(&self, cpu: usize, asid: u16) -> Option<usize> {
        let number = *self.numbers[cpu].get(usize::from(asid))?;
        (number != NONE).then_some(number as usize)
    }

    /// The number of a CPU's slot of an ASID. A new one is of the space of that number.
    pub(crate) fn find_or_add(&mut self, cpu: usize, asid: u16, space: usize) -> usize {
        let (numbers, index) = (&mut self.numbers[cpu], usize::from(asid));
        if numbers.len() <= index {
            numbers.resize(index + 1, NONE);
        }
        if numbers[index] == NONE {
            numbers[index] = self.all.len() as u32;
            self.all.push(Slot { cpu, asid, space, ..Slot::default() });
        }
        numbers[index] as usize
    }

    /// The ASIDs up to the last of a CPU's slots.
    pub(crate) fn asids_of(&self, cpu: usize) -> impl Iterator<Item = u16> + use<> {
        (0..=u16::MAX).take(self.numbers[cpu].len())
    }

    /// Whether the CPU of an entry's slot may still hold it.
    pub(crate) fn hold(&self, entry: Entry) -> bool {
        self[entry.slot()].holds(entry)
    }

    /// An entry of a page of that size, with its place.
    pub(crate) fn holding(&self, entry: Entry, size: PageSize, page: u64) -> Holding {
        let Slot { cpu, asid, .. } = self[entry.slot()];
        Holding { cpu, asid, size, page, held: entry.held() }
    }
}

impl Index<usize> for Slots {
    type Output = Slot;

    fn index(&self, number: usize) -> &Slot {
        &self.all[number]
    }
}

impl IndexMut<usize> for Slots {
    fn index_mut(&mut self, number: usize) -> &mut Slot {
        &mut self.all[number]
    }
}
