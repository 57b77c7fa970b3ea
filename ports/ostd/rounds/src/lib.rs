//! Counts what unmaps cost on ostd: interrupts between CPUs, locks of other CPUs, allocations.
//!
//! All CPUs run one address space. The first maps pages and unmaps them again, in several ways. The other CPUs read the
//! pages meanwhile, so that they have translations to lose. Each line is one way, with the counts of one unmap:
//!
//! ```text
//! rounds: cpus=4 case=8-pages interrupts=3 remote_locks=6 allocations=5
//! ```
//!
//! With `instructions` on the kernel's command line it measures a flush of one page instead, in ticks of the time-stamp
//! counter. These are instructions where QEMU counts them (`-icount shift=0`):
//!
//! ```text
//! rounds: cpus=4 case=flush dispatch=900 sync=60 receiver=300
//! ```
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};

use ostd::arch::read_tsc;
use ostd::boot::boot_info;
use ostd::cpu::num_cpus;
use ostd::mm::tlb::TlbFlushOp;
use ostd::mm::{CachePolicy, FrameAllocOptions, PAGE_SIZE, PageFlags, PageProperty, UFrame, Vaddr, VmSpace};
use ostd::prelude::*;
use ostd::smp::{ALLOCATIONS, HANDLED_IN, INTERRUPTS, REMOTE_LOCKS};
use ostd::task::disable_preempt;
use ostd::timer::Jiffies;

static SPACE: spin::Once<Arc<VmSpace>> = spin::Once::new();
static READY: AtomicUsize = AtomicUsize::new(0);
/// How often other CPUs have read all pages.
static READ: AtomicUsize = AtomicUsize::new(0);

/// The address of the first page.
const BASE: Vaddr = 0x1000_0000;
/// The distance of mappings from each other.
const APART: usize = 16 * PAGE_SIZE;

/// Another CPU reads the pages.
fn read_for_ever() {
    let space = SPACE.wait();
    space.activate();
    READY.fetch_add(1, SeqCst);
    loop {
        for page in 0..512 {
            // A page that is not mapped is an error, which is expected.
            if let Ok(mut reader) = space.reader(BASE + page * PAGE_SIZE, 8) {
                let _ = reader.read_val::<u64>();
            }
        }
        READ.fetch_add(1, SeqCst);
    }
}

fn map(space: &VmSpace, start: Vaddr, pages: usize) {
    map_with(space, start, pages, PageFlags::RW);
}

fn map_with(space: &VmSpace, start: Vaddr, pages: usize, rights: PageFlags) {
    let guard = disable_preempt();
    let mut cursor = space.cursor_mut(&guard, &(start..start + pages * PAGE_SIZE)).expect("a range");
    for _ in 0..pages {
        let frame: UFrame = FrameAllocOptions::new().alloc_frame().expect("a frame").into();
        cursor.map(frame, PageProperty::new_user(rights, CachePolicy::Writeback));
    }
}

/// Unmaps one range, as `munmap` of one mapping does.
fn unmap(space: &VmSpace, start: Vaddr, pages: usize) {
    let guard = disable_preempt();
    let mut cursor = space.cursor_mut(&guard, &(start..start + pages * PAGE_SIZE)).expect("a range");
    assert_eq!(cursor.unmap(pages * PAGE_SIZE), pages);
    cursor.flusher().sync_tlb_flush();
}

/// Unmaps many mappings, as one `munmap` over all of them does.
#[cfg(not(feature = "ceasefire"))]
fn unmap_all(space: &VmSpace, mappings: usize) {
    for mapping in 0..mappings {
        unmap(space, BASE + mapping * APART, 1);
    }
}

#[cfg(feature = "ceasefire")]
fn unmap_all(space: &VmSpace, mappings: usize) {
    let guard = disable_preempt();
    let mut all = space.flusher();
    for mapping in 0..mappings {
        let start = BASE + mapping * APART;
        let mut cursor = space.cursor_mut(&guard, &(start..start + PAGE_SIZE)).expect("a range");
        cursor.flusher().defer();
        assert_eq!(cursor.unmap(PAGE_SIZE), 1);
        cursor.flusher().hand_over(&mut all);
    }
    all.dispatch_tlb_flush();
    all.sync_tlb_flush();
}

/// Takes pages that are only read from the program, as reclaim does, and waits until their frames are free.
#[cfg(not(feature = "ceasefire"))]
fn reclaim(space: &VmSpace, pages: usize) {
    unmap(space, BASE, pages);
}

