//! The CPUs that have debts of an epoch: a set that knows which epoch it stands for.
//!
//! The [ledger](super::ledger) has few sets and many epochs, so sets are used again. A removal may be delayed, by an
//! interrupt or because a hypervisor runs another virtual CPU. Meanwhile its epoch is settled, the set is given to
//! another epoch, and the same CPU joins it again. Removing it from there would lose the CPU's new debt. So each word
//! names the epoch of its members and changes together with them in one step. A delayed operation finds another name
//! and changes nothing. A set needs no clearing either: members of an earlier epoch do not count.

use crate::cpu_set::{CpuId, CpuSet};
use crate::limits::MAX_CPUS;
use crate::primitive::{AtomicU64, Ordering};

/// The CPUs in one word; the other half is the epoch's number, modulo 2^32. An operation delayed by 2^32 epochs is not
/// detected.
const WORD: usize = 32;
const WORDS: usize = MAX_CPUS.div_ceil(WORD);
const SUMMARIES: usize = WORDS.div_ceil(64);

/// The CPUs that have debts of an epoch. 2080 bytes for 8192 CPUs.
#[derive(Debug)]
pub(crate) struct EpochSet {
    /// The words that ever had a member. Bits are never cleared, as in [`AtomicCpuSet`](crate::AtomicCpuSet).
    summary: [AtomicU64; SUMMARIES],
    /// The high half holds the epoch, the low half its members.
    words: [AtomicU64; WORDS],
}

impl EpochSet {
    pub(crate) const fn new() -> Self {
        // The const is a template for array elements, copied and never referred to.
        #[allow(clippy::declare_interior_mutable_const)]
        const ZERO: AtomicU64 = AtomicU64::new(0);
        Self { summary: [ZERO; SUMMARIES], words: [ZERO; WORDS] }
    }

    /// Adds a CPU to the set of `epoch`, unless that epoch no longer `is_open`. True if it is a member.
    pub(crate) fn insert(&self, epoch: u64, cpu: CpuId, is_open: impl Fn() -> bool) -> bool {
        let (word, bit) = place(cpu);
        // Before the word: an operation that finds the CPU in its word relies on others to find it through the summary
        // too.
        let (at, summary) = (word / 64, 1 << (word % 64));
        // Equivalent to Relaxed: stores are multi-copy atomic, and the exchange of the word releases it.
        if self.summary[at].load(Ordering::SeqCst) & summary == 0 {
            // Equivalent to Relaxed: the same.
            self.summary[at].fetch_or(summary, Ordering::SeqCst);
        }
        let word = &self.words[word];
        let mut held = word.load(Ordering::Relaxed);
        loop {
            let members = match members(held, epoch) {
                Some(members) => members,
                // An open epoch is the newest that has the set, so the word read before is of an older one.
                None if is_open() => 0,
                None => return false,
            };
            match word.compare_exchange_weak(
                held,
                named(epoch) | members | bit,
                Ordering::SeqCst,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(newer) => held = newer,
            }
        }
    }

    /// Removes a CPU from the set of `epoch`, if the set is still that epoch's.
    pub(crate) fn remove(&self, epoch: u64, cpu: CpuId) {
        let (word, bit) = place(cpu);
        let word = &self.words[word];
        let mut held = word.load(Ordering::Relaxed);
        while members(held, epoch).is_some_and(|members| members & bit != 0) {
            match word.compare_exchange_weak(held, held & !bit, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(newer) => held = newer,
            }
        }
    }

    /// Removes all members from the set of `epoch`, while it is still that epoch's.
    pub(crate) fn clear(&self, epoch: u64) {
        for (word, _) in self.occupied(epoch) {
            let word = &self.words[word];
            let mut held = word.load(Ordering::Relaxed);
            while members(held, epoch).is_some_and(|members| members != 0) {
                match word.compare_exchange_weak(held, named(epoch), Ordering::Release, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(newer) => held = newer,
                }
            }
        }
    }

    /// Whether a CPU is a member.
    pub(crate) fn contains(&self, epoch: u64, cpu: CpuId) -> bool {
        let (word, bit) = place(cpu);
        members(self.words[word].load(Ordering::SeqCst), epoch).is_some_and(|members| members & bit != 0)
    }

