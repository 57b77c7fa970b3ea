//! For each frame, the pages for which CPUs have cached entries that lead to it.
//!
//! A place is found by it, and may have lost its entries since. Nearly every frame has one place.

use std::collections::BTreeMap;

use ceasefire::PageSize;

use crate::oracle::numbered::Numbered;

/// The number of places of a frame from which on those without an entry are forgotten.
const LONG: usize = 128;

/// A page of a space, in one number, since there is one for each frame. From the top: the page (35 bits, enough for all
/// user addresses) and the number of the space, from 1 (29 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    pub(crate) fn new(space: usize, page: u64) -> Self {
        Self(page << 29 | (space as u64 + 1))
    }

    pub(crate) fn space(self) -> usize {
        (self.0 & ((1 << 29) - 1)) as usize - 1
    }

    pub(crate) fn page(self) -> u64 {
        self.0 >> 29
    }
}

/// The record of a frame: the first place at which a small entry to it was cached since it was last freed, or 0, and the
/// moment of that free, or 0. Zeros take no memory of the host until they are written to: most frames of a large machine
/// stay unused.
type History = (u64, u64);

/// The places of all frames.
#[derive(Debug)]
pub(crate) struct Places {
    frames: Box<[History]>,
    /// The further places of the few frames with more than one.
    more: Numbered<Vec<Place>>,
    /// The places of huge entries, by the first frame.
    huge: BTreeMap<u32, Vec<Place>>,
}

impl Places {
    pub(crate) fn new(frames: u32) -> Self {
        let frames: Vec<History> = vec![(0, 0); frames as usize];
        Self { frames: frames.into(), more: Numbered::default(), huge: BTreeMap::new() }
    }

    /// The moment at which a frame was last freed.
    pub(crate) fn freed_at(&self, frame: u32) -> u64 {
        self.frames[frame as usize].1
    }

    /// A frame is freed: it has no small place from now on.
    pub(crate) fn freed(&mut self, frame: u32, moment: u64) {
        self.more.remove(&frame);
        self.frames[frame as usize] = (0, moment);
    }

    /// Adds a place at which an entry was cached. `is_held` says whether a place still has an entry to the frame.
    pub(crate) fn add(
        &mut self,
        frame: u32,
        size: PageSize,
        place: Place,
        is_held: impl FnMut(Place) -> bool,
    ) {
        if size == PageSize::MIB_2 {
            return note(self.huge.entry(frame).or_default(), place, is_held);
        }
        let first = &mut self.frames[frame as usize].0;
        if *first == 0 {
            *first = place.0;
        } else if *first != place.0 {
            note(self.more.entry(frame).or_default(), place, is_held);
        }
    }

    /// The small places of a frame.
    pub(crate) fn small(&self, frame: u32) -> impl Iterator<Item = Place> + '_ {
        let first = Some(self.frames[frame as usize].0).filter(|&place| place != 0).map(Place);
        // A frame without a first place has no further ones.
        let more = first.and_then(|_| self.more.get(&frame));
        first.into_iter().chain(more.into_iter().flatten().copied())
    }

    /// The places of huge entries whose first frame is `frame`. Those without an entry are forgotten: a huge page's
    /// frames are freed one by one, so no free does that.
    pub(crate) fn huge(&mut self, frame: u32, mut is_held: impl FnMut(Place) -> bool) -> &[Place] {
        let Some(places) = self.huge.get_mut(&frame) else { return &[] };
        places.retain(|&place| is_held(place));
        if places.is_empty() {
            self.huge.remove(&frame);
        }
        self.huge.get(&frame).map_or(&[], Vec::as_slice)
    }
}

/// Adds a place, unless it is already known. A list that would become long forgets places without an entry first, so a
/// frame that is mapped again and again, and never freed, does not have more and more of them.
fn note(places: &mut Vec<Place>, place: Place, mut is_held: impl FnMut(Place) -> bool) {
    if places.contains(&place) {
        return;
    }
    if places.len() >= LONG && places.len() == places.capacity() {
        places.retain(|&place| is_held(place));
        places.reserve(places.len());
    }
    places.push(place);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_keeps_its_space_and_page() {
        for (space, page) in [(0, 0), ((1 << 29) - 2, (1 << 35) - 1), (17, 0x7_1234_5678)] {
            let place = Place::new(space, page);
            assert_eq!((place.space(), place.page()), (space, page));
            assert_ne!(place.0, 0);
        }
    }

    #[test]
    fn a_long_list_of_places_forgets_those_without_an_entry_and_no_other() {
        let (mut places, place) = (Vec::new(), |page| Place::new(0, page));
        for page in 0..10_000 {
            note(&mut places, place(page), |place| place.page() % 100 == 7);
        }
        assert!((100..4 * LONG).contains(&places.len()), "{}", places.len());
        assert!((0..100).all(|number| places.contains(&place(number * 100 + 7))));
    }
}
