//! Ranges of the kernel's own addresses: they are used again only after a flush on every CPU.
//!
//! A range may be given up with interrupts off. A flush there could wait for a CPU that waits for a lock of the caller
//! with interrupts off. So such a range is kept until a caller with interrupts on gives up another one, and so are those
//! from the boot.

use alloc::vec::Vec;
use core::{mem, ops::Range};

use ceasefire::{Flush, PageSize};

use super::machine::{ENGINE, is_up};
use crate::{
    mm::{Vaddr, kspace::KernelPtConfig, page_table::PageTableFrag},
    sync::{LocalIrqDisabled, SpinLock},
};

/// A range whose translations are gone from the page tables, with what they led to.
struct Retired {
    range: Range<Vaddr>,
    _held: Vec<Held>,
    free: fn(Range<Vaddr>),
}

/// A frame or a page table that a translation of the range led to.
type Held = PageTableFrag<KernelPtConfig>;

static RETIRED: SpinLock<Vec<Retired>, LocalIrqDisabled> = SpinLock::new(Vec::new());

/// Takes a range whose translations were taken out of the page tables, and calls `free` with it once no CPU has one of
/// them. Then `held` is dropped too.
pub(in crate::mm) fn retire(range: Range<Vaddr>, held: Vec<Held>, free: fn(Range<Vaddr>)) {
    RETIRED.lock().push(Retired { range, _held: held, free });
    purge();
}

/// Flushes all retired ranges in one round and frees them, if interrupts are on and all CPUs can be reached.
fn purge() {
    if !is_up() || !crate::arch::irq::is_local_enabled() {
        return;
    }
    let retired = mem::take(&mut *RETIRED.lock());
    let ranges = retired.iter().map(|one| one.range.clone());
    let span = ranges.reduce(|one, other| one.start.min(other.start)..one.end.max(other.end));
    let Some(span) = span else { return };
    let flush = Flush::range(span.start as u64, span.end as u64, PageSize::KIB_4);
    ENGINE.flush_kernel(Flush { tables: true, mixed: true, ..flush });
    for Retired { range, free, .. } in retired {
        free(range);
    }
}