    /// Whether each word had no member at some moment during the call.
    pub(crate) fn is_empty(&self, epoch: u64) -> bool {
        self.occupied(epoch).next().is_none()
    }

    /// Adds the members to `cpus`.
    pub(crate) fn collect(&self, epoch: u64, cpus: &mut CpuSet) {
        for (word, members) in self.occupied(epoch) {
            cpus.insert_all(word / 2, members << (word % 2 * WORD));
        }
    }

    /// The words that have members, with those members.
    fn occupied(&self, epoch: u64) -> impl Iterator<Item = (usize, u64)> + '_ {
        let touched = (0..SUMMARIES).flat_map(|at| {
            let mut left = self.summary[at].load(Ordering::SeqCst);
            core::iter::from_fn(move || {
                (left != 0).then(|| {
                    let word = at * 64 + left.trailing_zeros() as usize;
                    left &= left - 1;
                    word
                })
            })
        });
        touched.filter_map(move |word| {
            let members = members(self.words[word].load(Ordering::SeqCst), epoch)?;
            (members != 0).then_some((word, members))
        })
    }
}

/// A CPU's word, and its bit in the word.
const fn place(cpu: CpuId) -> (usize, u64) {
    (cpu.index() / WORD, 1 << (cpu.index() % WORD))
}

/// The half of a word that names the epoch.
const fn named(epoch: u64) -> u64 {
    epoch << WORD
}

/// The half that holds the members, if the word is of `epoch`.
const fn members(held: u64, epoch: u64) -> Option<u64> {
    if (held ^ named(epoch)) >> WORD == 0 {
        Some(held & (named(1) - 1))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec::Vec;

    use super::*;

    fn cpu(number: usize) -> CpuId {
        CpuId::new(number).expect("in range")
    }

    fn all(set: &EpochSet, epoch: u64) -> Vec<usize> {
        let mut cpus = CpuSet::new();
        set.collect(epoch, &mut cpus);
        assert_eq!(cpus.is_empty(), set.is_empty(epoch));
        cpus.iter().map(CpuId::index).collect()
    }

    #[test]
    fn has_the_cpus_that_joined_and_did_not_leave() {
        let set = EpochSet::new();
        let there_are = |numbers: &[usize]| -> Vec<usize> {
            numbers.iter().copied().filter(|&number| number < MAX_CPUS).collect()
        };
        let joined = there_are(&[0, 2, 31, 32, 63, 64, 4095, 8191]);
        assert!(joined.iter().all(|&number| set.insert(3, cpu(number), || true)));
        assert_eq!(all(&set, 3), joined);
        for left in there_are(&[2, 3, 32, 33]) {
            set.remove(3, cpu(left));
            assert!(!set.contains(3, cpu(left)));
        }
        assert_eq!(all(&set, 3), there_are(&[0, 31, 63, 64, 4095, 8191]));
        assert!(there_are(&[0, 63]).into_iter().all(|number| set.contains(3, cpu(number))));
    }

    #[test]
    fn an_epoch_has_no_members_of_an_earlier_one() {
        let set = EpochSet::new();
        assert!(set.insert(5, cpu(2), || true) && set.insert(5, cpu(3), || true));
        assert!(all(&set, 21).is_empty() && !set.contains(21, cpu(2)));
        assert!(set.insert(21, cpu(3), || true));
        assert_eq!((all(&set, 21), all(&set, 5)), (Vec::from([3]), Vec::new()));
    }

    #[test]
    fn a_late_removal_changes_nothing() {
        let set = EpochSet::new();
        assert!(set.insert(5, cpu(1), || true) && set.insert(21, cpu(1), || true));
        set.remove(5, cpu(1));
        assert!(!set.insert(5, cpu(2), || false));
        assert_eq!(all(&set, 21), [1]);
    }

    /// An insertion that finds its CPU in the set adds nothing, so a walk through the set must find the CPU from then
    /// on.
    #[test]
    fn a_word_is_looked_at_before_it_has_a_member() {
        let set = EpochSet::new();
        // Asked before the word is changed.
        let looked_at = || set.summary[0].load(Ordering::SeqCst) == 1;
        assert!(!looked_at() && set.insert(1, cpu(1), looked_at));
    }
}
