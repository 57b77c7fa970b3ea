//! The model of memory: address spaces of mapped pages, and files of bytes. No frames, no caches, no concurrency.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::content::Content;

pub(crate) const PAGE: u64 = 4096;

/// The rights of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rights {
    None,
    Read,
    Write,
}

/// The content that a mapping shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    Anonymous,
    Shared(usize),
    Private(usize),
}

impl Source {
    pub(crate) fn file(self) -> Option<usize> {
        match self {
            Self::Anonymous => None,
            Self::Shared(file) | Self::Private(file) => Some(file),
        }
    }
}

/// A mapping, in numbers of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Area {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) source: Source,
    /// The page of the file that `start` shows.
    pub(crate) first: u64,
    pub(crate) rights: Rights,
    /// Whether the rights may be raised to stores.
    pub(crate) may_write: bool,
    /// Whether it was locked, or may have been.
    pub(crate) locked: bool,
    pub(crate) huge: bool,
}

impl Area {
    pub(crate) fn pages(&self) -> u64 {
        self.end - self.start
    }

    pub(crate) fn index(&self, page: u64) -> u64 {
        self.first + (page - self.start)
    }

    fn part(&self, start: u64, end: u64) -> Self {
        Self { start, end, first: self.index(start), ..*self }
    }

    /// Whether `next` could continue the same mapping.
    fn continues_in(&self, next: &Self) -> bool {
        self.end == next.start
            && *next
                == Self {
                    start: next.start,
                    end: next.end,
                    first: if self.source.file().is_some() { self.index(self.end) } else { next.first },
                    ..*self
                }
    }
}

/// The identity of a page's content that is in no file, wherever the page is mapped.
pub(crate) type PageId = usize;

/// An address space.
#[derive(Debug, Clone, Default)]
pub(crate) struct Space {
    areas: BTreeMap<u64, Area>,
    /// Pages that were stored to, except for shared ones.
    own: BTreeMap<u64, PageId>,
}

impl Space {
    pub(crate) fn areas(&self) -> impl Iterator<Item = &Area> {
        self.areas.values()
    }

    pub(crate) fn find(&self, page: u64) -> Option<&Area> {
        let (_, area) = self.areas.range(..=page).next_back()?;
        (page < area.end).then_some(area)
    }

    /// The areas that reach into a range.
    pub(crate) fn within(&self, range: &Range<u64>) -> impl Iterator<Item = &Area> {
        let first = self.find(range.start).map_or(range.start, |area| area.start);
        self.areas.range(first..range.end.max(first)).map(|(_, area)| area)
    }

    pub(crate) fn is_free(&self, range: &Range<u64>) -> bool {
        self.within(range).next().is_none()
    }

