//! A word for each physical frame, read at each access: whether it is a page table, how often that was written, and
//! whether stores to it matter since it lost a translation.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

/// The frames of a part: 1 GiB.
const PART: usize = 1 << 18;

/// The parts: 4 TiB.
const PARTS: usize = 1 << 12;

/// In a word: the frame is a page table.
const TABLE: u32 = 1 << 31;
/// In a word: the frame has lost a translation, and whoever overwrites it is noted. The other bits count changes.
const WATCHED: u32 = 1 << 30;

/// The bits that count.
const COUNT: u32 = WATCHED - 1;

/// The words of all frames. A part is there once one of its frames is a table.
#[derive(Debug)]
pub(crate) struct Frames {
    parts: Box<[OnceLock<Box<[AtomicU32]>>]>,
}

impl Frames {
    pub(crate) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| OnceLock::new()).collect() }
    }

    fn word(&self, frame: u64) -> Option<&AtomicU32> {
        let part = self.parts.get((frame / PART as u64) as usize)?.get()?;
        Some(&part[(frame % PART as u64) as usize])
    }

    /// The word of a frame, whose part is made if it is not there.
    fn made(&self, frame: u64) -> Option<&AtomicU32> {
        let part = self.parts.get((frame / PART as u64) as usize)?;
        let part = part.get_or_init(|| (0..PART).map(|_| AtomicU32::new(0)).collect());
        Some(&part[(frame % PART as u64) as usize])
    }

    /// The version of a table. It differs after each change. 0: the frame is no table.
    #[inline]
    pub(crate) fn version(&self, frame: u64) -> u32 {
        self.word(frame).map_or(0, |word| match word.load(Ordering::Acquire) {
            word if word & TABLE != 0 => word & !WATCHED,
            _ => 0,
        })
    }

    /// Whether stores to a frame matter.
    #[inline]
    pub(crate) fn is_watched(&self, frame: u64) -> bool {
        self.word(frame).is_some_and(|word| word.load(Ordering::Relaxed) & WATCHED != 0)
    }

    /// Stores to a frame matter from now on, or no longer.
    pub(crate) fn watch(&self, frame: u64, watched: bool) {
        let Some(word) = self.made(frame) else { return };
        if watched {
            word.fetch_or(WATCHED, Ordering::Relaxed);
        } else {
            word.fetch_and(!WATCHED, Ordering::Relaxed);
        }
    }

    /// The frame is a table from now on. True if it was none.
    pub(crate) fn becomes_table(&self, frame: u64) -> bool {
        self.made(frame).is_some_and(|word| word.fetch_or(TABLE, Ordering::AcqRel) & TABLE == 0)
    }

    /// A table has changed.
    pub(crate) fn changed(&self, frame: u64) {
        if let Some(word) = self.word(frame) {
            let next = |word| Some(word & !COUNT | (word + 1) & COUNT);
            let _ = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_another_version_after_each_change() {
        let frames = Frames::new();
        let frame = (3 << 18) + 5;
        assert_eq!(frames.version(frame), 0);
        frames.changed(frame);
        assert_eq!(frames.version(frame), 0);
        assert!(frames.becomes_table(frame) && !frames.becomes_table(frame));
        let first = frames.version(frame);
        frames.changed(frame);
        assert!(first != 0 && frames.version(frame) != first);
        assert_eq!((frames.version(frame + 1), frames.version(u64::MAX >> 12)), (0, 0));
        let before = frames.version(frame);
        frames.watch(frame, true);
        frames.watch(frame + 1, true);
        assert_eq!((frames.version(frame), frames.version(frame + 1)), (before, 0));
        frames.changed(frame);
        assert!(frames.version(frame) != before && frames.is_watched(frame) && frames.is_watched(frame + 1));
        frames.watch(frame, false);
        assert!(!frames.is_watched(frame) && frames.version(frame) != 0);
    }
}
