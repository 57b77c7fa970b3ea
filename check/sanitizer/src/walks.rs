//! The page tables that a CPU may have cached on its way to a page, so that it walks from there.
//!
//! The emulator has no such cache. So nothing is used here that is wrong; but a processor may have them, and a table that
//! is given to somebody else while a CPU has it would be read as a table (R2).

use foldhash::HashMap;

use crate::arch::{Invalidation, Walk, PAGE};

/// A table that was walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Walked {
    pub(crate) asid: u16,
    /// The power of two of what it translates, and an address of that.
    pub(crate) shift: u32,
    pub(crate) address: u64,
    /// The time, in nanoseconds, and the instruction that walked it first.
    pub(crate) since: u64,
    pub(crate) by: u64,
}

/// The tables of a CPU, by their frames.
#[derive(Debug, Default)]
pub(crate) struct Walks(HashMap<u64, Walked>);

impl Walks {
    /// The CPU has walked the tables for an address. The root is in a register, and not cached.
    pub(crate) fn note(&mut self, walk: &Walk, asid: u16, address: u64, since: u64, by: u64) {
        for (index, entry) in walk.entries[..walk.len].iter().enumerate().skip(1) {
            let shift = walk.table_shift(index);
            self.0.entry(entry >> PAGE).or_insert(Walked { asid, shift, address, since, by });
        }
    }

    /// Drops what an instruction drops, and passes each table on, with its frame.
    pub(crate) fn invalidate(&mut self, what: Invalidation, dropped: &mut dyn FnMut(u64, Walked)) {
        self.0.retain(|&frame, walked| {
            let is_named = what.names_table(walked.asid, walked.shift, walked.address);
            if is_named {
                dropped(frame, *walked);
            }
            !is_named
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::Walks as Which;

    #[test]
    fn tables_are_dropped_by_addresses_that_they_translate() {
        let mut walk = Walk::new(3, 12);
        for entry in [0x1000, 0x2008, 0x3010] {
            walk.reads(entry);
        }
        let page =
            |address| Invalidation { asid: Some(1), range: Some((address, 1)), ..Invalidation::EVERYTHING };
        for (what, expected) in [
            (Invalidation::EVERYTHING, vec![2, 3]),
            (Invalidation { asid: Some(2), ..Invalidation::EVERYTHING }, vec![]),
            (page(0x40_2000), vec![2, 3]),
            (page(0x80_2000), vec![2]),
            (page(1 << 30), vec![]),
            (Invalidation { walks: Which::OfAsid, ..page(1 << 30) }, vec![2, 3]),
            (Invalidation { walks: Which::No, ..page(0x40_2000) }, vec![]),
        ] {
            let (mut walks, mut dropped) = (Walks::default(), Vec::new());
            walks.note(&walk, 1, 0x40_2000, 5, 6);
            walks.note(&walk, 1, 0x40_3000, 7, 8);
            walks.invalidate(what, &mut |frame, walked| {
                assert_eq!((walked.since, walked.address), (5, 0x40_2000));
                dropped.push(frame);
            });
            dropped.sort_unstable();
            assert_eq!(dropped, expected, "{what:?}");
        }
    }
}
