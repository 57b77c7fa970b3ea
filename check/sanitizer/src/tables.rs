//! The page tables that CPUs walk, and the changes of their entries.

use std::sync::Mutex;

use foldhash::{HashMap, HashMapExt as _};

use crate::arch::{Arch, Walk, PAGE};
use crate::frames::Frames;
use crate::lock;
use crate::ram::Ram;
use crate::recent::Recent;
use crate::stack::Spot;

/// The entries of a table.
const ENTRIES: usize = 512;

/// The changes that are remembered, at least.
const REMEMBERED: usize = 1 << 19;

/// The unlinked tables that are remembered, at least.
const UNLINKED: usize = 1 << 16;

/// A change of an entry that was present, in one store or in two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// The entry was empty between, and has got another frame.
    pub(crate) anew: bool,
    pub(crate) at: Spot,
    /// The thread, if the CPU ran one.
    pub(crate) thread: Option<u64>,
    /// The CPU's accesses until then.
    pub(crate) accesses: u64,
    /// The other thread that has put another frame there since, and when.
    pub(crate) put: Option<(u64, u64)>,
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
    all: Mutex<HashMap<u64, Table>>,
    /// By the addresses of their entries.
    changes: Mutex<Recent<Change>>,
    /// The changes by which tables were unlinked.
    unlinked: Mutex<Recent<Change>>,
}

/// What a store has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// The entry may lead to a table.
    pub(crate) is_upper: bool,
    /// The entry, which may have been empty meanwhile, led to another frame before.
    pub(crate) replaces: bool,
}

impl Tables {
    pub(crate) fn new() -> Self {
        Self {
            all: Mutex::new(HashMap::new()),
            changes: Mutex::new(Recent::new(REMEMBERED)),
            unlinked: Mutex::new(Recent::new(UNLINKED)),
        }
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
            lock(&self.all).insert(frame, Table { entries, is_upper: level + 1 < walk.levels });
        }
        is_new
    }

    /// Looks at what a store has changed in a table. `None`: nothing that matters.
    pub(crate) fn stored<A: Arch>(
        &self,
        physical: u64,
        frames: &Frames,
        ram: &Ram,
        change: Change,
    ) -> Option<Stored> {
        let frame = physical >> PAGE;
        let mut tables = lock(&self.all);
        let table = tables.get_mut(&frame)?;
        let after = ram.load(physical)?;
        let at = (physical >> 3) as usize % ENTRIES;
        // The processor may have marked it since.
        let (before, is_upper) = (A::marked(table.entries[at]), table.is_upper);
        let is_same = A::meaning(before) == A::meaning(after);
        let is_marked = is_same && A::meaning(after) == 0 && after != 0 && before != after;
        if is_same && !is_marked {
            table.entries[at] = after;
            return None;
        }
        // The change is there before the table's copy says that it was looked at.
        let mut changes = lock(&self.changes);
        let is_other = |before: u64| A::frame(before).is_some_and(|frame| A::frame(after) != Some(frame));
        let mut replaces = is_other(before);
        if A::meaning(before) != 0 {
            changes.insert(physical, Change { before, after, ..change });
        } else if let Some(cleared) = changes.get_mut(physical) {
            // Cleared and set anew: one change, which began with the first store.
            cleared.after = after;
            replaces = is_other(cleared.before);
            cleared.anew |= replaces;
            if replaces && cleared.thread != change.thread {
                cleared.put = change.thread.map(|thread| (thread, change.at.time));
            }
            if is_marked && cleared.thread != change.thread {
                // Another thread has put something else where nothing was, and owes the flush too.
                *cleared = Change { before: cleared.before, after, ..change };
            }
        }
        drop(changes);
        table.entries[at] = after;
        drop(tables);
        frames.changed(frame);
        Some(Stored { before, after, is_upper, replaces })
    }

    /// An entry no longer leads to a table.
    pub(crate) fn unlinks(&self, table: u64, change: Change) {
        lock(&self.unlinked).insert(table, change);
    }

    /// An entry leads to a table. It is the same table as before, unless it was given to somebody else.
    pub(crate) fn links(&self, table: u64, given: Option<u64>) {
        let mut unlinked = lock(&self.unlinked);
        let is_same = |change: &Change| given.is_none_or(|given| given < change.at.time);
        if unlinked.get(table).is_some_and(is_same) {
            unlinked.remove(table);
        }
    }

    /// The change by which a table was last unlinked.
    pub(crate) fn unlinked(&self, table: u64) -> Option<Change> {
        lock(&self.unlinked).get(table).copied()
    }

    /// Nothing is known of tables any longer.
    pub(crate) fn forget_all(&self) {
        lock(&self.all).clear();
        lock(&self.changes).clear();
        lock(&self.unlinked).clear();
    }

    /// A frame is no table any longer.
    pub(crate) fn forget(&self, frame: u64, frames: &Frames) {
        let mut tables = lock(&self.all);
        if tables.remove(&frame).is_some() {
            frames.is_no_table(frame);
        }
    }

    /// The last change of an entry that was present.
    pub(crate) fn change(&self, entry: u64) -> Option<Change> {
        lock(&self.changes).get(entry).copied()
    }

    /// The change that gave an entry the value that it has now. `None`: it was not seen, or a store that came after it has
    /// yet to be looked at.
    pub(crate) fn last_change<A: Arch>(&self, entry: u64, ram: &Ram) -> Option<Change> {
        let now = A::meaning(ram.load(entry)?);
        let seen = lock(&self.all).get(&(entry >> PAGE))?.entries[(entry >> 3) as usize % ENTRIES];
        self.change(entry).filter(|change| A::meaning(seen) == now && A::meaning(change.after) == now)
    }

    /// The number of tables.
    pub(crate) fn len(&self) -> usize {
        lock(&self.all).len()
    }
}
