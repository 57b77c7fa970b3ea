//! The record of all entries that CPUs may hold: those that they cached and that were not invalidated since.
//!
//! A real TLB replaces most of them, but no code may rely on that. The record is kept by space and page, since nearly
//! every question is about one page on all CPUs. A flush of everything under an ASID visits no page: entries that were
//! filled before it are dead. Dead entries are removed when their list is full, and from the whole space when they are
//! many.
//!
//! `entry` has the entries of one page, `pages` those of a space's small pages, `space` those of all sizes, `slots` the
//! CPUs and ASIDs to which they belong, and `places` the pages that lead to each frame. `page_set` and `bits` serve
//! these.

mod bits;
mod entry;
mod page_set;
mod pages;
mod places;
mod slots;
mod space;

use std::ops::Range;

use ceasefire::PageSize;
use ceasefire_memory::PAGE_SHIFT;

use crate::hardware::numbers::HUGE_PAGES;
use crate::hardware::tlb::Fill;
use crate::oracle::numbered::Numbered;
use crate::oracle::record::entry::Entry;
pub(crate) use crate::oracle::record::entry::{Held, Holding};
use crate::oracle::record::places::{Place, Places};
use crate::oracle::record::slots::Slots;
use crate::oracle::record::space::Space;
use crate::oracle::rule::Rule;

/// The record.
#[derive(Debug)]
pub(crate) struct Record {
    slots: Slots,
    spaces: Vec<Space>,
    /// The number of each root's space.
    numbers: Numbered<usize>,
    places: Places,
}

impl Record {
    pub(crate) fn new(frames: u32, cpus: usize) -> Self {
        let (spaces, numbers) = (Vec::new(), Numbered::default());
        Self { slots: Slots::new(cpus), spaces, numbers, places: Places::new(frames) }
    }

    /// A CPU caches an entry. One of the same page and slot to another frame, or of another size, stays beside it.
    pub(crate) fn fill(&mut self, cpu: usize, page: u64, asid: u16, fill: &Fill) {
        let Fill { size, frame, filled, writable, dirty, root } = *fill;
        let page = page & !((size.bytes() >> PAGE_SHIFT) - 1);
        let spaces = &mut self.spaces;
        let space = *self.numbers.entry(root).or_insert_with(|| {
            spaces.push(Space::default());
            spaces.len() - 1
        });
        let slot = self.slots.find_or_add(cpu, asid, space);
        let before = std::mem::replace(&mut self.slots[slot].space, space);
        if before != space {
            // All entries of a slot count as those of the space that was used last.
            let others = self.spaces[before].take(slot, &mut self.slots);
            for (page, size, entry) in others {
                self.add(space, page, size, entry);
            }
        }
        self.add(space, page, size, Entry::new(slot, Held { filled, frame, writable, dirty }));
    }

    fn add(&mut self, space: usize, page: u64, size: PageSize, entry: Entry) {
        let Self { slots, spaces, places, .. } = self;
        if !spaces[space].add(page, size, entry, slots) {
            // Its place was recorded at the first fill.
            return;
        }
        if let (PageSize::KIB_4, Some(pages)) = (size, &mut slots[entry.slot()].pages) {
            pages.insert(page);
        }
        let is_held = |place| entries_to(spaces, slots, place, size, entry.frame).next().is_some();
        places.add(entry.frame, size, Place::new(space, page), is_held);
    }

    /// Whether a CPU may hold entries from other tables under an ASID.
    pub(crate) fn has_others(&self, cpu: usize, asid: u16, root: u32) -> bool {
        let used = self.find(cpu, asid).map(|slot| self.slots[slot].space);
        used.is_some_and(|space| self.numbers.get(&root) != Some(&space))
    }

    /// The number of a slot, if it has entries.
    fn find(&self, cpu: usize, asid: u16) -> Option<usize> {
        self.slots.find(cpu, asid).filter(|&slot| self.slots[slot].live > 0)
    }

