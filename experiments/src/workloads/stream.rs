//! Reading through a file larger than the memory, which keeps reclaim at work.
//!
//! The file is sparse, mapped shared and read-only, and every eighth byte is loaded once, in order. The file is a hole,
//! so no device is involved: the time goes into faults, the page cache, zeroing and reclaim. Every load must find a
//! zero. Any other value is from a frame that was taken from the reader and given to another program.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire_machine::{Program, Simulation};
use ceasefire_memory::{FaultError, ObjectId, TooManyObjects, PAGE_BYTES};

use crate::measurement::Verdict;

/// The loads from each page: 4096 bytes in steps of 8.
pub(crate) const LOADS: u32 = 512;

/// One reader's file, and the result of comparing all readers' loads.
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    file: ObjectId,
    pages: u64,
    verdict: Rc<Cell<Verdict>>,
}

impl Stream {
    /// Creates a file of `pages` pages. Comparisons are added to `verdict`.
    pub(crate) fn new(
        simulation: &Simulation,
        pages: u64,
        verdict: &Rc<Cell<Verdict>>,
    ) -> Result<Self, TooManyObjects> {
        let file = simulation.memory().create_file(pages as u32)?;
        Ok(Self { file, pages, verdict: verdict.clone() })
    }

    /// Reads through the file again and again, as long as `goes_on`, given the number of pages read, returns true. A
    /// fault that cannot be resolved ends the reading too.
    pub(crate) fn read(
        &self,
        program: &Program,
        mut goes_on: impl FnMut(u64) -> bool,
    ) -> Result<(), FaultError> {
        let (file, pages) = (self.file, self.pages);
        let base = program.system_call(|memory, space| memory.map_shared(space, file, 0, pages, false));
        let base = base.map_err(|_| FaultError::OutOfMemory)?;
        let mut read = 0;
        while goes_on(read) {
            let compare = |value| {
                let Verdict { compared, wrong } = self.verdict.get();
                self.verdict.set(Verdict { compared: compared + 1, wrong: wrong + u64::from(value != 0) });
            };
            program.load_then(base + read % pages * PAGE_BYTES, LOADS, compare)?;
            read += 1;
        }
        Ok(())
    }
}
