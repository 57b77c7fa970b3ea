//! What the threads of a scenario share, in whatever process they are.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

use super::mark::SLOTS;
use super::sizes::{COUNT, LARGE};
use super::state::State;
use crate::memory::{Mapping, PAGE};

/// Where a scenario's operator and readers meet. A file mapped by all processes holds it, so it is zero at first.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Board {
    state: AtomicU64,
    /// 1 and the number of each of the scenario's files.
    files: [AtomicU64; 2],
    places: [AtomicU64; 2],
    /// For each reader the last state in which it went through the whole region.
    seen: [AtomicU64; SLOTS],
    /// For each who stores, the last pass in which it stored to all pages.
    progress: [AtomicU64; SLOTS],
    /// For each page the newest version of the operator's word that it is known to hold: it was stored, or somebody saw it.
    versions: [AtomicU64; LARGE as usize],
    operations: AtomicU64,
    checks: AtomicU64,
}

/// All boards.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Control {
    over: AtomicU64,
    boards: [Board; COUNT],
}

/// Pages of the file that holds it.
pub(super) const PAGES: u64 = (size_of::<Control>() as u64).div_ceil(PAGE);
/// Where this process has mapped it.
static HERE: AtomicU64 = AtomicU64::new(0);

impl Control {
    /// Maps it, once in each process.
    pub(super) fn map(file: u64) -> &'static Self {
        let words = Mapping::shared(file, PAGES, true).expect("the boards cannot be mapped").leak();
        HERE.store(words.as_ptr() as u64, SeqCst);
        Self::here()
    }

    /// The one that this process has mapped.
    pub(super) fn here() -> &'static Self {
        let here = HERE.load(SeqCst);
        assert!(here != 0, "the boards are not mapped");
        // SAFETY: `map` has put there the address of a mapping that stays, large enough, at the start of a page; it is
        // shared between processes, and consists of atomic words alone.
        unsafe { &*(here as *const Self) }
    }

    pub(super) fn board(&'static self, scenario: usize) -> &'static Board {
        &self.boards[scenario]
    }

    /// Whether all threads shall end.
    pub(super) fn over(&self) -> bool {
        self.over.load(SeqCst) != 0
    }

    pub(super) fn end(&self) {
        self.over.store(1, SeqCst);
    }
}

impl Board {
    pub(super) fn state(&self) -> State {
        State::from_number(self.state.load(SeqCst))
    }

    /// The state was set to `state` by its only writer.
    pub(super) fn set_state(&self, state: State) {
        self.state.store(state.number(), SeqCst);
    }

    /// Whether the region is there, and file and places can be asked for.
    pub(super) fn prepared(&self) -> bool {
        self.state() != State::NONE
    }

    pub(super) fn files(&self) -> [Option<u64>; 2] {
        [&self.files[0], &self.files[1]].map(|file| file.load(SeqCst).checked_sub(1))
    }

    pub(super) fn places(&self) -> [u64; 2] {
        [self.places[0].load(SeqCst), self.places[1].load(SeqCst)]
    }

    /// The region is there; what happens to it first begins.
    pub(super) fn publish(&self, files: [Option<u64>; 2], places: [u64; 2]) {
        for (shared, file) in self.files.iter().zip(files) {
            shared.store(file.map_or(0, |file| file + 1), SeqCst);
        }
        for (shared, place) in self.places.iter().zip(places) {
            shared.store(place, SeqCst);
        }
        self.set_state(State::NONE.change());
    }

    /// A reader went through the whole region in this state.
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

    /// The version that a load of the operator's word in a page shows at least, if it begins after this.
    pub(super) fn version(&self, page: u64) -> u64 {
        self.versions[page as usize].load(SeqCst)
    }

    /// That word was stored, or seen, in this version.
    pub(super) fn raise_version(&self, page: u64, sequence: u64) {
        self.versions[page as usize].fetch_max(sequence, SeqCst);
    }

    pub(super) fn count_operation(&self) {
        self.operations.fetch_add(1, SeqCst);
    }

    pub(super) fn count_checks(&self, checks: u64) {
        self.checks.fetch_add(checks, SeqCst);
    }

    pub(super) fn operations(&self) -> u64 {
        self.operations.load(SeqCst)
    }

    pub(super) fn checks(&self) -> u64 {
        self.checks.load(SeqCst)
    }
}
