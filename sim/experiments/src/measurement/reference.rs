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

/// The value of a word that is old or zero until a call that drops its page returns.
const DROPPED: u64 = u64::MAX;
/// The value of a word that may have any of several values until it is stored to.
const UNKNOWN: u64 = u64::MAX - 1;

/// The words of one range of memory, all zeros at first, as one space maps them.
#[derive(Debug, Clone)]
pub(crate) struct Reference {
    words: Rc<Words>,
    view: Rc<View>,
}

/// The place of a range in a space.
#[derive(Debug, Default)]
struct View {
    start: Cell<u64>,
    /// The page with which to go on looking for entries that a CPU may hold.
    next: Cell<u64>,
}

#[derive(Debug)]
struct Words {
    /// Whether loads that a CPU could make through entries that it may hold are compared too.
    held: bool,
    /// The bits of all its values that those of no other range have.
    mark: u64,
    /// The number of its pages; 0 if frames have no contents.
    pages: usize,
    /// The first word of each page, then the second of each, and so on. One load is compared with the same word of
    /// neighbouring pages, whose values are neighbours so.
    values: RefCell<Vec<u64>>,
    /// The words of each page that are not zero, one bit each.
    stored: RefCell<Vec<[u64; 8]>>,
    /// The index of the word that a system call is about to write, and its new value.
    writing: Cell<Option<(usize, u64)>>,
    /// The pages that calls under way drop, each a first page and a number of pages.
    dropping: RefCell<Vec<(usize, usize)>>,
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

    /// The same without comparing loads through older entries, for a range that is unmapped and mapped anew: an entry of
    /// its former place may be another range's.
    pub(crate) fn without_held(number: u32, pages: u64, contents: bool) -> Self {
        let all = Self::new(number, pages, contents);
        let words = Rc::into_inner(all.words).map(|words| Words { held: false, ..words });
        Self { words: Rc::new(words.unwrap_or_else(|| unreachable!("the only one"))), view: all.view }
    }

    /// A range whose words have values from the start: that of `first` for each offset from the beginning.
    pub(crate) fn filled(number: u32, pages: u64, contents: bool, first: impl Fn(u64) -> u64) -> Self {
        let all = Self::new(number, pages, contents);
        for offset in (0..all.words.pages as u64 * PAGE_BYTES).step_by(8) {
            all.words.set(all.words.index(offset), first(offset));
        }
        all
    }

    fn of(mark: u64, values: Vec<u64>, tally: Rc<Tally>) -> Self {
        let pages = values.len() * 8 / PAGE_BYTES as usize;
        let stored = RefCell::new(vec![[0; 8]; pages]);
        let (values, writing, dropping) = (RefCell::new(values), Cell::new(None), RefCell::default());
        let words = Words { held: true, mark, pages, values, stored, writing, dropping, tally };
        Self { words: Rc::new(words), view: Rc::default() }
    }

    /// A copy of the range in its present state, at the same address, as a fork has it. The copy shares this range's
    /// counts.
    pub(crate) fn copy(&self) -> Self {
        let copy = Self::of(self.words.mark, self.words.values.borrow().clone(), self.words.tally.clone());
        copy.words.stored.borrow_mut().clone_from(&self.words.stored.borrow());
        copy.is_at(self.view.start.get());
        copy
    }

    /// The same words in another space.
    pub(crate) fn view(&self) -> Self {
        Self { words: self.words.clone(), view: Rc::default() }
    }

    /// Sets the address at which the range is mapped.
    pub(crate) fn is_at(&self, start: u64) {
        self.view.start.set(start);
        self.view.next.set(start);
    }

    /// Sets the address at which the range is newly mapped: it is all zeros again.
    pub(crate) fn is_new_at(&self, start: u64) {
        self.is_at(start);
        self.change(&[(0, self.words.pages)], |_| 0);
    }

    /// Loads from an address, and compares this load and some that the CPU could make through entries that it may hold.
    pub(crate) fn load(&self, program: &Program, address: u64) -> Result<(), FaultError> {
        self.load_times(program, address, 1)
    }

