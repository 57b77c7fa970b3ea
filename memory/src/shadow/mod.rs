//! The shadow record: which CPUs may still hold translations that are gone. It is for debug builds.
//!
//! Stamps, ledgers and generations show that no CPU can reach a frame any more. The shadow does not rely on them. The
//! memory manager tells it of every translation that is cleared. The platform tells it every *actual* operation of a
//! CPU on its TLB: the root that it loads, under which ASID, and its invalidations. From these alone it knows which CPU
//! may hold which translation. It checks at four moments:
//!
//! - a frame is handed out
//! - the kernel itself touches a free frame
//! - a translation is installed where a CPU may hold an older one to another frame
//! - the page of a file or of a swap slot is found while a CPU may still read an older copy
//!
//! (Hansen asked for the last two before anything like lazy unmap flush could go in. The first two are Hildenbrand's
//! use after free.)
//!
//! A flush does not visit the frames. Each cleared translation has a time, and each ASID of each CPU has the time of
//! its last complete flush. A CPU may hold a cleared translation if it walked the space's tables before that time and
//! has not flushed since. A CPU that runs another space at the moment of a check is excused, because it flushes before
//! it comes back. The shadow checks that flush when the CPU loads the root again. No flush is needed if the whole ASID
//! was flushed after the CPU left it: the CPU then holds nothing, even if many translations were cleared before it
//! comes back. This happens to a global ASID that its space gave back and got again.
//!
//! The record needs no simulated TLB. A kernel turns it on with [`Machine::shadow`](crate::Machine::shadow). It costs a
//! byte for each frame, 72 bytes for each ASID of each CPU, about 110 for each cleared translation that a CPU may hold,
//! and about 30 for each frame that has held an older copy of a page.

mod chains;
mod cleared;
mod copies;
#[cfg(test)]
mod tests;
mod told;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

use ceasefire::{Asid, CpuId, Extent, PageSize, Root};

use crate::address::{FrameNumber, HUGE_ORDER};
use crate::config::Config;
use cleared::{Cleared, Gone};
use copies::Copies;

/// The operation that came too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// A frame was handed out that a CPU can still reach (rule R1).
    Reused,
    /// The kernel itself reads or writes a frame that is free.
    Accessed,
    /// A translation was made where a CPU can still use an older one to this frame (rule R7).
    Retranslated,
    /// The page of a file or of a swap slot was found while a CPU can still read an older copy of it, in this frame
    /// (rule R6).
    Replaced,
    /// A CPU that was excused came back to a space without the flush: it can use this frame.
    Unflushed,
}

/// An operation that was wrong because a CPU may hold a cleared translation, or because its frame is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misuse {
    /// The operation.
    pub wrong: Wrong,
    /// The frame that can still be reached, or that was touched.
    pub frame: FrameNumber,
    /// The CPU that can reach it. `None` for a free frame that no CPU can reach.
    pub cpu: Option<CpuId>,
    /// The address through which it can.
    pub address: Option<u64>,
    /// The time at which that translation was cleared, on the clock of [`Platform::now`](ceasefire::Platform::now).
    pub since: Option<u64>,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.wrong {
            Wrong::Reused => "was handed out",
            Wrong::Accessed => "is free and was touched",
            Wrong::Retranslated => "was replaced at its address",
            Wrong::Replaced => "holds an older copy of a page that was found",
            Wrong::Unflushed => "came back into reach",
        };
        write!(f, "{:?} {what}", self.frame)?;
        let (Some(cpu), Some(address), Some(since)) = (self.cpu, self.address, self.since) else {
            return Ok(());
        };
        write!(f, ": CPU {} has not flushed {address:#x} since {since} ns", cpu.index())
    }
}

/// The place of a translation: the tables that start at `root`, and the page number, in units of the page's size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    root: u64,
    huge: bool,
    page: u64,
}

impl Place {
    fn new(root: Root, address: u64, size: PageSize) -> Self {
        Self { root: root.0, huge: size == PageSize::MIB_2, page: address >> size.shift() }
    }

    fn address(self) -> u64 {
        self.page << if self.huge { PageSize::MIB_2 } else { PageSize::KIB_4 }.shift()
    }
}

