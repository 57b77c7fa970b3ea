//! The newest of more facts than there is room for.

use foldhash::{HashMap, HashMapExt as _};

/// The newest facts about numbers: of a frame, of an entry. When the newer half is full, the older half is forgotten.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    newer: HashMap<u64, T>,
    older: HashMap<u64, T>,
    half: usize,
}

impl<T> Recent<T> {
    /// Room for `half` facts at least, and for twice as many at most.
    pub(crate) fn new(half: usize) -> Self {
        Self { newer: HashMap::new(), older: HashMap::new(), half }
    }

    pub(crate) fn insert(&mut self, number: u64, fact: T) {
        if self.newer.len() >= self.half {
            std::mem::swap(&mut self.newer, &mut self.older);
            self.newer.clear();
        }
        self.newer.insert(number, fact);
    }

    pub(crate) fn clear(&mut self) {
        self.newer.clear();
        self.older.clear();
    }

    /// The newest fact about a number.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        self.newer.get(&number).or_else(|| self.older.get(&number))
    }

    pub(crate) fn remove(&mut self, number: u64) {
        self.newer.remove(&number);
        self.older.remove(&number);
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        self.newer.get_mut(&number).or_else(|| self.older.get_mut(&number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered() {
        let mut recent = Recent::new(2);
        for number in 0..5 {
            recent.insert(number, number);
        }
        assert_eq!(
            [0, 1, 2, 3, 4].map(|number| recent.get(number).copied()),
            [None, None, Some(2), Some(3), Some(4)]
        );
        recent.insert(3, 9);
        *recent.get_mut(4).expect("it is new") = 8;
        assert_eq!([3, 4].map(|number| recent.get(number).copied()), [Some(9), Some(8)]);
        recent.remove(3);
        assert_eq!(recent.get(3), None);
        recent.clear();
        assert_eq!(recent.get(4), None);
    }
}
