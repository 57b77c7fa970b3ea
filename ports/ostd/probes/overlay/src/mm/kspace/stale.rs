//! Does a CPU keep translations of a kernel range that was given up?

use core::{
    ptr,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use super::{kvirt_area::KVirtArea, paddr_to_vaddr};
use crate::{
    cpu::{self, CpuSet, PinCurrentCpu},
    mm::{
        FrameAllocOptions, PAGE_SIZE, Segment,
        page_prop::{CachePolicy, PageFlags, PageProperty, PrivilegedPageFlags},
    },
    prelude::*,
    smp,
    task::disable_preempt,
};

static ADDRESS: AtomicUsize = AtomicUsize::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);

/// Another CPU reads the word at the address.
fn read() {
    let address = ptr::with_exposed_provenance::<u64>(ADDRESS.load(Ordering::SeqCst));
    // SAFETY: the test below keeps the range at this address while this runs.
    SEEN.store(unsafe { ptr::read_volatile(address) }, Ordering::SeqCst);
}

/// A page whose first word is `value`.
fn page(value: u64) -> Segment<()> {
    let page = FrameAllocOptions::new().alloc_segment_with(1, |_| ()).unwrap();
    let word = ptr::with_exposed_provenance_mut::<u64>(paddr_to_vaddr(page.paddr()));
    // SAFETY: nothing else uses the page.
    unsafe { ptr::write_volatile(word, value) };
    page
}

/// A range of one page.
fn range(page: Segment<()>) -> KVirtArea {
    let prop = PageProperty {
        flags: PageFlags::RW,
        cache: CachePolicy::Writeback,
        priv_flags: PrivilegedPageFlags::empty(),
    };
    KVirtArea::map_frames(PAGE_SIZE, 0, page.into_iter(), prop)
}

/// A range that is mapped where another was leads to its own page, on every CPU. Nothing is flushed between the two but
/// by the drop of the first (asterinas#2849).
#[ktest]
fn a_range_is_flushed_on_every_cpu_when_it_is_dropped() {
    if cpu::num_cpus() < 2 {
        return;
    }
    let guard = disable_preempt();
    let other = cpu::all_cpus().find(|cpu| *cpu != guard.current_cpu()).unwrap();
    let read_there = |range: &KVirtArea| {
        ADDRESS.store(range.start(), Ordering::SeqCst);
        smp::inter_processor_call(&CpuSet::from(other), read).wait();
        SEEN.load(Ordering::SeqCst)
    };
    // Both pages are there at once, so they are two.
    let (first, second) = (page(1), page(0));
    let first = range(first);
    let start = first.start();
    assert_eq!(read_there(&first), 1);
    drop(first);
    let second = range(second);
    assert_eq!(second.start(), start, "the allocator of addresses gives out the lowest ones");
    // SAFETY: the range is mapped, and no other CPU uses it.
    unsafe { ptr::write_volatile(ptr::with_exposed_provenance_mut::<u64>(start), 2) };
    assert_eq!(read_there(&second), 2, "the other CPU has a translation of the range that was dropped");
}
