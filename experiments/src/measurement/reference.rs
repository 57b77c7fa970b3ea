//! What every load must return: the bytes of a program's memory, kept plainly beside the machine.
//!
//! Where frames keep their bytes each store goes here too, at the instant at which it takes effect, and each load is
//! compared with it at its own. A lost store, an old copy, or another program's page is a wrong load. A write by a system
//! call takes effect at some instant until it returns: a load meanwhile may find either, and one that comes after it must
//! find what was written.

use std::cell::{Cell, RefCell};
use std::ops::Add;
use std::rc::Rc;

use ceasefire_machine::Program;
use ceasefire_memory::{FaultError, ObjectId, WriteError};

/// The words of one range of memory, which reads as zeros at first.
#[derive(Debug, Clone)]
pub(crate) struct Reference(Rc<Words>);

#[derive(Debug)]
struct Words {
    start: Cell<u64>,
    /// Empty if frames have no contents.
    values: RefCell<Vec<u64>>,
    /// The word that a system call is about to write, and what.
    writing: Cell<Option<(usize, u64)>>,
    /// Shared with copies of the range.
    tally: Rc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    stores: Cell<u64>,
    verdict: Cell<Verdict>,
}

impl Reference {
    /// `bytes` of zeros; of no use if frames have no `contents`.
    pub(crate) fn new(bytes: u64, contents: bool) -> Self {
        let count = if contents { bytes as usize / 8 } else { 0 };
        Self::of(vec![0; count], Rc::default())
    }

    fn of(values: Vec<u64>, tally: Rc<Tally>) -> Self {
        let (start, writing) = (Cell::new(0), Cell::new(None));
        Self(Rc::new(Words { start, values: RefCell::new(values), writing, tally }))
    }

    /// A copy of the range as it is now, at the same place: what a fork has. It counts with this one.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::of(self.0.values.borrow().clone(), self.0.tally.clone());
        copy.is_at(self.0.start.get());
        copy
    }

    /// Where the range is mapped.
    pub(crate) fn is_at(&self, start: u64) {
        self.0.start.set(start);
    }

    /// Loads `count` times from the page at an address, the first of them compared.
    pub(crate) fn load(&self, program: &Program, address: u64, count: u32) -> Result<(), FaultError> {
        let words = &*self.0;
        program.load_then(address, count, |value| {
            let index = words.index(address);
            let right = words.values.borrow()[index] == value || words.writing.get() == Some((index, value));
            let tally = &words.tally.verdict;
            tally.set(tally.get() + Verdict { compared: 1, wrong: u64::from(!right) });
        })
    }

    /// Stores to a word at an address, a value that was never stored before.
    pub(crate) fn store(&self, program: &Program, address: u64) -> Result<(), FaultError> {
        let (words, value) = (&*self.0, self.fresh_value());
        program.store_then(address, 1, value, || words.values.borrow_mut()[words.index(address)] = value)
    }

    /// Writes a word of the file whose bytes the range shows from its first on, by a system call, a value that was never
    /// stored before. One write at a time.
    pub(crate) fn write(&self, program: &Program, file: ObjectId, offset: u64) -> Result<(), WriteError> {
        let (words, value, index) = (&*self.0, self.fresh_value(), offset as usize / 8);
        words.writing.set(Some((index, value)));
        program.system_call(|memory, _| memory.write(file, offset, &value.to_le_bytes()))?;
        words.writing.set(None);
        // There is none if frames have no contents.
        words.values.borrow_mut().get_mut(index).into_iter().for_each(|word| *word = value);
        Ok(())
    }

    /// How many loads were compared, and how many of them returned something else.
    pub(crate) fn verdict(&self) -> Verdict {
        self.0.tally.verdict.get()
    }

    fn fresh_value(&self) -> u64 {
        let stores = &self.0.tally.stores;
        stores.set(stores.get() + 1);
        stores.get()
    }
}

impl Words {
    fn index(&self, address: u64) -> usize {
        ((address - self.start.get()) / 8) as usize
    }
}

/// What came of comparing loads.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Verdict {
    pub(crate) compared: u64,
    pub(crate) wrong: u64,
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

    use super::*;

    /// Runs a thread alone, with contents, on a small machine with a file of two pages.
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
    fn a_store_that_it_was_not_told_of_is_a_wrong_load() {
        alone(|program, _| {
            let base = program.memory().map_anonymous(program.space(), 1).expect("room");
            let reference = Reference::new(4096, true);
            reference.is_at(base);
            reference.store(program, base + 8).expect("memory");
            reference.load(program, base + 8, 1).expect("memory");
            assert_eq!(counts(&reference), (1, 0));
            program.store(base + 8, 1, 99).expect("memory");
            reference.load(program, base + 8, 1).expect("memory");
            assert_eq!(counts(&reference), (2, 1));
        });
    }

    #[test]
    fn a_write_is_found_through_a_mapping_and_an_old_word_is_wrong_after_it() {
        alone(|program, file| {
            let base = program.memory().map_shared(program.space(), file, 0, 2, false).expect("room");
            let reference = Reference::new(8192, true);
            reference.is_at(base);
            reference.write(program, file, 4096).expect("memory");
            reference.load(program, base + 4096, 1).expect("memory");
            assert_eq!(counts(&reference), (1, 0));
            program.memory().write(file, 4096, &[0; 8]).expect("memory");
            reference.load(program, base + 4096, 1).expect("memory");
            assert_eq!(counts(&reference), (2, 1));
            // While it is written a load may find it or not.
            reference.0.writing.set(Some((512, 0)));
            reference.load(program, base + 4096, 1).expect("memory");
            assert_eq!(counts(&reference), (3, 1));
        });
    }

    #[test]
    fn a_copy_stays_as_it_was_and_counts_with_what_it_was_copied_from() {
        alone(|program, _| {
            let base = program.memory().map_anonymous(program.space(), 1).expect("room");
            let reference = Reference::new(4096, true);
            reference.is_at(base);
            let copy = reference.copy();
            reference.store(program, base).expect("memory");
            copy.load(program, base, 1).expect("memory");
            assert_eq!(counts(&reference), (1, 1), "the program has not forked");
        });
    }
}
