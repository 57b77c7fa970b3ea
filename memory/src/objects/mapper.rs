//! Mappers: which spaces map which parts of an object.

use alloc::vec::Vec;

use crate::address::PAGE_BYTES;
use crate::machine::Machine;
use crate::spaces::space::SpaceHandle;

/// A part of an object mapped in a space.
#[derive(Debug)]
pub(crate) struct Mapper<P: Machine> {
    pub(crate) space: SpaceHandle<P>,
    /// The address of its first page.
    pub(crate) start: u64,
    pub(crate) pages: u32,
    /// The number of that page in the object.
    pub(crate) first: u32,
    /// Its pages must not be reclaimed.
    pub(crate) locked: bool,
}

impl<P: Machine> Mapper<P> {
    pub(crate) fn end(&self) -> u64 {
        self.start + u64::from(self.pages) * PAGE_BYTES
    }

    /// The part of it that lies in `[start, end)`.
    pub(crate) fn part(&self, start: u64, end: u64) -> Option<Self> {
        let (start, end) = (start.max(self.start), end.min(self.end()));
        (start < end).then(|| Self {
            space: self.space.clone(),
            start,
            pages: ((end - start) / PAGE_BYTES) as u32,
            first: self.first + ((start - self.start) / PAGE_BYTES) as u32,
            locked: self.locked,
        })
    }
}

/// The mappers of an object.
#[derive(Debug)]
pub(crate) struct Mappers<P: Machine>(Vec<Mapper<P>>);

impl<P: Machine> Mappers<P> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Mapper<P>> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, mapper: Mapper<P>) {
        self.0.push(mapper);
    }

    /// Removes the mapping of `[start, end)` in `space`; returns the parts.
    pub(crate) fn remove(&mut self, space: &SpaceHandle<P>, start: u64, end: u64) -> Vec<Mapper<P>> {
        let id = space.coherence().id();
        let mut removed = Vec::new();
        let mut at = 0;
        while at < self.0.len() {
            let mapper = &self.0[at];
            let part = (mapper.space.coherence().id() == id).then(|| mapper.part(start, end)).flatten();
            let Some(part) = part else {
                at += 1;
                continue;
            };
            let whole = self.0.swap_remove(at);
            self.0.extend(whole.part(whole.start, start));
            self.0.extend(whole.part(end, whole.end()));
            removed.push(part);
        }
        removed
    }
}
