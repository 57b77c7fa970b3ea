//! Ranges of one space that a call changes together, with one gather.
//!
//! They are walked with the space's lock held shared, or with that of the area if one range lies in one area. Faults go on
//! in the ranges (rule R7): a cleared entry keeps a mark until the one flush for all ranges, and a table with narrowed
//! entries is flushed before it is unlocked.

use alloc::vec::Vec;
use core::ops::Deref;
use core::slice;

use ceasefire::Gather;

use crate::address::Pages;
use crate::calls::zap::Held;
use crate::frames::allocate::OutOfMemory;
use crate::machine::Machine;
use crate::spaces::area::{checked_end, hole, overlapping, Area, RangeError};
use crate::spaces::open::AreaLocks;
use crate::spaces::space::{Ended, SharedAreas, SpaceHandle};
use crate::tables::huge::Unsplit;
use crate::tables::leaf::LeafChanges;
use crate::tables::table::LEAF_SHIFT;
use crate::Memory;

/// The ends of ranges. One range, as most calls have, needs no allocation.
pub(crate) enum Ends {
    One((u64, u64)),
    Many(Vec<(u64, u64)>),
}

impl Deref for Ends {
    type Target = [(u64, u64)];

    fn deref(&self) -> &[(u64, u64)] {
        match self {
            Self::One(range) => slice::from_ref(range),
            Self::Many(ranges) => ranges,
        }
    }
}

/// The ends of the ranges, each a start and a length, by address. Ranges that overlap or touch become one.
pub(crate) fn united(ranges: &[(u64, Pages)]) -> Result<Ends, RangeError> {
    if let [(start, pages)] = *ranges {
        return Ok(Ends::One((start, checked_end(start, pages)?)));
    }
    let ends = ranges.iter().map(|&(start, pages)| Ok((start, checked_end(start, pages)?)));
    let mut ranges = ends.collect::<Result<Vec<_>, RangeError>>()?;
    ranges.sort_unstable();
    ranges.dedup_by(|next, last| {
        let meet = next.0 <= last.1;
        if meet {
            last.1 = last.1.max(next.1);
        }
        meet
    });
    Ok(Ends::Many(ranges))
}

/// The areas of a space, locked for a walk along ranges.
pub(crate) enum WalkedAreas<'m, P: Machine> {
    /// The one area of one range, which is locked itself.
    One(&'m SpaceHandle<P>, &'m Area),
    /// Those of all other ranges.
    Shared(SharedAreas<'m, P>),
}

impl<P: Machine> WalkedAreas<'_, P> {
    pub(crate) fn space(&self) -> &SpaceHandle<P> {
        match self {
            Self::One(space, _) => space,
            Self::Shared(areas) => areas.space(),
        }
    }

    fn all(&self) -> &[Area] {
        match self {
            Self::One(_, area) => slice::from_ref(area),
            Self::Shared(areas) => areas.all(),
        }
    }

    /// The areas that overlap one of the ranges.
    pub(crate) fn overlapping(&self, (start, end): (u64, u64)) -> impl Iterator<Item = &Area> + Clone {
        overlapping(self.all(), start, end)
    }

    /// The first unmapped address in one of the ranges.
    pub(crate) fn hole(&self, (start, end): (u64, u64)) -> Option<u64> {
        hole(self.all(), start, end)
    }
}

impl<P: Machine> Memory<P> {
    /// Locks the areas of a space for a walk along united ranges, and walks. No huge page reaches across an end of one.
    pub(crate) fn walk<E: From<OutOfMemory> + From<Ended>>(
        &self,
        space: &SpaceHandle<P>,
        ranges: &[(u64, u64)],
        walk: impl Fn(&WalkedAreas<'_, P>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let &[range] = ranges {
            let alone = |area: &Area| {
                // One that reaches beyond the area concerns others too.
                (range.1 <= area.end)
                    .then(|| self.split_ends(space, range).map(|()| walk(&WalkedAreas::One(space, area))))
            };
            while let Some(tried) = self.with_area(space, AreaLocks::Advice, range.0, alone).flatten() {
                match tried {
                    Ok(walked) => return walked,
                    Err(Unsplit::OutOfMemory) => return Err(OutOfMemory.into()),
                    Err(Unsplit::Moving(frame)) => self.wait_for_page(frame),
                }
            }
        }
        walk(&WalkedAreas::Shared(self.lock_to_share::<E>(space, ranges)?))
    }

    /// Changes the translations in parts of a space, table by table, and finishes the gather.
    ///
    /// The parts are in the order of their addresses. Those that share a table are changed under one lock. A gather that
    /// neither keeps the range nor leaves marks flushes under each table's lock. It finishes under the last one, so the
    /// last table has no second flush.
    pub(crate) fn change_leaves<R: FnMut(Held)>(
        &self,
        space: &SpaceHandle<P>,
        gather: Gather<'_, P, Held, R>,
        parts: impl Iterator<Item = (u64, u64)> + Clone,
        mut change: impl FnMut(&mut LeafChanges<'_, '_, '_, P, Held, R>, (u64, u64)),
    ) {
        let last = parts.clone().last().map(|(_, end)| end);
        let (mut ahead, mut left) = (parts.clone().peekable(), parts);
        let mut open = Some(gather);
        while let Some((start, mut end)) = ahead.next() {
            while let Some((_, next)) =
                ahead.next_if(|(next, _)| next >> LEAF_SHIFT == (end - 1) >> LEAF_SHIFT)
            {
                end = next;
            }
            self.for_each_leaf(space, (start, end), |leaf, (from, to)| {
                while left.clone().next().is_some_and(|(_, end)| end <= from) {
                    left.next();
                }
                let here = left.clone().map(|(start, end)| (start.max(from), end.min(to)));
                let here = here.take_while(|(start, end)| start < end);
                if let Some(gather) = open.take_if(|gather| gather.flushes_each() && Some(to) == last) {
                    gather.finish_under(leaf, |changes| here.for_each(|part| change(changes, part)));
                } else if let Some(gather) = &mut open {
                    let mut changes = gather.under(leaf);
                    here.for_each(|part| change(&mut changes, part));
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::PAGE_BYTES;

    #[test]
    fn ranges_that_overlap_or_touch_become_one() {
        let pages = |ranges: &[(u64, u64)]| {
            let range = |&(page, count): &(u64, u64)| (page * PAGE_BYTES, Pages::new(count));
            let united = united(&ranges.iter().map(range).collect::<Vec<_>>()).unwrap();
            united.iter().map(|(start, end)| (start / PAGE_BYTES, end / PAGE_BYTES)).collect::<Vec<_>>()
        };
        assert_eq!(pages(&[]), []);
        assert_eq!(pages(&[(9, 1), (1, 4), (2, 1), (5, 2)]), [(1, 7), (9, 10)]);
        assert_eq!(pages(&[(3, 1), (3, 5), (3, 1)]), [(3, 8)]);
        assert_eq!(pages(&[(3, 5)]), [(3, 8)]);
        let refused = Some(RangeError { start: 1, pages: Pages::new(2) });
        assert_eq!(united(&[(0, Pages::new(1)), (1, Pages::new(2))]).err(), refused);
        assert_eq!(united(&[(1, Pages::new(2))]).err(), refused);
    }
}
