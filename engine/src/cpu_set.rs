//! Sets of CPUs, from one to [`MAX_CPUS`].
//!
//! A set has two levels: words of 64 CPUs each, and a summary that says which words are occupied. Walking, uniting and
//! clearing a set touch only the summary and the occupied words. So the cost follows the CPUs in the set, not the CPUs
//! in the machine: eight neighbours cost the same among 64 CPUs and among 8192. A [`CpuSet`] has one owner; many CPUs
//! join and leave an [`AtomicCpuSet`] at once.

use core::fmt;

use crate::limits::MAX_CPUS;
use crate::primitive::{AtomicU64, Ordering};

const WORD: usize = 64;
const WORDS: usize = MAX_CPUS.div_ceil(WORD);
const SUMMARIES: usize = WORDS.div_ceil(WORD);

/// A CPU, numbered from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CpuId(u16);

/// A CPU number at or above [`MAX_CPUS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuOutOfRange(pub usize);

impl fmt::Display for CpuOutOfRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CPU {} is not below {MAX_CPUS}", self.0)
    }
}

impl CpuId {
    /// The CPU with this number.
    ///
    /// # Errors
    /// [`CpuOutOfRange`] if the number is [`MAX_CPUS`] or more.
    pub const fn new(number: usize) -> Result<Self, CpuOutOfRange> {
        if number < MAX_CPUS {
            Ok(Self(number as u16))
        } else {
            Err(CpuOutOfRange(number))
        }
    }

    /// All CPUs of a machine that has `count`; at most [`MAX_CPUS`].
    pub fn all(count: usize) -> impl Iterator<Item = Self> {
        (0..count.min(MAX_CPUS)).map(|number| Self(number as u16))
    }

    /// The CPU's number, as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    const fn word(self) -> usize {
        self.0 as usize / WORD
    }

    const fn bit(self) -> u64 {
        1 << (self.0 as usize % WORD)
    }

    /// The CPU's bit if it belongs to `word`; otherwise no bit.
    const fn bit_in(self, word: usize) -> u64 {
        if word == self.word() {
            self.bit()
        } else {
            0
        }
    }
}

const fn summary_of(word: usize) -> (usize, u64) {
    (word / WORD, 1 << (word % WORD))
}

/// Calls `visit` with the positions of the set bits, lowest first. Cheaper than the iterator below.
#[inline]
fn each_bit(mut word: u64, mut visit: impl FnMut(usize)) {
    while word != 0 {
        visit(word.trailing_zeros() as usize);
        word &= word - 1;
    }
}

/// The positions of the set bits, lowest first.
fn bits(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        (word != 0).then(|| {
            let position = word.trailing_zeros() as usize;
            word &= word - 1;
            position
        })
    })
}

/// A set of CPUs with one owner. 1040 bytes for 8192 CPUs, 16 for 64 and fewer.
#[derive(Clone)]
pub struct CpuSet {
    /// Bit `n` is set exactly if word `n` has members.
    summary: [u64; SUMMARIES],
    words: [u64; WORDS],
}

