//! What every load must return: the bytes of a program's memory, kept plainly beside the machine.
//!
//! Where frames keep their bytes each store goes here too, at the instant at which it takes effect, and each load is
//! compared with it at its own. A lost store, an old copy, or another program's page is a wrong load.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use ceasefire_machine::Program;
use ceasefire_memory::FaultError;

/// The words of one range of memory, which reads as zeros at first.
#[derive(Debug, Clone)]
pub(crate) struct Reference(Rc<Words>);

#[derive(Debug)]
struct Words {
    start: Cell<u64>,
    /// Empty if frames have no contents.
    values: RefCell<Vec<u64>>,
    stores: Cell<u64>,
    loads: Cell<u64>,
    wrong: Cell<u64>,
}

impl Reference {
    /// `bytes` of zeros; of no use if frames have no `contents`.
    pub(crate) fn new(bytes: u64, contents: bool) -> Self {
        let count = if contents { bytes as usize / 8 } else { 0 };
        Self(Rc::new(Words {
            start: Cell::new(0),
            values: RefCell::new(vec![0; count]),
            stores: Cell::new(0),
            loads: Cell::new(0),
            wrong: Cell::new(0),
        }))
    }

    /// Where the range is mapped.
    pub(crate) fn is_at(&self, start: u64) {
        self.0.start.set(start);
    }

    /// Loads `count` times from the page at an address, the first of them compared.
    pub(crate) fn load(&self, program: &Program, address: u64, count: u32) -> Result<(), FaultError> {
        let words = &*self.0;
        program.load_then(address, count, |value| {
            words.loads.set(words.loads.get() + 1);
            if words.values.borrow()[words.index(address)] != value {
                words.wrong.set(words.wrong.get() + 1);
            }
        })
    }

    /// Stores to a word at an address, a value that was never stored before.
    pub(crate) fn store(&self, program: &Program, address: u64) -> Result<(), FaultError> {
        let words = &*self.0;
        let value = words.stores.replace(words.stores.get() + 1) + 1;
        program.store_then(address, 1, value, || words.values.borrow_mut()[words.index(address)] = value)
    }

    /// How many loads were compared, and how many of them returned something else.
    pub(crate) fn verdict(&self) -> Verdict {
        Verdict { compared: self.0.loads.get(), wrong: self.0.wrong.get() }
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
