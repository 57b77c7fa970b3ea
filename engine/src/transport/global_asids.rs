//! Global ASIDs: tags that mean the same space on every CPU.
//!
//! A new owner's tag must be clean on every CPU, and a flush for each new owner would cost more than the ASID saves. So
//! an ASID that is given back stays out of use until no unused one is left. Then one flush of everything on every CPU
//! cleans all of them at once (Linux: `reset_global_asid_space`). An ASID has two bits in one word, so one exchange
//! moves it from state to state:
//!
//! `unused` -take-> `used` -free-> `freed` -a flush starts-> `flushing` -it is done-> `unused`
//!
//! A flush cleans only the ASIDs that were `freed` *before* it started. An ASID that is given back meanwhile stays
//! `freed`. Only one flush runs at a time; otherwise the end of one could pass for the end of another.
//!
//! The exchanges of a word order an ASID's owners and the flushes. An owner releases the ASID, a flush acquires what it
//! is about to clean and releases it clean, and the next owner acquires it.
//!
//! A search that finds no ASID is followed by a flush and another search from the start. It fails only if no ASID, or
//! too few, were given back. The caller states two numbers:
//!
//! - The range of ASIDs. Where every space should have one, ASID 0 is shared by the spaces without one. Elsewhere the
//!   first few are each CPU's own slots.
//! - How many ASIDs must have been given back for a flush to be worthwhile. Emptying every TLB of the machine for each
//!   process that ends would cost more than the ASID saves.

use core::fmt;
use core::ops::Range;

use crate::limits::MAX_ASIDS;
use crate::primitive::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::space::Asid;

/// The ASIDs in a word. The low half says `used` or `freed`, the high half `freed` or `flushing`.
const PER_WORD: u32 = 32;
/// The number of words for which the engine was built.
const BUILT: usize = MAX_ASIDS.div_ceil(PER_WORD) as usize;

/// The state of each ASID.
pub(crate) struct GlobalAsids<const WORDS: usize = BUILT> {
    words: [AtomicU64; WORDS],
    /// The place where the last search ended; a hint.
    next: AtomicUsize,
    /// The number of `freed` ASIDs.
    freed: AtomicU32,
    /// A flush is under way.
    flushing: AtomicBool,
}

/// A word's two halves.
fn split(word: u64) -> (u32, u32) {
    (word as u32, (word >> PER_WORD) as u32)
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << PER_WORD
}

/// The ASIDs of a word that lie in `asids`, and so may be given out.
fn eligible(word: usize, asids: &Range<u32>) -> u32 {
    let below = |asid: u32| {
        let count = asid.saturating_sub(word as u32 * PER_WORD).min(PER_WORD);
        ((1_u64 << count) - 1) as u32
    };
    below(asids.end) & !below(asids.start)
}

impl<const WORDS: usize> GlobalAsids<WORDS> {
    pub(crate) const fn new() -> Self {
        // The const is a template for array elements, copied and never referred to.
        #[allow(clippy::declare_interior_mutable_const)]
        const UNUSED: AtomicU64 = AtomicU64::new(0);
        Self {
            words: [UNUSED; WORDS],
            next: AtomicUsize::new(0),
            freed: AtomicU32::new(0),
            flushing: AtomicBool::new(false),
        }
    }

    /// Takes an ASID of `asids` (at most [`MAX_ASIDS`]) that no space has and of which no TLB holds an entry. `None` if
    /// there is none and a flush would yield fewer than `worth`.
    ///
    /// `flush` flushes everything on every CPU before it returns. `wait` waits until another CPU's flush is done.
    pub(crate) fn take(
        &self,
        asids: Range<u32>,
        worth: u32,
        mut flush: impl FnMut(),
        mut wait: impl FnMut(&dyn Fn() -> bool),
    ) -> Option<Asid> {
        loop {
            if let Some(asid) = self.claim(&asids) {
                return Some(asid);
            }
            if self.flushing.swap(true, Ordering::Acquire) {
                wait(&|| !self.flushing.load(Ordering::Relaxed));
                continue;
            }
            if self.freed.load(Ordering::Relaxed) >= worth {
                self.flush_freed(&asids, &mut flush);
            }
            self.flushing.store(false, Ordering::Release);
            // It also finds what another CPU's flush has made unused between the search and this point.
            return self.claim(&asids);
        }
    }

    /// Gives an ASID back. [`Asid::SHARED`] has no owner, and nothing happens.
    pub(crate) fn free(&self, asid: Asid) {
        if asid == Asid::SHARED {
            return;
        }
        let (word, bit) = (u32::from(asid.get()) / PER_WORD, 1 << (u32::from(asid.get()) % PER_WORD));
        let before = self.words[word as usize].fetch_or(join(0, bit), Ordering::Release);
        debug_assert!(
            before & join(bit, bit) == join(bit, 0),
            "ASID {} was given back by one that does not have it",
            asid.get()
        );
        self.freed.fetch_add(1, Ordering::Relaxed);
    }

