//! A known pattern in every free frame: whoever reads one through a stale entry sees it, and whoever stores through one leaves
//! a mark that is found when the frame is handed out again.
//!
//! As a page-table entry the pattern is present and has bits set that must not be, so that a walk through a table that was
//! freed faults with a reason of its own.

use core::sync::atomic::{AtomicBool, Ordering};

use ceasefire_memory::{FrameNumber, ENTRIES, PAGE_BYTES};

use crate::arch::{memory::direct, Frame};
use crate::failure::{self, Kind};

/// What every word of a free frame holds.
const PATTERN: u64 = 0x5eed_dead_f4ee_d001;

static ON: AtomicBool = AtomicBool::new(false);

fn words(frame: FrameNumber) -> *mut u64 {
    direct(u64::from(frame.get()) * PAGE_BYTES)
}

/// Fills `count` frames from `first` on, all free, and watches all from now on.
///
/// # Safety
/// They are all the memory manager's, and it has not begun.
pub(crate) unsafe fn start(first: FrameNumber, count: u32) {
    for number in first.get()..first.get() + count {
        fill(FrameNumber::new(number));
    }
    ON.store(true, Ordering::Release);
}

fn fill(frame: FrameNumber) {
    // SAFETY: the frame is free, and the caller alone has it.
    unsafe { core::slice::from_raw_parts_mut(words(frame), ENTRIES).fill(PATTERN) };
}

/// The frame becomes free.
pub(crate) fn freed(frame: FrameNumber) {
    if ON.load(Ordering::Relaxed) {
        fill(frame);
    }
}

/// The frame is handed out.
pub(crate) fn allocated(frame: FrameNumber) {
    if !ON.load(Ordering::Relaxed) {
        return;
    }
    // SAFETY: the caller alone has the frame; who stores to it all the same is what this looks for, so it reads with care.
    let found = (0..ENTRIES).map(|word| unsafe { words(frame).add(word).read_volatile() }).enumerate();
    if let Some((word, value)) = found.into_iter().find(|&(_, value)| value != PATTERN) {
        failure::stop(
            Kind::Rule,
            &Frame::here(),
            format_args!(
                "lost write: word {word} of {frame:?} holds {value:#x}, stored while the frame was free"
            ),
        );
    }
}
