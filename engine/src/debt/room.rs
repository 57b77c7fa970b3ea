//! The things that a gather holds until its flush.

/// Places lent by the caller, the first of which are taken.
#[derive(Debug)]
pub(crate) struct Room<'e, T> {
    places: &'e mut [Option<T>],
    taken: usize,
}

impl<'e, T> Room<'e, T> {
    pub(crate) fn new(places: &'e mut [Option<T>]) -> Self {
        Self { places, taken: 0 }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.taken == self.places.len()
    }

    /// Keeps `held`; returns it if there is no place.
    pub(crate) fn keep(&mut self, held: T) -> Option<T> {
        let Some(place) = self.places.get_mut(self.taken) else { return Some(held) };
        self.taken += 1;
        place.replace(held)
    }

    /// Passes everything that it keeps to `release`.
    pub(crate) fn empty(&mut self, mut release: impl FnMut(T)) {
        for place in &mut self.places[..core::mem::take(&mut self.taken)] {
            if let Some(held) = place.take() {
                release(held);
            }
        }
    }
}
