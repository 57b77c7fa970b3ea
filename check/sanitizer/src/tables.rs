//! The page tables that CPUs walk, and the changes of their entries.

use std::sync::Mutex;

use foldhash::{HashMap, HashMapExt as _};

use crate::arch::{Arch, Walk, PAGE};
use crate::frames::Frames;
use crate::lock;
use crate::ram::Ram;
use crate::recent::Recent;

/// The entries of a table.
const ENTRIES: usize = 512;

/// The changes that are remembered, at least.
const REMEMBERED: usize = 1 << 19;

/// A change of an entry that was present, in one store or in two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) before: u64,
    pub(crate) after: u64,
    pub(crate) cpu: usize,
    /// The thread, if the CPU ran one.
    pub(crate) thread: Option<u64>,
    /// The time in nanoseconds, and the instruction.
    pub(crate) time: u64,
    pub(crate) by: u64,
}

/// A table as it was when it was last looked at.
#[derive(Debug)]
struct Table {
    entries: Box<[u64; ENTRIES]>,
    /// Its entries may lead to tables.
    is_upper: bool,
}

/// The tables and the last change of each entry.
#[derive(Debug)]
pub(crate) struct Tables {
    tables: Mutex<HashMap<u64, Table>>,
    /// By the addresses of their entries.
    changes: Mutex<Recent<Change>>,
}

impl Tables {
    pub(crate) fn new() -> Self {
        Self { tables: Mutex::new(HashMap::new()), changes: Mutex::new(Recent::new(REMEMBERED)) }
    }

    /// Notes the tables of a walk, from which on their changes are seen. True if one was not known.
    pub(crate) fn note(&self, walk: &Walk, frames: &Frames, ram: &Ram) -> bool {
        let mut is_new = false;
        for (level, &entry) in walk.entries[..walk.len].iter().enumerate() {
            let frame = entry >> PAGE;
            if !frames.becomes_table(frame) {
                continue;
            }
            is_new = true;
            let entry = |index: usize| ram.load((frame << PAGE) + 8 * index as u64).unwrap_or(0);
            let entries = Box::new(std::array::from_fn(entry));
            lock(&self.tables).insert(frame, Table { entries, is_upper: level + 1 < walk.levels });
        }
        is_new
    }

    /// Looks at what a store has changed in a table, and passes a changed entry on: its old and its new bits, and whether it
    /// is one that may lead to tables. True if it led to another table.
    pub(crate) fn stored<A: Arch>(
        &self,
        physical: u64,
        frames: &Frames,
        ram: &Ram,
        change: Change,
        tell: &mut dyn FnMut(u64, u64, bool),
    ) -> bool {
        let frame = physical >> PAGE;
        let mut tables = lock(&self.tables);
        let Some(table) = tables.get_mut(&frame) else { return false };
        let Some(after) = ram.load(physical) else { return false };
        let at = (physical >> 3) as usize % ENTRIES;
        let (before, is_upper) = (table.entries[at], table.is_upper);
        if A::meaning(before) == A::meaning(after) {
            table.entries[at] = after;
            return false;
        }
        // The change is there before the table's copy says that it was looked at.
        let mut changes = lock(&self.changes);
        if A::meaning(before) != 0 {
            changes.insert(physical, Change { before, after, ..change });
        } else if let Some(cleared) = changes.get_mut(physical) {
            // Cleared and set anew: one change, which began with the first store.
            cleared.after = after;
        }
        drop(changes);
        table.entries[at] = after;
        drop(tables);
        tell(before, after, is_upper);
        frames.changed(frame);
        is_upper && A::table(before).is_some()
    }

    /// The last change of an entry that was present.
    pub(crate) fn change(&self, entry: u64) -> Option<Change> {
        lock(&self.changes).get(entry).copied()
    }

    /// The change that gave an entry the value that it has now. `None`: it was not seen, or a store that came after it has
    /// yet to be looked at.
    pub(crate) fn last_change<A: Arch>(&self, entry: u64, ram: &Ram) -> Option<Change> {
        let now = A::meaning(ram.load(entry)?);
        let seen = lock(&self.tables).get(&(entry >> PAGE))?.entries[(entry >> 3) as usize % ENTRIES];
        self.change(entry).filter(|change| A::meaning(seen) == now && A::meaning(change.after) == now)
    }

    /// The number of tables.
    pub(crate) fn len(&self) -> usize {
        lock(&self.tables).len()
    }
}
