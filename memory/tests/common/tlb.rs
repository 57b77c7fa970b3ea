//! The TLB of a CPU, and accesses as the processor makes them: through an entry that it holds, or else by a walk.
//!
//! Once an entry is filled, accesses use it without a walk until the platform is told to invalidate it. So a missing
//! flush leaves a stale entry, and an access that uses it is the violation.

use std::sync::atomic::{AtomicU64, Ordering};

use ceasefire::{PageSize, Root};
use ceasefire_memory::{FrameNumber, Machine, Table, PAGE_BYTES, PAGE_SHIFT, USER_END};
use ceasefire_testing::Tlb;

use super::threads::{Threads, WORDS};

/// A TLB entry, and the time when it was filled.
#[derive(Clone, Copy)]
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
        assert_eq!(loaded, Root(u64::from(root.get()) << PAGE_SHIFT), "the loaded space");
        let hit = tlb.find(Some(asid), address).copied();
        // A store through a clean entry walks again; a fault drops the entry that caused it.
        let usable = |entry: &Cached| store.is_none() || (entry.writable && entry.dirty);
        let entry = if let Some(entry) = hit.filter(usable) {
            entry
        } else {
            tlb.fault(Some(asid), address);
            let entry = self.walk(root, address, store.is_some())?;
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

    /// Walks from the lowest table if the walker has cached it.
    fn walk_kernel(
        &self,
        tlb: &mut Tlb<Cached, FrameNumber>,
        root: FrameNumber,
        address: u64,
    ) -> Option<Cached> {
        let mut table = tlb.walked(None, address).copied();
        if table.is_none() {
            let mut frame = root;
            for level in (1..=3).rev() {
                let entry = self.table(frame).get(Table::index(address, level));
                if !entry.present() {
                    return None;
                }
                frame = entry.frame();
            }
            tlb.remember(None, address, frame, self.sequence.load(Ordering::SeqCst));
            table = Some(frame);
        }
        let entry = self.table(table?).get(Table::index(address, 0));
        entry.present().then(|| Cached {
            frame: entry.frame(),
            size: PageSize::KIB_4,
            writable: entry.writable(),
            dirty: entry.dirty(),
            filled: self.sequence.load(Ordering::SeqCst),
        })
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

    pub(super) fn walk(&self, root: FrameNumber, address: u64, store: bool) -> Option<Cached> {
        let mut frame = root;
        let (mut level, mut size) = (3, PageSize::KIB_4);
        while level > 0 {
            let entry = self.table(frame).get(Table::index(address, level));
            if !entry.present() {
                return None;
            }
            if entry.is_huge() {
                size = PageSize::MIB_2;
                break;
            }
            frame = entry.frame();
            level -= 1;
        }
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
        Some(Cached {
            frame: entry.frame(),
            size,
            writable: entry.writable(),
            dirty: entry.dirty(),
            filled: self.sequence.load(Ordering::SeqCst),
        })
    }
}
