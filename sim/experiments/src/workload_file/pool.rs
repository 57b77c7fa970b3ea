//! An allocator in a run: which of its objects are in use, free with their pages, and free without.
//!
//! A freed object keeps its pages until the allocator gives them back to the kernel, with one call for a batch of
//! objects. An allocator that purges at once hands none of them out before that: the next user must find zeros, as the
//! next instance in a slot of WebAssembly must. Any other allocator hands out the object freed last, with its pages.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use ceasefire_machine::Program;
use ceasefire_memory::{FaultError, PAGE_BYTES};

use super::language::{Advice, Allocator, Purge};
use super::range::Range;

/// The time after which a thread looks again for an object that another thread is giving back: 1 us, in picoseconds.
const LOOK: u64 = 1_000_000;

/// An allocator's state, shared by the threads that use it.
#[derive(Debug)]
pub(super) struct Pool {
    range: Range,
    /// The pages of an object.
    pub(super) object: u64,
    /// The first pages of an object, which its user uses.
    pub(super) used: u64,
    purge: Purge,
    batch: usize,
    /// The free objects without pages, the last in first out.
    clean: RefCell<Vec<u64>>,
    /// The free objects with pages and the times at which they were freed, the oldest first.
    dirty: RefCell<VecDeque<(u64, u64)>>,
    /// The number of objects that threads are giving back.
    going: Cell<usize>,
}

impl Pool {
    pub(super) fn new(allocator: &Allocator<u64>, range: Range) -> Self {
        let objects = range.pages / allocator.object;
        Self {
            range,
            object: allocator.object,
            used: allocator.used.unwrap_or(allocator.object),
            purge: allocator.purge,
            batch: allocator.batch as usize,
            clean: RefCell::new((0..objects).rev().collect()),
            dirty: RefCell::default(),
            going: Cell::new(0),
        }
    }

    /// The range that holds the objects.
    pub(super) fn range(&self) -> &Range {
        &self.range
    }

    /// Takes a free object.
    ///
    /// # Errors
    /// All objects are in use.
    pub(super) fn allocate(&self, program: &Program) -> Result<u64, FaultError> {
        self.purge_old(program)?;
        loop {
            let warm = if self.purge == Purge::AtOnce { None } else { self.dirty.borrow_mut().pop_back() };
            let object = warm.map(|(object, _)| object).or_else(|| self.clean.borrow_mut().pop());
            if let Some(object) = object {
                return Ok(object);
            }
            if self.purge(program, self.batch)? == 0 {
                if self.going.get() == 0 {
                    return Err(FaultError::OutOfMemory);
                }
                program.compute(LOOK);
            }
        }
    }

    /// Frees an object.
    pub(super) fn free(&self, program: &Program, object: u64) -> Result<(), FaultError> {
        self.dirty.borrow_mut().push_back((object, program.now()));
        self.purge_old(program)
    }

    /// Gives back full batches of the objects that have been free for long enough.
    fn purge_old(&self, program: &Program) -> Result<(), FaultError> {
        let stays = match self.purge {
            Purge::Never => return Ok(()),
            Purge::AtOnce => 0,
            Purge::After(time) => time,
        };
        let now = program.now();
        loop {
            let old = self
                .dirty
                .borrow()
                .iter()
                .take_while(|(_, since)| since.saturating_add(stays) <= now)
                .count();
            if old < self.batch {
                return Ok(());
            }
            self.purge(program, self.batch)?;
        }
    }

    /// Gives the pages of at most so many free objects back to the kernel, the oldest first, one batch in a call.
    /// Returns the number of objects.
    pub(super) fn purge(&self, program: &Program, most: usize) -> Result<usize, FaultError> {
        let mut purged = 0;
        while purged < most {
            let count = (most - purged).min(self.batch).min(self.dirty.borrow().len());
            if count == 0 {
                break;
            }
            let objects: Vec<u64> =
                self.dirty.borrow_mut().drain(..count).map(|(object, _)| object).collect();
            self.going.set(self.going.get() + count);
            let bytes = self.object * PAGE_BYTES;
            let parts: Vec<(u64, u64)> = objects.iter().map(|object| (object * bytes, bytes)).collect();
            let given = self.range.advise(program, Advice::DontNeed, &parts);
            self.going.set(self.going.get() - count);
            self.clean.borrow_mut().extend(objects.into_iter().rev());
            given?;
            purged += count;
        }
        Ok(purged)
    }
}
