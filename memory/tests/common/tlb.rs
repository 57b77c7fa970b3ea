//! The TLB of a CPU, and accesses as the processor makes them: through an entry that it holds, or else by a walk.
//!
//! Once an entry is filled, accesses use it without a walk until the platform is told to invalidate it. So a missing
//! flush leaves a stale entry, and an access that uses it is the violation. The walker likewise begins at the table of
//! the lowest level that it remembers.

use std::sync::atomic::{AtomicU64, Ordering};

use ceasefire::{Asid, PageSize, Root};
use ceasefire_memory::{
    Entry, FrameNumber, Machine, Protection, Table, HUGE_BYTES, PAGE_BYTES, PAGE_SHIFT, USER_END,
};
use ceasefire_testing::Tlb;

use super::rig::Space;
use super::threads::{Threads, WORDS};

/// A table that the walker remembers, and the time when it came there.
#[derive(Clone, Copy)]
pub(super) struct Walked {
    table: FrameNumber,
    since: u64,
}

/// A TLB entry, and the time when it was filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cached {
    /// For a huge page, the first of its frames.
    pub(super) frame: FrameNumber,
    pub(super) size: PageSize,
    pub(super) writable: bool,
    pub(super) dirty: bool,
    pub(super) filled: u64,
}

impl Threads {
    /// Whether the CPU holds an entry for `address` under the loaded ASID.
    pub(crate) fn caches(&self, cpu: usize, address: u64) -> bool {
        let tlb = self.cores[cpu].tlb.lock().unwrap();
        tlb.loaded().is_some_and(|(_, asid)| tlb.find(Some(asid), address).is_some())
    }

    /// Whether the CPU holds an entry for `address` of the kernel's half.
    pub(crate) fn caches_kernel(&self, cpu: usize, address: u64) -> bool {
        self.cores[cpu].tlb.lock().unwrap().find(None, address).is_some()
    }

    /// The frame to which an entry of the CPU leads.
    pub(crate) fn leads_to(&self, cpu: usize, address: u64) -> FrameNumber {
        let tlb = self.cores[cpu].tlb.lock().unwrap();
        let (_, asid) = tlb.loaded().expect("a space is loaded");
        tlb.find(Some(asid), address).expect("it holds one").frame
    }

    /// One access as the processor makes it: the word's value (for a store, the old one), or `None` if it faults.
    pub(super) fn touch(&self, root: FrameNumber, address: u64, store: Option<u64>) -> Option<u64> {
        let mut tlb = self.core().tlb.lock().unwrap();
        let (loaded, asid) = tlb.loaded().expect("a program runs with its space loaded");
        assert_eq!(loaded, root_of(root), "the loaded space");
        let hit = tlb.find(Some(asid), address).copied();
        // A store through a clean entry walks again; a fault drops the entry that caused it.
        let usable = |entry: &Cached| store.is_none() || (entry.writable && entry.dirty);
        let entry = if let Some(entry) = hit.filter(usable) {
            entry
        } else {
            tlb.fault(Some(asid), address);
            let entry = self.walk(&mut tlb, (root, Some(asid)), address, store.is_some())?;
            let mixed = tlb.mixes(Some(asid), address, entry.size);
            self.check(!mixed, "R7, translations of both sizes", entry.frame);
            tlb.fill(Some(asid), address, entry.size, entry, entry.filled);
            entry
        };
        Some(self.use_entry(entry, address, store))
    }

    /// An access of the kernel itself to its own half, whose tables are under `root`.
    pub(super) fn touch_kernel(&self, root: FrameNumber, address: u64, store: Option<u64>) -> Option<u64> {
        assert!(address >= USER_END.wrapping_neg());
        let mut tlb = self.core().tlb.lock().unwrap();
        let hit = tlb.find(None, address).copied();
        let entry = if let Some(entry) = hit {
            entry
        } else {
            let entry = self.walk_kernel(&mut tlb, root, address)?;
            tlb.fill(None, address, entry.size, entry, entry.filled);
            entry
        };
        Some(self.use_entry(entry, address, store))
    }

    /// The entry for `address` in the tables of a space; `None` if there is no table for it.
    pub(crate) fn entry(&self, space: &Space, address: u64) -> Option<Entry> {
        self.leaf_entry(space.root(), address).map(|(entry, _)| entry)
    }

    fn leaf_entry(&self, root: FrameNumber, address: u64) -> Option<(Entry, PageSize)> {
        let (table, size) = self.leaf(root, address)?;
        let level = u32::from(size == PageSize::MIB_2);
        Some((self.table(table).get(Table::index(address, level)), size))
    }

    /// The walker's way to the entry for `address`: its table, and the size of the page that it stands for. Begins at
    /// the lowest table if the walker remembers it.
    fn way(
        &self,
        tlb: &mut Tlb<Cached, Walked>,
        (root, tag): (FrameNumber, Option<Asid>),
        address: u64,
    ) -> Option<(FrameNumber, PageSize)> {
        if let Some(&Walked { table, since }) = tlb.walked(tag, address) {
            let freed = self.content(table).freed.load(Ordering::Acquire);
            self.check(freed < since, "R2, a walker remembers a freed table", table);
            return Some((table, PageSize::KIB_4));
        }
        let (table, size) = self.leaf(root, address)?;
        if size == PageSize::KIB_4 {
            let since = self.next();
            tlb.remember(tag, address, Walked { table, since }, since);
        }
        Some((table, size))
    }

