//! The words that a program may see: for each page all stores to it, and when each began and ended.
//!
//! A load may read a word if its store began before the load ended, and if no other store lies wholly between the two.
//! A call that fills pages with zeros is a store. A store that may be lost, or may not be seen in a copy, is not sure:
//! it may be read, and hides nothing.

use std::ops::Range;

/// One store of a word.
#[derive(Debug, Clone, Copy)]
struct Write {
    word: u64,
    begin: u64,
    /// `u64::MAX` while it is under way.
    end: u64,
    sure: bool,
}

/// All stores to one page.
#[derive(Debug, Clone, Default)]
struct History(Vec<Write>);

impl History {
    fn allows(&self, word: u64, begin: u64, end: u64) -> bool {
        let hidden =
            |old: &Write| self.0.iter().any(|new| new.sure && new.begin > old.end && new.end < begin);
        self.0.iter().any(|write| write.word == word && write.begin <= end && !hidden(write))
    }

    /// What a copy holds that is made between these moments.
    fn copied(&self, begin: u64, end: u64) -> Self {
        let write = |write: &Write| Write {
            end: write.end.min(end),
            sure: write.sure && write.end < begin,
            ..*write
        };
        Self(self.0.iter().map(write).collect())
    }
}

/// The store of the words of a mapping.
#[derive(Debug, Clone)]
enum Backing {
    /// Memory of its own, page by page.
    Own(Vec<History>),
    /// The file, from this page on.
    File(u64),
}

/// A mapping, from the beginning of the call that made it to the end of the call that removed it.
#[derive(Debug, Clone)]
struct Mapping {
    space: u64,
    pages: Range<u64>,
    life: Range<u64>,
    backing: Backing,
}

impl Mapping {
    fn covers(&self, space: u64, page: u64, begin: u64, end: u64) -> bool {
        self.space == space && self.pages.contains(&page) && self.life.start <= end && begin <= self.life.end
    }

    /// The stores to memory of its own.
    fn own_writes(&mut self) -> impl Iterator<Item = &mut Write> {
        let pages = match &mut self.backing {
            Backing::Own(pages) => pages.as_mut_slice(),
            Backing::File(_) => &mut [],
        };
        pages.iter_mut().flat_map(|page| &mut page.0)
    }
}

/// A store of a program, which a mapping that is made at the same time has not seen.
#[derive(Debug)]
struct Stored {
    space: u64,
    page: u64,
    write: Write,
}

/// Zeros that a call fills pages with, also in a mapping that is made meanwhile.
#[derive(Debug)]
struct Zeroed {
    space: u64,
    pages: Range<u64>,
    write: Write,
}

/// A fork. A mapping that was made meanwhile may be the child's too.
#[derive(Debug)]
struct Fork {
    parent: u64,
    child: u64,
    life: Range<u64>,
}

/// A mapping that went to another address.
#[derive(Debug)]
struct Moved {
    space: u64,
    from: Range<u64>,
    to: u64,
    ended: u64,
}

/// The words of all spaces and of the file.
#[derive(Debug, Default)]
pub(super) struct Words {
    mappings: Vec<Mapping>,
    file: Vec<History>,
    stored: Vec<Stored>,
    zeroed: Vec<Zeroed>,
    /// The spaces in which calls are making mappings now, and when each began.
    mapping: Vec<(u64, u64)>,
    forks: Vec<Fork>,
    /// In the order in which the calls ended.
    moved: Vec<Moved>,
}

impl Words {
    /// A file with so many pages of zeros.
    pub(super) fn file_made(&mut self, pages: u32) {
        let zeros = History(vec![Write { word: 0, begin: 0, end: 0, sure: true }]);
        self.file = vec![zeros; pages as usize];
    }

    pub(super) fn maps(&mut self, space: u64, begin: u64) {
        self.mapping.push((space, begin));
    }

