//! The translations that one CPU may hold under one ASID: all that it cached and that were not invalidated since.
//!
//! A real TLB replaces most of them, but no code may rely on that. On a large machine there is nearly one translation
//! for each frame. The rare second translation of a page is stored separately, and so are translations of 2 MiB.

use std::collections::BTreeMap;
use std::ops::Range;

use ceasefire::PageSize;

use crate::hardware::numbers::HUGE_SHIFT;
use crate::oracle::chunks::Chunks;
use crate::oracle::rule::Rule;

/// A translation that a CPU may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    /// The moment of the first fill, on the oracle's clock.
    pub(crate) filled: u64,
    /// The frame, or the first of 512 frames of a huge page.
    pub(crate) frame: u32,
    pub(crate) writable: bool,
    /// Whether stores through it no longer need to set the dirty bit in the page table.
    pub(crate) dirty: bool,
}

impl Held {
    /// Adds another fill of the same translation, perhaps with other rights. A CPU may hold either.
    fn merge(&mut self, again: Self) {
        (self.writable, self.dirty) = (self.writable | again.writable, self.dirty | again.dirty);
    }
}

/// The translations of one ASID, by page.
#[derive(Debug, Default)]
pub(crate) struct Holdings {
    newest: Chunks,
    /// Older translations of pages that have a newer one.
    further: BTreeMap<u64, Vec<Held>>,
    /// Huge translations, by the number of the huge page.
    huge: BTreeMap<u64, Vec<Held>>,
    /// The root of the tables from which they come.
    pub(crate) root: u32,
    /// Translations that the CPU may hold and must not use again, by their size and number: a page, the frame to which
    /// they lead there, and the rule that a use would break. The CPU must invalidate them before it runs the space.
    forbidden: BTreeMap<(PageSize, u64), (u64, u32, Rule)>,
}

impl Holdings {
    /// Adds a translation, and returns whether it is new. A translation of the same page to another frame, or of
    /// another size, stays beside it.
    pub(crate) fn add(&mut self, page: u64, size: PageSize, held: Held) -> bool {
        if size == PageSize::MIB_2 {
            let known = self.huge.entry(page >> HUGE_SHIFT).or_default();
            match known.iter_mut().find(|old| old.frame == held.frame) {
                Some(old) => {
                    old.merge(held);
                    return false;
                }
                None => known.push(held),
            }
            return true;
        }
        let further = self.further.get_mut(&page);
        if let Some(old) = further.into_iter().flatten().find(|old| old.frame == held.frame) {
            old.merge(held);
            return false;
        }
        let mut replaced = None;
        let mut is_new = true;
        self.newest.update(page, |old| match old {
            Some(mut old) if old.frame == held.frame => {
                old.merge(held);
                is_new = false;
                old
            }
            old => {
                replaced = old;
                held
            }
        });
        if let Some(old) = replaced {
            self.further.entry(page).or_default().push(old);
        }
        is_new
    }

    /// Forbids the use of the translation of that size of a page, for the first rule that it would break.
    pub(crate) fn forbid(&mut self, page: u64, size: PageSize, frame: u32, rule: Rule) {
        let number = if size == PageSize::MIB_2 { page >> HUGE_SHIFT } else { page };
        self.forbidden.entry((size, number)).or_insert((page, frame, rule));
    }

    /// Takes the forbidden translations: a page of each, the frame, and the rule.
    pub(crate) fn take_forbidden(&mut self) -> impl Iterator<Item = (u64, u32, Rule)> {
        std::mem::take(&mut self.forbidden).into_values()
    }

    /// Whether there is no translation.
    pub(crate) fn is_empty(&self) -> bool {
        self.newest.is_empty() && self.further.is_empty() && self.huge.is_empty()
    }

    /// Removes the translations of a page, of either size.
    pub(crate) fn remove(&mut self, page: u64) {
        self.further.remove(&page);
        self.huge.remove(&(page >> HUGE_SHIFT));
        if !self.forbidden.is_empty() {
            self.forbidden.remove(&(PageSize::KIB_4, page));
            self.forbidden.remove(&(PageSize::MIB_2, page >> HUGE_SHIFT));
        }
        self.newest.remove(page);
    }

    /// Removes all translations.
    pub(crate) fn clear(&mut self) {
        self.newest.clear();
        self.further.clear();
        self.huge.clear();
        self.forbidden.clear();
    }