impl CpuSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { summary: [0; SUMMARIES], words: [0; WORDS] }
    }

    /// Adds a CPU.
    pub fn insert(&mut self, cpu: CpuId) {
        let (at, bit) = summary_of(cpu.word());
        self.summary[at] |= bit;
        self.words[cpu.word()] |= cpu.bit();
    }

    /// Removes a CPU.
    pub fn remove(&mut self, cpu: CpuId) {
        let word = &mut self.words[cpu.word()];
        *word &= !cpu.bit();
        if *word == 0 {
            let (at, bit) = summary_of(cpu.word());
            self.summary[at] &= !bit;
        }
    }

    /// Whether the CPU is a member.
    pub fn contains(&self, cpu: CpuId) -> bool {
        self.words[cpu.word()] & cpu.bit() != 0
    }

    /// Whether there is no member.
    pub fn is_empty(&self) -> bool {
        self.summary == [0; SUMMARIES]
    }

    /// The number of members.
    pub fn len(&self) -> usize {
        self.occupied().map(|word| self.words[word].count_ones() as usize).sum()
    }

    /// The members, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = CpuId> + '_ {
        Members { set: self, at: 0, occupied: self.summary[0], word: 0, left: 0 }
    }

    /// Keeps the members for which `keep` returns true. It is called once for each, lowest first.
    pub fn retain(&mut self, mut keep: impl FnMut(CpuId) -> bool) {
        for at in 0..SUMMARIES {
            each_bit(self.summary[at], |bit| {
                let word = at * WORD + bit;
                each_bit(self.words[word], |member| {
                    let cpu = CpuId((word * WORD + member) as u16);
                    if !keep(cpu) {
                        self.remove(cpu);
                    }
                });
            });
        }
    }

    /// Removes every member. Touches only the words that have any.
    pub fn clear(&mut self) {
        for at in 0..SUMMARIES {
            each_bit(self.summary[at], |bit| self.words[at * WORD + bit] = 0);
            self.summary[at] = 0;
        }
    }

    /// Adds all members of a shared set. Each word is read at some moment during the call.
    pub fn unite(&mut self, other: &AtomicCpuSet) {
        other.words(|(at, bit), members| {
            self.words[at * WORD + bit] |= members;
            self.summary[at] |= 1 << bit;
        });
    }

    /// Moves all members into `other`. Touches only the words that have any.
    pub(crate) fn pour(&mut self, other: &mut Self) {
        for at in 0..SUMMARIES {
            each_bit(self.summary[at], |bit| {
                let word = at * WORD + bit;
                other.words[word] |= core::mem::take(&mut self.words[word]);
            });
            other.summary[at] |= core::mem::take(&mut self.summary[at]);
        }
    }

    /// Removes all members of another set.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.retain(|cpu| !other.contains(cpu));
    }

    /// Adds `members` to one word. There is at least one.
    pub(crate) fn insert_all(&mut self, word: usize, members: u64) {
        let (at, bit) = summary_of(word);
        self.words[word] |= members;
        self.summary[at] |= bit;
    }

    fn occupied(&self) -> impl Iterator<Item = usize> + '_ {
        (0..SUMMARIES).flat_map(|at| bits(self.summary[at]).map(move |bit| at * WORD + bit))
    }
}

/// The members of a set, lowest first. Written by hand: nested iterators cost twice as much.
struct Members<'a> {
    set: &'a CpuSet,
    at: usize,
    /// The remaining bits of summary `at`.
    occupied: u64,
    word: usize,
    /// The remaining bits of the word.
    left: u64,
}

impl Iterator for Members<'_> {
    type Item = CpuId;

    fn next(&mut self) -> Option<CpuId> {
        while self.left == 0 {
            while self.occupied == 0 {
                self.at += 1;
                self.occupied = *self.set.summary.get(self.at)?;
            }
            self.word = self.at * WORD + self.occupied.trailing_zeros() as usize;
            self.occupied &= self.occupied - 1;
            self.left = self.set.words[self.word];
        }
        let bit = self.left.trailing_zeros() as usize;
        self.left &= self.left - 1;
        Some(CpuId((self.word * WORD + bit) as u16))
    }
}

impl Default for CpuSet {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(CpuId::index)).finish()
    }
}

impl FromIterator<CpuId> for CpuSet {
    fn from_iter<I: IntoIterator<Item = CpuId>>(cpus: I) -> Self {
        let mut set = Self::new();
        for cpu in cpus {
            set.insert(cpu);
        }
        set
    }
}

