//! What pages belong to: files, and the anonymous memory of an area.
//!
//! An object has the pages that are in memory (the page cache; empty for anonymous memory, whose pages are found
//! through page tables alone) and its mappers: who maps which part of it where. There is a fixed number of objects, so
//! that a frame can name its object in 32 bits and the reverse map finds it without a lock around all of them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use ceasefire::{Lock, RwLock};

use crate::address::{FrameNumber, PAGE_BYTES};
use crate::machine::Machine;
use crate::space::SpaceHandle;
use crate::{locks, Memory};

/// Names an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(u32);

impl ObjectId {
    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number, below the configured number of objects.
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// All objects are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyObjects {
    /// How many there may be.
    pub limit: usize,
}

impl fmt::Display for TooManyObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "all {} files and anonymous areas are in use", self.limit)
    }
}

const CHUNK: usize = 64;
const ABSENT: u32 = u32::MAX;

/// 64 neighbouring pages of a file.
#[derive(Debug)]
struct Chunk {
    present: u32,
    frames: [u32; CHUNK],
}

/// The pages of an object that are in memory: a directory of chunks, present only where they hold a page.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    chunks: Vec<Option<Box<Chunk>>>,
    /// The object's length in pages.
    pub(crate) len: u32,
}

impl Pages {
    pub(crate) fn find(&self, index: u32) -> Option<FrameNumber> {
        let chunk = self.chunks.get(index as usize / CHUNK)?.as_ref()?;
        let frame = chunk.frames[index as usize % CHUNK];
        (frame != ABSENT).then_some(FrameNumber::new(frame))
    }

    /// Puts a page in a free place.
    pub(crate) fn insert(&mut self, index: u32, frame: FrameNumber) {
        let at = index as usize / CHUNK;
        if at >= self.chunks.len() {
            self.chunks.resize_with(at + 1, || None);
        }
        let chunk =
            self.chunks[at].get_or_insert_with(|| Box::new(Chunk { present: 0, frames: [ABSENT; CHUNK] }));
        let slot = &mut chunk.frames[index as usize % CHUNK];
        debug_assert_eq!(*slot, ABSENT, "two frames for page {index} of a file");
        *slot = frame.get();
        chunk.present += 1;
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<FrameNumber> {
        let frame = self.find(index)?;
        let slot = self.chunks.get_mut(index as usize / CHUNK)?;
        let chunk = slot.as_mut()?;
        chunk.frames[index as usize % CHUNK] = ABSENT;
        chunk.present -= 1;
        if chunk.present == 0 {
            *slot = None;
        }
        Some(frame)
    }

    /// Any page that is in memory.
    fn any(&self) -> Option<u32> {
        let at = self.chunks.iter().position(Option::is_some)?;
        let chunk = self.chunks[at].as_ref()?;
        let slot = chunk.frames.iter().position(|&frame| frame != ABSENT)?;
        Some((at * CHUNK + slot) as u32)
    }
}

/// A part of an object mapped somewhere.
#[derive(Debug)]
pub(crate) struct Mapper<P: Machine> {
    pub(crate) space: SpaceHandle<P>,
    /// Where its first page is mapped.
    pub(crate) start: u64,
    pub(crate) pages: u32,
    /// Which page of the object that is.
    pub(crate) first: u32,
}

impl<P: Machine> Mapper<P> {
    /// What is left of it without `[start, end)`.
    pub(crate) fn without(self, start: u64, end: u64) -> impl Iterator<Item = Self> {
        let own_end = self.start + u64::from(self.pages) * PAGE_BYTES;
        let part = |from: u64, to: u64| {
            (from < to).then(|| Self {
                space: self.space.clone(),
                start: from,
                pages: ((to - from) / PAGE_BYTES) as u32,
                first: self.first + ((from - self.start) / PAGE_BYTES) as u32,
            })
        };
        let (before, after) = (part(self.start, start.min(own_end)), part(end.max(self.start), own_end));
        before.into_iter().chain(after)
    }
}

/// A file or the anonymous memory of an area.
#[derive(Debug)]
pub(crate) struct Object<P: Machine> {
    pub(crate) pages: P::Lock<Pages>,
    pub(crate) mappers: P::RwLock<Vec<Mapper<P>>>,
}

/// All objects.
#[derive(Debug)]
pub(crate) struct Objects<P: Machine> {
    slots: Box<[Object<P>]>,
    free: P::Lock<Vec<u32>>,
}

impl<P: Machine> Objects<P> {
    pub(crate) fn new(count: usize) -> Self {
        let object = |_| Object {
            pages: P::Lock::new(&locks::PAGES, Pages::default()),
            mappers: P::RwLock::new(&locks::MAPPERS, Vec::new()),
        };
        Self {
            slots: (0..count).map(object).collect(),
            free: P::Lock::new(&locks::OBJECTS, (0..count as u32).rev().collect()),
        }
    }

    pub(crate) fn get(&self, id: ObjectId) -> &Object<P> {
        &self.slots[id.0 as usize]
    }

    pub(crate) fn create(&self, platform: &P, pages: u32) -> Result<ObjectId, TooManyObjects> {
        let number = self.free.lock(platform).pop().ok_or(TooManyObjects { limit: self.slots.len() })?;
        self.slots[number as usize].pages.lock(platform).len = pages;
        Ok(ObjectId(number))
    }

    pub(crate) fn destroy(&self, platform: &P, id: ObjectId) {
        *self.get(id).pages.lock(platform) = Pages::default();
        self.free.lock(platform).push(id.0);
    }
}

impl<P: Machine> Memory<P> {
    /// A new file of `pages` pages that reads as zeros: a hole, with nothing on any device.
    ///
    /// # Errors
    /// [`TooManyObjects`] beyond the configured number.
    pub fn create_file(&self, pages: u32) -> Result<ObjectId, TooManyObjects> {
        self.objects.create(self.platform(), pages)
    }

    /// Deletes a file that nothing maps any more, and drops its pages.
    ///
    /// # Panics
    /// In debug builds, if it is still mapped.
    pub fn delete_file(&self, file: ObjectId) {
        let object = self.objects.get(file);
        debug_assert!(
            object.mappers.read(self.platform()).is_empty(),
            "{file:?} is deleted while it is mapped"
        );
        loop {
            // One at a time: whoever holds a page besides (reclaim, a CPU's batch) frees it when it lets go.
            let page = {
                let mut pages = object.pages.lock(self.platform());
                pages.any().and_then(|index| pages.remove(index))
            };
            let Some(page) = page else { break };
            self.frames.get(page).set_dirty(false);
            self.frames.get(page).orphan();
            self.put(page);
        }
        self.objects.destroy(self.platform(), file);
    }

    /// How many pages of a file are in memory.
    pub fn cached_pages(&self, file: ObjectId) -> u64 {
        let pages = self.objects.get(file).pages.lock(self.platform());
        pages.chunks.iter().flatten().map(|chunk| u64::from(chunk.present)).sum()
    }
}