    /// The call that [maps](Self::maps) has ended: with pages, or without. `first` is the page of the file.
    pub(super) fn mapped(
        &mut self,
        space: u64,
        pages: Option<Range<u64>>,
        first: Option<u64>,
        life: Range<u64>,
    ) {
        let call = (space, life.start);
        let at = self.mapping.iter().position(|other| *other == call).expect("the call began");
        self.mapping.swap_remove(at);
        let Some(pages) = pages else { return };
        let zeros = History(vec![Write { word: 0, begin: life.start, end: life.end, sure: true }]);
        let backing = match first {
            Some(first) => Backing::File(first),
            None => Backing::Own(vec![zeros; (pages.end - pages.start) as usize]),
        };
        for (owner, from) in self.owners(space, life.start) {
            let (pages, backing) = (pages.clone(), backing.clone());
            let mut mapping = Mapping { space: owner, pages, life: from..u64::MAX, backing };
            // Stores of other CPUs may have found it before the call returned, and a child has what its parent stored.
            let found = |stored: &&Stored| {
                stored.write.end >= life.start
                    && [space, owner].contains(&stored.space)
                    && mapping.pages.contains(&stored.page)
            };
            let mut found: Vec<_> =
                self.stored.iter().filter(found).map(|stored| (stored.page, stored.write)).collect();
            // So may calls that began to fill its address with zeros before it was there. The file keeps its words.
            let zeroed = self.zeroed.iter().filter(|zeroed| {
                zeroed.write.end >= life.start && [space, owner].contains(&zeroed.space) && first.is_none()
            });
            for zeroed in zeroed {
                let there = zeroed.pages.clone().filter(|page| mapping.pages.contains(page));
                found.extend(there.map(|page| (page, zeroed.write)));
            }
            for (page, write) in found {
                Self::history(&mut self.file, &mut mapping, page).0.push(Write { sure: false, ..write });
            }
            self.mappings.push(mapping);
        }
    }

    /// The spaces that a call made since `begin` in one space concerns, and since when: that space, and each child that
    /// was forked meanwhile.
    fn owners(&self, space: u64, begin: u64) -> Vec<(u64, u64)> {
        let meanwhile = self.forks.iter().filter(|fork| fork.parent == space && fork.life.end >= begin);
        let children = meanwhile.map(|fork| (fork.child, fork.life.start));
        [(space, begin)].into_iter().chain(children).collect()
    }

    /// Whether the space may have a mapping that it has not heard of: a call is making one, there or in its parent while
    /// that forked.
    fn is_mapping(&self, space: u64) -> bool {
        self.mapping.iter().any(|&(other, begin)| {
            let inherits =
                |fork: &Fork| fork.parent == other && fork.child == space && fork.life.end >= begin;
            other == space || self.forks.iter().any(inherits)
        })
    }

    /// A call that removed mappings has ended.
    pub(super) fn unmapped(&mut self, space: u64, start: u64, now: u64) {
        let same = |mapping: &&mut Mapping| mapping.space == space && mapping.pages.start == start;
        for mapping in self.mappings.iter_mut().filter(same) {
            mapping.life.end = mapping.life.end.min(now);
        }
    }

    /// A call has moved a mapping. A child that was forked meanwhile has it here or there.
    pub(super) fn moved(&mut self, space: u64, from: u64, to: u64, life: Range<u64>) {
        for (owner, begin) in self.owners(space, life.start) {
            let there = |(_, mapping): &(usize, &Mapping)| {
                mapping.space == owner && mapping.pages.start == from && mapping.life.end >= life.start
            };
            let mut there: Vec<_> =
                self.mappings.iter().enumerate().filter(there).map(|(at, _)| at).collect();
            // One that was there all the time has moved, or either of two if a call before has moved the one or the other.
            // If that one was unmapped meanwhile, the unmap passed over it, or it removed it and another one has moved.
            let stayed = |at: &usize| {
                let other = &self.mappings[*at].life;
                other.start < life.start && other.end == u64::MAX
            };
            if there.iter().any(stayed) {
                there.retain(stayed);
            }
            for &at in &there {
                let mut old = self.mappings[at].clone();
                // A call that fills pages with zeros meanwhile passes over a mapping that is already gone.
                for write in old.own_writes().filter(|write| write.end >= life.start) {
                    write.sure &= self.zeroed.iter().all(|zeroed| zeroed.write.begin != write.begin);
                }
                let pages = to..to + (old.pages.end - old.pages.start);
                self.moved.push(Moved { space: owner, from: old.pages.clone(), to, ended: life.end });
                self.mappings.push(Mapping { pages, life: begin..u64::MAX, ..old });
            }
            if let (true, [only]) = (owner == space, &there[..]) {
                self.mappings[*only].life.end = life.end;
            }
        }
    }