/// A set that CPUs join and leave by themselves, while others read it. It is as large as a [`CpuSet`].
///
/// Reads are sequentially consistent, like the changes. A flush raises a generation and then reads the set; a CPU joins
/// the set and then reads the generation. One of the two must see the other. An acquiring read could come before the
/// raise. (On Arm it does; on x86 both are the same load.)
///
/// A word's bit in the summary is never cleared. Clearing it could race with a CPU that joins the same word, and a
/// member that a flush cannot see is a lost flush. So the cost of a walk follows the words that ever had a member.
pub struct AtomicCpuSet {
    summary: [AtomicU64; SUMMARIES],
    words: [AtomicU64; WORDS],
}

impl AtomicCpuSet {
    /// The empty set.
    pub const fn new() -> Self {
        // The const is a template for array elements, copied and never referred to.
        #[allow(clippy::declare_interior_mutable_const)]
        const ZERO: AtomicU64 = AtomicU64::new(0);
        Self { summary: [ZERO; SUMMARIES], words: [ZERO; WORDS] }
    }

    /// Adds a CPU. A read of the set that follows a later sequentially consistent operation of the caller sees it.
    pub(crate) fn insert(&self, cpu: CpuId) {
        let (at, bit) = summary_of(cpu.word());
        self.words[cpu.word()].fetch_or(cpu.bit(), Ordering::SeqCst);
        // A CPU that joins after a drain has read the drain's exchange of the word. So it reads the summary as the drain
        // left it. The bit may be another CPU's, which is about to join. The caller's later reads must come after that
        // store too, or a flush that does not find the bit also goes unseen. So the read is sequentially consistent.
        // Equivalent to Acquire: stores are multi-copy atomic.
        if self.summary[at].load(Ordering::SeqCst) & bit == 0 {
            self.summary[at].fetch_or(bit, Ordering::SeqCst);
        }
    }

    /// Removes a CPU. True if it was a member.
    ///
    /// A flush that does not find the CPU acquires what the CPU did before it left.
    pub(crate) fn remove(&self, cpu: CpuId) -> bool {
        self.words[cpu.word()].fetch_and(!cpu.bit(), Ordering::Release) & cpu.bit() != 0
    }

    /// Whether the CPU is a member.
    pub fn contains(&self, cpu: CpuId) -> bool {
        // Equivalent to Relaxed: the engine asks a CPU's own bit alone.
        self.words[cpu.word()].load(Ordering::SeqCst) & cpu.bit() != 0
    }

    /// Whether each word had no member at some moment during the call.
    pub fn is_empty(&self) -> bool {
        let mut empty = true;
        self.words(|_, _| empty = false);
        empty
    }

    /// Whether any other CPU than `cpu` is a member.
    pub fn any_but(&self, cpu: CpuId) -> bool {
        (0..SUMMARIES).any(|at| {
            bits(self.summary[at].load(Ordering::SeqCst)).any(|bit| {
                let word = at * WORD + bit;
                self.words[word].load(Ordering::SeqCst) & !cpu.bit_in(word) != 0
            })
        })
    }

    /// Calls `visit` with the members, lowest first. Each word is read at some moment during the call.
    pub fn for_each(&self, mut visit: impl FnMut(CpuId)) {
        self.words(|(at, bit), members| {
            let word = at * WORD + bit;
            each_bit(members, |member| visit(CpuId((word * WORD + member) as u16)));
        });
    }

    /// Calls `visit` with each word that has members, by its place: the summary, and the bit there.
    #[inline]
    fn words(&self, mut visit: impl FnMut((usize, usize), u64)) {
        for at in 0..SUMMARIES {
            each_bit(self.summary[at].load(Ordering::SeqCst), |bit| {
                let members = self.words[at * WORD + bit].load(Ordering::SeqCst);
                if members != 0 {
                    visit((at, bit), members);
                }
            });
        }
    }

