//! The TLB of a CPU, and accesses as the processor makes them: through an entry that it holds, or else by a walk.
//!
//! Once an entry is filled, accesses use it without a walk until the platform is told to invalidate it. So a missing
//! flush leaves a stale entry, and an access that uses it is the violation.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use ceasefire::{Asid, Extent, PageSize};
use ceasefire_memory::{FrameNumber, Machine, Table, PAGE_BYTES, USER_END};

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

/// The entries tagged with one ASID, by the address divided by the size.
#[derive(Default)]
pub(super) struct Entries {
    pub(super) small: HashMap<u64, Cached>,
    pub(super) huge: HashMap<u64, Cached>,
}

impl Entries {
    pub(super) fn of(&mut self, size: PageSize) -> &mut HashMap<u64, Cached> {
        match size {
            PageSize::KIB_4 => &mut self.small,
            _ => &mut self.huge,
        }
    }

    pub(super) fn find(&self, address: u64) -> Option<&Cached> {
        let small = self.small.get(&(address >> PageSize::KIB_4.shift()));
        small.or_else(|| self.huge.get(&(address >> PageSize::MIB_2.shift())))
    }

    /// Invalidates the entries that translate an address, of any size, as the processor does.
    pub(super) fn remove(&mut self, address: u64) {
        for size in [PageSize::KIB_4, PageSize::MIB_2] {
            self.of(size).remove(&(address >> size.shift()));
        }
    }

    pub(super) fn clear(&mut self) {
        self.small.clear();
        self.huge.clear();
    }

    /// Whether a part of the 2 MiB at `address` is translated in a size other than `size`.
    pub(super) fn mixed(&self, address: u64, size: PageSize) -> bool {
        let base = address >> PageSize::MIB_2.shift();
        match size {
            PageSize::KIB_4 => self.huge.contains_key(&base),
            _ => self.small.keys().any(|page| page >> 9 == base),
        }
    }
}

pub(super) struct Tlb {
    pub(super) loaded: Option<(FrameNumber, usize)>,
    /// For each ASID, its entries.
    pub(super) entries: Box<[Entries]>,
    /// Entries of the kernel's half, which are used under every ASID and whatever is loaded.
    pub(super) kernel: Entries,
    /// The lowest tables of the kernel's half that the walker has cached, by the address divided by 2 MiB.
    pub(super) kernel_walks: HashMap<u64, FrameNumber>,
}

impl Tlb {
    /// An empty TLB of a processor with `asids` ASIDs.
    pub(super) fn new(asids: usize) -> Self {
        Self {
            loaded: None,
            entries: (0..asids).map(|_| Entries::default()).collect(),
            kernel: Entries::default(),
            kernel_walks: HashMap::new(),
        }
    }

    /// Invalidates a part of the kernel's half, with what the walker cached on the way to it.
    pub(super) fn forget_kernel(&mut self, extent: Extent) {
        match extent {
            Extent::All => {
                self.kernel.clear();
                self.kernel_walks.clear();
            }
            Extent::Pages { start, count, size } => {
                for address in (0..u64::from(count)).map(|number| start + (number << size.shift())) {
                    self.kernel.remove(address);
                    self.kernel_walks.remove(&(address >> PageSize::MIB_2.shift()));
                }
            }
        }
    }

    /// Performs a broadcast on this TLB.
    pub(super) fn forget(&mut self, broadcast: Broadcasting) {
        match broadcast {
            Broadcasting::Kernel(extent) => self.forget_kernel(extent),
            Broadcasting::Everything => self.entries.iter_mut().for_each(Entries::clear),
            Broadcasting::Part(asid, Extent::All) => self.entries[usize::from(asid.get())].clear(),
            Broadcasting::Part(asid, Extent::Pages { start, count, size }) => {
                for number in 0..u64::from(count) {
                    self.entries[usize::from(asid.get())].remove(start + (number << size.shift()));
                }
            }
        }
    }
}

/// A broadcast under way. It takes effect when its CPU waits for it, as late as is allowed.
#[derive(Debug, Clone, Copy)]
pub(super) enum Broadcasting {
    Part(Asid, Extent),
    Kernel(Extent),
    Everything,
}

impl Threads {
    /// Whether the CPU holds an entry for `address` under the loaded ASID.
    pub(crate) fn caches(&self, cpu: usize, address: u64) -> bool {
        let tlb = self.cores[cpu].tlb.lock().unwrap();
        tlb.loaded.is_some_and(|(_, asid)| tlb.entries[asid].find(address).is_some())
    }

    /// Whether the CPU holds an entry for `address` of the kernel's half.
    pub(crate) fn caches_kernel(&self, cpu: usize, address: u64) -> bool {
        self.cores[cpu].tlb.lock().unwrap().kernel.find(address).is_some()
    }

    /// The frame to which an entry of the CPU leads.
    pub(crate) fn leads_to(&self, cpu: usize, address: u64) -> FrameNumber {
        let tlb = self.cores[cpu].tlb.lock().unwrap();
        let (_, asid) = tlb.loaded.expect("a space is loaded");
        tlb.entries[asid].find(address).expect("it holds one").frame
    }

    /// One access as the processor makes it: the word's value (for a store, the old one), or `None` if it faults.
    pub(super) fn touch(&self, root: FrameNumber, address: u64, store: Option<u64>) -> Option<u64> {
        let mut tlb = self.core().tlb.lock().unwrap();
        let (loaded, asid) = tlb.loaded.expect("a program runs with its space loaded");
        assert_eq!(loaded, root, "the loaded space");
        let hit = tlb.entries[asid].find(address).copied();
        // A store through a clean entry walks again; a fault drops the entry that caused it.
        let usable = |entry: &Cached| store.is_none() || (entry.writable && entry.dirty);
        let entry = if let Some(entry) = hit.filter(usable) {
            entry
        } else {
            tlb.entries[asid].remove(address);
            let entry = self.walk(root, address, store.is_some())?;
            let mixed = tlb.entries[asid].mixed(address, entry.size);
            self.check(!mixed, "R7, translations of both sizes", entry.frame);
            tlb.entries[asid].of(entry.size).insert(address >> entry.size.shift(), entry);
            entry
        };
        Some(self.use_entry(entry, address, store))
    }

    /// An access of the kernel itself to its own half, whose tables are under `root`.
    pub(super) fn touch_kernel(&self, root: FrameNumber, address: u64, store: Option<u64>) -> Option<u64> {
        assert!(address >= USER_END.wrapping_neg());
        let mut tlb = self.core().tlb.lock().unwrap();
        let hit = tlb.kernel.find(address).copied();
        let entry = if let Some(entry) = hit {
            entry
        } else {
            let entry = self.walk_kernel(&mut tlb, root, address)?;
            tlb.kernel.of(entry.size).insert(address >> entry.size.shift(), entry);
            entry
        };
        Some(self.use_entry(entry, address, store))
    }

    /// Walks from the lowest table if the walker has cached it.
    fn walk_kernel(&self, tlb: &mut Tlb, root: FrameNumber, address: u64) -> Option<Cached> {
        let base = address >> PageSize::MIB_2.shift();
        let mut table = tlb.kernel_walks.get(&base).copied();
        if table.is_none() {
            let mut frame = root;
            for level in (1..=3).rev() {
                let entry = self.table(frame).get(Table::index(address, level));
                if !entry.present() {
                    return None;
                }
                frame = entry.frame();
            }
            tlb.kernel_walks.insert(base, frame);
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