    /// The mappings of a space that no call has removed.
    pub(super) fn alive(&self, space: u64) -> Vec<Range<u64>> {
        let alive = |mapping: &&Mapping| mapping.space == space && mapping.life.end == u64::MAX;
        self.mappings.iter().filter(alive).map(|mapping| mapping.pages.clone()).collect()
    }

    /// A child has the same mappings; its memory is a copy made between these moments.
    pub(super) fn forked(&mut self, parent: u64, child: u64, life: Range<u64>) {
        let there = |mapping: &&Mapping| mapping.space == parent && mapping.life.end > life.start;
        let copy = |mapping: &Mapping| Mapping {
            space: child,
            life: life.start..u64::MAX,
            backing: match &mapping.backing {
                Backing::Own(pages) => {
                    Backing::Own(pages.iter().map(|page| page.copied(life.start, life.end)).collect())
                }
                Backing::File(first) => Backing::File(*first),
            },
            ..mapping.clone()
        };
        let copies: Vec<_> = self.mappings.iter().filter(there).map(copy).collect();
        self.mappings.extend(copies);
        self.forks.push(Fork { parent, child, life });
    }

    fn history<'a>(file: &'a mut [History], mapping: &'a mut Mapping, page: u64) -> &'a mut History {
        let at = page - mapping.pages.start;
        match &mut mapping.backing {
            Backing::Own(pages) => &mut pages[at as usize],
            Backing::File(first) => &mut file[(*first + at) as usize],
        }
    }

    /// A program has stored a word.
    pub(super) fn stored(&mut self, space: u64, page: u64, word: u64, begin: u64, end: u64) {
        let mut write = Write { word, begin, end, sure: true };
        self.stored.push(Stored { space, page, write });
        let covers = |mapping: &&mut Mapping| mapping.covers(space, page, begin, end);
        // While mappings come and go, the store may have been to one or to another.
        write.sure = self.mappings.iter_mut().filter(covers).count() == 1 && !self.is_mapping(space);
        for mapping in self.mappings.iter_mut().filter(covers) {
            Self::history(&mut self.file, mapping, page).0.push(write);
        }
        // The page may have been on its way.
        let mut at = page;
        for moved in &self.moved {
            if moved.space == space && moved.from.contains(&at) && moved.ended >= begin {
                at = moved.to + (at - moved.from.start);
                let there = |mapping: &&mut Mapping| mapping.space == space && mapping.pages.contains(&at);
                for mapping in self.mappings.iter_mut().filter(there) {
                    Self::history(&mut self.file, mapping, at).0.push(Write { sure: false, ..write });
                }
            }
        }
    }

    /// Whether a word was stored where a call is making a mapping now, which may be of any page of the file.
    fn has_no_place(&self, word: u64, end: u64) -> bool {
        let stored =
            self.stored.iter().filter(|stored| stored.write.word == word && stored.write.begin <= end);
        let mut spaces = stored.map(|stored| stored.space);
        spaces.any(|space| self.is_mapping(space))
    }