    /// Whether every page of a range is mapped.
    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        let covered = |area: &Area| area.end.min(range.end) - area.start.max(range.start);
        self.within(range).map(covered).sum::<u64>() == range.end - range.start
    }

    /// Whether a range lies in one mapping: no, yes, or perhaps, if parts of it were changed and changed back.
    pub(crate) fn is_one(&self, range: &Range<u64>) -> Option<bool> {
        let parts: Vec<&Area> = self.within(range).collect();
        if !self.covers(range) {
            return Some(false);
        }
        let alike = parts.windows(2).all(|pair| pair[0].continues_in(pair[1]));
        (parts.len() == 1 || !alike).then_some(parts.len() == 1)
    }

    pub(crate) fn own(&self, page: u64) -> Option<PageId> {
        self.own.get(&page).copied()
    }

    /// The address at which a private page is mapped.
    pub(crate) fn page_of(&self, id: PageId) -> Option<u64> {
        self.own.iter().find(|(_, &own)| own == id).map(|(&page, _)| page)
    }

    fn owned(&self, range: &Range<u64>) -> Vec<(u64, PageId)> {
        self.own.range(range.clone()).map(|(&page, &id)| (page, id)).collect()
    }

    /// Splits areas at the ends of a range.
    fn cut(&mut self, range: &Range<u64>) {
        for at in [range.start, range.end] {
            if let Some(area) = self.find(at).copied().filter(|area| area.start < at) {
                self.areas.insert(area.start, area.part(area.start, at));
                self.areas.insert(at, area.part(at, area.end));
            }
        }
    }

    pub(crate) fn map(&mut self, area: Area) {
        self.areas.insert(area.start, area);
    }

    pub(crate) fn unmap(&mut self, range: &Range<u64>) {
        self.cut(range);
        let gone: Vec<u64> = self.areas.range(range.clone()).map(|(&start, _)| start).collect();
        for start in gone {
            self.areas.remove(&start);
        }
        self.forget(range);
    }

    /// Drops the private pages of a range.
    fn forget(&mut self, range: &Range<u64>) {
        for (page, _) in self.owned(range) {
            self.own.remove(&page);
        }
    }

    /// Changes every area of a range.
    pub(crate) fn change(&mut self, range: &Range<u64>, change: impl Fn(&mut Area)) {
        self.cut(range);
        self.areas.range_mut(range.clone()).for_each(|(_, area)| change(area));
    }

    /// Resets the private pages of a range to their initial content.
    pub(crate) fn discard(&mut self, range: &Range<u64>) {
        self.forget(range);
    }

    /// Moves the area of `from` to `to`, with as many pages as both have. Mappings that overlap `to` are removed.
    pub(crate) fn remap(&mut self, from: &Range<u64>, to: &Range<u64>) {
        self.cut(from);
        let Some(area) = self.areas.get(&from.start).copied() else { return };
        let kept = (from.end - from.start).min(to.end - to.start);
        let moved = self.owned(&(from.start..from.start + kept));
        self.unmap(from);
        self.unmap(to);
        self.map(Area { start: to.start, end: to.end, ..area });
        self.own.extend(moved.into_iter().map(|(page, id)| (page - from.start + to.start, id)));
    }
}

/// A file.
#[derive(Debug, Clone, Default)]
pub(crate) struct File {
    pub(crate) bytes: u64,
    pages: BTreeMap<u64, Content>,
}

impl File {
    pub(crate) fn page(&self, index: u64) -> Content {
        self.pages.get(&index).cloned().unwrap_or_default()
    }

    pub(crate) fn candidates(&self, index: u64, word: u64) -> Vec<u64> {
        self.pages.get(&index).map_or(vec![0], |page| page.candidates(word))
    }

    pub(crate) fn written(&self) -> impl Iterator<Item = u64> + '_ {
        self.pages.keys().copied()
    }

    fn each(&mut self, offset: u64, bytes: &[u8], write: impl Fn(&mut Content, u64, &[u8])) {
        for (index, inside, piece) in pieces(offset, bytes) {
            write(self.pages.entry(index).or_default(), inside, piece);
        }
    }

    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.each(offset, bytes, Content::write);
        self.bytes = self.bytes.max(offset + bytes.len() as u64);
    }

    /// A write that failed halfway.
    pub(crate) fn maybe_write(&mut self, offset: u64, bytes: &[u8]) {
        self.each(offset, bytes, Content::maybe_write);
    }

    pub(crate) fn observe(&mut self, index: u64, word: u64, value: u64) {
        if let Some(page) = self.pages.get_mut(&index) {
            page.observe(word, value);
        }
    }

    fn store(&mut self, index: u64, word: u64, value: u64) {
        self.pages.entry(index).or_default().store(word, value);
    }

    fn resize(&mut self, bytes: u64) {
        self.pages.retain(|&index, _| index * PAGE < bytes);
        if let Some(last) = self.pages.get_mut(&(bytes / PAGE)) {
            last.clear_from(bytes % PAGE);
        }
        self.bytes = bytes;
    }
}

/// Bytes at an offset in a file, by page: the page, the offset in it, and the bytes.
pub(crate) fn pieces(offset: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, u64, &[u8])> {
    let end = offset + bytes.len() as u64;
    (offset / PAGE..end.div_ceil(PAGE)).filter(|_| !bytes.is_empty()).map(move |index| {
        let (from, to) = ((index * PAGE).max(offset), (index * PAGE + PAGE).min(end));
        (index, from - index * PAGE, &bytes[(from - offset) as usize..(to - offset) as usize])
    })
}

