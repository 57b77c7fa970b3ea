//! The device: memory that stands in for a disk. Files and the swap device lie on it.
//!
//! Each block gets a page of the device when it is first written, and keeps it. One request in [`SLOW`] takes a tick,
//! so that threads sleep where they sleep on real machines.

use alloc::collections::BTreeMap;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use ceasefire_memory::{Block, FrameNumber, PAGE_BYTES};

use crate::arch::{clock, memory::direct};
use crate::lock::IrqLock;
use crate::threads::{current, schedule};

/// One request in this many takes a tick.
const SLOW: u32 = 8;

/// The page of the device that holds each block.
static DIRECTORY: IrqLock<BTreeMap<Block, u32>> = IrqLock::new(BTreeMap::new());
static FIRST: AtomicU64 = AtomicU64::new(0);
static PAGES: AtomicU32 = AtomicU32::new(0);
static REQUESTS: AtomicU32 = AtomicU32::new(0);

/// Gives the device `pages` pages of memory, from physical page `first` on.
///
/// # Safety
/// Call it once, before the device is used. Nothing else may use that memory.
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

/// The page of a block; a new block gets the next free one.
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

/// Writes pages. Returns when the device holds them.
pub(crate) fn write(pages: &[(Block, FrameNumber)]) {
    for &(block, from) in pages {
        // SAFETY: the device's page belongs to this block alone, and the memory manager never writes one block twice at
        // once. It also guarantees that nothing stores to the frame meanwhile.
        unsafe { core::ptr::copy_nonoverlapping(frame(from), page(place(block)), PAGE_BYTES as usize) };
    }
    take_time();
}

/// Reads pages. Returns when the frames hold them.
pub(crate) fn read(pages: &[(Block, FrameNumber)]) {
    for &(block, to) in pages {
        // SAFETY: as above; only the memory manager has the frame yet.
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