    /// Moves one `unused` ASID to `used`.
    fn claim(&self, asids: &Range<u32>) -> Option<Asid> {
        let words = (asids.end.div_ceil(PER_WORD) as usize).max(1);
        let start = self.next.load(Ordering::Relaxed);
        (0..words).map(|offset| (start + offset) % words).find_map(|index| {
            let mut word = self.words[index].load(Ordering::Relaxed);
            loop {
                let (low, high) = split(word);
                let unused = !(low | high) & eligible(index, asids);
                if unused == 0 {
                    return None;
                }
                let number = unused.trailing_zeros();
                let taken = join(low | 1 << number, high);
                match self.words[index].compare_exchange_weak(
                    word,
                    taken,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                ) {
                    Ok(_) => {
                        self.next.store(index, Ordering::Relaxed);
                        return Some(Asid::new((index as u32 * PER_WORD + number) as u16));
                    }
                    Err(newer) => word = newer,
                }
            }
        })
    }

    /// Moves all `freed` ASIDs to `unused`, by way of a flush, if there are any.
    fn flush_freed(&self, asids: &Range<u32>, flush: &mut impl FnMut()) {
        let freed_to_flushing = |(low, high): (u32, u32)| (low & !high, high);
        // `flushing` is the high bit without the low.
        let flushing_to_unused = |(low, high): (u32, u32)| (low, high & low);
        let words = &self.words[..asids.end.div_ceil(PER_WORD) as usize];
        let mut moved = 0;
        for word in words {
            let before = change(word, freed_to_flushing);
            moved += (before.0 & before.1).count_ones();
        }
        if moved > 0 {
            // The count wraps below zero for a moment if an ASID is freed in its word and not counted yet. A search at
            // that moment looks for freed ASIDs and finds none.
            self.freed.fetch_sub(moved, Ordering::Relaxed);
            flush();
            for word in words {
                change(word, flushing_to_unused);
            }
            self.next.store(0, Ordering::Relaxed);
        }
    }
}

/// Applies `to` to a word's halves in one step, and returns their former values.
fn change(word: &AtomicU64, to: impl Fn((u32, u32)) -> (u32, u32)) -> (u32, u32) {
    let mut at = word.load(Ordering::Relaxed);
    loop {
        let (low, high) = to(split(at));
        let changed = join(low, high);
        if changed == at {
            return split(at);
        }
        match word.compare_exchange_weak(at, changed, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return split(at),
            Err(newer) => at = newer,
        }
    }
}

