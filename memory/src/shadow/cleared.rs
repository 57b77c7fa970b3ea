//! The cleared translations that a CPU may hold, by their place and by their frame.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use super::chains::{near, Chains};
use super::Place;

/// A cleared translation.
#[derive(Debug)]
pub(super) struct Gone {
    pub(super) place: Place,
    /// The frame that it led to; the first of 512 if it was huge.
    pub(super) frame: u32,
    pub(super) time: u64,
    pub(super) since: u64,
    /// The CPUs that have invalidated this page alone since.
    pub(super) done: Vec<u16>,
}

/// The cleared translations. Each has a number until it is removed.
#[derive(Debug, Default)]
pub(super) struct Cleared {
    all: Vec<Gone>,
    /// The numbers of removed ones.
    vacant: Vec<u32>,
    by_place: Chains,
    by_frame: Chains,
}

impl Cleared {
    /// The number of them.
    pub(super) fn len(&self) -> usize {
        self.by_place.len()
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<u32> {
        self.by_place.all().collect()
    }

    /// Those at a place.
    pub(super) fn at(&self, place: Place) -> impl Iterator<Item = u32> + '_ {
        self.by_place.of(place.hash()).filter(move |&number| self[number].place == place)
    }

    /// Those that led to a frame.
    pub(super) fn to(&self, frame: u32) -> impl Iterator<Item = u32> + '_ {
        self.by_frame.of(frame)
    }

    /// Adds one, cleared at `time`. It takes the place of an earlier one from the same place to the same frame.
    pub(super) fn add(&mut self, place: Place, frame: u32, time: u64, since: u64) {
        let again = self.at(place).find(|&number| self[number].frame == frame);
        let number = again.or_else(|| self.vacant.pop()).unwrap_or_else(|| {
            self.all.push(Gone { place, frame, time, since, done: Vec::new() });
            self.all.len() as u32 - 1
        });
        let gone = &mut self[number];
        // The room of `done` stays.
        gone.done.clear();
        (gone.place, gone.frame, gone.time, gone.since) = (place, frame, time, since);
        if again.is_none() {
            self.by_place.add(number, place.hash());
            self.by_frame.add(number, frame);
        }
    }

    /// Removes one.
    pub(super) fn remove(&mut self, number: u32) {
        self.by_place.remove(number);
        self.by_frame.remove(number);
        self.vacant.push(number);
    }
}

impl Index<u32> for Cleared {
    type Output = Gone;

    fn index(&self, number: u32) -> &Gone {
        &self.all[number as usize]
    }
}

impl IndexMut<u32> for Cleared {
    fn index_mut(&mut self, number: u32) -> &mut Gone {
        &mut self.all[number as usize]
    }
}

impl Place {
    pub(super) fn hash(self) -> u32 {
        // Tables are aligned to pages.
        near(self.root | u64::from(self.huge), self.page)
    }
}
