//! The changes that a gather has not flushed, with the things that they led to. Nothing is released before its flush.

use core::fmt;
use core::mem::ManuallyDrop;

use super::span::Span;
use crate::flush::Flush;

/// A place for one thing that a gather or a batch holds. The caller lends a gather an array of them:
///
/// ```
/// # use ceasefire::Place;
/// let mut room = [Place::<Box<u8>>::EMPTY; 4];
/// # let _ = &mut room;
/// ```
///
/// A thing comes out only after the flush. A gather that is forgotten (`mem::forget`), or whose platform panics again while
/// it unwinds, loses the things that it holds: they are neither released nor dropped.
pub struct Place<T>(Option<ManuallyDrop<T>>);

impl<T> Place<T> {
    /// A place that holds nothing.
    pub const EMPTY: Self = Self(None);

    /// Puts a thing here. A thing that a forgotten gather left is lost: its flush may never have been made.
    pub(super) fn put(&mut self, held: T) {
        self.0 = Some(ManuallyDrop::new(held));
    }

    /// Takes the thing out.
    pub(super) fn take(&mut self) -> Option<T> {
        self.0.take().map(ManuallyDrop::into_inner)
    }
}

impl<T> Default for Place<T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<T> fmt::Debug for Place<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Place(held)" } else { "Place(empty)" })
    }
}

/// Places lent by the caller, the first of which are taken.
#[derive(Debug)]
pub(crate) struct Room<'e, T, R> {
    /// The changes since the last flush.
    pub(crate) changed: Span,
    places: &'e mut [Place<T>],
    taken: usize,
    release: R,
}

impl<'e, T, R: FnMut(T)> Room<'e, T, R> {
    pub(crate) fn new(places: &'e mut [Place<T>], release: R) -> Self {
        Self { changed: Span::new(), places, taken: 0, release }
    }

    /// Keeps `held` until the next flush is done. If there is no place, it first flushes as [`Room::flush`] does.
    pub(crate) fn hold(&mut self, held: T, pay: impl FnOnce(Flush)) {
        if self.taken == self.places.len() {
            self.flush(pay);
        }
        match self.places.get_mut(self.taken) {
            Some(place) => {
                place.put(held);
                self.taken += 1;
            }
            // There is no room at all, and all changes so far are flushed.
            None => (self.release)(held),
        }
    }

    /// Passes the flush of the changes so far to `pay`, if there were any, and releases the things that it kept. If
    /// `pay` or a release panics, the next call goes on where this one ended.
    pub(crate) fn flush(&mut self, pay: impl FnOnce(Flush)) {
        if let Some(flush) = self.changed.flush() {
            pay(flush);
            self.changed = Span::new();
        }
        for place in &mut self.places[..self.taken] {
            if let Some(held) = place.take() {
                (self.release)(held);
            }
        }
        self.taken = 0;
    }
}