    /// Removes every member and passes each to `take`.
    ///
    /// It is for a set that many CPUs fill and one empties. An `insert` that comes too late for this call is in the set
    /// for the next. Unlike a removal, it resets the summary. That is safe: the CPU that empties looks at the words
    /// after the reset, and a CPU that joins sets the word before the summary.
    pub(crate) fn drain(&self, mut take: impl FnMut(CpuId)) {
        for at in 0..SUMMARIES {
            if self.summary[at].load(Ordering::SeqCst) == 0 {
                continue;
            }
            each_bit(self.summary[at].swap(0, Ordering::Relaxed), |bit| {
                let word = at * WORD + bit;
                each_bit(self.words[word].swap(0, Ordering::AcqRel), |member| {
                    take(CpuId((word * WORD + member) as u16));
                });
            });
        }
    }
}

impl Default for AtomicCpuSet {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for AtomicCpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut set = CpuSet::new();
        set.unite(self);
        set.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use proptest::prelude::*;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    use super::*;

    fn cpu(number: usize) -> CpuId {
        CpuId::new(number).unwrap()
    }

    #[test]
    fn the_bound_is_named() {
        assert_eq!(CpuId::new(MAX_CPUS), Err(CpuOutOfRange(MAX_CPUS)));
        let message = std::format!("CPU 8192 is not below {MAX_CPUS}");
        assert_eq!(std::format!("{}", CpuOutOfRange(8192)), message);
        assert_eq!(CpuId::new(MAX_CPUS - 1).map(CpuId::index), Ok(MAX_CPUS - 1));
    }

    proptest! {
        #[test]
        fn behaves_as_a_set_of_numbers(steps in prop::collection::vec((0..MAX_CPUS, any::<bool>()), 0..200)) {
            let (mut set, shared, mut model) = (CpuSet::new(), AtomicCpuSet::new(), BTreeSet::new());
            for (number, insert) in steps {
                if insert {
                    set.insert(cpu(number));
                    shared.insert(cpu(number));
                    model.insert(number);
                } else {
                    set.remove(cpu(number));
                    prop_assert_eq!(shared.remove(cpu(number)), model.remove(&number));
                }
                prop_assert_eq!(set.contains(cpu(number)), model.contains(&number));
                prop_assert_eq!(shared.contains(cpu(number)), model.contains(&number));
                prop_assert_eq!(shared.any_but(cpu(number)), model.iter().any(|&m| m != number));
                prop_assert_eq!((set.is_empty(), shared.is_empty()), (model.is_empty(), model.is_empty()));
            }
            prop_assert_eq!(set.iter().map(CpuId::index).collect::<Vec<_>>(), model.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.len(), model.len());
            let mut kept = set.clone();
            kept.retain(|member| member.index() % 3 == 0);
            prop_assert_eq!(
                kept.iter().map(CpuId::index).collect::<Vec<_>>(),
                model.iter().copied().filter(|m| m % 3 == 0).collect::<Vec<_>>()
            );
            prop_assert_eq!(kept.is_empty(), kept.iter().next().is_none());
            let mut united = CpuSet::new();
            united.unite(&shared);
            prop_assert_eq!(united.iter().collect::<Vec<_>>(), set.iter().collect::<Vec<_>>());
            let mut visited = Vec::new();
            shared.for_each(|member| visited.push(member.index()));
            prop_assert_eq!(&visited, &model.iter().copied().collect::<Vec<_>>());
            let mut drained = BTreeSet::new();
            shared.drain(|member| { drained.insert(member.index()); });
            prop_assert_eq!(&drained, &model);
            prop_assert!(!shared.any_but(cpu(0)) && !shared.contains(cpu(0)));
            let poured_into = BTreeSet::from([0, 70 % MAX_CPUS]);
            let mut poured: CpuSet = poured_into.iter().map(|&number| cpu(number)).collect();
            set.pour(&mut poured);
            prop_assert!(set.is_empty() && set.words == [0; WORDS]);
            let expected = poured_into.union(&model).copied().collect::<Vec<_>>();
            prop_assert_eq!(poured.iter().map(CpuId::index).collect::<Vec<_>>(), expected);
            poured.clear();
            prop_assert!(poured.is_empty() && poured.words == [0; WORDS]);
        }
    }
}
