//! The page-table pages that walkers may remember.
//!
//! Walkers cache the entries above the last level apart from translations, under the same tags: the way to each table
//! (Intel SDM volume 3, section 4.10.3). The next walk starts there, so a table may be read that no table leads to any
//! more. As for translations, the record has every table whose way a CPU has read and not dropped since, even if its
//! cache was too small to keep it.
//!
//! A flush of everything under an ASID visits no way: those from before it are gone.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use smallvec::SmallVec;

use crate::oracle::numbered::{Numbered, Spread};

/// The place of a table: its level, from 0 for the lowest, and the number of the range that it translates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Place(u64);

impl Place {
    fn of(page: u64, level: u32) -> Self {
        Self(page >> (9 * (level + 1)) << 2 | u64::from(level))
    }

    /// The first page that the table translates.
    fn page(self) -> u64 {
        self.0 >> 2 << (9 * ((self.0 & 3) + 1))
    }
}

/// The way to a table.
#[derive(Debug, Clone, Copy)]
struct Way {
    table: u32,
    /// The moment at which the walker read it; 0 once it was dropped.
    read: u64,
}

/// The ways that a CPU remembers under one ASID.
#[derive(Debug, Default)]
struct Slot {
    ways: HashMap<Place, SmallVec<[Way; 1]>, BuildHasherDefault<Spread>>,
    /// The moment at which all were dropped. Those that were read by then are gone.
    dropped: u64,
    /// Tables that were freed while the CPU remembered them and could not walk. It must drop them before it walks again.
    freed: Vec<(Place, u32)>,
}

/// A CPU that may remember a table that is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Remembered {
    pub(crate) cpu: usize,
    /// The ASID under which it does.
    pub(crate) asid: u16,
    place: Place,
}

impl Remembered {
    /// The first page that the table translated.
    pub(crate) fn page(self) -> u64 {
        self.place.page()
    }
}

/// The record.
#[derive(Debug)]
pub(crate) struct Ways {
    /// The slots of each CPU, by ASID.
    slots: Box<[Vec<Slot>]>,
    /// The slots that have had the way to each table since it was last freed.
    holders: Numbered<Vec<(u32, u16, Place)>>,
}

impl Ways {
    pub(crate) fn new(cpus: usize) -> Self {
        let slots = std::iter::repeat_with(Vec::new).take(cpus).collect();
        Self { slots, holders: Numbered::default() }
    }

    /// A CPU's walker has read the way to the table of a page at `level`. `now` gives the moment.
    pub(crate) fn read(
        &mut self,
        cpu: usize,
        asid: u16,
        (page, level): (u64, u32),
        table: u32,
        now: impl FnOnce() -> u64,
    ) {
        let (slots, index) = (&mut self.slots[cpu], usize::from(asid));
        if slots.len() <= index {
            slots.resize_with(index + 1, Slot::default);
        }
        let (slot, place) = (&mut slots[index], Place::of(page, level));
        let ways = slot.ways.entry(place).or_default();
        if let Some(way) = ways.iter_mut().find(|way| way.table == table) {
            if way.read <= slot.dropped {
                way.read = now();
            }
            return;
        }
        ways.push(Way { table, read: now() });
        self.holders.entry(table).or_default().push((cpu as u32, asid, place));
    }

    fn slot(&mut self, cpu: usize, asid: u16) -> Option<&mut Slot> {
        self.slots[cpu].get_mut(usize::from(asid))
    }

    /// A CPU dropped the ways to the tables of a page under an ASID.
    pub(crate) fn drop_page(&mut self, cpu: usize, asid: u16, page: u64) {
        let Some(slot) = self.slot(cpu, asid) else { return };
        for place in (0..3).map(|level| Place::of(page, level)) {
            slot.ways.get_mut(&place).into_iter().flatten().for_each(|way| way.read = 0);
            slot.freed.retain(|&(of, _)| of != place);
        }
    }

    /// A CPU dropped all ways under an ASID.
    pub(crate) fn drop_all(&mut self, cpu: usize, asid: u16, now: u64) {
        if let Some(slot) = self.slot(cpu, asid) {
            slot.dropped = now;
            slot.freed.clear();
        }
    }

    /// A CPU dropped all ways.
    pub(crate) fn drop_everything(&mut self, cpu: usize, now: u64) {
        (0..=u16::MAX).take(self.slots[cpu].len()).for_each(|asid| self.drop_all(cpu, asid, now));
    }

    /// A table is freed. Returns the CPUs that may remember it, and forgets that they do.
    pub(crate) fn free(&mut self, table: u32) -> Vec<Remembered> {
        let mut found = Vec::new();
        for (cpu, asid, place) in self.holders.remove(&table).into_iter().flatten() {
            let cpu = cpu as usize;
            let Some(slot) = self.slot(cpu, asid) else { continue };
            let dropped = slot.dropped;
            let Some(ways) = slot.ways.get_mut(&place) else { continue };
            ways.retain(|way| {
                if way.table == table && way.read > dropped {
                    found.push(Remembered { cpu, asid, place });
                }
                way.table != table
            });
            if ways.is_empty() {
                slot.ways.remove(&place);
            }
        }
        found
    }

    /// A CPU that cannot walk now must drop the way to a freed table before it walks under the ASID again.
    pub(crate) fn forbid(&mut self, of: Remembered, table: u32) {
        if let Some(slot) = self.slot(of.cpu, of.asid) {
            slot.freed.push((of.place, table));
        }
    }

    /// Takes the freed tables that a CPU must not remember when it walks under an ASID: the first page of each, and the
    /// table.
    pub(crate) fn take_freed(&mut self, cpu: usize, asid: u16) -> Vec<(u64, u32)> {
        let freed = self.slot(cpu, asid).map(|slot| std::mem::take(&mut slot.freed));
        freed.into_iter().flatten().map(|(place, table)| (place.page(), table)).collect()
    }
}