/// The content that a store changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// A private page of the space.
    Own(PageId),
    /// A page of a file, for all mappings of it.
    File(usize, u64),
    /// A page of a file of which the space gets a copy.
    Copy(usize, u64),
}

/// All memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    pub(crate) spaces: Vec<Space>,
    pub(crate) files: Vec<File>,
    contents: Vec<Content>,
}

impl Model {
    pub(crate) fn new(spaces: u32, files: &[u32]) -> Self {
        let file = |&pages: &u32| File { bytes: u64::from(pages) * PAGE, ..File::default() };
        Self {
            spaces: (0..spaces).map(|_| Space::default()).collect(),
            files: files.iter().map(file).collect(),
            contents: Vec::new(),
        }
    }

    pub(crate) fn content(&self, id: PageId) -> &Content {
        &self.contents[id]
    }

    pub(crate) fn content_mut(&mut self, id: PageId) -> &mut Content {
        &mut self.contents[id]
    }

    fn add_content(&mut self, content: Content) -> PageId {
        self.contents.push(content);
        self.contents.len() - 1
    }

    /// The content that a store to a mapped page would change.
    pub(crate) fn target(&mut self, space: usize, page: u64) -> Option<Target> {
        let area = *self.spaces[space].find(page)?;
        let index = area.index(page);
        Some(match (area.source, self.spaces[space].own(page)) {
            (Source::Shared(file), _) => Target::File(file, index),
            (_, Some(id)) => Target::Own(id),
            (Source::Private(file), None) => Target::Copy(file, index),
            (Source::Anonymous, None) => {
                let id = self.add_content(Content::default());
                self.spaces[space].own.insert(page, id);
                Target::Own(id)
            }
        })
    }

    /// A store that succeeded. `page` is its address; its page may have moved since.
    pub(crate) fn store(&mut self, space: usize, page: u64, target: Target, word: u64, value: u64) {
        match target {
            Target::Own(id) => self.contents[id].store(word, value),
            Target::File(file, index) => self.files[file].store(index, word, value),
            Target::Copy(file, index) => {
                if self.spaces[space].find(page).is_none() {
                    return;
                }
                let id = self.spaces[space].own(page).unwrap_or_else(|| {
                    let id = self.add_content(self.files[file].page(index));
                    self.spaces[space].own.insert(page, id);
                    id
                });
                self.contents[id].store(word, value);
            }
        }
    }

    /// Private contents of a range are given up.
    pub(crate) fn give_up(&mut self, space: usize, range: &Range<u64>) {
        for (page, id) in self.spaces[space].owned(range) {
            if self.spaces[space].find(page).is_some_and(|area| area.source == Source::Anonymous) {
                self.contents[id].give_up();
            }
        }
    }

    /// A copy of a space. `maybe` are stores that may have come before or after: the page, the word and the value.
    pub(crate) fn fork(&mut self, space: usize, maybe: &[(PageId, u64, u64)]) -> usize {
        let mut child = self.spaces[space].clone();
        for id in child.own.values_mut() {
            let original = *id;
            *id = self.add_content(self.contents[original].clone());
            for &(_, word, value) in maybe.iter().filter(|(page, ..)| *page == original) {
                self.contents[*id].may_be(word, value);
            }
        }
        child.areas.values_mut().for_each(|area| area.locked = false);
        self.spaces.push(child);
        self.spaces.len() - 1
    }

    /// Makes a file longer or shorter. Private copies of removed pages are dropped.
    pub(crate) fn truncate(&mut self, file: usize, bytes: u64) {
        let pages = bytes.div_ceil(PAGE);
        for space in &mut self.spaces {
            let beyond: Vec<Range<u64>> = space
                .areas()
                .filter(|area| area.source == Source::Private(file) && area.index(area.end) > pages)
                .map(|area| area.start + pages.saturating_sub(area.first)..area.end)
                .collect();
            for range in &beyond {
                space.forget(range);
            }
        }
        self.files[file].resize(bytes);
    }
}