    /// A CPU's entries for a page, of either size, were invalidated.
    pub(crate) fn forget_page(&mut self, cpu: usize, asid: u16, page: u64) {
        if let Some(slot) = self.find(cpu, asid) {
            let space = &mut self.spaces[self.slots[slot].space];
            space.forget(page, &mut self.slots, |of| of.cpu == cpu && of.asid == asid);
        }
    }

    /// Entries for pages under an ASID, of either size, were invalidated on all CPUs. Only `cpus` may have held any.
    pub(crate) fn forget_pages(
        &mut self,
        cpus: impl Iterator<Item = usize>,
        asid: u16,
        pages: impl Iterator<Item = u64>,
    ) {
        let slots = cpus.filter_map(|cpu| self.find(cpu, asid));
        let mut spaces: Vec<usize> = slots.map(|slot| self.slots[slot].space).collect();
        spaces.sort_unstable();
        spaces.dedup();
        for page in pages {
            for &space in &spaces {
                self.spaces[space].forget(page, &mut self.slots, |of| of.asid == asid);
            }
        }
    }

    /// All entries of a CPU under an ASID were invalidated.
    pub(crate) fn forget_asid(&mut self, cpu: usize, asid: u16, now: u64) {
        if let Some(slot) = self.find(cpu, asid) {
            let count = self.slots[slot].flush(now);
            self.spaces[self.slots[slot].space].flushed(count, &self.slots);
        }
    }

    /// All entries of a CPU were invalidated.
    pub(crate) fn forget_all(&mut self, cpu: usize, now: u64) {
        self.slots.asids_of(cpu).for_each(|asid| self.forget_asid(cpu, asid, now));
    }

    /// A frame is freed. Small entries from before count as those of another frame.
    pub(crate) fn freed(&mut self, frame: u32, now: u64) {
        self.places.freed(frame, now);
    }

    /// The moment at which a frame was last freed.
    pub(crate) fn freed_at(&self, frame: u32) -> u64 {
        self.places.freed_at(frame)
    }

    /// Calls `visit` for each entry to a frame that a CPU may hold, with the page for which it leads there. Small entries
    /// from before the frame was last freed are left out.
    pub(crate) fn leading_to(&mut self, frame: u32, mut visit: impl FnMut(u64, Holding)) {
        let Self { slots, spaces, places, .. } = self;
        let freed = places.freed_at(frame);
        for place in places.small(frame) {
            let to_it = entries_to(spaces, slots, place, PageSize::KIB_4, frame);
            to_it.filter(|to| to.held.filled > freed).for_each(|to| visit(to.page, to));
        }
        let (size, offset) = (PageSize::MIB_2, frame & (HUGE_PAGES as u32 - 1));
        let first = frame - offset;
        let is_held = |place| entries_to(spaces, slots, place, size, first).next().is_some();
        for &place in places.huge(first, is_held) {
            let to_it = entries_to(spaces, slots, place, size, first);
            to_it.for_each(|to| visit(to.page + u64::from(offset), to));
        }
    }