    /// The same with `count` loads from the page.
    pub(crate) fn load_times(&self, program: &Program, address: u64, count: u32) -> Result<(), FaultError> {
        self.load_held(program, address);
        program.load_then(address, count, |value| self.compare(address, value))
    }

    /// Compares loads that the CPU could make through entries that it may hold: from the same word of a few pages, at
    /// each call from the next ones.
    pub(crate) fn load_held(&self, program: &Program, address: u64) {
        let (words, view) = (&*self.words, &*self.view);
        if !words.held {
            return;
        }
        let (start, end) = (view.start.get(), view.start.get() + words.pages as u64 * PAGE_BYTES);
        let next = view.next.get().max(start) + address % PAGE_BYTES;
        let next = program.load_held(next..end, FEW, |address, value| self.compare(address, value));
        view.next.set(next.map_or(start, |next| next - address % PAGE_BYTES));
    }

    /// Compares a load.
    fn compare(&self, address: u64, value: u64) {
        let (words, index) = (&*self.words, self.index(address));
        let expected = words.values.borrow()[index];
        if expected == DROPPED || expected == UNKNOWN {
            return;
        }
        let right = expected == value || words.writing.get() == Some((index, value));
        let tally = &words.tally.verdict;
        tally.set(tally.get() + Verdict::of(right));
    }

    /// Stores a value that was never stored before to the word at an address.
    pub(crate) fn store(&self, program: &Program, address: u64) -> Result<(), FaultError> {
        self.store_times(program, address, 1)
    }

    /// The same with `count` stores to the page, the first of which has the new value.
    pub(crate) fn store_times(&self, program: &Program, address: u64, count: u32) -> Result<(), FaultError> {
        let (words, value) = (&*self.words, self.fresh_value());
        self.load_held(program, address);
        program.store_then(address, count, value, || {
            let page = ((address - self.view.start.get()) / PAGE_BYTES) as usize;
            // The call that drops the page may or may not have cleared it already.
            let dropped =
                words.dropping.borrow().iter().any(|&(first, pages)| (first..first + pages).contains(&page));
            words.set(self.index(address), if dropped { UNKNOWN } else { value });
        })
    }

    /// Makes a call that drops pages, each range of them an address and a number of bytes. They read as zeros once the
    /// call has returned, and as before or as zeros until then.
    pub(crate) fn dropping<R>(&self, ranges: &[(u64, u64)], call: impl FnOnce() -> R) -> R {
        let words = &*self.words;
        if words.pages == 0 {
            return call();
        }
        let first = |address: u64| ((address - self.view.start.get()) / PAGE_BYTES) as usize;
        let ranges: Vec<(usize, usize)> =
            ranges.iter().map(|&(start, bytes)| (first(start), (bytes / PAGE_BYTES) as usize)).collect();
        self.change(&ranges, |_| DROPPED);
        words.dropping.borrow_mut().extend(&ranges);
        let result = call();
        let mut dropping = words.dropping.borrow_mut();
        for range in &ranges {
            if let Some(at) = dropping.iter().position(|other| other == range) {
                dropping.swap_remove(at);
            }
        }
        // A page that another call still drops is not zero before that call returns.
        let done = |&(start, pages): &(usize, usize)| {
            !dropping.iter().any(|&(first, count)| first < start + pages && start < first + count)
        };
        let done: Vec<(usize, usize)> = ranges.into_iter().filter(done).collect();
        self.change(&done, |value| if value == DROPPED { 0 } else { value });
        result
    }

    /// From now on each word of the pages in these ranges is as before or zero, until it is stored to.
    pub(crate) fn may_be_dropped(&self, ranges: &[(u64, u64)]) {
        let first = |address: u64| ((address - self.view.start.get()) / PAGE_BYTES) as usize;
        let pages = |&(start, bytes): &(u64, u64)| (first(start), (bytes / PAGE_BYTES) as usize);
        let ranges: Vec<(usize, usize)> = ranges.iter().map(pages).collect();
        self.change(&ranges, |_| UNKNOWN);
    }

