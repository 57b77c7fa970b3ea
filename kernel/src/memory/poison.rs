//! A known pattern in every free frame. A load through a stale entry shows the pattern. A store through a stale entry
//! leaves a mark, which is found when the frame is handed out again.
//!
//! As a page-table entry the pattern is present and has reserved bits set, so a walk through a freed page-table page
//! faults with a reason of its own. The architecture therefore chooses the pattern.
//!
//! A frame that was released in debt keeps its bytes, because CPUs may still load from it, though not store to it. A
//! digest of the bytes is noted, and must be the same when the debt is settled. Only then the pattern replaces the
//! bytes, so that any later load shows it.

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};

use ceasefire_memory::{FrameNumber, ENTRIES, PAGE_BYTES};
use spin::Once;

use crate::arch::memory::{direct, POISON};
use crate::arch::Frame;
use crate::failure::{self, Kind};
use crate::report::parameters;

/// The frames that are watched, if any.
static WATCHED: Once<Watched> = Once::new();

struct Watched {
    first: FrameNumber,
    /// For each frame the digest of its bytes if it was released in debt, and 0 if not.
    left: Box<[AtomicU64]>,
}

impl Watched {
    fn left(&self, frame: FrameNumber) -> &AtomicU64 {
        &self.left[(frame.get() - self.first.get()) as usize]
    }
}

fn words(frame: FrameNumber) -> *mut u64 {
    direct(u64::from(frame.get()) * PAGE_BYTES)
}

/// Fills `count` free frames from `first` on, and watches them from now on.
///
/// # Safety
/// They must be all of the memory manager's frames, and it must not have begun.
pub(crate) unsafe fn start(first: FrameNumber, count: u32) {
    for number in first.get()..first.get() + count {
        fill(FrameNumber::new(number));
    }
    WATCHED.call_once(|| Watched { first, left: (0..count).map(|_| AtomicU64::new(0)).collect() });
}

fn fill(frame: FrameNumber) {
    // SAFETY: the frame is free, and the caller alone has it.
    unsafe { core::slice::from_raw_parts_mut(words(frame), ENTRIES).fill(POISON) };
}

/// Its words as they are now, even if a CPU stores to them although it must not.
fn contents(frame: FrameNumber) -> impl Iterator<Item = u64> {
    // SAFETY: the frame belongs to the memory manager. The loads are volatile because other CPUs may store to it.
    (0..ENTRIES).map(move |word| unsafe { words(frame).add(word).read_volatile() })
}

/// A digest of its words; never 0 (FNV-1a, in words).
fn digest(frame: FrameNumber) -> u64 {
    contents(frame)
        .fold(0xcbf2_9ce4_8422_2325, |digest: u64, word| (digest ^ word).wrapping_mul(0x100_0000_01b3))
        .max(1)
}

/// The frame will be free while CPUs may still load from it.
pub(crate) fn left(frame: FrameNumber) {
    if let Some(watched) = WATCHED.get() {
        watched.left(frame).store(digest(frame), Ordering::Relaxed);
    }
}

/// The frame is free and its debt is settled.
pub(crate) fn freed(frame: FrameNumber) {
    let Some(watched) = WATCHED.get() else { return };
    let left = watched.left(frame).swap(0, Ordering::Relaxed);
    if left != 0 && digest(frame) != left {
        lost_write(format_args!("the contents of {frame:?} changed while CPUs could read them"));
    }
    fill(frame);
}

/// The frame is handed out.
pub(crate) fn allocated(frame: FrameNumber) {
    if WATCHED.get().is_none() {
        return;
    }
    if let Some((word, value)) = contents(frame).enumerate().find(|&(_, value)| value != POISON) {
        lost_write(format_args!("word {word} of {frame:?} holds {value:#x}"));
    }
}

fn lost_write(what: core::fmt::Arguments<'_>) {
    if parameters::is_unchecked() {
        return;
    }
    failure::stop(
        Kind::Rule,
        &Frame::here(),
        format_args!("lost write: {what}, stored while the frame was free"),
    )
}
