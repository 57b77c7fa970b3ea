//! Frames that were given to somebody else after they had lost a translation.
//!
//! A kernel whose functions are known tells when it frees a frame. Others do not, but one that hands a frame out clears it or
//! copies another to it: it overwrites all of it, through another address. A frame that is mapped again before that has
//! kept its owner.
//!
//! The first store to a frame is noted too, once the frame has replaced another one: from then on a CPU that still uses the
//! other one disagrees with one that uses this.

use std::sync::Mutex;

use foldhash::HashMap;

use crate::frames::Frames;
use crate::lock;
use crate::recent::Recent;
use crate::stack::Spot;

/// The bytes of a part of a frame whose first store is noted, as a power of two.
const LINE: u32 = 6;

/// The frames that are remembered, at least.
const REMEMBERED: usize = 1 << 18;

/// A frame was given to somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Given {
    /// Where it was freed, or its last line was stored to.
    pub(crate) at: Spot,
    /// By a function that frees frames.
    pub(crate) is_freed: bool,
}

impl Given {
    /// Whether it was after one time and before another.
    pub(crate) fn is_between(&self, after: u64, before: u64) -> bool {
        (after + 1..before).contains(&self.at.time)
    }
}

/// The frames whose owners may change, and those whose owners have.
#[derive(Debug)]
pub(crate) struct Owners {
    /// The lines that were overwritten, a bit for each.
    watched: Mutex<HashMap<u64, u64>>,
    given: Mutex<Recent<Given>>,
    /// Where frames that replaced others were first stored to.
    written: Mutex<Recent<Spot>>,
}

impl Owners {
    pub(crate) fn new() -> Self {
        Self {
            watched: Mutex::default(),
            given: Mutex::new(Recent::new(REMEMBERED)),
            written: Mutex::new(Recent::new(REMEMBERED)),
        }
    }

    /// Nothing is known of frames any longer.
    pub(crate) fn forget(&self) {
        lock(&self.watched).clear();
        lock(&self.given).clear();
        lock(&self.written).clear();
    }

    /// A frame has lost a translation.
    pub(crate) fn unmapped(&self, frame: u64, frames: &Frames) {
        let mut watched = lock(&self.watched);
        if watched.len() >= REMEMBERED {
            watched.drain().for_each(|(frame, _)| frames.watch(frame, false));
        }
        watched.insert(frame, 0);
        frames.watch(frame, true);
    }

    /// A frame has got a translation.
    pub(crate) fn mapped(&self, frame: u64, frames: &Frames) {
        if frames.is_watched(frame) && lock(&self.watched).remove(&frame).is_some() {
            frames.watch(frame, false);
        }
    }

    /// Whether a store may be the first to its line.
    #[inline]
    pub(crate) fn begins_line(address: u64) -> bool {
        address.is_multiple_of(1 << LINE)
    }

    /// The kernel has stored to a line of a watched frame. True if that was the last one, of which alone it is asked where.
    pub(crate) fn stored(
        &self,
        frame: u64,
        address: u64,
        at: impl FnOnce() -> Spot,
        frames: &Frames,
    ) -> bool {
        let mut watched = lock(&self.watched);
        let Some(lines) = watched.get_mut(&frame) else { return false };
        *lines |= 1 << (address >> LINE & 63);
        let is_whole = *lines == u64::MAX;
        if is_whole {
            self.give(frame, Given { at: at(), is_freed: false }, &mut watched, frames);
        }
        is_whole
    }

    /// A frame is freed. True if that gives it away.
    pub(crate) fn freed(&self, frame: u64, at: impl FnOnce() -> Spot, frames: &Frames) -> bool {
        let mut watched = lock(&self.watched);
        // One that was overwritten may still have been a file's. One that was freed before it was mapped again has been
        // given away since then.
        let was_overwritten = || self.given(frame).is_some_and(|given| !given.is_freed);
        let is_given = watched.contains_key(&frame) || was_overwritten();
        if is_given {
            self.give(frame, Given { at: at(), is_freed: true }, &mut watched, frames);
        }
        is_given
    }

    fn give(&self, frame: u64, given: Given, watched: &mut HashMap<u64, u64>, frames: &Frames) {
        watched.remove(&frame);
        frames.watch(frame, false);
        lock(&self.given).insert(frame, given);
    }

    /// A frame that has replaced another one is stored to.
    pub(crate) fn written(&self, frame: u64, at: Spot, frames: &Frames) {
        lock(&self.written).insert(frame, at);
        frames.freshen(frame, false);
    }

    /// Where a frame that had replaced another one was first stored to.
    pub(crate) fn written_at(&self, frame: u64) -> Option<Spot> {
        lock(&self.written).get(frame).copied()
    }

    /// The last time that a frame was given to somebody else.
    pub(crate) fn given(&self, frame: u64) -> Option<Given> {
        lock(&self.given).get(frame).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::Stack;

    #[test]
    fn a_frame_is_given_away_once_all_of_it_is_overwritten() {
        let (owners, frames) = (Owners::new(), Frames::new());
        let place = |time| Spot { cpu: 0, time, instruction: 1, stack: Stack::default() };
        let all = |owners: &Owners| {
            (0..64).for_each(|line| {
                owners.stored(7, 7 << 12 | line << 6, || place(line), &frames);
            });
        };
        all(&owners);
        assert_eq!(owners.given(7), None, "it lost no translation");
        owners.unmapped(7, &frames);
        owners.mapped(7, &frames);
        all(&owners);
        assert_eq!((owners.given(7), frames.is_watched(7)), (None, false), "it was mapped again");
        owners.unmapped(7, &frames);
        assert!(frames.is_watched(7) && Owners::begins_line(0x7040) && !Owners::begins_line(0x7048));
        all(&owners);
        assert_eq!(
            (owners.given(7), frames.is_watched(7)),
            (Some(Given { at: place(63), is_freed: false }), false)
        );
    }

    #[test]
    fn a_frame_is_given_away_once_it_is_freed() {
        let (owners, frames) = (Owners::new(), Frames::new());
        let place = |time| Spot { cpu: 0, time, instruction: 1, stack: Stack::default() };
        let freed = |time| owners.freed(7, || place(time), &frames);
        assert!(!freed(1), "it lost no translation");
        owners.unmapped(7, &frames);
        assert!(freed(2) && !freed(3));
        assert_eq!(
            (owners.given(7), frames.is_watched(7)),
            (Some(Given { at: place(2), is_freed: true }), false)
        );
        owners.unmapped(7, &frames);
        for line in 0..64 {
            owners.stored(7, 7 << 12 | line << 6, || place(4), &frames);
        }
        assert_eq!(owners.given(7), Some(Given { at: place(4), is_freed: false }));
        assert!(freed(5), "it may still have been a file's");
        assert_eq!(owners.given(7), Some(Given { at: place(5), is_freed: true }));
    }
}