impl<const WORDS: usize> fmt::Debug for GlobalAsids<WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GlobalAsids").field("flushing", &self.flushing).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::cell::{Cell, RefCell};
    use std::boxed::Box;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// As many as any machine has, whatever the engine was built for.
    const MOST_ASIDS: u32 = 1 << 16;
    type GlobalAsids = super::GlobalAsids<{ (MOST_ASIDS / PER_WORD) as usize }>;

    fn alone(_: &dyn Fn() -> bool) {
        unreachable!("nobody else flushes");
    }

    fn take(asids: &GlobalAsids, count: u32) -> Option<u16> {
        asids.take(1..count, 1, || (), alone).map(Asid::get)
    }

    #[test]
    fn each_is_given_out_once_and_none_beyond_the_last() {
        let all = if cfg!(miri) { 256 } else { MOST_ASIDS };
        for count in [0, 1, 2, 31, 32, 33, 64, 100, all] {
            let asids = Box::new(GlobalAsids::new());
            let last = count.max(1) as usize - 1;
            let given: BTreeSet<u16> = (0..last).map(|_| take(&asids, count).unwrap()).collect();
            assert_eq!(given.len(), last, "of {count}");
            assert!(!given.contains(&0) && given.iter().all(|asid| u32::from(*asid) < count));
            assert_eq!(take(&asids, count), None, "of {count}");
        }
    }

    /// The count of freed ASIDs is below zero for a moment: see `flush_freed`.
    #[test]
    fn a_search_that_finds_none_freed_flushes_nothing() {
        let asids = Box::new(GlobalAsids::new());
        assert_eq!(take(&asids, 2), Some(1));
        asids.freed.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(asids.take(1..2, 1, || unreachable!("none is freed"), alone), None);
    }

    /// The defect in Linux's allocator: the last ASID is taken, freed ones lie below it, and the search starts above
    /// them.
    #[test]
    fn an_asid_given_back_below_the_last_search_is_found_again() {
        let asids = Box::new(GlobalAsids::new());
        let given: Vec<u16> = (1..256).map(|_| take(&asids, 256).unwrap()).collect();
        asids.free(Asid::new(given[3]));
        assert_eq!(take(&asids, 256), Some(given[3]));
        assert_eq!(take(&asids, 256), None);
    }

    #[test]
    fn one_flush_cleans_the_asids_given_back_before_it_and_none_after() {
        let asids = Box::new(GlobalAsids::new());
        for _ in 1..4 {
            take(&asids, 4);
        }
        let flushes = Cell::new(0);
        let flush = || {
            flushes.set(flushes.get() + 1);
            if flushes.get() == 1 {
                asids.free(Asid::new(3));
            }
        };
        asids.free(Asid::new(1));
        asids.free(Asid::new(2));
        let given: Vec<_> =
            (0..3).map(|_| (asids.take(1..4, 1, flush, alone).map(Asid::get), flushes.get())).collect();
        assert_eq!(given, [(Some(1), 1), (Some(2), 1), (Some(3), 2)]);
    }

    #[test]
    fn a_flush_waits_until_enough_were_given_back() {
        let asids = Box::new(GlobalAsids::new());
        let flushes = Cell::new(0);
        let take = || asids.take(1..7, 3, || flushes.set(flushes.get() + 1), alone).map(Asid::get);
        let given: Vec<u16> = (1..7).map(|_| take().unwrap()).collect();
        for (back, expected) in [(0, None), (1, None), (2, Some(given[0]))] {
            asids.free(Asid::new(given[back]));
            assert_eq!((take(), flushes.get()), (expected, u32::from(expected.is_some())));
        }
        assert_eq!((take(), take(), take()), (Some(given[1]), Some(given[2]), None));
    }

    /// One CPU flushes. Another that comes meanwhile waits for it, and finds the ASIDs that it freed.
    #[test]
    fn a_search_during_a_flush_waits_for_its_end() {
        let asids = Box::new(GlobalAsids::new());
        for _ in 1..3 {
            take(&asids, 3);
        }
        asids.free(Asid::new(1));
        asids.flushing.store(true, Ordering::Relaxed);
        let waited = Cell::new(0);
        let asid = asids.take(
            1..3,
            1,
            || (),
            |done| {
                assert!(!done());
                waited.set(waited.get() + 1);
                asids.flushing.store(false, Ordering::Relaxed);
                assert!(done());
            },
        );
        assert_eq!((asid, waited.get()), (Some(Asid::new(1)), 1));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "ASID 1 was given back by one that does not have it")]
    fn giving_back_twice_is_caught() {
        let asids = Box::new(GlobalAsids::new());
        take(&asids, 3);
        asids.free(Asid::new(1));
        asids.free(Asid::new(1));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 1 } else { 500 }, failure_persistence: None, ..ProptestConfig::default() })]

        /// Takes and gives back at random, sometimes during flushes. A model says which ASIDs are in use and which are
        /// clean.
        #[test]
        fn no_asid_has_two_owners_or_is_reused_before_a_flush_of_everything(
            count in 2..80_u32, steps in prop::collection::vec((0..3_u8, any::<usize>()), 0..300),
        ) {
            let asids = Box::new(GlobalAsids::new());
            let used = RefCell::new(Vec::new());
            // The ASIDs given back since the last flush began.
            let dirty = RefCell::new(BTreeSet::new());
            let give_back = |which: usize| {
                let mut used = used.borrow_mut();
                if !used.is_empty() {
                    let index = which % used.len();
                    let asid: Asid = used.swap_remove(index);
                    dirty.borrow_mut().insert(asid);
                    asids.free(asid);
                }
            };
            for (kind, which) in steps {
                if kind == 0 {
                    give_back(which);
                    continue;
                }
                let flush = || {
                    dirty.borrow_mut().clear();
                    if kind == 2 {
                        // The entries of this ASID were filled after the flush began.
                        give_back(which);
                    }
                };
                let Some(asid) = asids.take(1..count, 1, flush, alone) else {
                    prop_assert_eq!(used.borrow().len() as u32, count - 1, "none is left");
                    continue;
                };
                prop_assert!((1..count).contains(&u32::from(asid.get())));
                prop_assert!(!used.borrow().contains(&asid), "{asid:?} is in use");
                prop_assert!(!dirty.borrow().contains(&asid), "{asid:?} was not flushed");
                used.borrow_mut().push(asid);
            }
        }
    }

    /// Four CPUs take and give back at once. A table of owners shows any ASID that two of them have.
    #[test]
    fn cpus_that_take_at_once_never_share_an_asid() {
        const COUNT: u32 = 40;
        let asids = Box::new(GlobalAsids::new());
        let owners: Vec<AtomicBool> = (0..COUNT).map(|_| AtomicBool::new(false)).collect();
        std::thread::scope(|scope| {
            for cpu in 0..4 {
                let (asids, owners) = (&asids, &owners);
                scope.spawn(move || {
                    let mut mine = Vec::new();
                    for round in 0..if cfg!(miri) { 20 } else { 2000 } {
                        let wait = |done: &dyn Fn() -> bool| {
                            while !done() {
                                std::thread::yield_now();
                            }
                        };
                        if let Some(asid) = asids.take(1..COUNT, 1, std::thread::yield_now, wait) {
                            assert!(!owners[usize::from(asid.get())].swap(true, Ordering::SeqCst));
                            mine.push(asid);
                        }
                        if mine.len() > 8 + cpu || round % 3 == 0 {
                            if let Some(asid) = mine.pop() {
                                assert!(owners[usize::from(asid.get())].swap(false, Ordering::SeqCst));
                                asids.free(asid);
                            }
                        }
                    }
                });
            }
        });
    }
}