/// An ASID of a CPU.
#[derive(Debug, Clone, Copy)]
struct Slot {
    root: u64,
    /// The time of its last complete invalidation, and the time when the CPU last ceased to have it loaded.
    flushed: u64,
    left: u64,
    /// The misuse that was excused: the ASID must be flushed before the CPU uses it again.
    stale: Option<Misuse>,
}

/// The lowest number of cleared translations at which the record removes those that no CPU may hold.
const PURGE: usize = 8;

/// No root.
const NOWHERE: u64 = u64::MAX;

#[derive(Debug, Default)]
struct Cpu {
    /// The ASID under which the CPU has a root loaded.
    asid: Option<Asid>,
    /// The CPU runs no program.
    rests: bool,
    /// The broadcasts that the CPU has started and not waited for, with their times; `None` stands for a broadcast of
    /// everything.
    started: Vec<(Option<(Asid, Extent)>, u64)>,
}

/// The record. [`Machine::shadow`](crate::Machine::shadow) says how a machine keeps it. The platform calls the
/// functions here.
#[derive(Debug)]
pub struct Shadow {
    first: u32,
    /// Whether each frame is in use.
    used: Box<[bool]>,
    cpus: Box<[Cpu]>,
    /// `asid * cpus + cpu`, up to the last ASID that any CPU has loaded. Kernels give out low ASIDs first.
    slots: Vec<Slot>,
    /// The slots of each root.
    slots_of: BTreeMap<u64, Vec<usize>>,
    gone: Cleared,
    /// The number of cleared translations at which those that no CPU may hold are removed.
    purge_at: usize,
    copies: Copies,
    clock: u64,
}

impl Shadow {
    /// The record of a machine before its memory is managed with `config`: all frames are free, and no CPU has a root
    /// loaded or holds an entry.
    pub fn new(config: &Config) -> Self {
        let frames: usize = config.nodes.iter().map(|node| node.frames as usize).sum();
        Self {
            first: config.first_frame.get(),
            used: alloc::vec![false; frames].into(),
            cpus: (0..config.cpus).map(|_| Cpu::default()).collect(),
            slots: Vec::new(),
            slots_of: BTreeMap::new(),
            gone: Cleared::default(),
            purge_at: PURGE,
            copies: Copies::new(config.first_frame.get()),
            clock: 0,
        }
    }

    /// The number of cleared translations that a CPU may hold.
    pub fn held(&self) -> usize {
        self.gone.len()
    }

    /// The CPU is about to translate through `root` under `asid`; with `flush`, entries tagged with it are invalidated
    /// ([`Platform::load_root`](ceasefire::Platform::load_root)).
    ///
    /// # Errors
    /// [`Wrong::Unflushed`].
    pub fn loads(&mut self, cpu: CpuId, root: Root, asid: Asid, flush: bool) -> Result<(), Misuse> {
        let at = self.slot(cpu, asid);
        if self.slots.len() <= at {
            let count = (usize::from(asid.get()) + 1) * self.cpus.len();
            self.slots.resize(count, Slot { root: NOWHERE, flushed: 0, left: 0, stale: None });
        }
        let before = self.slots[at].root;
        if before != root.0 {
            if let Some(slots) = self.slots_of.get_mut(&before) {
                slots.retain(|&slot| slot != at);
                if slots.is_empty() {
                    self.slots_of.remove(&before);
                }
            }
            self.slots_of.entry(root.0).or_default().push(at);
            // The CPU never walked these tables under this tag, so it holds none of their entries.
            self.slots[at] = Slot { root: root.0, flushed: self.tick(), left: 0, stale: None };
        } else if flush || self.is_empty(at) {
            self.flush(at);
        }
        if self.cpus[cpu.index()].asid != Some(asid) {
            self.leaves(cpu);
        }
        let state = &mut self.cpus[cpu.index()];
        (state.asid, state.rests) = (Some(asid), false);
        self.slots[at].stale.take().map_or(Ok(()), Err)
    }

    /// The CPU is about to leave for the kernel's own tables
    /// ([`Platform::load_kernel_root`](ceasefire::Platform::load_kernel_root)).
    pub fn leaves(&mut self, cpu: CpuId) {
        if let Some(asid) = self.cpus[cpu.index()].asid.take() {
            let at = self.slot(cpu, asid);
            self.slots[at].left = self.tick();
        }
    }

