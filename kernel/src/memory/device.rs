//! The device: memory that stands in for a disk, on which files and the swap device lie.
//!
//! It keeps the bytes of each block that was written, in a page that the block gets at its first time and keeps. Now and then
//! it takes as long as a disk would, so that threads sleep where they will on real machines.

use alloc::collections::BTreeMap;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ceasefire_memory::{Block, FrameNumber, PAGE_BYTES};

use crate::arch::{clock, memory::direct};
use crate::lock::IrqLock;
use crate::threads::{current, schedule};

/// One request of so many takes a tick.
const SLOW: u32 = 8;

/// Which page of the device holds a block.
static DIRECTORY: IrqLock<BTreeMap<Block, u32>> = IrqLock::new(BTreeMap::new());
static FIRST: AtomicU64 = AtomicU64::new(0);
static PAGES: AtomicU32 = AtomicU32::new(0);
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// The device has `pages` pages of memory, from physical page `first` on.
///
/// # Safety
/// Once, before it is used; nobody else uses that memory.
pub(crate) unsafe fn give(first: u64, pages: u32) {
    FIRST.store(first, Ordering::Relaxed);
    PAGES.store(pages, Ordering::Relaxed);
}

fn page(number: u32) -> *mut u8 {
    direct((FIRST.load(Ordering::Relaxed) + u64::from(number)) * PAGE_BYTES)
}

fn frame(frame: FrameNumber) -> *mut u8 {
    direct(u64::from(frame.get()) * PAGE_BYTES)
}

/// Where a block is or will be.
///
/// # Panics
/// If the device is full.
fn place(block: Block) -> u32 {
    let mut directory = DIRECTORY.lock();
    let next = directory.len() as u32;
    let place = *directory.entry(block).or_insert(next);
    assert!(place < PAGES.load(Ordering::Relaxed), "the device is full: {next} pages, all in use");
    place
}

/// Writes pages; back when they are safe.
pub(crate) fn write(pages: &[(Block, FrameNumber)]) {
    for &(block, from) in pages {
        // SAFETY: the device's page is the block's alone, and the memory manager lets nobody write the same block at once.
        // The frame is not stored to meanwhile, as it says too.
        unsafe { core::ptr::copy_nonoverlapping(frame(from), page(place(block)), PAGE_BYTES as usize) };
    }
    take_time();
}

/// Reads pages; back when they are there.
pub(crate) fn read(pages: &[(Block, FrameNumber)]) {
    for &(block, to) in pages {
        // SAFETY: as above; the frame is nobody's yet but the memory manager's.
        unsafe { core::ptr::copy_nonoverlapping(page(place(block)), frame(to), PAGE_BYTES as usize) };
    }
    take_time();
}

fn take_time() {
    let slow = REQUESTS.fetch_add(1, Ordering::Relaxed).is_multiple_of(SLOW);
    let me = current::thread();
    if slow && me.may_leave() && me.held.may_sleep() {
        schedule::sleep_until(clock::now() + 1);
    }
}