    /// The table with the entry for `address`, as the tables are now, and the size of the page that it stands for.
    fn leaf(&self, root: FrameNumber, address: u64) -> Option<(FrameNumber, PageSize)> {
        let mut frame = root;
        for level in (1..=3).rev() {
            let entry = self.table(frame).get(Table::index(address, level));
            if !entry.present() {
                return None;
            }
            if entry.is_huge() {
                return Some((frame, PageSize::MIB_2));
            }
            frame = entry.frame();
        }
        Some((frame, PageSize::KIB_4))
    }

    /// A call is about to promise that no CPU uses a translation of `[start, end)` from before it, beyond what is
    /// `allowed`. So each entry that a CPU with the space loaded holds must be one that the tables have now, and each
    /// way that its walker remembers must lead there. CPUs that run no program flush before they run one.
    pub(super) fn check_promise(&self, root: FrameNumber, (start, end): (u64, u64), allowed: Protection) {
        for core in self.cores.iter().filter(|core| !core.resting.load(Ordering::Acquire)) {
            let tlb = core.tlb.lock().unwrap();
            let Some((_, asid)) = tlb.loaded().filter(|(loaded, _)| *loaded == root_of(root)) else {
                continue;
            };
            let in_range = |address: u64, size: PageSize| address < end && start < address + size.bytes();
            for (address, held) in tlb.entries(Some(asid)).filter(|(at, held)| in_range(*at, held.size)) {
                let stands = self.leaf_entry(root, address).is_some_and(|(entry, size)| {
                    let same = entry.present() && entry.frame() == held.frame && size == held.size;
                    same && (entry.writable() || !held.writable)
                });
                let narrower = allowed == Protection::Read && !held.writable;
                self.check(
                    stands || narrower,
                    "R3, a call returns while a CPU holds an old entry",
                    held.frame,
                );
            }
            // A range without end has too many tables to look at each.
            for address in (start & !(HUGE_BYTES - 1)..end).step_by(HUGE_BYTES as usize).take(64) {
                if let Some(&Walked { table, .. }) = tlb.walked(Some(asid), address) {
                    let leads = self.leaf(root, address) == Some((table, PageSize::KIB_4));
                    self.check(leads, "R3, a call returns while a walker remembers an old table", table);
                }
            }
        }
    }

    /// A walk for the kernel itself.
    fn walk_kernel(&self, tlb: &mut Tlb<Cached, Walked>, root: FrameNumber, address: u64) -> Option<Cached> {
        let (table, size) = self.way(tlb, (root, None), address)?;
        let entry = self.table(table).get(Table::index(address, 0));
        entry.present().then(|| self.filled(entry, size))
    }

    fn filled(&self, entry: Entry, size: PageSize) -> Cached {
        Cached {
            frame: entry.frame(),
            size,
            writable: entry.writable(),
            dirty: entry.dirty(),
            filled: self.sequence.load(Ordering::SeqCst),
        }
    }

    /// The word behind an entry; a store replaces it and returns the old one.
    fn use_entry(&self, entry: Cached, address: u64, store: Option<u64>) -> u64 {
        let offset = match entry.size {
            PageSize::KIB_4 => 0,
            _ => Table::index(address, 0) as u32,
        };
        let frame = FrameNumber::new(entry.frame.get() + offset);
        let content = self.content(frame);
        let since = |moment: &AtomicU64| moment.load(Ordering::Acquire) > entry.filled;
        let left = content.left.load(Ordering::Acquire);
        let current = (content.allocated.load(Ordering::Acquire) || left) && !since(&content.freed);
        self.check(current, "R1, an entry leads to a frame freed since", frame);
        self.check(!since(&content.superseded), "R6, an entry leads to an old version", frame);
        let word = &content.words[(address % PAGE_BYTES / 8) as usize % WORDS];
        match store {
            None => word.load(Ordering::Acquire),
            Some(value) => {
                self.check(!since(&content.written), "R5, a store lands unseen after write-out began", frame);
                word.swap(value, Ordering::AcqRel)
            }
        }
    }

    fn walk(
        &self,
        tlb: &mut Tlb<Cached, Walked>,
        tagged: (FrameNumber, Option<Asid>),
        address: u64,
        store: bool,
    ) -> Option<Cached> {
        let (frame, size) = self.way(tlb, tagged, address)?;
        let level = u32::from(size == PageSize::MIB_2);
        let (table, index) = (self.table(frame), Table::index(address, level));
        let entry = loop {
            let entry = table.get(index);
            if !entry.present()
                || entry.is_huge() != (size == PageSize::MIB_2)
                || (store && !entry.writable())
            {
                return None;
            }
            if let Some(used) = table.mark_used(index, entry, store) {
                break used;
            }
        };
        Some(self.filled(entry, size))
    }
}

/// The frame of a root.
pub(super) fn frame_of(root: Root) -> FrameNumber {
    FrameNumber::new((root.0 >> PAGE_SHIFT) as u32)
}

/// The root in the CPU's register.
fn root_of(frame: FrameNumber) -> Root {
    Root(u64::from(frame.get()) << PAGE_SHIFT)
}