    /// The CPU runs no program from now on. Must be called *before*
    /// [`Engine::enter_lazy`](ceasefire::Engine::enter_lazy).
    pub fn rests(&mut self, cpu: CpuId) {
        self.cpus[cpu.index()].rests = true;
    }

    /// The CPU runs a program from now on. Must be called *after* [`Engine::switch_to`](ceasefire::Engine::switch_to).
    ///
    /// # Errors
    /// [`Wrong::Unflushed`].
    pub fn runs(&mut self, cpu: CpuId) -> Result<(), Misuse> {
        let state = &mut self.cpus[cpu.index()];
        state.rests = false;
        let Some(asid) = state.asid else { return Ok(()) };
        let at = self.slot(cpu, asid);
        self.slots[at].stale.take().map_or(Ok(()), Err)
    }

    /// The CPU is about to invalidate the entries that translate an address, of any size
    /// ([`Platform::invalidate`](ceasefire::Platform::invalidate), for each address of its flush).
    pub fn forgets_page(&mut self, cpu: CpuId, asid: Asid, address: u64) {
        let now = self.tick();
        self.forget_page(cpu.index()..cpu.index() + 1, asid, address, now);
    }

    /// The CPU is about to invalidate all entries tagged with `asid`
    /// ([`Platform::invalidate`](ceasefire::Platform::invalidate) without addresses).
    pub fn forgets_asid(&mut self, cpu: CpuId, asid: Asid) {
        self.flush(self.slot(cpu, asid));
    }

    /// The CPU is about to invalidate its entries of all programs
    /// ([`Platform::invalidate_all`](ceasefire::Platform::invalidate_all)).
    pub fn forgets_all(&mut self, cpu: CpuId) {
        let all = (cpu.index()..self.slots.len()).step_by(self.cpus.len());
        all.for_each(|at| self.flush(at));
    }

    /// The CPU is about to start invalidating a part of an ASID on all CPUs
    /// ([`Platform::broadcast`](ceasefire::Platform::broadcast)).
    pub fn broadcasts(&mut self, cpu: CpuId, asid: Asid, extent: Extent) {
        let now = self.tick();
        self.cpus[cpu.index()].started.push((Some((asid, extent)), now));
    }

    /// The CPU is about to start invalidating everything on all CPUs
    /// ([`Platform::broadcast_everything`](ceasefire::Platform::broadcast_everything)).
    pub fn broadcasts_everything(&mut self, cpu: CpuId) {
        let now = self.tick();
        self.cpus[cpu.index()].started.push((None, now));
    }

