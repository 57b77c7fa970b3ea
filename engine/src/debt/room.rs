//! The changes that a gather has not flushed, with the things that they led to. Nothing is released before its flush.

use super::span::Span;
use crate::flush::Flush;

/// Places lent by the caller, the first of which are taken.
#[derive(Debug)]
pub(crate) struct Room<'e, T, R> {
    /// The changes since the last flush.
    pub(crate) changed: Span,
    places: &'e mut [Option<T>],
    taken: usize,
    release: R,
}

impl<'e, T, R: FnMut(T)> Room<'e, T, R> {
    pub(crate) fn new(places: &'e mut [Option<T>], release: R) -> Self {
        Self { changed: Span::new(), places, taken: 0, release }
    }

    /// Keeps `held` until the next flush is done. If there is no place, it first flushes as [`Room::flush`] does.
    pub(crate) fn hold(&mut self, held: T, pay: impl FnOnce(Flush)) {
        if self.taken == self.places.len() {
            self.flush(pay);
        }
        let rest = match self.places.get_mut(self.taken) {
            Some(place) => {
                self.taken += 1;
                place.replace(held)
            }
            // There is no room at all, and all changes so far are flushed.
            None => Some(held),
        };
        if let Some(held) = rest {
            (self.release)(held);
        }
    }

    /// Passes the flush of the changes so far to `pay`, if there were any, and releases the things that it kept.
    pub(crate) fn flush(&mut self, pay: impl FnOnce(Flush)) {
        if let Some(flush) = self.changed.take() {
            pay(flush);
        }
        for place in &mut self.places[..core::mem::take(&mut self.taken)] {
            if let Some(held) = place.take() {
                (self.release)(held);
            }
        }
    }
}
