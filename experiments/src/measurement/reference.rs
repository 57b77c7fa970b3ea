//! The expected value of every load: a copy of a program's memory, kept beside the machine.
//!
//! If frames keep their bytes, each store goes here too at the instant at which it takes effect. Each load is compared
//! at its own instant, and so is each load that the CPU could make through an older entry that it may hold. A lost
//! store, an old copy, a free frame, or another program's page shows as a wrong load. A write by a system call takes
//! effect at some instant before the call returns. A load before the return may find the old or the new value. A load
//! after it must find the new value.
//!
//! No two stores of a run have the same value, so that a page of another range, or an older version, is recognized.

use std::cell::{Cell, RefCell};
use std::ops::Add;
use std::rc::Rc;

use ceasefire_machine::Program;
use ceasefire_memory::{FaultError, ObjectId, WriteError, PAGE_BYTES};

/// The number of loads through older entries that are compared with each load or store.
const FEW: usize = 8;
/// The number of bits of a value that count the stores to a range. Those above are the range's own.
const STORES: u32 = 40;

/// The words of one range of memory, all zeros at first.
#[derive(Debug, Clone)]
pub(crate) struct Reference(Rc<Words>);

#[derive(Debug)]
struct Words {
    start: Cell<u64>,
    /// The page with which to go on looking for entries that a CPU may hold.
    next: Cell<u64>,
    /// The bits of all its values that those of no other range have.
    mark: u64,
    /// The number of its pages; 0 if frames have no contents.
    pages: usize,
    /// The first word of each page, then the second of each, and so on. One load is compared with the same word of
    /// neighbouring pages, whose values are neighbours so.
    values: RefCell<Vec<u64>>,
    /// The index of the word that a system call is about to write, and its new value.
    writing: Cell<Option<(usize, u64)>>,
    /// The counts, shared with copies of the range.
    tally: Rc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    stores: Cell<u64>,
    verdict: Cell<Verdict>,
}

impl Reference {
    /// A range of `pages` pages of zeros, the only one of the run with that `number`. It stays empty if frames have no
    /// `contents`.
    pub(crate) fn new(number: u32, pages: u64, contents: bool) -> Self {
        let count = if contents { (pages * PAGE_BYTES / 8) as usize } else { 0 };
        Self::of((u64::from(number) + 1) << STORES, vec![0; count], Rc::default())
    }

    fn of(mark: u64, values: Vec<u64>, tally: Rc<Tally>) -> Self {
        let (start, next, writing) = (Cell::new(0), Cell::new(0), Cell::new(None));
        let pages = values.len() * 8 / PAGE_BYTES as usize;
        Self(Rc::new(Words { start, next, mark, pages, values: RefCell::new(values), writing, tally }))
    }

    /// A copy of the range in its present state, at the same address, as a fork has it. The copy shares this range's
    /// counts.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::of(self.0.mark, self.0.values.borrow().clone(), self.0.tally.clone());
        copy.is_at(self.0.start.get());
        copy
    }

    /// Sets the address at which the range is mapped.
    pub(crate) fn is_at(&self, start: u64) {
        self.0.start.set(start);
        self.0.next.set(start);
    }

    /// Sets the address at which the range is newly mapped: it is all zeros again.
    pub(crate) fn is_new_at(&self, start: u64) {
        self.is_at(start);
        self.0.values.borrow_mut().fill(0);
    }

    /// Loads from an address, and compares this load and some that the CPU could make through entries that it may hold.
    pub(crate) fn load(&self, program: &Program, address: u64) -> Result<(), FaultError> {
        self.load_held(program, address);
        program.load_then(address, 1, |value| self.compare(address, value))
    }

    /// Compares loads that the CPU could make through entries that it may hold: from the same word of a few pages, at
    /// each call from the next ones.
    pub(crate) fn load_held(&self, program: &Program, address: u64) {
        let words = &*self.0;
        let (start, end) = (words.start.get(), words.start.get() + words.pages as u64 * PAGE_BYTES);
        let next = words.next.get().max(start) + address % PAGE_BYTES;
        let next = program.load_held(next..end, FEW, |address, value| self.compare(address, value));
        words.next.set(next.map_or(start, |next| next - address % PAGE_BYTES));
    }

    /// Compares a load.
    fn compare(&self, address: u64, value: u64) {
        let words = &*self.0;
        let index = words.index(address);
        let right = words.values.borrow()[index] == value || words.writing.get() == Some((index, value));
        let tally = &words.tally.verdict;
        tally.set(tally.get() + Verdict::of(right));
    }

    /// Stores a value that was never stored before to the word at an address.
    pub(crate) fn store(&self, program: &Program, address: u64) -> Result<(), FaultError> {
        let (words, value) = (&*self.0, self.fresh_value());
        self.load_held(program, address);
        program.store_then(address, 1, value, || words.values.borrow_mut()[words.index(address)] = value)
    }

    /// Writes a value that was never stored before to a word of a file, by a system call. The range must show the
    /// file's bytes from the first. Only one write may be under way at a time.
    pub(crate) fn write(&self, program: &Program, file: ObjectId, offset: u64) -> Result<(), WriteError> {
        let (words, value) = (&*self.0, self.fresh_value());
        let index = words.index(words.start.get() + offset);
        words.writing.set(Some((index, value)));
        program.system_call(|memory, _| memory.write(file, offset, &value.to_le_bytes()))?;
        words.writing.set(None);
        // The range has no words if frames have no contents.
        words.values.borrow_mut().get_mut(index).into_iter().for_each(|word| *word = value);
        Ok(())
    }

    /// The numbers of compared and of wrong loads.
    pub(crate) fn verdict(&self) -> Verdict {
        self.0.tally.verdict.get()
    }

    fn fresh_value(&self) -> u64 {
        let stores = &self.0.tally.stores;
        stores.set(stores.get() + 1);
        self.0.mark | stores.get()
    }
}

