//! What pages belong to: files, and the anonymous memory of an area and of the areas that fork made of it.
//!
//! An object has mappers: who maps which part of it where. A file also has pages that are in memory (the page cache);
//! anonymous pages are found through page tables alone. There is a fixed number of objects, so that a frame can name
//! its object in 32 bits and the reverse map finds it without a lock around all of them. Anonymous memory ends with its
//! last mapper, a file when it is deleted.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::address::PAGE_BYTES;
use crate::locks::{Lock, LockClass, RwLock};
use crate::machine::Machine;
use crate::objects::pages::Pages;
use crate::spaces::space::SpaceHandle;
use crate::{locks, Memory};

/// Names an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(u32);

impl ObjectId {
    const ANONYMOUS: u32 = 1 << 30;

    pub(crate) const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Its number, below the configured number of objects; files and anonymous memory are counted apart.
    pub const fn get(self) -> u32 {
        self.0 & !Self::ANONYMOUS
    }

    /// Whether it is the anonymous memory of a program, not a file.
    pub const fn is_anonymous(self) -> bool {
        self.0 & Self::ANONYMOUS != 0
    }

    pub(crate) const fn raw(self) -> u32 {
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
        write!(f, "all {} files or anonymous areas are in use", self.limit)
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
    /// Its pages are not to be reclaimed.
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
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Mapper<P>> {
        self.0.iter()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn add(&mut self, mapper: Mapper<P>) {
        self.0.push(mapper);
    }

    /// Takes out what maps `[start, end)` in `space`; the parts.
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

/// A file or anonymous memory.
#[derive(Debug)]
pub(crate) struct Object<P: Machine> {
    /// Of a file; anonymous memory keeps none here.
    pub(crate) pages: P::Lock<Pages>,
    pub(crate) mappers: P::RwLock<Mappers<P>>,
}

/// Objects of one kind.
#[derive(Debug)]
struct Slots<P: Machine> {
    slots: Box<[Object<P>]>,
    free: P::Lock<Vec<u32>>,
}

impl<P: Machine> Slots<P> {
    fn new(count: usize, mappers: &'static LockClass) -> Self {
        let object = |_| Object {
            pages: P::Lock::new(&locks::PAGES, Pages::default()),
            mappers: P::RwLock::new(mappers, Mappers(Vec::new())),
        };
        Self {
            slots: (0..count).map(object).collect(),
            free: P::Lock::new(&locks::OBJECTS, (0..count as u32).rev().collect()),
        }
    }

    fn take(&self, platform: &P) -> Result<u32, TooManyObjects> {
        self.free.lock(platform).pop().ok_or(TooManyObjects { limit: self.slots.len() })
    }
}

/// All objects.
#[derive(Debug)]
pub(crate) struct Objects<P: Machine> {
    files: Slots<P>,
    anonymous: Slots<P>,
}

impl<P: Machine> Objects<P> {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            files: Slots::new(count, &locks::FILE_MAPPERS),
            anonymous: Slots::new(count, &locks::ANONYMOUS_MAPPERS),
        }
    }

    fn of(&self, id: ObjectId) -> &Slots<P> {
        if id.is_anonymous() {
            &self.anonymous
        } else {
            &self.files
        }
    }

    pub(crate) fn get(&self, id: ObjectId) -> &Object<P> {
        &self.of(id).slots[id.get() as usize]
    }

    pub(crate) fn create_file(&self, platform: &P, pages: Pages) -> Result<ObjectId, TooManyObjects> {
        let id = ObjectId(self.files.take(platform)?);
        *self.get(id).pages.lock(platform) = pages;
        Ok(id)
    }

    pub(crate) fn create_anonymous(&self, platform: &P) -> Result<ObjectId, TooManyObjects> {
        Ok(ObjectId(self.anonymous.take(platform)? | ObjectId::ANONYMOUS))
    }

    /// Ends an object that nobody maps.
    pub(crate) fn destroy(&self, platform: &P, id: ObjectId) {
        if !id.is_anonymous() {
            *self.get(id).pages.lock(platform) = Pages::default();
        }
        self.of(id).free.lock(platform).push(id.get());
    }
}

impl<P: Machine> Memory<P> {
    /// Adds `mapper` to those of `object`.
    pub(crate) fn hook(&self, object: ObjectId, mapper: Mapper<P>) {
        self.objects.get(object).mappers.write(self.platform()).add(mapper);
    }

    /// Takes what maps `[start, end)` in `space` out of the reverse map of `object`, and ends anonymous memory that
    /// nobody maps any more. Waits until nobody walks the tables below it.
    pub(crate) fn unhook(&self, object: ObjectId, space: &SpaceHandle<P>, start: u64, end: u64) {
        let unused = {
            let mut mappers = self.objects.get(object).mappers.write(self.platform());
            mappers.remove(space, start, end);
            object.is_anonymous() && mappers.is_empty()
        };
        if unused {
            self.objects.destroy(self.platform(), object);
        }
    }
}
