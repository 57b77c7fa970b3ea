//! Reading through a file larger than the memory, which keeps reclaim at work.
//!
//! The file is sparse, mapped shared and read-only, and every eighth byte is loaded once, in order. The file is a
//! hole, so no device is involved: the time goes into faults, the page cache, zeroing and reclaim. Where pages have
//! contents, each word of the hole says where it belongs ([`Simulation::mark_holes`]). Any other value is from a frame
//! that was taken from the reader, and is free or another page's.
//!
//! A reader does not come back to a page before nearly all entries of its TLB were replaced, so its own loads never
//! find a missing flush. So every few pages it also compares loads that it could make from other pages, through
//! entries that its CPU may hold ([`Program::load_held`]).

use std::cell::Cell;
use std::rc::Rc;

use ceasefire_machine::{stored_word, Program, Simulation};
use ceasefire_memory::{FaultError, ObjectId, Pages, TooManyObjects, PAGE_BYTES};

use crate::measurement::Verdict;

/// The loads from each page: 4096 bytes in steps of 8.
pub(crate) const LOADS: u32 = 512;

/// After so many pages, at most so many loads through older entries are compared.
const EVERY: u64 = 8;
const MOST: usize = 64;

/// A file of marked words, and the result of comparing all loads from it.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    file: ObjectId,
    pages: u64,
    verdict: Rc<Cell<Verdict>>,
}

/// The place of one reader of a file: the number of pages read, and the address from which on it looks for entries that
/// its CPU may hold.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reader {
    read: u64,
    other: u64,
}

impl Stream {
    /// Creates a file of `pages` pages. Comparisons are added to `verdict`.
    pub(crate) fn new(
        simulation: &Simulation,
        pages: u64,
        verdict: &Rc<Cell<Verdict>>,
    ) -> Result<Self, TooManyObjects> {
        let file = simulation.memory().create_file(pages as u32)?;
        simulation.mark_holes(file);
        Ok(Self::of(file, pages, verdict))
    }

    /// A file of `pages` pages whose words say where they belong.
    pub(crate) fn of(file: ObjectId, pages: u64, verdict: &Rc<Cell<Verdict>>) -> Self {
        Self { file, pages, verdict: verdict.clone() }
    }

    /// Maps the file and returns the address.
    pub(crate) fn map(&self, program: &Program) -> Result<u64, FaultError> {
        let (file, pages) = (self.file, self.pages);
        let base =
            program.system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(pages), false));
        base.map_err(|_| FaultError::OutOfMemory)
    }

    /// Loads `count` times from the page at an offset of the file, which is mapped at `base`.
    pub(crate) fn load(
        &self,
        program: &Program,
        (base, offset): (u64, u64),
        count: u32,
        reader: &mut Reader,
    ) -> Result<(), FaultError> {
        let compare = |address: u64, value| {
            let right = value == stored_word(self.file, address - base);
            self.verdict.set(self.verdict.get() + Verdict::of(right));
        };
        program.load_then(base + offset, count, |value| compare(base + offset, value))?;
        reader.read += 1;
        if reader.read.is_multiple_of(EVERY) {
            let rest = reader.other.max(base)..base + self.pages * PAGE_BYTES;
            reader.other = program.load_held(rest, MOST, compare).unwrap_or(base);
        }
        Ok(())
    }

    /// Reads through the file again and again, as long as `goes_on`, given the number of pages read, returns true. A
    /// fault that cannot be resolved ends the reading too.
    pub(crate) fn read(
        &self,
        program: &Program,
        mut goes_on: impl FnMut(u64) -> bool,
    ) -> Result<(), FaultError> {
        let base = self.map(program)?;
        let mut reader = Reader::default();
        while goes_on(reader.read) {
            let offset = reader.read % self.pages * PAGE_BYTES;
            self.load(program, (base, offset), LOADS, &mut reader)?;
        }
        Ok(())
    }
}