impl Words {
    fn index(&self, address: u64) -> usize {
        let offset = (address - self.start.get()) as usize;
        let (page, word) = (offset / PAGE_BYTES as usize, offset % PAGE_BYTES as usize / 8);
        word * self.pages + page
    }
}

/// The result of comparing loads: the number compared, and the number that returned a wrong value.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Verdict {
    pub(crate) compared: u64,
    pub(crate) wrong: u64,
}

impl Verdict {
    /// One compared load.
    pub(crate) fn of(right: bool) -> Self {
        Self { compared: 1, wrong: u64::from(!right) }
    }
}

impl Add for Verdict {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { compared: self.compared + other.compared, wrong: self.wrong + other.wrong }
    }
}

#[cfg(test)]
mod tests {
    use ceasefire::Schedule;
    use ceasefire_machine::config::builtin;
    use ceasefire_machine::{Options, Simulation};
    use ceasefire_memory::Pages;

    use super::*;

    /// Runs a single thread, with contents, on a small machine with a file of two pages.
    fn alone(body: impl FnOnce(&Program, ObjectId) + 'static) {
        let machine = builtin("1-socket").expect("a listed name").expect("a valid file");
        let machine = machine.scaled(1.0 / 1024.0).expect("a scale above 0");
        let options = Options { contents: true, ..Options::new(Schedule::Batched) };
        let simulation = Simulation::new(&machine, options).expect("it fits");
        let file = simulation.memory().create_file(2).expect("a free object");
        let space = simulation.memory().new_space().expect("a frame");
        simulation.spawn("test", 0, 0, &space, move |program| body(program, file)).expect("a stack");
        simulation.run(|_, _| true).expect("no trace");
    }

    fn counts(reference: &Reference) -> (u64, u64) {
        (reference.verdict().compared, reference.verdict().wrong)
    }

    #[test]
    fn a_store_past_the_reference_makes_a_wrong_load() {
        alone(|program, _| {
            let base = program.memory().map_anonymous(program.space(), Pages::new(1)).expect("room");
            let reference = Reference::new(0, 1, true);
            reference.is_at(base);
            reference.store(program, base + 8).expect("memory");
            reference.load(program, base + 8).expect("memory");
            // Once through the entry that the CPU has held since the store, and once as loads are made.
            assert_eq!(counts(&reference), (2, 0));
            program.store(base + 8, 1, 99).expect("memory");
            reference.load(program, base + 8).expect("memory");
            assert_eq!(counts(&reference), (4, 2));
        });
    }

    #[test]
    fn a_mapping_shows_a_write_and_an_old_word_is_wrong_after_it() {
        alone(|program, file| {
            let base =
                program.memory().map_shared(program.space(), file, 0, Pages::new(2), false).expect("room");
            let reference = Reference::new(0, 2, true);
            reference.is_at(base);
            reference.write(program, file, 4096).expect("memory");
            reference.load(program, base + 4096).expect("memory");
            assert_eq!(counts(&reference), (1, 0), "the CPU held no entry before");
            program.memory().write(file, 4096, &[0; 8]).expect("memory");
            reference.load(program, base + 4096).expect("memory");
            assert_eq!(counts(&reference), (3, 2));
            // During a write, a load may find the old or the new value.
            reference.0.writing.set(Some((reference.0.index(base + 4096), 0)));
            reference.load(program, base + 4096).expect("memory");
            assert_eq!(counts(&reference), (5, 2));
        });
    }

    #[test]
    fn a_copy_keeps_its_values_and_shares_the_counts() {
        alone(|program, _| {
            let base = program.memory().map_anonymous(program.space(), Pages::new(1)).expect("room");
            let reference = Reference::new(0, 1, true);
            reference.is_at(base);
            let copy = reference.copy();
            reference.store(program, base).expect("memory");
            copy.load(program, base).expect("memory");
            assert_eq!(counts(&reference), (2, 2), "the program has not forked");
        });
    }
}
