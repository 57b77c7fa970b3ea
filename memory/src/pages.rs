//! The pages of a file that are in memory, and which of the others its device holds.
//!
//! A directory of chunks of 64 neighbouring pages, in two levels, present only where they hold a page or the device does.
//! A page that is in neither place is a hole and reads as zeros. The swap device uses the same for its slots.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::address::{FrameNumber, PAGE_BYTES};

const CHUNK: usize = 64;
const ABSENT: u32 = u32::MAX;

/// 64 neighbouring pages.
#[derive(Debug)]
struct Chunk {
    present: u32,
    frames: [u32; CHUNK],
    /// A bit for each page that was written to the device.
    stored: u64,
}

/// Neighbouring chunks that are found through one pointer.
const GROUP: usize = 1024;

type Group = [Option<Box<Chunk>>; GROUP];

/// The pages of an object that are in memory.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    /// Grown to where the last group is: half a megabyte for the largest object.
    groups: Vec<Option<Box<Group>>>,
    /// The object's length in bytes.
    pub(crate) bytes: u64,
}

/// Which group, which chunk of it, and which place in that.
fn place(index: u32) -> (usize, usize, usize) {
    let chunk = index as usize / CHUNK;
    (chunk / GROUP, chunk % GROUP, index as usize % CHUNK)
}

impl Pages {
    /// None, of an object of `bytes`.
    pub(crate) fn new(bytes: u64) -> Self {
        Self { groups: Vec::new(), bytes }
    }

    /// The object's length in pages, the last one perhaps in part.
    pub(crate) fn len(&self) -> u32 {
        self.bytes.div_ceil(PAGE_BYTES) as u32
    }

    fn chunk(&self, index: u32) -> Option<&Chunk> {
        let (group, chunk, _) = place(index);
        self.groups.get(group)?.as_ref()?[chunk].as_deref()
    }

    fn chunk_mut(&mut self, index: u32) -> &mut Chunk {
        let (group, chunk, _) = place(index);
        if group >= self.groups.len() {
            self.groups.resize_with(group + 1, || None);
        }
        let group = self.groups[group].get_or_insert_with(|| Box::new([const { None }; GROUP]));
        group[chunk].get_or_insert_with(|| Box::new(Chunk { present: 0, frames: [ABSENT; CHUNK], stored: 0 }))
    }

    pub(crate) fn find(&self, index: u32) -> Option<FrameNumber> {
        let frame = self.chunk(index)?.frames[index as usize % CHUNK];
        (frame != ABSENT).then_some(FrameNumber::new(frame))
    }

    /// Puts a page into a free place.
    pub(crate) fn insert(&mut self, index: u32, frame: FrameNumber) {
        let chunk = self.chunk_mut(index);
        let slot = &mut chunk.frames[index as usize % CHUNK];
        debug_assert_eq!(*slot, ABSENT, "two frames for page {index} of a file");
        *slot = frame.get();
        chunk.present += 1;
    }

