//! The objects that pages belong to: files, and the anonymous memory of an area and of the areas that fork copied from
//! it.
//!
//! An object has mappers, which say which space maps which part of it where. A file also has pages in memory (the page
//! cache). Anonymous pages are found only through page tables. The number of objects is fixed. So a frame names its
//! object in 32 bits, and the reverse map finds the object without a lock around all of them. Anonymous memory ends
//! with its last mapper, a file when it is deleted.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use crate::address::ObjectId;
use crate::locks;
use crate::locks::{Lock, LockClass, RwLock};
use crate::machine::Machine;
use crate::objects::mapper::Mappers;
use crate::objects::pages::{Directory, Pages};

/// All objects are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyObjects {
    /// The most objects that may exist.
    pub limit: usize,
}

impl fmt::Display for TooManyObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "all {} files or anonymous areas are in use", self.limit)
    }
}

impl core::error::Error for TooManyObjects {}

/// A file or anonymous memory.
#[derive(Debug)]
pub(crate) struct Object<P: Machine> {
    /// The pages of a file. Anonymous memory keeps none here.
    pub(crate) pages: Directory<P>,
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
            pages: Directory::new(&locks::PAGES),
            mappers: P::RwLock::new(mappers, Mappers::new()),
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
        let id = ObjectId::new(self.files.take(platform)?);
        self.get(id).pages.reset(platform, pages);
        Ok(id)
    }

    pub(crate) fn create_anonymous(&self, platform: &P) -> Result<ObjectId, TooManyObjects> {
        Ok(ObjectId::anonymous(self.anonymous.take(platform)?))
    }

    /// Ends an object that no space maps.
    pub(crate) fn destroy(&self, platform: &P, id: ObjectId) {
        if !id.is_anonymous() {
            self.get(id).pages.reset(platform, Pages::default());
        }
        self.of(id).free.lock(platform).push(id.get());
    }
}
