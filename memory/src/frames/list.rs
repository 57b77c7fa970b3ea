//! Lists of frames, linked through the frames themselves.
//!
//! A list is three numbers. Its links are in [`FrameInfo`](crate::frames::frame::FrameInfo), so nothing is allocated. A
//! task that changes a list holds the lock that guards it.

use crate::primitive::Ordering;

use crate::address::FrameNumber;
use crate::frames::frame::FrameTable;

const NONE: u32 = u32::MAX;

/// A list of frames.
#[derive(Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { head: NONE, tail: NONE, len: 0 }
    }
}

impl List {
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    pub(crate) fn push_front(&mut self, frames: &FrameTable, frame: FrameNumber) {
        let info = frames.get(frame);
        info.previous.store(NONE, Ordering::Relaxed);
        info.next.store(self.head, Ordering::Relaxed);
        if self.head == NONE {
            self.tail = frame.get();
        } else {
            frames.get(FrameNumber::new(self.head)).previous.store(frame.get(), Ordering::Relaxed);
        }
        self.head = frame.get();
        self.len += 1;
    }

    pub(crate) fn push_back(&mut self, frames: &FrameTable, frame: FrameNumber) {
        let info = frames.get(frame);
        info.next.store(NONE, Ordering::Relaxed);
        info.previous.store(self.tail, Ordering::Relaxed);
        if self.tail == NONE {
            self.head = frame.get();
        } else {
            frames.get(FrameNumber::new(self.tail)).next.store(frame.get(), Ordering::Relaxed);
        }
        self.tail = frame.get();
        self.len += 1;
    }

    /// The frame that [`List::pop_front`] takes next.
    pub(crate) fn front(&self) -> Option<FrameNumber> {
        (self.head != NONE).then(|| FrameNumber::new(self.head))
    }

    pub(crate) fn pop_front(&mut self, frames: &FrameTable) -> Option<FrameNumber> {
        (self.head != NONE).then(|| {
            let frame = FrameNumber::new(self.head);
            self.remove(frames, frame);
            frame
        })
    }

    pub(crate) fn pop_back(&mut self, frames: &FrameTable) -> Option<FrameNumber> {
        (self.tail != NONE).then(|| {
            let frame = FrameNumber::new(self.tail);
            self.remove(frames, frame);
            frame
        })
    }

    /// Takes out a frame that is on this list.
    pub(crate) fn remove(&mut self, frames: &FrameTable, frame: FrameNumber) {
        let info = frames.get(frame);
        let (previous, next) = (info.previous.load(Ordering::Relaxed), info.next.load(Ordering::Relaxed));
        if previous == NONE {
            self.head = next;
        } else {
            frames.get(FrameNumber::new(previous)).next.store(next, Ordering::Relaxed);
        }
        if next == NONE {
            self.tail = previous;
        } else {
            frames.get(FrameNumber::new(next)).previous.store(previous, Ordering::Relaxed);
        }
        self.len -= 1;
    }
}
