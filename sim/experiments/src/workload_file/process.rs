//! A process in a run: its mappings and its allocators, those of all threads and those of each.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire_machine::document::{Error, Problem};
use ceasefire_machine::{stored_word, Simulation};
use ceasefire_memory::ObjectId;

use super::language::{File, Mapping, Owner, Workload};
use super::layout::Layout;
use super::pool::Pool;
use super::range::Range;
use super::tally::Tally;
use crate::experiment::RunError;
use crate::measurement::Reference;
use crate::workloads::Stream;

/// A mapping as the threads of a process use it.
#[derive(Debug, Clone)]
pub(super) enum Slot {
    One(Range),
    /// One of several files, drawn at each use.
    Several(Vec<Range>),
}

/// A process.
#[derive(Debug)]
pub(super) struct Process {
    /// The mappings that all its threads share. `None`: each thread has its own.
    pub(super) slots: Vec<Option<Slot>>,
    pub(super) pools: Vec<Option<Rc<Pool>>>,
    /// The number of its threads that have not ended.
    pub(super) alive: Cell<u64>,
    /// The number of its threads at the start.
    pub(super) threads: u64,
    /// The operations of its threads within the measured time.
    pub(super) operations: Cell<u64>,
}

/// Makes the mappings of processes.
pub(super) struct Maker<'a> {
    pub(super) workload: &'a Workload,
    pub(super) layout: &'a Layout,
    pub(super) simulation: &'a Simulation,
    pub(super) tally: &'a Tally,
    pub(super) contents: bool,
    /// The number of references so far.
    pub(super) number: Cell<u32>,
}

impl Maker<'_> {
    /// A process of a group. `first` is the first process of the group, and `others` are those of the groups before it.
    pub(super) fn process(
        &self,
        group: usize,
        at: usize,
        first: Option<&Process>,
        others: &[Vec<Rc<Process>>],
    ) -> Result<Process, RunError> {
        let mut slots = Vec::new();
        for (mapping, its) in self.workload.groups[group].mappings.iter().enumerate() {
            let slot = match its.owner {
                Owner::Thread => None,
                Owner::Process => Some(Slot::One(self.range(group, mapping)?)),
                Owner::Group => Some(match first.and_then(|process| process.slots[mapping].as_ref()) {
                    Some(Slot::One(range)) => Slot::One(range.of_another(its.writable)),
                    _ => Slot::One(self.range(group, mapping)?),
                }),
                Owner::FilesOf(other, theirs) => {
                    let count = self.layout.groups[group].threads.len();
                    let all = others.get(other).into_iter().flatten();
                    let file = |process: &Rc<Process>| match &process.slots[theirs] {
                        Some(Slot::One(range)) => Some(range.of_another(its.writable)),
                        _ => None,
                    };
                    let mine: Vec<Range> = all.skip(at).step_by(count).filter_map(file).collect();
                    if mine.is_empty() {
                        let place = self.workload.groups[group].place.clone();
                        let found = format!("{count} processes");
                        let bound = format!("at most as many as {}", self.workload.groups[other].name);
                        let problem = Problem::invalid(found, bound);
                        return Err(RunError::Workload(Error { problem, ..place }));
                    }
                    Some(Slot::Several(mine))
                }
            };
            slots.push(slot);
        }
        let allocators = &self.layout.groups[group].allocators;
        let pools = allocators.iter().map(|allocator| match &slots[allocator.mapping] {
            Some(Slot::One(range)) => Some(Rc::new(Pool::new(allocator, range.clone()))),
            _ => None,
        });
        let pools = pools.collect();
        Ok(Process { slots, pools, alive: Cell::new(0), threads: 0, operations: Cell::new(0) })
    }

    /// A new range for a mapping of a group.
    pub(super) fn range(&self, group: usize, mapping: usize) -> Result<Range, RunError> {
        let its = &self.workload.groups[group].mappings[mapping];
        let pages = self.layout.groups[group].pages[mapping];
        let range = match its.file {
            None => {
                let reference = if its.comes_and_goes {
                    Reference::without_held(self.next(), pages, self.contents)
                } else {
                    Reference::new(self.next(), pages, self.contents)
                };
                Range::anonymous(pages, self.kept(reference), its.huge)
            }
            Some(kind) => self.file(kind, its, pages)?,
        };
        Ok(if its.comes_and_goes { range.comes_and_goes() } else { range })
    }

    fn file(&self, kind: File, mapping: &Mapping, pages: u64) -> Result<Range, RunError> {
        let memory = self.simulation.memory();
        let file = match kind {
            File::Sparse => memory.create_file(pages as u32)?,
            File::Stored => memory.open_stored_file(pages as u32)?,
        };
        if mapping.writable {
            let number = self.next();
            let reference = match kind {
                File::Sparse => Reference::new(number, pages, self.contents),
                File::Stored => {
                    Reference::filled(number, pages, self.contents, |offset| stored_word(file, offset))
                }
            };
            return Ok(Range::stored(pages, file, self.kept(reference), true));
        }
        if kind == File::Sparse {
            self.simulation.mark_holes(file);
        }
        Ok(Range::marked(pages, self.stream(file, pages)))
    }

    fn stream(&self, file: ObjectId, pages: u64) -> Stream {
        Stream::of(file, pages, &self.tally.streams)
    }

    fn next(&self) -> u32 {
        self.number.replace(self.number.get().wrapping_add(1))
    }

    /// Keeps a reference, whose comparisons count at the end of the run.
    fn kept(&self, reference: Reference) -> Reference {
        self.tally.references.borrow_mut().push(reference.clone());
        reference
    }
}