    /// The small entries of a page that CPUs may hold, a CPU's newest first.
    pub(crate) fn small(&self, root: u32, page: u64) -> impl Iterator<Item = Holding> + '_ {
        let entries = self.space(root).map_or(&[][..], |space| space.entries(page, PageSize::KIB_4));
        self.held(entries, PageSize::KIB_4, page)
    }

    /// The same of a range of pages, by page.
    pub(crate) fn small_within(&self, root: u32, pages: Range<u64>) -> impl Iterator<Item = Holding> + '_ {
        let lists = self.space(root).into_iter().flat_map(move |space| space.small_within(pages.clone()));
        lists.flat_map(|(page, entries)| self.held(entries, PageSize::KIB_4, page))
    }

    /// The huge entries that CPUs may hold for any of a range of pages, by page.
    pub(crate) fn huge_within(&self, root: u32, pages: Range<u64>) -> impl Iterator<Item = Holding> + '_ {
        let lists = self.space(root).into_iter().flat_map(move |space| space.huge_within(pages.clone()));
        lists.flat_map(|(page, entries)| self.held(entries, PageSize::MIB_2, page))
    }

    fn space(&self, root: u32) -> Option<&Space> {
        self.numbers.get(&root).map(|&number| &self.spaces[number])
    }

    fn held<'a>(
        &'a self,
        entries: &'a [Entry],
        size: PageSize,
        page: u64,
    ) -> impl Iterator<Item = Holding> + 'a {
        let held = entries.iter().rev().filter(|entry| self.slots.hold(**entry));
        held.map(move |entry| self.slots.holding(*entry, size, page))
    }

    /// The pages for which a CPU may hold entries under an ASID, and the frames to which these lead: the first `most`.
    /// Of a huge entry, the first page in the range counts.
    pub(crate) fn frames_of(
        &mut self,
        cpu: usize,
        asid: u16,
        pages: Range<u64>,
        most: usize,
    ) -> Vec<(u64, u32)> {
        let Some(slot) = self.find(cpu, asid) else { return Vec::new() };
        let space = &self.spaces[self.slots[slot].space];
        let mut set = self.slots[slot].pages.take().unwrap_or_else(|| space.pages_of(slot));
        let (mut found, mut older, mut without) = (Vec::new(), Vec::new(), Vec::new());
        for page in set.within(pages.clone()) {
            let mut frames = frames_in(&self.slots, slot, space.entries(page, PageSize::KIB_4));
            match frames.next() {
                None => without.push(page),
                Some(newest) => {
                    found.push((page, newest));
                    older.extend(frames.map(|frame| (page, frame)));
                }
            }
            if found.len() == most {
                break;
            }
        }
        for page in without {
            set.remove(page);
        }
        found.extend(older);
        found.truncate(most);
        let huge = space.huge_within(pages.clone()).flat_map(|(first, entries)| {
            let page = first.max(pages.start);
            frames_in(&self.slots, slot, entries).map(move |frame| (page, frame + (page - first) as u32))
        });
        found.extend(huge.take(most));
        found.sort_unstable();
        found.truncate(most);
        self.slots[slot].pages = Some(set);
        found
    }

    /// Forbids the use of an entry that a CPU may hold, for the first rule that it would break: `page` is one for which
    /// it leads to `frame`.
    pub(crate) fn forbid(&mut self, holding: &Holding, page: u64, frame: u32, rule: Rule) {
        if let Some(slot) = self.find(holding.cpu, holding.asid) {
            self.slots[slot].forbid(holding.size, page, frame, rule);
        }
    }

    /// Takes the forbidden entries of a CPU under an ASID: a page of each, the frame, and the rule.
    pub(crate) fn take_forbidden(&mut self, cpu: usize, asid: u16) -> impl Iterator<Item = (u64, u32, Rule)> {
        let slot = self.find(cpu, asid);
        slot.map(|slot| self.slots[slot].take_forbidden()).into_iter().flatten()
    }
}

/// The frames of a slot's entries among those of a page that its CPU may hold, the newest first.
fn frames_in<'a>(slots: &'a Slots, slot: usize, entries: &'a [Entry]) -> impl Iterator<Item = u32> + 'a {
    let its = entries.iter().rev().filter(move |entry| entry.slot() == slot && slots.hold(**entry));
    its.map(|entry| entry.frame)
}

/// The entries of that size to `frame` that CPUs may hold at a place.
fn entries_to<'a>(
    spaces: &'a [Space],
    slots: &'a Slots,
    place: Place,
    size: PageSize,
    frame: u32,
) -> impl Iterator<Item = Holding> + 'a {
    let entries = spaces[place.space()].entries(place.page(), size).iter();
    let to_it = entries.filter(move |entry| entry.frame == frame && slots.hold(**entry));
    to_it.map(move |entry| slots.holding(*entry, size, place.page()))
}

#[cfg(test)]
mod tests;