    /// Puts another frame where `old` is.
    pub(crate) fn replace(&mut self, index: u32, old: FrameNumber, new: FrameNumber) {
        debug_assert_eq!(self.find(index), Some(old));
        self.chunk_mut(index).frames[index as usize % CHUNK] = new.get();
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<FrameNumber> {
        let (group, at, slot) = place(index);
        let entry = &mut self.groups.get_mut(group)?.as_mut()?[at];
        let chunk = entry.as_mut()?;
        let frame = core::mem::replace(&mut chunk.frames[slot], ABSENT);
        if frame == ABSENT {
            return None;
        }
        chunk.present -= 1;
        if chunk.present == 0 && chunk.stored == 0 {
            *entry = None;
        }
        Some(FrameNumber::new(frame))
    }

    /// Whether a page is neither in memory nor on the device (`Some(false)`), on the device alone (`Some(true)`), or in
    /// memory.
    pub(crate) fn missing(&self, index: u32) -> Option<bool> {
        let Some(chunk) = self.chunk(index) else { return Some(false) };
        let slot = index as usize % CHUNK;
        (chunk.frames[slot] == ABSENT).then_some(chunk.stored >> slot & 1 != 0)
    }

    /// Whether the device holds a page.
    pub(crate) fn is_stored(&self, index: u32) -> bool {
        self.chunk(index).is_some_and(|chunk| chunk.stored >> (index as usize % CHUNK) & 1 != 0)
    }

    /// The device holds a page from now on, or none that matters.
    pub(crate) fn set_stored(&mut self, index: u32, stored: bool) {
        if stored != self.is_stored(index) {
            self.chunk_mut(index).stored ^= 1 << (index as usize % CHUNK);
            self.shrink(index);
        }
    }

    /// Lets go of a chunk that says nothing. Its group stays until the object ends.
    fn shrink(&mut self, index: u32) {
        let (group, chunk, _) = place(index);
        if let Some(group) = &mut self.groups[group] {
            if group[chunk].as_ref().is_some_and(|chunk| chunk.present == 0 && chunk.stored == 0) {
                group[chunk] = None;
            }
        }
    }

    /// The chunks from that of page `from` on, with the first page of each.
    fn chunks_from(&self, from: u32) -> impl Iterator<Item = (u32, &Chunk)> {
        let (first, skip, _) = place(from);
        let groups = self.groups.iter().enumerate().skip(first);
        groups.filter_map(|(at, group)| Some((at, group.as_ref()?))).flat_map(move |(at, group)| {
            let chunks = group.iter().enumerate().skip(if at == first { skip } else { 0 });
            chunks.filter_map(move |(chunk, present)| {
                Some((((at * GROUP + chunk) * CHUNK) as u32, present.as_deref()?))
            })
        })
    }

    /// The first page at or after `from` that is in memory.
    pub(crate) fn next(&self, from: u32) -> Option<(u32, FrameNumber)> {
        self.chunks_from(from).find_map(|(first, chunk)| {
            let skip = from.saturating_sub(first) as usize;
            let slot = (skip..CHUNK).find(|&slot| chunk.frames[slot] != ABSENT)?;
            Some((first + slot as u32, FrameNumber::new(chunk.frames[slot])))
        })
    }

    /// Forgets what the device holds from page `from` on.
    pub(crate) fn forget_stored(&mut self, from: u32) {
        let starts: Vec<u32> = self.chunks_from(from).map(|(first, _)| first).collect();
        for first in starts {
            let keep = from.saturating_sub(first);
            self.chunk_mut(first).stored &= (1 << keep) - 1;
            self.shrink(first);
        }
    }

    /// How many are in memory.
    pub(crate) fn present(&self) -> u64 {
        self.chunks_from(0).map(|(_, chunk)| u64::from(chunk.present)).sum()
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keeps_what_a_map_would(steps in prop::collection::vec((prop_oneof![0u32..300, 65_400u32..65_700, Just(u32::MAX - 1)], 0u32..5), 1..200)) {
            let (mut pages, mut frames, mut stored) = (Pages::new(0), BTreeMap::new(), BTreeMap::new());
            for (number, (index, action)) in (0..).zip(steps) {
                match action {
                    0 if !frames.contains_key(&index) => {
                        pages.insert(index, FrameNumber::new(number));
                        frames.insert(index, FrameNumber::new(number));
                    }
                    1 => prop_assert_eq!(pages.remove(index), frames.remove(&index)),
                    2 => {
                        pages.set_stored(index, number % 2 == 0);
                        stored.insert(index, number % 2 == 0);
                    }
                    3 => {
                        pages.forget_stored(index);
                        stored.retain(|&page, _| page < index);
                    }
                    _ => {
                        let next = frames.range(index..).next().map(|(&index, &frame)| (index, frame));
                        prop_assert_eq!(pages.next(index), next);
                    }
                }
                prop_assert_eq!(pages.find(index), frames.get(&index).copied());
                prop_assert_eq!(pages.is_stored(index), stored.get(&index).copied().unwrap_or(false));
                prop_assert_eq!(pages.present(), frames.len() as u64);
            }
        }
    }
}