    /// Whether a program may have loaded a word.
    pub(super) fn allows(&mut self, space: u64, page: u64, word: u64, begin: u64, end: u64) -> bool {
        // Another CPU may have found a mapping of whose address its own call has not heard yet.
        self.is_mapping(space)
            || self.has_no_place(word, end)
            || self.mappings.iter_mut().any(|mapping| {
                mapping.covers(space, page, begin, end)
                    && Self::history(&mut self.file, mapping, page).allows(word, begin, end)
            })
    }

    /// A call begins to fill pages of private memory with zeros, or may do so later if it is not `sure`.
    pub(super) fn zeroes(&mut self, space: u64, pages: &Range<u64>, begin: u64, sure: bool) {
        let write = Write { word: 0, begin, end: u64::MAX, sure };
        self.zeroed.push(Zeroed { space, pages: pages.clone(), write });
        for mapping in &mut self.mappings {
            if let (true, Backing::Own(own)) = (mapping.space == space, &mut mapping.backing) {
                for page in pages.clone().filter(|page| mapping.pages.contains(page)) {
                    let at = (page - mapping.pages.start) as usize;
                    own[at].0.push(write);
                }
            }
        }
    }

    /// A call begins to store a word in pages of the file.
    pub(super) fn writes(&mut self, pages: Range<usize>, word: u64, begin: u64) {
        let end = pages.end.min(self.file.len());
        for page in &mut self.file[pages.start.min(end)..end] {
            page.0.push(Write { word, begin, end: u64::MAX, sure: true });
        }
    }

    /// A call that failed may have made the file longer, and then as short again as it was. What mappings stored meanwhile
    /// to these pages may be lost.
    pub(super) fn shortened(&mut self, first: usize, begin: u64, end: u64) {
        for page in self.file.iter_mut().skip(first) {
            page.0.push(Write { word: 0, begin, end, sure: false });
        }
    }

    /// Whether a call may have read a word from a page of the file.
    pub(super) fn file_allows(&self, page: usize, word: u64, begin: u64, end: u64) -> bool {
        self.file[page].allows(word, begin, end) || self.has_no_place(word, end)
    }