#[cfg(feature = "ceasefire")]
fn reclaim(space: &VmSpace, pages: usize) {
    {
        let guard = disable_preempt();
        let mut cursor = space.cursor_mut(&guard, &(BASE..BASE + pages * PAGE_SIZE)).expect("a range");
        assert_eq!(cursor.evict(pages * PAGE_SIZE), pages);
    }
    // Debts are settled after 10 ms, or a tick later.
    let end = Jiffies::elapsed().as_u64() + 30;
    while Jiffies::elapsed().as_u64() < end {
        core::hint::spin_loop();
    }
}

/// Waits until every other CPU has read all pages, for as long as one of them could do it alone.
fn wait_for_readers() {
    let enough = READ.load(SeqCst) + 4 * num_cpus();
    while num_cpus() > 1 && READ.load(SeqCst) < enough {
        core::hint::spin_loop();
    }
}

fn count(case: &str, prepare: impl Fn(), change: impl Fn()) {
    const RUNS: u64 = 5;
    let read = |counter: &AtomicU64| counter.load(SeqCst);
    for _ in 0..RUNS {
        prepare();
        let before = (read(&INTERRUPTS), read(&REMOTE_LOCKS), read(&ALLOCATIONS));
        change();
        println!(
            "rounds: cpus={} case={} interrupts={} remote_locks={} allocations={}",
            num_cpus(),
            case,
            read(&INTERRUPTS) - before.0,
            read(&REMOTE_LOCKS) - before.1,
            read(&ALLOCATIONS) - before.2,
        );
    }
}

/// Measures flushes of one page that all CPUs have used: the part that asks the other CPUs, the wait after all have
/// answered, and what each of them does in the interrupt. Each is the least of many, since a CPU may be interrupted.
fn measure(space: &VmSpace) {
    const RUNS: u64 = 50;
    let (mut dispatch, mut sync) = (u64::MAX, u64::MAX);
    map(space, BASE, 1);
    for _ in 0..RUNS {
        let guard = disable_preempt();
        let mut cursor = space.cursor_mut(&guard, &(BASE..BASE + PAGE_SIZE)).expect("a range");
        let handled = INTERRUPTS.load(SeqCst) + num_cpus() as u64 - 1;
        let begin = read_tsc();
        cursor.flusher().issue_tlb_flush(TlbFlushOp::for_single(BASE));
        cursor.flusher().dispatch_tlb_flush();
        dispatch = dispatch.min(read_tsc() - begin);
        while INTERRUPTS.load(SeqCst) < handled {
            core::hint::spin_loop();
        }
        // Until the handlers have ended, too: QEMU lets the other CPUs run at each hint.
        (0..64).for_each(|_| core::hint::spin_loop());
        let begin = read_tsc();
        cursor.flusher().sync_tlb_flush();
        sync = sync.min(read_tsc() - begin);
    }
    println!(
        "rounds: cpus={} case=flush dispatch={} sync={} receiver={}",
        num_cpus(),
        dispatch,
        sync,
        HANDLED_IN.load(SeqCst),
    );
}

#[ostd::main]
fn main() {
    // No page is mapped on demand.
    ostd::mm::fault::inject_user_page_fault_handler(|_| Err(()));
    SPACE.call_once(|| Arc::new(VmSpace::new()));
    ostd::boot::smp::register_ap_entry(read_for_ever);
    while READY.load(SeqCst) + 1 < num_cpus() {
        core::hint::spin_loop();
    }
    let space = SPACE.wait();
    space.activate();
    if boot_info().kernel_cmdline.split_whitespace().any(|word| word == "instructions") {
        measure(space);
        end();
    }
    for (case, pages) in [("1-page", 1), ("8-pages", 8), ("512-pages", 512)] {
        count(case, || map(space, BASE, pages), || unmap(space, BASE, pages));
    }
    let prepare = || (0..64).for_each(|mapping| map(space, BASE + mapping * APART, 1));
    count("64-mappings", prepare, || unmap_all(space, 64));
    let prepare = || {
        map_with(space, BASE, 64, PageFlags::R);
        wait_for_readers();
    };
    count("64-reclaimed", prepare, || reclaim(space, 64));
    end();
}

fn end() -> ! {
    println!("rounds: end");
    ostd::power::poweroff(ostd::power::ExitCode::Success);
}