    /// The small translations of a page.
    pub(crate) fn small(&self, page: u64) -> impl Iterator<Item = Held> + '_ {
        self.newest.get(page).into_iter().chain(self.further.get(&page).into_iter().flatten().copied())
    }

    /// The huge translations that cover a page.
    pub(crate) fn huge(&self, page: u64) -> impl Iterator<Item = Held> + '_ {
        self.huge.get(&(page >> HUGE_SHIFT)).into_iter().flatten().copied()
    }

    /// The huge translations that cover any of a range of pages, with the first page of each.
    pub(crate) fn huge_within(&self, pages: Range<u64>) -> impl Iterator<Item = (u64, Held)> + '_ {
        let numbers = pages.start >> HUGE_SHIFT..pages.end.div_ceil(1 << HUGE_SHIFT);
        let with_page = |(&number, held): (&u64, &'_ Vec<Held>)| {
            held.iter().map(|held| (number << HUGE_SHIFT, *held)).collect::<Vec<_>>()
        };
        self.huge.range(numbers).flat_map(with_page)
    }

    /// The small translations of a range of pages, with their pages.
    pub(crate) fn small_within(&self, pages: Range<u64>) -> impl Iterator<Item = (u64, Held)> + '_ {
        let of_page = |(&page, further): (&u64, &Vec<Held>)| {
            further.iter().map(|held| (page, *held)).collect::<Vec<_>>()
        };
        let further = self.further.range(pages.clone()).flat_map(of_page);
        self.newest.within(pages).chain(further)
    }
}

/// The translations that one CPU may hold, by ASID. An ASID that was never used takes one word.
#[derive(Debug, Default)]
pub(crate) struct ByAsid(Vec<Option<Box<Holdings>>>);

impl ByAsid {
    /// The translations under an ASID, if there are any.
    pub(crate) fn get(&self, asid: u16) -> Option<&Holdings> {
        self.0.get(asid as usize)?.as_deref()
    }

    /// The same, for removal.
    pub(crate) fn get_mut(&mut self, asid: u16) -> Option<&mut Holdings> {
        self.0.get_mut(asid as usize)?.as_deref_mut()
    }

    /// The same, for addition.
    pub(crate) fn under(&mut self, asid: u16) -> &mut Holdings {
        let index = asid as usize;
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        self.0[index].get_or_insert_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(frame: u32) -> Held {
        Held { filled: 0, frame, writable: false, dirty: false }
    }

    fn frames(held: impl Iterator<Item = Held>) -> Vec<u32> {
        let mut frames: Vec<u32> = held.map(|held| held.frame).collect();
        frames.sort_unstable();
        frames
    }

    #[test]
    fn a_page_keeps_every_translation_until_it_is_invalidated() {
        let mut holdings = Holdings::default();
        for (page, frame) in [(63, 1), (64, 2), (64, 3), (64, 2), (200, 4)] {
            holdings.add(page, PageSize::KIB_4, held(frame));
        }
        assert_eq!(frames(holdings.small(64)), [2, 3]);
        assert_eq!(frames(holdings.small_within(63..65).map(|(_, held)| held)), [1, 2, 3]);
        assert_eq!(frames(holdings.small_within(65..200).map(|(_, held)| held)), [0u32; 0]);
        holdings.remove(64);
        assert_eq!(frames(holdings.small_within(0..1000).map(|(_, held)| held)), [1, 4]);
        holdings.clear();
        assert_eq!(holdings.small(63).count() + holdings.small(200).count(), 0);
    }

    #[test]
    fn fills_of_the_same_frame_combine_their_rights() {
        for size in [PageSize::KIB_4, PageSize::MIB_2] {
            let mut holdings = Holdings::default();
            holdings.add(1, size, Held { writable: true, ..held(7) });
            holdings.add(1, size, Held { dirty: true, ..held(7) });
            let all: Vec<_> = holdings.small(1).chain(holdings.huge(1)).collect();
            assert_eq!(all, [Held { writable: true, dirty: true, ..held(7) }]);
        }
    }

    #[test]
    fn a_huge_translation_covers_512_pages_and_is_removed_with_any_of_them() {
        let mut holdings = Holdings::default();
        holdings.add(512, PageSize::MIB_2, held(1024));
        holdings.add(700, PageSize::MIB_2, held(2048));
        holdings.add(600, PageSize::KIB_4, held(5));
        for page in [512, 1023] {
            assert_eq!(frames(holdings.huge(page)), [1024, 2048]);
        }
        assert_eq!(holdings.huge(511).count() + holdings.huge(1024).count(), 0);
        let within =
            |pages: Range<u64>| holdings.huge_within(pages).map(|(page, _)| page).collect::<Vec<_>>();
        assert_eq!(
            (within(0..512), within(0..513), within(1023..1025)),
            (vec![], vec![512; 2], vec![512; 2])
        );
        assert_eq!(within(1024..5000), [0_u64; 0]);
        assert_eq!(frames(holdings.small(600)), [5]);
        holdings.remove(601);
        assert_eq!((holdings.huge(512).count(), holdings.small(600).count()), (0, 1));
    }

    #[test]
    fn asids_are_separate() {
        let mut held_by = ByAsid::default();
        held_by.under(u16::MAX).add(1, PageSize::KIB_4, held(1));
        assert!(held_by.get(0).is_none() && held_by.get_mut(3).is_none());
        assert_eq!(held_by.get(u16::MAX).map(|held| held.small(1).count()), Some(1));
    }
}
