//! The entries from the tables of one root.

use std::collections::BTreeMap;
use std::ops::Range;

use ceasefire::PageSize;

use crate::hardware::numbers::{number_of, HUGE_PAGES, HUGE_SHIFT};
use crate::oracle::record::entry::{Entry, List};
use crate::oracle::record::page_set::PageSet;
use crate::oracle::record::pages::Pages;
use crate::oracle::record::slots::{Slot, Slots};

/// The number of dead entries for which no removal is worth its time.
const FEW: usize = 256;

/// The entries of a space.
#[derive(Debug, Default)]
pub(crate) struct Space {
    small: Pages,
    /// The entries of huge pages, by the number of the huge page.
    huge: BTreeMap<u64, List>,
    /// The number of entries that CPUs may hold.
    live: usize,
    /// The number of entries whose slot was flushed since.
    dead: usize,
}

impl Space {
    /// Adds an entry to those of its page, and returns whether it is new.
    pub(crate) fn add(&mut self, page: u64, size: PageSize, entry: Entry, slots: &mut Slots) -> bool {
        let Self { small, huge, live, dead } = self;
        let mut add = |list: &mut List| {
            let is_same = |old: &&mut Entry| {
                old.slot() == entry.slot() && old.frame == entry.frame && slots.hold(**old)
            };
            if let Some(old) = list.iter_mut().find(is_same) {
                old.merge(entry.held());
                return false;
            }
            if list.len() == list.capacity() {
                remove_dead(list, slots, dead);
            }
            list.push(entry);
            *live += 1;
            slots[entry.slot()].live += 1;
            true
        };
        match size {
            PageSize::KIB_4 => small.add(page, add),
            _ => add(huge.entry(number_of(page, size)).or_default()),
        }
    }

    /// Removes the entries of a page, of either size, from the slots chosen.
    pub(crate) fn forget(&mut self, page: u64, slots: &mut Slots, is_chosen: impl Fn(&Slot) -> bool) {
        let Self { small, huge, live, dead } = self;
        let mut forget = |list: &mut List, size: PageSize| {
            list.retain(|entry| {
                let slot = &mut slots[entry.slot()];
                if !slot.holds(*entry) {
                    *dead -= 1;
                    return false;
                }
                let stays = !is_chosen(slot);
                if !stays {
                    (*live, slot.live) = (*live - 1, slot.live - 1);
                    slot.allow(size, page);
                }
                stays
            });
        };
        small.remove(page, |list| forget(list, PageSize::KIB_4));
        let number = number_of(page, PageSize::MIB_2);
        if let Some(list) = huge.get_mut(&number) {
            forget(list, PageSize::MIB_2);
            if list.is_empty() {
                huge.remove(&number);
            }
        }
    }

    /// All entries of a slot, which has so many, are dead from now on.
    pub(crate) fn flushed(&mut self, count: usize, slots: &Slots) {
        self.live -= count;
        self.dead += count;
        if self.dead > self.live / 4 + FEW {
            let dead = &mut self.dead;
            self.small.remove_everywhere(|_, list| remove_dead(list, slots, dead));
            self.huge.retain(|_, list| {
                remove_dead(list, slots, dead);
                !list.is_empty()
            });
        }
    }

    /// Takes all entries of a slot, with their pages and sizes.
    pub(crate) fn take(&mut self, slot: usize, slots: &mut Slots) -> Vec<(u64, PageSize, Entry)> {
        let mut taken = Vec::new();
        let mut take = |page: u64, size: PageSize, list: &mut List| {
            list.retain(|entry| {
                let stays = entry.slot() != slot || !slots.hold(*entry);
                if !stays {
                    taken.push((page, size, *entry));
                }
                stays
            });
        };
        self.small.remove_everywhere(|page, list| take(page, PageSize::KIB_4, list));
        self.huge.retain(|number, list| {
            take(number << HUGE_SHIFT, PageSize::MIB_2, list);
            !list.is_empty()
        });
        self.live -= taken.len();
        slots[slot].live -= taken.len();
        taken
    }

    /// The entries of the page of that size that contains a page.
    pub(crate) fn entries(&self, page: u64, size: PageSize) -> &[Entry] {
        match size {
            PageSize::KIB_4 => self.small.of(page),
            _ => self.huge.get(&number_of(page, size)).map_or(&[], List::as_slice),
        }
    }

    /// The small pages of a range that have entries.
    pub(crate) fn small_within(&self, pages: Range<u64>) -> impl Iterator<Item = (u64, &[Entry])> {
        self.small.within(pages)
    }

    /// The first pages of the huge pages that have entries and cover any of a range.
    pub(crate) fn huge_within(&self, pages: Range<u64>) -> impl Iterator<Item = (u64, &[Entry])> {
        let numbers = pages.start >> HUGE_SHIFT..pages.end.div_ceil(HUGE_PAGES);
        self.huge.range(numbers).map(|(&number, list)| (number << HUGE_SHIFT, list.as_slice()))
    }

    /// The pages with small entries of a slot.
    pub(crate) fn pages_of(&self, slot: usize) -> PageSet {
        let mut set = PageSet::default();
        for (page, entries) in self.small.within(0..u64::MAX) {
            if entries.iter().any(|entry| entry.slot() == slot) {
                set.insert(page);
            }
        }
        set
    }
}

fn remove_dead(list: &mut List, slots: &Slots, dead: &mut usize) {
    let before = list.len();
    list.retain(|entry| slots.hold(*entry));
    *dead -= before - list.len();
}