    /// The CPU's broadcasts are done on all CPUs: [`Platform::broadcast_wait`](ceasefire::Platform::broadcast_wait), or
    /// the wait of a task switch.
    pub fn waited(&mut self, cpu: CpuId) {
        for (what, time) in core::mem::take(&mut self.cpus[cpu.index()].started) {
            match what {
                None => (0..self.slots.len()).for_each(|at| self.flush_to(at, time)),
                Some((asid, Extent::All)) => {
                    CpuId::all(self.cpus.len()).for_each(|cpu| self.flush_to(self.slot(cpu, asid), time));
                }
                Some((asid, Extent::Pages { start, count, size })) => {
                    let addresses = (0..u64::from(count)).map(|number| start + (number << size.shift()));
                    for address in addresses {
                        self.forget_page(0..self.cpus.len(), asid, address, time);
                    }
                }
            }
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn slot(&self, cpu: CpuId, asid: Asid) -> usize {
        usize::from(asid.get()) * self.cpus.len() + cpu.index()
    }

    fn cpu_of(&self, at: usize) -> usize {
        at % self.cpus.len()
    }

    fn is_loaded(&self, at: usize) -> bool {
        let asid = self.cpus[self.cpu_of(at)].asid;
        asid.is_some_and(|asid| usize::from(asid.get()) == at / self.cpus.len())
    }

    /// Whether a CPU holds no entry under an ASID: all of it was invalidated after the CPU had left it.
    fn is_empty(&self, at: usize) -> bool {
        !self.is_loaded(at) && self.slots[at].left < self.slots[at].flushed
    }

    fn flush(&mut self, at: usize) {
        let now = self.tick();
        self.flush_to(at, now);
    }

    fn flush_to(&mut self, at: usize, time: u64) {
        // A slot that was never loaded has no entries.
        let Some(slot) = self.slots.get_mut(at) else { return };
        slot.flushed = slot.flushed.max(time);
        slot.stale = None;
    }

    /// CPUs invalidated the entries of an address at `time`.
    fn forget_page(&mut self, cpus: Range<usize>, asid: Asid, address: u64, time: u64) {
        let mut all = Vec::new();
        // Most CPUs have the same tables.
        let (mut known, mut cleared) = (NOWHERE, Vec::new());
        let first = usize::from(asid.get()) * self.cpus.len();
        for cpu in cpus {
            let Some(&Slot { root, .. }) = self.slots.get(first + cpu) else { continue };
            if root != known {
                let places =
                    [PageSize::KIB_4, PageSize::MIB_2].map(|size| Place::new(Root(root), address, size));
                let numbers = places.into_iter().flat_map(|place| self.gone.at(place));
                (known, cleared) = (root, numbers.filter(|&at| self.gone[at].time < time).collect());
                all.extend_from_slice(&cleared);
            }
            for &number in &cleared {
                self.gone[number].done.push(cpu as u16);
            }
        }
        all.sort_unstable();
        all.dedup();
        for number in all {
            self.drop_unheld(number);
        }
    }

    /// Removes a cleared translation if no CPU may hold it.
    fn drop_unheld(&mut self, number: u32) {
        if self.holders(&self.gone[number]).next().is_none() {
            self.gone.remove(number);
        }
    }

    /// Removes all cleared translations that no CPU may hold: those of pages that are never free in between.
    fn purge(&mut self) {
        for number in self.gone.all() {
            self.drop_unheld(number);
        }
        self.purge_at = PURGE.max(2 * self.gone.len());
    }

    /// The slots under which CPUs may hold a cleared translation.
    fn holders<'a>(&'a self, gone: &'a Gone) -> impl Iterator<Item = usize> + 'a {
        let slots = self.slots_of.get(&gone.place.root).map_or(&[][..], Vec::as_slice);
        slots.iter().copied().filter(|&at| {
            self.slots[at].flushed < gone.time
                && !self.is_empty(at)
                && !gone.done.contains(&(self.cpu_of(at) as u16))
        })
    }

    /// Removes a cleared translation, and fails if a CPU could use it. The other CPUs that hold it must flush before
    /// they can, and their slots record that.
    fn take(&mut self, number: u32, wrong: Wrong) -> Result<(), Misuse> {
        let gone = &self.gone[number];
        let holders: Vec<usize> = self.holders(gone).collect();
        let mut result = Ok(());
        for at in holders {
            let cpu = &self.cpus[self.cpu_of(at)];
            let misuse = Misuse {
                wrong,
                frame: FrameNumber::new(gone.frame),
                cpu: CpuId::new(self.cpu_of(at)).ok(),
                address: Some(gone.place.address()),
                since: Some(gone.since),
            };
            if self.is_loaded(at) && !cpu.rests {
                result = Err(misuse);
                break;
            }
            self.slots[at].stale.get_or_insert(Misuse { wrong: Wrong::Unflushed, ..misuse });
        }
        self.gone.remove(number);
        result
    }

    /// Checks that no CPU can use a cleared translation of a frame. Translations of the huge page that contained the
    /// frame count as its own.
    fn out_of_reach(&mut self, frame: u32, wrong: Wrong) -> Result<(), Misuse> {
        let head = frame >> HUGE_ORDER << HUGE_ORDER;
        let next =
            |gone: &Cleared| gone.to(frame).next().or_else(|| gone.to(head).find(|&at| gone[at].place.huge));
        let mut result = Ok(());
        while let Some(number) = next(&self.gone) {
            result = result.and(self.take(number, wrong));
        }
        let frame = FrameNumber::new(frame);
        result.map_err(|misuse| Misuse { frame, ..misuse })
    }
}
