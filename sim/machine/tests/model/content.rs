//! The possible contents of a page: words of 8 bytes, each with every value that a load may return.
//!
//! This is usually one value. A word has several after a store that raced with a fork, since the store may or may not
//! be in the copy. A page whose memory was given up reads as before or as zeros, all words alike, until a store
//! decides.

/// One word of a page; those not listed are zero.
#[derive(Debug, Clone)]
struct Word {
    number: u16,
    value: u64,
    /// The other possible values.
    others: Vec<u64>,
    /// Whether it was stored before the page was given up. Then it is zero if the page was dropped.
    old: bool,
}

impl Word {
    fn candidates(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(self.value).chain(self.others.iter().copied())
    }

    fn add(&mut self, value: u64) {
        if !self.candidates().any(|candidate| candidate == value) {
            self.others.push(value);
        }
    }

    fn map(&mut self, change: impl Fn(u64) -> u64) {
        self.value = change(self.value);
        let others = std::mem::take(&mut self.others);
        for value in others {
            self.add(change(value));
        }
    }
}

/// The state of a page's old words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Fate {
    /// They stay.
    #[default]
    Kept,
    /// They may be dropped at any time.
    GivenUp,
    /// They were either dropped or kept before a store, and stay so.
    Decided,
}

/// The contents of a page.
#[derive(Debug, Clone, Default)]
pub(crate) struct Content {
    /// By number.
    words: Vec<Word>,
    fate: Fate,
}

impl Content {
    fn position(&self, number: u64) -> Result<usize, usize> {
        self.words.binary_search_by_key(&number, |word| u64::from(word.number))
    }

    fn find(&self, number: u64) -> Option<&Word> {
        self.position(number).ok().map(|at| &self.words[at])
    }

    fn entry(&mut self, number: u64) -> &mut Word {
        let at = self.position(number).unwrap_or_else(|at| {
            let word = Word { number: number as u16, value: 0, others: Vec::new(), old: false };
            self.words.insert(at, word);
            at
        });
        &mut self.words[at]
    }

    /// Every value that a load of a word may return.
    pub(crate) fn candidates(&self, number: u64) -> Vec<u64> {
        let Some(word) = self.find(number) else { return vec![0] };
        let mut all: Vec<u64> = word.candidates().collect();
        if word.old && !all.contains(&0) {
            all.push(0);
        }
        all
    }

    /// Whether every word has one value, now and later, unless it is stored to.
    pub(crate) fn is_certain(&self) -> bool {
        self.fate == Fate::Kept
    }

    /// The words that need not be zero.
    pub(crate) fn written(&self) -> impl Iterator<Item = u64> + '_ {
        self.words.iter().map(|word| u64::from(word.number))
    }

    /// A store.
    pub(crate) fn store(&mut self, number: u64, value: u64) {
        let word = self.entry(number);
        (word.value, word.old) = (value, false);
        word.others.clear();
        if self.fate == Fate::GivenUp {
            self.fate = Fate::Decided;
        }
        self.settle_fate();
    }

    /// A store that may have come before or after this copy was made.
    pub(crate) fn may_be(&mut self, number: u64, value: u64) {
        self.entry(number).add(value);
    }

    /// A load returned `value`, one of the candidates, while no other operation affected the page.
    pub(crate) fn observe(&mut self, number: u64, value: u64) {
        let Ok(at) = self.position(number) else { return };
        let word = &mut self.words[at];
        if !word.old {
            (word.value, word.others) = (value, Vec::new());
            return;
        }
        if !word.candidates().any(|candidate| candidate == value) {
            // It is zero, which is only possible because the page was dropped.
            self.words.retain(|word| !word.old);
            self.fate = Fate::Kept;
        } else if value != 0 {
            (word.value, word.others) = (value, Vec::new());
            if self.fate == Fate::Decided {
                self.words.iter_mut().for_each(|word| word.old = false);
                self.fate = Fate::Kept;
            }
        }
    }

    /// The page was given up: it may be dropped until it is stored to.
    pub(crate) fn give_up(&mut self) {
        for word in &mut self.words {
            if self.fate == Fate::Decided && word.old {
                // One zero among these does not decide about the words stored since.
                word.add(0);
            }
            word.old = true;
        }
        self.fate = Fate::GivenUp;
        self.settle_fate();
    }

    /// Without old words no word can be lost.
    fn settle_fate(&mut self) {
        if !self.words.iter().any(|word| word.old) {
            self.fate = Fate::Kept;
        }
    }

    /// Replaces bytes from `offset` in the page on.
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (number, mask, value) in words_of(offset, bytes) {
            self.entry(number).map(|old| old & !mask | value);
        }
    }

    /// Like [`Content::write`], but it may not have happened.
    pub(crate) fn maybe_write(&mut self, offset: u64, bytes: &[u8]) {
        for (number, mask, value) in words_of(offset, bytes) {
            let word = self.entry(number);
            let written: Vec<u64> = word.candidates().map(|old| old & !mask | value).collect();
            for value in written {
                word.add(value);
            }
        }
    }

    /// Clears the page from `offset` on.
    pub(crate) fn clear_from(&mut self, offset: u64) {
        for word in &mut self.words {
            let keep = kept_below(u64::from(word.number), offset);
            word.map(|value| value & keep);
        }
        self.words.retain(|word| u64::from(word.number) * 8 < offset);
    }

    /// The first byte that differs from every candidate: its offset, the allowed values, and the value read.
    pub(crate) fn difference(&self, offset: u64, read: &[u8]) -> Option<(u64, Vec<u64>, u64)> {
        words_of(offset, read).find_map(|(number, mask, value)| {
            let fits = |candidate: u64| candidate & mask == value;
            let right = match self.find(number) {
                Some(word) => word.candidates().any(fits) || word.old && fits(0),
                None => fits(0),
            };
            (!right).then(|| (number, self.candidates(number), value))
        })
    }
}