    /// The call that began at this moment is done with its stores; if it failed, perhaps only with some.
    pub(super) fn done(&mut self, begin: u64, now: u64, succeeded: bool) {
        let own = self.mappings.iter_mut().flat_map(Mapping::own_writes);
        let file = self.file.iter_mut().flat_map(|page| &mut page.0);
        let zeroed = self.zeroed.iter_mut().map(|zeroed| &mut zeroed.write);
        let writes = own.chain(file).chain(zeroed);
        for write in writes.filter(|write| write.begin == begin) {
            write.end = write.end.min(now);
            write.sure &= succeeded;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACE: u64 = 7;

    /// A mapping of page 1 in which 5 was stored between the moments 10 and 12, and 6 between 20 and 22.
    fn words() -> Words {
        let mut words = Words::default();
        words.maps(SPACE, 1);
        words.mapped(SPACE, Some(1..2), None, 1..2);
        words.stored(SPACE, 1, 5, 10, 12);
        words.stored(SPACE, 1, 6, 20, 22);
        words
    }

    #[test]
    fn a_load_reads_the_last_store_or_one_that_is_under_way() {
        let mut words = words();
        let mut allowed = |begin, end| {
            [0, 5, 6, 7]
                .into_iter()
                .filter(|&word| words.allows(SPACE, 1, word, begin, end))
                .collect::<Vec<_>>()
        };
        assert_eq!(allowed(3, 4), [0]);
        assert_eq!(allowed(11, 12), [0, 5]);
        assert_eq!(allowed(13, 14), [5]);
        assert_eq!(allowed(13, 21), [5, 6]);
        assert_eq!(allowed(21, 21), [5, 6]);
        assert_eq!(allowed(23, 24), [6]);
    }

    #[test]
    fn zeros_hide_what_was_stored_if_they_are_sure() {
        for sure in [true, false] {
            let mut words = words();
            words.zeroes(SPACE, &(1..2), 30, sure);
            assert!(words.allows(SPACE, 1, 0, 31, 31) && words.allows(SPACE, 1, 6, 31, 31));
            words.done(30, 32, true);
            assert!(words.allows(SPACE, 1, 0, 33, 33));
            assert_eq!(words.allows(SPACE, 1, 6, 33, 33), !sure);
            words.stored(SPACE, 1, 8, 40, 41);
            assert!(!words.allows(SPACE, 1, 0, 42, 42));
        }
    }

    #[test]
    fn zeros_are_not_sure_of_a_mapping_that_moves_meanwhile() {
        for (began, ended, sure) in [(30, 32, true), (30, 36, false), (36, 38, false), (36, 50, false)] {
            let mut words = words();
            words.zeroes(SPACE, &(1..2), began, true);
            if ended < 40 {
                words.done(began, ended, true);
            }
            words.moved(SPACE, 1, 11, 35..40);
            words.done(began, ended, true);
            assert!(words.allows(SPACE, 11, 0, 60, 60));
            assert_eq!(words.allows(SPACE, 11, 6, 60, 60), !sure, "from {began} to {ended}");
        }
    }

    #[test]
    fn a_mapping_that_is_unmapped_while_it_moves_is_at_its_new_place() {
        let mut words = words();
        words.unmapped(SPACE, 1, 36);
        words.moved(SPACE, 1, 11, 35..40);
        assert!(words.allows(SPACE, 11, 6, 60, 60) && !words.allows(SPACE, 11, 5, 60, 60));
        assert_eq!(words.alive(SPACE).as_slice(), std::slice::from_ref(&(11..12)));
    }

    #[test]
    fn a_mapping_that_is_made_where_another_has_just_left_stays() {
        let mut words = words();
        words.maps(SPACE, 37);
        words.mapped(SPACE, Some(1..2), None, 37..38);
        words.moved(SPACE, 1, 11, 35..40);
        assert_eq!(words.alive(SPACE), [1..2, 11..12]);
        assert!(words.allows(SPACE, 1, 0, 60, 60) && !words.allows(SPACE, 1, 6, 60, 60));
        assert!(words.allows(SPACE, 11, 6, 60, 60) && !words.allows(SPACE, 11, 0, 60, 60));
    }

    #[test]
    fn a_write_that_fails_may_take_along_what_was_stored_meanwhile_and_nothing_later() {
        let mut words = Words::default();
        words.file_made(2);
        words.maps(SPACE, 1);
        words.mapped(SPACE, Some(1..3), Some(0), 1..2);
        words.writes(1..2, 5, 10);
        words.stored(SPACE, 2, 6, 20, 22);
        words.done(10, 30, false);
        assert!(!words.file_allows(1, 0, 31, 31));
        words.shortened(1, 10, 30);
        assert!(words.file_allows(1, 0, 31, 31) && words.file_allows(1, 6, 31, 31));
        assert!(words.file_allows(0, 0, 31, 31) && !words.file_allows(0, 6, 31, 31));
        words.stored(SPACE, 2, 7, 40, 42);
        assert!(!words.file_allows(1, 0, 43, 43));
    }

    /// Pages 1 to 3 are discarded while another CPU unmaps them, maps memory there and stores to it.
    #[test]
    fn zeros_may_reach_a_mapping_that_is_made_meanwhile() {
        let mut words = words();
        words.zeroes(SPACE, &(1..3), 30, true);
        words.unmapped(SPACE, 1, 34);
        words.maps(SPACE, 36);
        words.mapped(SPACE, Some(1..2), None, 36..38);
        words.stored(SPACE, 1, 8, 40, 41);
        words.done(30, 44, true);
        let mut allowed = |word| words.allows(SPACE, 1, word, 50, 51);
        assert!(allowed(0) && allowed(8) && !allowed(6));
        words.stored(SPACE, 1, 9, 60, 61);
        assert!(!words.allows(SPACE, 1, 0, 62, 63), "the call is over");
    }

    #[test]
    fn a_copy_holds_what_was_there_and_is_apart_from_then_on() {
        let mut words = words();
        words.stored(SPACE, 1, 9, 30, 34);
        words.forked(SPACE, 8, 32..36);
        words.stored(SPACE, 1, 10, 40, 41);
        words.stored(8, 1, 11, 42, 43);
        let mut allowed = |space| {
            [6, 9, 10, 11]
                .into_iter()
                .filter(|&word| words.allows(space, 1, word, 50, 50))
                .collect::<Vec<_>>()
        };
        assert_eq!((allowed(SPACE), allowed(8)), (vec![10], vec![11]));
        let child = |words: &mut Words, word| words.allows(8, 1, word, 37, 37);
        assert!(child(&mut words, 6) && child(&mut words, 9) && !child(&mut words, 5));
    }

    #[test]
    fn a_mapping_that_moves_takes_its_words_along_and_those_that_are_stored_meanwhile() {
        let mut words = words();
        words.forked(SPACE, 8, 31..33);
        words.moved(SPACE, 1, 5, 30..40);
        assert_eq!(words.alive(SPACE), vec![Range { start: 5, end: 6 }]);
        assert!(words.allows(SPACE, 5, 6, 50, 50) && !words.allows(SPACE, 5, 5, 50, 50));
        assert!(!words.allows(SPACE, 1, 6, 50, 50) && words.allows(SPACE, 1, 6, 39, 40));
        // The store was made to the old address, and ends when the call is over.
        words.stored(SPACE, 1, 9, 35, 41);
        assert!(words.allows(SPACE, 5, 9, 50, 50));
        // The child has the mapping at one of the two addresses.
        assert!(words.allows(8, 1, 6, 50, 50) && words.allows(8, 5, 6, 50, 50));
        assert!(!words.allows(8, 5, 9, 50, 50));
        words.stored(SPACE, 5, 10, 60, 61);
        assert!(words.allows(SPACE, 5, 10, 62, 62) && !words.allows(SPACE, 5, 9, 62, 62));
    }

    #[test]
    fn either_of_two_mappings_that_may_have_moved_may_move_on() {
        let mut words = Words::default();
        words.file_made(1);
        words.maps(SPACE, 1);
        words.mapped(SPACE, Some(1..2), Some(0), 1..2);
        // The mapping of the file is unmapped during the call, and memory is mapped in its place: either has moved.
        words.unmapped(SPACE, 1, 20);
        words.maps(SPACE, 21);
        words.mapped(SPACE, Some(1..2), None, 21..22);
        words.moved(SPACE, 1, 5, 10..30);
        words.moved(SPACE, 5, 9, 40..50);
        words.stored(SPACE, 9, 6, 60, 61);
        assert!(words.allows(SPACE, 9, 6, 70, 70));
        assert!(words.file_allows(0, 6, 70, 70) && words.file_allows(0, 0, 70, 70));
    }

    #[test]
    fn a_mapping_that_takes_the_place_of_another_begins_with_zeros() {
        let mut words = words();
        words.unmapped(SPACE, 1, 50);
        words.maps(SPACE, 60);
        words.mapped(SPACE, Some(1..2), None, 60..64);
        assert!(words.allows(SPACE, 1, 6, 49, 55) && words.allows(SPACE, 1, 0, 55, 61));
        assert!(!words.allows(SPACE, 1, 6, 65, 66) && words.allows(SPACE, 1, 0, 65, 66));
    }

    #[test]
    fn a_child_may_have_a_mapping_that_was_made_during_the_fork() {
        let mut words = words();
        words.file_made(1);
        words.maps(SPACE, 30);
        words.forked(SPACE, 8, 28..34);
        words.stored(8, 2, 12, 35, 36);
        words.mapped(SPACE, Some(2..3), Some(0), 30..40);
        assert!(words.file_allows(0, 12, 50, 50) && words.allows(8, 2, 12, 50, 50));
        assert!(!words.allows(8, 2, 13, 50, 50));
    }
}
