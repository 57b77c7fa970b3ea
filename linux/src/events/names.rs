//! Names of programs and functions, each kept once.

use foldhash::HashMap;

/// A name's number in its [`Names`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(u32);

impl Name {
    /// The number.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A set of names.
#[derive(Debug, Default, Clone)]
pub struct Names {
    all: Vec<String>,
    numbers: HashMap<String, Name>,
}

impl Names {
    /// The number of a name, which is added if it is new.
    pub fn add(&mut self, name: &str) -> Name {
        if let Some(known) = self.numbers.get(name) {
            return *known;
        }
        let number = Name(self.all.len() as u32);
        self.all.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// A name.
    ///
    /// # Panics
    /// If the number is of another set.
    pub fn get(&self, name: Name) -> &str {
        &self.all[name.index()]
    }

    /// The names after the first ones, in the order in which they were added.
    pub fn since(&self, first: usize) -> impl Iterator<Item = &str> {
        self.all.iter().skip(first).map(String::as_str)
    }
}
