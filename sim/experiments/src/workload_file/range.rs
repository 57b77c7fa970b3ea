//! A mapping of a process, and the expected value of every load from it.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire_machine::Program;
use ceasefire_memory::{FaultError, ObjectId, Pages, Protection, PAGE_BYTES};

use super::language::Advice;
use crate::measurement::Reference;
use crate::workloads::{Reader, Stream};

/// A range of addresses of a process.
#[derive(Debug, Clone)]
pub(super) struct Range {
    pub(super) pages: u64,
    backing: Backing,
    huge: bool,
    /// Whether it is mapped and unmapped during the run.
    comes_and_goes: bool,
    /// The address; 0 while it is not mapped. Shared by the threads that use it.
    base: Rc<Cell<u64>>,
}

/// The memory behind a range.
#[derive(Debug, Clone)]
enum Backing {
    /// Private memory.
    Anonymous(Reference),
    /// A file that no program stores to.
    Marked(Stream),
    /// A file that programs store to.
    Stored { file: ObjectId, reference: Reference, writable: bool },
}

impl Range {
    fn new(pages: u64, backing: Backing) -> Self {
        Self { pages, backing, huge: false, comes_and_goes: false, base: Rc::default() }
    }

    /// Private memory.
    pub(super) fn anonymous(pages: u64, reference: Reference, huge: bool) -> Self {
        Self { huge, ..Self::new(pages, Backing::Anonymous(reference)) }
    }

    /// A file that no program stores to.
    pub(super) fn marked(pages: u64, stream: Stream) -> Self {
        Self::new(pages, Backing::Marked(stream))
    }

    /// A file that programs store to.
    pub(super) fn stored(pages: u64, file: ObjectId, reference: Reference, writable: bool) -> Self {
        Self::new(pages, Backing::Stored { file, reference, writable })
    }

    /// The range is mapped and unmapped during the run.
    pub(super) fn comes_and_goes(self) -> Self {
        Self { comes_and_goes: true, ..self }
    }

    /// The same memory, as another process maps it: a file's for itself, private memory not at all.
    pub(super) fn of_another(&self, writable: bool) -> Self {
        let backing = match &self.backing {
            Backing::Stored { file, reference, .. } => {
                Backing::Stored { file: *file, reference: reference.view(), writable }
            }
            other => other.clone(),
        };
        Self { backing, base: Rc::default(), ..self.clone() }
    }

    /// The range as a forked child has it: private memory is a copy.
    pub(super) fn forked(&self) -> Self {
        let backing = match &self.backing {
            Backing::Anonymous(reference) => Backing::Anonymous(reference.copy()),
            Backing::Marked(stream) => Backing::Marked(stream.clone()),
            Backing::Stored { file, reference, writable } => {
                let view = reference.view();
                view.is_at(self.base.get());
                Backing::Stored { file: *file, reference: view, writable: *writable }
            }
        };
        Self { backing, base: Rc::new(Cell::new(self.base.get())), ..self.clone() }
    }

    pub(super) fn is_mapped(&self) -> bool {
        self.base.get() != 0
    }

    /// Maps the range, unless it is mapped.
    pub(super) fn map(&self, program: &Program) -> Result<(), FaultError> {
        if self.is_mapped() {
            return Ok(());
        }
        let pages = Pages::new(self.pages);
        let base = match &self.backing {
            Backing::Anonymous(reference) => {
                let base = program.system_call(|memory, space| memory.map_anonymous(space, pages));
                let base = base.map_err(|_| FaultError::OutOfMemory)?;
                if self.comes_and_goes {
                    reference.is_new_at(base);
                } else {
                    reference.is_at(base);
                }
                base
            }
            Backing::Marked(stream) => stream.map(program)?,
            Backing::Stored { file, reference, writable } => {
                let map =
                    program.system_call(|memory, space| memory.map_shared(space, *file, 0, pages, *writable));
                let base = map.map_err(|_| FaultError::OutOfMemory)?;
                reference.is_at(base);
                base
            }
        };
        if self.huge {
            let advised = program.system_call(|memory, space| memory.advise_huge(space, base, pages, true));
            advised.map_err(|_| FaultError::NotMapped(base))?;
        }
        self.base.set(base);
        Ok(())
    }