/// The bits of a word that lie below `offset` in the page.
pub(crate) fn kept_below(number: u64, offset: u64) -> u64 {
    match offset.saturating_sub(number * 8) {
        0 => 0,
        bytes @ 1..8 => (1 << (bytes * 8)) - 1,
        _ => u64::MAX,
    }
}

/// Bytes at an offset as words: the number of each word, the bits that the bytes cover, and their value there.
pub(crate) fn words_of(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
    let end = offset + bytes.len() as u64;
    let numbers = if bytes.is_empty() { 0..0 } else { offset / 8..end.div_ceil(8) };
    numbers.map(move |number| {
        let (from, to) = ((number * 8).max(offset), (number * 8 + 8).min(end));
        let mut word = [0; 8];
        let mut mask = [0; 8];
        let place = (from - number * 8) as usize..(to - number * 8) as usize;
        word[place.clone()].copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
        mask[place].fill(0xff);
        (number, u64::from_le_bytes(mask), u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_given_up_reads_as_before_or_as_zeros_but_not_as_before_again() {
        let mut page = Content::default();
        page.store(1, 11);
        page.store(2, 22);
        page.give_up();
        assert_eq!(page.candidates(1), [11, 0]);
        page.observe(1, 11);
        assert_eq!(page.candidates(1), [11, 0], "it may be dropped later");
        page.observe(2, 0);
        assert_eq!((page.candidates(1), page.candidates(2)), (vec![0], vec![0]));
    }

    #[test]
    fn a_store_to_a_page_given_up_decides_about_all_other_words() {
        let mut page = Content::default();
        for word in 1..4 {
            page.store(word, 10 * word);
        }
        page.give_up();
        page.store(3, 33);
        assert_eq!((page.candidates(1), page.candidates(3)), (vec![10, 0], vec![33]));
        let (mut kept, mut dropped) = (page.clone(), page);
        kept.observe(1, 10);
        assert_eq!(kept.candidates(2), [20]);
        dropped.observe(1, 0);
        assert_eq!((dropped.candidates(2), dropped.candidates(3)), (vec![0], vec![33]));
    }

    #[test]
    fn after_giving_up_twice_one_zero_decides_nothing() {
        let mut page = Content::default();
        page.store(1, 10);
        page.give_up();
        page.store(2, 20);
        page.give_up();
        page.observe(1, 0);
        assert_eq!(page.candidates(2), [20, 0]);
    }

    #[test]
    fn bytes_are_written_and_cleared_across_words() {
        let mut page = Content::default();
        page.write(6, &[1, 2, 3, 4]);
        assert_eq!((page.candidates(0), page.candidates(1)), (vec![0x0201 << 48], vec![0x0403]));
        page.clear_from(9);
        assert_eq!(page.candidates(1), [3]);
        assert_eq!(page.difference(6, &[1, 2, 3, 0]), None);
        assert_eq!(page.difference(6, &[1, 2, 4, 0]), Some((1, vec![3], 4)));
    }
}
