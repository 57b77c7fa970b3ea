//! The data that a scenario's threads share across processes.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

use super::mark::SLOTS;
use super::sizes::{COUNT, LARGE};
use super::state::State;
use super::work::Work;
use crate::memory::{Mapping, PAGE};

/// The board of one scenario's operator and readers. It lies in a file that all processes map, so it is zero at first.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Board {
    over: AtomicU64,
    state: AtomicU64,
    /// For each of the scenario's files, its number plus 1.
    files: [AtomicU64; 2],
    places: [AtomicU64; 2],
    /// For each reader the last state in which it went through the whole region.
    seen: [AtomicU64; SLOTS],
    /// For each slot that stores, the last pass in which it stored to all pages.
    progress: [AtomicU64; SLOTS],
    /// For each page the newest version of the operator's word that was stored or that a reader has seen.
    versions: [AtomicU64; LARGE as usize],
    operations: AtomicU64,
    checks: AtomicU64,
}

/// All boards.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Control {
    boards: [Board; COUNT],
}

/// Pages of the file that holds them.
pub(super) const PAGES: u64 = (size_of::<Control>() as u64).div_ceil(PAGE);
/// The address at which this process has mapped them.
static HERE: AtomicU64 = AtomicU64::new(0);

impl Control {
    /// Maps them. Call it once in each process.
    pub(super) fn map(file: u64) -> &'static Self {
        let words = Mapping::shared(file, PAGES, true).expect("the boards cannot be mapped").leak();
        HERE.store(words.as_ptr() as u64, SeqCst);
        Self::here()
    }

    /// The mapping of this process.
    pub(super) fn here() -> &'static Self {
        let here = HERE.load(SeqCst);
        assert!(here != 0, "the boards are not mapped");
        // SAFETY: `map` has stored the address of a mapping that stays, is large enough and begins at a page. It is
        // shared between processes, and consists of atomic words alone.
        unsafe { &*(here as *const Self) }
    }

    pub(super) fn board(&'static self, scenario: usize) -> &'static Board {
        &self.boards[scenario]
    }
}

impl Board {
    /// Whether the scenario's threads must end.
    pub(super) fn over(&self) -> bool {
        self.over.load(SeqCst) != 0
    }

    /// Ends the scenario.
    pub(super) fn end(&self) {
        self.over.store(1, SeqCst);
    }

    pub(super) fn state(&self) -> State {
        State::from_number(self.state.load(SeqCst))
    }

    /// Sets the state. Only the operator calls it.
    pub(super) fn set_state(&self, state: State) {
        self.state.store(state.number(), SeqCst);
    }

    /// Whether the region is mapped, and files and places are known.
    pub(super) fn prepared(&self) -> bool {
        self.state() != State::NONE
    }

    pub(super) fn files(&self) -> [Option<u64>; 2] {
        [&self.files[0], &self.files[1]].map(|file| file.load(SeqCst).checked_sub(1))
    }

    pub(super) fn places(&self) -> [u64; 2] {
        [self.places[0].load(SeqCst), self.places[1].load(SeqCst)]
    }

    /// One of the places.
    pub(super) fn place(&self, which: usize) -> u64 {
        self.places[which].load(SeqCst)
    }

    /// Sets the first place, of a region that moves. Only the operator calls it, during a change.
    pub(super) fn set_place(&self, place: u64) {
        self.places[0].store(place, SeqCst);
    }

    /// Publishes that the region is mapped. The first state follows.
    pub(super) fn publish(&self, files: [Option<u64>; 2], places: [u64; 2]) {
        for (shared, file) in self.files.iter().zip(files) {
            shared.store(file.map_or(0, |file| file + 1), SeqCst);
        }
        for (shared, place) in self.places.iter().zip(places) {
            shared.store(place, SeqCst);
        }
        self.set_state(State::NONE.change());
    }

    /// Notes that a reader went through the whole region in this state.
    pub(super) fn pass(&self, slot: usize, state: State) {
        self.seen[slot].store(state.number(), SeqCst);
    }

    /// Whether all readers did.
    pub(super) fn all_passed(&self, readers: usize, state: State) -> bool {
        self.seen[1..=readers].iter().all(|seen| seen.load(SeqCst) == state.number())
    }

    /// The last pass in which a slot stored to all pages.
    pub(super) fn progress(&self, slot: usize) -> u64 {
        self.progress[slot].load(SeqCst)
    }

    pub(super) fn set_progress(&self, slot: usize, sequence: u64) {
        self.progress[slot].store(sequence, SeqCst);
    }

    /// The least version that a later load of the operator's word in a page may show.
    pub(super) fn version(&self, page: u64) -> u64 {
        self.versions[page as usize].load(SeqCst)
    }

    /// Notes that the operator's word was stored or seen in this version.
    pub(super) fn raise_version(&self, page: u64, sequence: u64) {
        self.versions[page as usize].fetch_max(sequence, SeqCst);
    }

    pub(super) fn count_operation(&self) {
        self.operations.fetch_add(1, SeqCst);
    }

    pub(super) fn count_checks(&self, checks: u64) {
        self.checks.fetch_add(checks, SeqCst);
    }

    pub(super) fn work(&self) -> Work {
        Work { operations: self.operations.load(SeqCst), checks: self.checks.load(SeqCst) }
    }
}