    /// Unmaps the range, if it is mapped.
    pub(super) fn unmap(&self, program: &Program) -> Result<(), FaultError> {
        if !self.is_mapped() {
            return Ok(());
        }
        let base = self.base.replace(0);
        let unmapped = program.system_call(|memory, space| memory.unmap(space, base, Pages::new(self.pages)));
        unmapped.map_err(|_| FaultError::OutOfMemory)
    }

    /// Uses the word at an offset `words` times, and compares loads.
    pub(super) fn access(
        &self,
        program: &Program,
        offset: u64,
        words: u32,
        store: bool,
        reader: &mut Reader,
    ) -> Result<(), FaultError> {
        let base = self.base.get();
        if base == 0 {
            return Err(FaultError::NotMapped(offset));
        }
        match &self.backing {
            Backing::Marked(stream) => stream.load(program, (base, offset), words, reader),
            Backing::Anonymous(reference) | Backing::Stored { reference, .. } if store => {
                reference.store_times(program, base + offset, words)
            }
            Backing::Anonymous(reference) | Backing::Stored { reference, .. } => {
                reference.load_times(program, base + offset, words)
            }
        }
    }

    /// Writes the word at an offset of the file by a system call.
    pub(super) fn write(&self, program: &Program, offset: u64) -> Result<(), FaultError> {
        match &self.backing {
            Backing::Stored { file, reference, .. } => {
                reference.write(program, *file, offset).map_err(|_| FaultError::OutOfMemory)
            }
            Backing::Anonymous(_) | Backing::Marked(_) => Err(FaultError::NotMapped(offset)),
        }
    }

    /// Advises the kernel about parts of the range, each an offset and a number of bytes, in one call where the kernel
    /// has one for several parts.
    pub(super) fn advise(
        &self,
        program: &Program,
        advice: Advice,
        parts: &[(u64, u64)],
    ) -> Result<(), FaultError> {
        let base = self.base.get();
        if base == 0 {
            return Err(FaultError::NotMapped(0));
        }
        let ranges: Vec<(u64, u64)> = parts.iter().map(|&(offset, bytes)| (base + offset, bytes)).collect();
        let pages = |&(start, bytes): &(u64, u64)| (start, Pages::new(bytes.div_ceil(PAGE_BYTES)));
        let areas: Vec<(u64, Pages)> = ranges.iter().map(pages).collect();
        let advised = match (advice, &self.backing) {
            (Advice::DontNeed, Backing::Anonymous(reference)) => reference.dropping(&ranges, || {
                program.system_call(|memory, space| memory.discard_ranges(space, &areas))
            }),
            (Advice::DontNeed, _) => {
                program.system_call(|memory, space| memory.discard_ranges(space, &areas))
            }
            (Advice::Free, backing) => {
                if let Backing::Anonymous(reference) = backing {
                    reference.may_be_dropped(&ranges);
                }
                program.system_call(|memory, space| memory.advise_free_ranges(space, &areas))
            }
            (Advice::Cold, _) => areas.iter().try_for_each(|&(start, pages)| {
                program.system_call(|memory, space| memory.advise_cold(space, start, pages))
            }),
            (Advice::PageOut, _) => areas.iter().try_for_each(|&(start, pages)| {
                program.system_call(|memory, space| memory.advise_page_out(space, start, pages))
            }),
        };
        advised.map_err(|_| FaultError::NotMapped(base))
    }

    /// Allows stores to the range, or loads alone.
    pub(super) fn protect(&self, program: &Program, writable: bool) -> Result<(), FaultError> {
        let (base, pages) = (self.base.get(), Pages::new(self.pages));
        let protection = if writable { Protection::ReadWrite } else { Protection::Read };
        let protected = program.system_call(|memory, space| memory.protect(space, base, pages, protection));
        protected.map_err(|_| FaultError::NotMapped(base))
    }
}
