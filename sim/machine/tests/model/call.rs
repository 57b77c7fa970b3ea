//! The calls to the memory under test, and its replies.

use ceasefire_machine::{Options, Program, Sim, Simulation};
use ceasefire_memory::SpaceHandle;

use crate::flight::Fault;
use crate::model::Rights;
use crate::script::Setup;

/// The destination of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Here,
    Anywhere,
    At(u64),
}

/// A program's advice about its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advice {
    Free,
    Cold,
    PageOut,
    Huge(bool),
}

/// An operation with its addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Call {
    Load { address: u64 },
    Store { address: u64, value: u64 },
    MapAnonymous { pages: u64 },
    MapShared { file: usize, first: u32, pages: u64, writable: bool },
    MapPrivate { file: usize, first: u32, pages: u64 },
    Unmap { start: u64, bytes: u64 },
    Discard { start: u64, bytes: u64 },
    Protect { start: u64, bytes: u64, to: Rights },
    Remap { start: u64, bytes: u64, new_bytes: u64, place: Place },
    Advise { start: u64, bytes: u64, advice: Advice },
    Lock { start: u64, bytes: u64 },
    Unlock { start: u64, bytes: u64 },
    Fork,
    Exit,
    Collapse { address: u64 },
    MigrateSpace { from: u16, to: u16 },
    MovePages { pages: Vec<(u64, u16)> },
    Hint { start: u64, bytes: u64 },
    Read { file: usize, offset: u64, bytes: u64 },
    Write { file: usize, offset: u64, data: Vec<u8> },
    Truncate { file: usize, bytes: u64 },
    Invalidate { file: usize, first: u32, pages: u32 },
    Sync { file: usize },
}

/// The reason for which a call was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    OutOfMemory,
    /// A load or store failed at this address.
    Fault(Fault, u64),
    /// Pages are in use at the moment.
    Busy,
    /// The call asked for something impossible.
    Wrong,
}

/// The reply to a call.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Done,
    /// The word that a load returned; nothing if memory has no contents.
    Loaded(Option<u64>),
    Address(u64),
    Space(SpaceHandle<Sim>),
    /// The bytes that were read; nothing if files have no contents.
    Read(Option<Vec<u8>>),
    /// One answer for each of that many pages.
    Pages(usize),
    Refused(Refusal),
}

/// A memory under test.
pub(crate) trait Subject {
    /// The machine that it runs on, and the options.
    fn options(&self, setup: &Setup) -> Options;

    /// Creates files of these lengths in pages, before the run.
    fn create_files(&self, simulation: &Simulation, pages: &[u32]);

    /// Whether it supports a call.
    fn supports(&self, call: &Call) -> bool;

    /// Makes a call, on a thread of space number `space`.
    fn call(&self, program: &Program, space: usize, call: &Call) -> Reply;

    /// Gives the number `child` to the space that the last fork of `parent` created.
    fn forked(&self, parent: usize, child: usize) {
        let _ = (parent, child);
    }

    /// The length of a file.
    fn file_bytes(&self, program: &Program, file: usize) -> Option<u64>;

    /// Deletes all files after the run, and reports lost frames.
    fn finish(&self, simulation: &Simulation) -> Result<(), String>;
}
