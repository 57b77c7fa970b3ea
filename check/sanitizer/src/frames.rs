//! A word for each physical frame, read at each store: whether it is a page table, how often that was written, and whether
//! stores to it matter since it lost a translation, or got that of another frame.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

/// The frames of a part: 1 GiB.
const PART: usize = 1 << 18;

/// The parts: 4 TiB.
const PARTS: usize = 1 << 12;

/// In a word: the frame is a page table.
const TABLE: u32 = 1 << 31;
/// In a word: the frame has lost a translation, and whoever overwrites it is noted.
const WATCHED: u32 = 1 << 30;
/// In a word: the frame has got the translation of another one, and its first store is noted.
const FRESH: u32 = 1 << 29;

/// The bits that count changes.
const COUNT: u32 = FRESH - 1;

/// The word of a frame.
#[derive(Debug)]
pub(crate) struct Word(AtomicU32);

impl Word {
    /// The version of a table. It differs after each change. 0: the frame is no table.
    #[inline]
    pub(crate) fn version(&self) -> u32 {
        match self.0.load(Ordering::Acquire) {
            word if word & TABLE != 0 => word & (TABLE | COUNT),
            _ => 0,
        }
    }

    /// Whether a store to the frame may matter.
    #[inline]
    pub(crate) fn matters(&self) -> bool {
        self.has(TABLE | WATCHED | FRESH)
    }

    #[inline]
    fn has(&self, bits: u32) -> bool {
        self.0.load(Ordering::Relaxed) & bits != 0
    }
}

/// The words of all frames. A part is there once one of its frames was asked for, until the process ends: CPUs keep
/// references, which is what makes most accesses cheap.
#[derive(Debug)]
pub(crate) struct Frames {
    parts: Box<[OnceLock<&'static [Word]>]>,
}

impl Frames {
    pub(crate) fn new() -> Self {
        Self { parts: (0..PARTS).map(|_| OnceLock::new()).collect() }
    }

    #[inline]
    fn word(&self, frame: u64) -> Option<&'static Word> {
        let part: &'static [Word] = self.parts.get((frame / PART as u64) as usize)?.get()?;
        Some(&part[(frame % PART as u64) as usize])
    }

    /// The word of a frame, whose part is made if it is not there. `None`: the frame is above 4 TiB.
    pub(crate) fn made(&self, frame: u64) -> Option<&'static Word> {
        let part = self.parts.get((frame / PART as u64) as usize)?;
        let words = || (0..PART).map(|_| Word(AtomicU32::new(0))).collect::<Box<[Word]>>();
        let part: &'static [Word] = part.get_or_init(|| Box::leak(words()));
        Some(&part[(frame % PART as u64) as usize])
    }

    /// The version of a table. 0: the frame is none.
    pub(crate) fn version(&self, frame: u64) -> u32 {
        self.word(frame).map_or(0, Word::version)
    }

    /// Whether a store to a frame may matter.
    pub(crate) fn matters(&self, frame: u64) -> bool {
        self.word(frame).is_some_and(Word::matters)
    }

    /// Whether it is noted who overwrites a frame.
    pub(crate) fn is_watched(&self, frame: u64) -> bool {
        self.has(frame, WATCHED)
    }

    /// Whether the first store to a frame is noted.
    pub(crate) fn is_fresh(&self, frame: u64) -> bool {
        self.has(frame, FRESH)
    }

    fn has(&self, frame: u64, bits: u32) -> bool {
        self.word(frame).is_some_and(|word| word.has(bits))
    }

    /// Who overwrites a frame is noted from now on, or no longer.
    pub(crate) fn watch(&self, frame: u64, watched: bool) {
        self.mark(frame, WATCHED, watched);
    }

    /// The first store to a frame is noted from now on, or no longer.
    pub(crate) fn freshen(&self, frame: u64, fresh: bool) {
        self.mark(frame, FRESH, fresh);
    }

    fn mark(&self, frame: u64, bit: u32, is_set: bool) {
        let Some(word) = self.made(frame) else { return };
        if is_set {
            word.0.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.0.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    /// The frame is a table from now on. True if it was none.
    pub(crate) fn becomes_table(&self, frame: u64) -> bool {
        // Most are tables, and to load is cheaper.
        let becomes = |word: &Word| word.0.fetch_or(TABLE, Ordering::AcqRel) & TABLE == 0;
        self.made(frame).is_some_and(|word| !word.has(TABLE) && becomes(word))
    }

    /// The frame is no table any longer.
    pub(crate) fn is_no_table(&self, frame: u64) {
        if let Some(word) = self.word(frame) {
            word.0.fetch_and(!TABLE, Ordering::AcqRel);
        }
    }

    /// No frame is a table, and no store matters.
    pub(crate) fn forget(&self) {
        for word in self.parts.iter().filter_map(OnceLock::get).flat_map(|part| part.iter()) {
            word.0.fetch_and(COUNT, Ordering::AcqRel);
        }
    }

    /// A table has changed.
    pub(crate) fn changed(&self, frame: u64) {
        if let Some(word) = self.word(frame) {
            let next = |word| Some(word & !COUNT | (word + 1) & COUNT);
            let _ = word.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next);
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
        let before = frames.version(frame);
        frames.freshen(frame, true);
        assert!(frames.is_fresh(frame) && frames.version(frame) == before);
        frames.is_no_table(frame);
        assert_eq!((frames.version(frame), frames.matters(frame)), (0, true));
        frames.freshen(frame, false);
        assert!(!frames.matters(frame));
        frames.becomes_table(frame);
        frames.watch(frame + 1, true);
        frames.forget();
        assert!(!frames.matters(frame) && !frames.matters(frame + 1));
    }
}