    /// Changes the words of pages that are not zero. The pages are given as first pages and numbers of pages.
    fn change(&self, ranges: &[(usize, usize)], change: impl Fn(u64) -> u64) {
        let words = &*self.words;
        let (mut values, mut stored) = (words.values.borrow_mut(), words.stored.borrow_mut());
        for page in ranges.iter().flat_map(|&(first, count)| first..(first + count).min(words.pages)) {
            for (part, bits) in stored[page].iter_mut().enumerate() {
                let mut left = *bits;
                while left != 0 {
                    let bit = left.trailing_zeros() as usize;
                    left &= left - 1;
                    let value = &mut values[(part * 64 + bit) * words.pages + page];
                    *value = change(*value);
                    if *value == 0 {
                        *bits &= !(1 << bit);
                    }
                }
            }
        }
    }

    /// Writes a value that was never stored before to a word of a file, by a system call. The range must show the
    /// file's bytes from the first. Only one write may be under way at a time.
    pub(crate) fn write(&self, program: &Program, file: ObjectId, offset: u64) -> Result<(), WriteError> {
        let (words, value) = (&*self.words, self.fresh_value());
        let index = words.index(offset);
        words.writing.set(Some((index, value)));
        program.system_call(|memory, _| memory.write(file, offset, &value.to_le_bytes()))?;
        words.writing.set(None);
        // The range has no words if frames have no contents.
        if words.pages > 0 {
            words.set(index, value);
        }
        Ok(())
    }

    /// The numbers of compared and of wrong loads.
    pub(crate) fn verdict(&self) -> Verdict {
        self.words.tally.verdict.get()
    }

    fn fresh_value(&self) -> u64 {
        let stores = &self.words.tally.stores;
        stores.set(stores.get() + 1);
        self.words.mark | stores.get()
    }

    fn index(&self, address: u64) -> usize {
        self.words.index(address - self.view.start.get())
    }
}

impl Words {
    /// Sets the word at an index.
    fn set(&self, index: usize, value: u64) {
        self.values.borrow_mut()[index] = value;
        let (word, page) = (index / self.pages, index % self.pages);
        self.stored.borrow_mut()[page][word / 64] |= 1 << (word % 64);
    }

    /// The index of the word at an offset from the beginning.
    fn index(&self, offset: u64) -> usize {
        let offset = offset as usize;
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
            reference.words.writing.set(Some((reference.index(base + 4096), 0)));
            reference.load(program, base + 4096).expect("memory");
            assert_eq!(counts(&reference), (5, 2));
        });
    }

    #[test]
    fn a_word_of_a_dropped_page_is_uncertain_until_the_call_returns() {
        alone(|program, _| {
            let base = program.memory().map_anonymous(program.space(), Pages::new(2)).expect("room");
            let reference = Reference::without_held(0, 2, true);
            reference.is_at(base);
            let page = [(base, PAGE_BYTES)];
            let drop = || program.memory().discard(program.space(), base, Pages::new(1)).expect("mapped");
            let load = |offset| reference.load(program, base + offset).expect("memory");
            let store = |offset| reference.store(program, base + offset).expect("memory");
            store(0);
            store(PAGE_BYTES);
            reference.dropping(&page, || load(0));
            assert_eq!(counts(&reference), (0, 0), "old or zero");
            load(0);
            assert_eq!(counts(&reference), (1, 1), "nothing was dropped");
            reference.dropping(&page, || {
                drop();
                store(8);
            });
            load(0);
            load(PAGE_BYTES);
            assert_eq!(counts(&reference), (3, 1));
            load(8);
            assert_eq!(counts(&reference), (3, 1), "stored before the drop or after it");
            store(8);
            load(8);
            assert_eq!(counts(&reference), (4, 1));
            reference.may_be_dropped(&page);
            load(8);
            store(8);
            load(8);
            assert_eq!(counts(&reference), (5, 1));
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
