//! An index of the entries of an array by a hash. Entries with the same hash are chained.
//!
//! The record handles several entries for each page that is mapped or unmapped, and may keep one for each frame. So an
//! entry is never allocated on its own.

use alloc::vec::Vec;
use core::mem;

/// No entry.
const NONE: u32 = u32::MAX;

/// The number of neighbours whose hashes are neighbours too, so that a walk over them stays in few cache lines.
const NEAR: u32 = 64;

/// A hash of the page `number` of a group.
pub(super) fn near(group: u64, number: u64) -> u32 {
    let chunk = group.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (number / u64::from(NEAR));
    let upper = (chunk.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as u32;
    upper.wrapping_mul(NEAR) | (number % u64::from(NEAR)) as u32
}

#[derive(Debug, Clone, Copy)]
struct Link {
    hash: u32,
    before: u32,
    next: u32,
}

/// The index. Its user keeps the entries, and names each by its place in the array.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// The first entry of each chain; a power of two of them, or none at all.
    heads: Vec<u32>,
    links: Vec<Link>,
    len: usize,
}

impl Chains {
    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The entries with a hash.
    pub(super) fn of(&self, hash: u32) -> impl Iterator<Item = u32> + '_ {
        let head = if self.len == 0 { NONE } else { self.heads[self.chain(hash)] };
        self.from(head).filter(move |&entry| self.links[entry as usize].hash == hash)
    }

    /// All entries.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.heads.iter().flat_map(|&head| self.from(head))
    }

    /// Adds an entry.
    pub(super) fn add(&mut self, entry: u32, hash: u32) {
        if self.len == self.heads.len() {
            self.grow();
        }
        if self.links.len() <= entry as usize {
            self.links.resize(entry as usize + 1, Link { hash, before: NONE, next: NONE });
        }
        self.link(entry, hash);
        self.len += 1;
    }

    /// Removes an entry that was added.
    pub(super) fn remove(&mut self, entry: u32) {
        let Link { hash, before, next } = self.links[entry as usize];
        match before {
            NONE => {
                let chain = self.chain(hash);
                self.heads[chain] = next;
            }
            _ => self.links[before as usize].next = next,
        }
        if next != NONE {
            self.links[next as usize].before = before;
        }
        self.len -= 1;
    }

    /// Makes an entry the first of its chain.
    fn link(&mut self, entry: u32, hash: u32) {
        let chain = self.chain(hash);
        let next = mem::replace(&mut self.heads[chain], entry);
        self.links[entry as usize] = Link { hash, before: NONE, next };
        if next != NONE {
            self.links[next as usize].before = entry;
        }
    }

    fn chain(&self, hash: u32) -> usize {
        hash as usize & (self.heads.len() - 1)
    }

    fn from(&self, entry: u32) -> impl Iterator<Item = u32> + '_ {
        let present = |entry: u32| (entry != NONE).then_some(entry);
        core::iter::successors(present(entry), move |&entry| present(self.links[entry as usize].next))
    }

    /// Doubles the number of chains.
    fn grow(&mut self) {
        let entries: Vec<u32> = self.all().collect();
        let chains = (2 * self.heads.len()).max(NEAR as usize);
        self.heads.clear();
        self.heads.resize(chains, NONE);
        for entry in entries {
            self.link(entry, self.links[entry as usize].hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(entries: impl Iterator<Item = u32>) -> Vec<u32> {
        let mut entries: Vec<u32> = entries.collect();
        entries.sort_unstable();
        entries
    }

    #[test]
    fn entries_are_found_by_their_hash_until_they_are_removed() {
        let mut chains = Chains::default();
        assert_eq!((chains.of(0).count(), chains.all().count()), (0, 0));
        // 1000 entries for each of five hashes that share a chain, and the table grows often.
        let hash = |entry: u32| entry % 5 * (1 << 20);
        (0..5000).for_each(|entry| chains.add(entry, hash(entry)));
        assert_eq!(sorted(chains.of(2 << 20)), (0..1000).map(|number| number * 5 + 2).collect::<Vec<_>>());
        assert_eq!((chains.of(7).count(), chains.of(5 << 20).count()), (0, 0));
        (0..5000).filter(|entry| entry % 7 != 0).for_each(|entry| chains.remove(entry));
        assert_eq!(sorted(chains.of(0)), (0..143).map(|number| number * 35).collect::<Vec<_>>());
        assert_eq!((chains.len(), chains.all().count()), (715, 715));
    }

    #[test]
    fn chains_stay_short_as_entries_are_added() {
        let mut chains = Chains::default();
        (0..5000).for_each(|entry| chains.add(entry, near(9, u64::from(entry))));
        let longest = chains.heads.iter().map(|&head| chains.from(head).count()).max();
        assert!(longest <= Some(8), "{longest:?}");
        assert!(chains.heads.len() <= 2 * 5000, "{}", chains.heads.len());
    }

    #[test]
    fn neighbouring_pages_have_neighbouring_hashes_and_groups_differ() {
        for page in 64..127 {
            assert_eq!(near(9, page) + 1, near(9, page + 1));
        }
        assert_ne!(near(9, 127) + 1, near(9, 128));
        assert_ne!(near(9, 64), near(10, 64));
    }
}
