//! Operations under way, which were called and have not returned, and the possible results of loads meanwhile.
//!
//! An operation takes effect somewhere between its call and its return. So each load and each store collects the
//! results that are possible between its own call and its own return: those that hold now, and those that will hold
//! once any of the operations under way is done. Two operations are kept apart ([`apart`]) if running them together
//! would leave the content of memory open:
//!
//! - stores to one word;
//! - a store, and giving up, discarding or truncating its page, writing or reading its bytes of the file, or moving a
//!   mapping on top of it;
//! - a store that makes a private copy, and a fork or a move of its page, or a write or a store to the page that it
//!   copies;
//! - operations that change the mappings of a space or their rights, and discarding or giving up pages of these;
//! - truncating a file and reading, writing or truncating it; writing and reading or writing the same bytes.
//!
//! The following remain possible, because the outcome is known: a store during `unmap` or `protect` of its page (its
//! own result says whether it took place), during a move of its page (it moves along), or during a fork (it may or
//! may not be in the copy); loads beside any operation; and any operation beside those that no program sees.

use std::ops::Range;

use crate::content::kept_below;
use crate::model::{pieces, Area, Model, PageId, Rights, Source, Target, PAGE};

/// The reason for which an access fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    NotMapped,
    ReadOnly,
    NoAccess,
    BeyondEnd,
}

/// A possible result of an access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// A load returns this.
    Value(u64),
    /// A store succeeds.
    Stored,
    Fault(Fault),
    /// A mapping is being made there, and its content is not known yet.
    Anything,
}

/// A load, or a store of a value.
#[derive(Debug, Clone)]
pub(crate) struct Access {
    pub(crate) space: usize,
    pub(crate) page: u64,
    pub(crate) word: u64,
    pub(crate) store: Option<(Option<Target>, u64)>,
    /// The results that were possible at any time since it began.
    pub(crate) findings: Vec<Finding>,
    /// Whether the page was unmapped or moved away since. Another mapping may be there.
    stranded: bool,
    /// Whether an operation that affects it was under way.
    pub(crate) disturbed: bool,
}

impl Access {
    pub(crate) fn new(space: usize, page: u64, word: u64, store: Option<(Option<Target>, u64)>) -> Self {
        Self { space, page, word, store, findings: Vec::new(), stranded: false, disturbed: false }
    }

    fn target(&self) -> Option<Target> {
        self.store.and_then(|(target, _)| target)
    }
}

/// An operation that changes the results of accesses.
#[derive(Debug, Clone)]
pub(crate) enum Change {
    /// A new mapping, at an address that is not known yet.
    Map,
    Unmap(Range<u64>),
    Protect(Range<u64>, Rights),
    /// The area of the first range moves to the second. If there is no second range, the destination is not known
    /// yet.
    Remap(Range<u64>, Option<Range<u64>>, u64),
    /// Loads see no change, but areas change.
    Attribute(Range<u64>),
    /// With the stores that may have come before or after it: the page, the word and the value.
    Fork(Vec<(PageId, u64, u64)>),
    Discard(Range<u64>),
    GiveUp(Range<u64>),
    Truncate(usize, u64),
    Write(usize, u64, Vec<u8>),
    /// No change, but the bytes that are read must not change either.
    Read(usize, Range<u64>),
}

impl Change {
    /// It changes the mappings of its space. Only one operation at a time does.
    fn is_layout(&self) -> bool {
        matches!(
            self,
            Self::Map
                | Self::Unmap(_)
                | Self::Protect(..)
                | Self::Remap(..)
                | Self::Attribute(_)
                | Self::Fork(_)
        )
    }
}

/// The current operation of a thread.
#[derive(Debug, Clone)]
pub(crate) enum Flight {
    Access(Access),
    Change(usize, Change),
}

/// All operations under way, by thread, and the number of changes of mappings in each space.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    flights: Vec<Option<Flight>>,
    epochs: Vec<u64>,
}

/// The content to which a page leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum View {
    Nothing,
    Unknown,
    Mapped { source: Source, index: u64, rights: Rights, own: Option<PageId> },
}

impl Flights {
    fn all(&self) -> impl Iterator<Item = &Flight> {
        self.flights.iter().flatten()
    }

    fn changes_of(&self, space: usize) -> impl Iterator<Item = &Change> {
        self.all().filter_map(move |flight| match flight {
            Flight::Change(of, change) if *of == space => Some(change),
            _ => None,
        })
    }

    fn changes(&self) -> impl Iterator<Item = &Change> {
        self.all().filter_map(|flight| match flight {
            Flight::Change(_, change) => Some(change),
            Flight::Access(_) => None,
        })
    }

    fn stores(&self) -> impl Iterator<Item = (&Access, u64)> {
        self.all().filter_map(|flight| match flight {
            Flight::Access(access) => access.store.map(|(_, value)| (access, value)),
            Flight::Change(..) => None,
        })
    }

    /// A number that is the same while the mappings of a space are; nothing while they change.
    pub(crate) fn epoch(&self, space: usize) -> Option<u64> {
        let quiet = !self.changes_of(space).any(Change::is_layout);
        quiet.then(|| self.epochs.get(space).copied().unwrap_or(0))
    }

    /// Whether an operation could begin now without leaving the content of memory open.
    pub(crate) fn admits(&self, model: &Model, new: &Flight) -> bool {
        !self.all().any(|old| apart(model, old, new) || apart(model, new, old))
    }

    /// Begins an operation.
    pub(crate) fn begin(&mut self, model: &Model, thread: usize, mut new: Flight) {
        match &mut new {
            Flight::Access(access) => {
                access.stranded = self.changes_of(access.space).any(|change| takes_away(change, access.page));
                access.findings = self.findings(model, access);
                access.disturbed = self.all().any(|old| self.matters(model, old, access));
            }
            Flight::Change(space, change) => {
                let mut maybe = Vec::new();
                for flight in self.flights.iter_mut().flatten() {
                    let Flight::Access(access) = flight else { continue };
                    if access.space == *space {
                        access.stranded |= takes_away(change, access.page);
                        if let Some((Some(Target::Own(id)), value)) = access.store {
                            maybe.push((id, access.word, value));
                        }
                    }
                }
                if let Change::Fork(raced) = change {
                    *raced = maybe;
                }
                self.count_layout(*space, change.is_layout());
            }
        }
        if let Flight::Access(Access { store: Some((Some(Target::Own(id)), value)), space, word, .. }) = new {
            self.race_forks(space, (id, word, value));
        }
        if self.flights.len() <= thread {
            self.flights.resize(thread + 1, None);
        }
        let disturbs = !matches!(new, Flight::Access(Access { store: None, .. }));
        self.flights[thread] = Some(new.clone());
        if disturbs {
            self.collect(model, &new, Some(thread));
        }
    }

    /// Ends an operation, whose effect, if any, is in the model. Returns the operation.
    pub(crate) fn end(&mut self, thread: usize) -> Option<Flight> {
        let flight = self.flights.get_mut(thread)?.take();
        if let Some(Flight::Change(space, change)) = &flight {
            self.count_layout(*space, change.is_layout());
        }
        flight
    }

    /// Whether a space is being copied.
    pub(crate) fn forking(&self, space: usize) -> bool {
        let forks = |flight: &Flight| matches!(flight, Flight::Change(of, Change::Fork(_)) if *of == space);
        self.flights.iter().flatten().any(forks)
    }

    /// A store may be in the copies under way.
    pub(crate) fn race_forks(&mut self, space: usize, store: (PageId, u64, u64)) {
        for flight in self.flights.iter_mut().flatten() {
            if let Flight::Change(of, Change::Fork(maybe)) = flight {
                if *of == space {
                    maybe.push(store);
                }
            }
        }
    }

    fn count_layout(&mut self, space: usize, layout: bool) {
        if self.epochs.len() <= space {
            self.epochs.resize(space + 1, 0);
        }
        self.epochs[space] += u64::from(layout);
    }

    /// Adds the results that are possible now to each access that is affected by `cause`, which began or ended. `own`
    /// is the thread of the cause, while the cause is under way.
    pub(crate) fn collect(&mut self, model: &Model, cause: &Flight, own: Option<usize>) {
        for thread in (0..self.flights.len()).filter(|&thread| Some(thread) != own) {
            let Some(Flight::Access(access)) = &self.flights[thread] else { continue };
            if !self.matters(model, cause, access) {
                continue;
            }
            let now = self.findings(model, access);
            if let Some(Flight::Access(access)) = &mut self.flights[thread] {
                access.disturbed = true;
                for finding in now {
                    if !access.findings.contains(&finding) {
                        access.findings.push(finding);
                    }
                }
            }
        }
    }

    /// Whether the result of an access may depend on an operation.
    fn matters(&self, model: &Model, cause: &Flight, access: &Access) -> bool {
        // A mapping may be there now that was not there when the access began.
        let open = || access.findings.contains(&Finding::Fault(Fault::NotMapped));
        // The pages of files to which it may lead: by the mapping that is there, or by one that is moving there.
        let pages = || {
            self.views(model, access.space, access.page).into_iter().filter_map(|view| match view {
                View::Mapped { source, index, .. } => source.file().map(|file| (file, index)),
                _ => None,
            })
        };
        match cause {
            Flight::Access(other) => {
                // A store to a page that was given up also decides about its other words.
                let open_page =
                    matches!(other.target(), Some(Target::Own(id)) if !model.content(id).is_certain());
                (other.word == access.word || open_page)
                    && match other.target() {
                        None => false,
                        Some(Target::File(file, index)) => {
                            pages().any(|page| page == (file, index)) || open()
                        }
                        Some(Target::Own(_)) => {
                            other.space == access.space
                                && (other.page == access.page || other.stranded || access.stranded)
                        }
                        Some(Target::Copy(..)) => other.space == access.space && other.page == access.page,
                    }
            }
            Flight::Change(space, change) => match change {
                Change::Truncate(file, _) | Change::Write(file, ..) => {
                    pages().any(|(of, _)| of == *file) || access.stranded || open()
                }
                Change::Read(..) | Change::Attribute(_) => false,
                Change::Unmap(range)
                | Change::Protect(range, _)
                | Change::Discard(range)
                | Change::GiveUp(range) => *space == access.space && range.contains(&access.page),
                Change::Fork(_) => *space == access.space && access.store.is_some(),
                Change::Map => *space == access.space && open(),
                Change::Remap(from, to, _) => {
                    let onto = to.as_ref().map_or_else(open, |to| to.contains(&access.page));
                    *space == access.space && (onto || from.contains(&access.page))
                }
            },
        }
    }

    /// All possible results of an access that takes place now.
    fn findings(&self, model: &Model, access: &Access) -> Vec<Finding> {
        let mut findings = Vec::new();
        for view in self.views(model, access.space, access.page) {
            match view {
                View::Nothing => findings.push(Finding::Fault(Fault::NotMapped)),
                View::Unknown => findings.push(Finding::Anything),
                View::Mapped { source, index, rights, own } => {
                    self.look(model, access, (source, index), rights, own, &mut findings);
                }
            }
        }
        findings
    }

    fn look(
        &self,
        model: &Model,
        access: &Access,
        (source, index): (Source, u64),
        rights: Rights,
        own: Option<PageId>,
        findings: &mut Vec<Finding>,
    ) {
        let refused = match rights {
            Rights::None => Some(Fault::NoAccess),
            Rights::Read if access.store.is_some() => Some(Fault::ReadOnly),
            _ => None,
        };
        let beyond = source.file().map_or((false, true), |file| self.beyond(model, file, index));
        if beyond.0 {
            findings.push(Finding::Fault(Fault::BeyondEnd));
        }
        match refused {
            Some(fault) => findings.push(Finding::Fault(fault)),
            None if !beyond.1 => {}
            None if access.store.is_some() => findings.push(Finding::Stored),
            None => {
                let mut values = match (own, source.file()) {
                    (Some(id), _) => model.content(id).candidates(access.word),
                    (None, Some(file)) => self.file_values(model, file, index, access.word),
                    (None, None) => vec![0],
                };
                let seen = |store: &Access| match store.target() {
                    Some(Target::Own(id)) => own == Some(id),
                    Some(Target::File(file, at)) => {
                        own.is_none() && source.file() == Some(file) && at == index
                    }
                    _ => store.space == access.space && store.page == access.page,
                };
                values.extend(
                    self.stores()
                        .filter(|(store, _)| store.word == access.word && seen(store))
                        .map(|(_, value)| value),
                );
                findings.extend(values.into_iter().map(Finding::Value));
            }
        }
    }

    /// The contents to which a page may lead.
    fn views(&self, model: &Model, space: usize, page: u64) -> Vec<View> {
        let mut views = vec![view(&model.spaces[space], page)];
        // Only one change of mappings is under way at a time.
        for change in self.changes_of(space) {
            match change {
                Change::Unmap(range) if range.contains(&page) => views.push(View::Nothing),
                Change::Protect(range, to) if range.contains(&page) => {
                    if let View::Mapped { source, index, own, .. } = views[0] {
                        views.push(View::Mapped { source, index, rights: *to, own });
                    }
                }
                Change::Remap(from, to, _) => {
                    let after = match to {
                        Some(to) if to.contains(&page) => {
                            moved(model, space, from, from.start + (page - to.start))
                        }
                        _ if from.contains(&page) => View::Nothing,
                        None if views[0] == View::Nothing => View::Unknown,
                        _ => continue,
                    };
                    views.push(after);
                }
                Change::Map if views[0] == View::Nothing => views.push(View::Unknown),
                _ => {}
            }
        }
        for change in self.changes_of(space) {
            let (Change::Discard(range) | Change::GiveUp(range)) = change else { continue };
            if range.contains(&page) {
                let without = |view: &View| match *view {
                    View::Mapped { source, index, rights, own: Some(_) } => {
                        Some(View::Mapped { source, index, rights, own: None })
                    }
                    _ => None,
                };
                let bare: Vec<View> = views.iter().filter_map(without).collect();
                views.extend(bare);
            }
        }
        views
    }

    /// Whether a page of a file may be beyond its end, and whether it may be before it.
    fn beyond(&self, model: &Model, file: usize, index: u64) -> (bool, bool) {
        let now = model.files[file].bytes;
        let later = self.changes().filter_map(|change| match change {
            Change::Truncate(of, bytes) if *of == file => Some(*bytes),
            Change::Write(of, offset, bytes) if *of == file => Some(now.max(offset + bytes.len() as u64)),
            _ => None,
        });
        let sizes = std::iter::once(now).chain(later);
        sizes.fold((false, false), |(out, within), bytes| {
            let is_out = index >= bytes.div_ceil(PAGE);
            (out || is_out, within || !is_out)
        })
    }

    fn file_values(&self, model: &Model, file: usize, index: u64, word: u64) -> Vec<u64> {
        let mut values = model.files[file].candidates(index, word);
        for change in self.changes() {
            match change {
                Change::Truncate(of, bytes) if *of == file => {
                    let keep = kept_below(word, bytes.saturating_sub(index * PAGE));
                    let cut: Vec<u64> = values.iter().map(|value| value & keep).collect();
                    values.extend(cut);
                }
                Change::Write(of, offset, bytes) if *of == file => {
                    for (_, inside, piece) in pieces(*offset, bytes).filter(|piece| piece.0 == index) {
                        let mut words = crate::content::words_of(inside, piece);
                        if let Some((_, mask, new)) = words.find(|piece| piece.0 == word) {
                            let written: Vec<u64> = values.iter().map(|old| old & !mask | new).collect();
                            values.extend(written);
                        }
                    }
                }
                _ => {}
            }
        }
        values
    }
}

fn view(space: &crate::model::Space, page: u64) -> View {
    let mapped = |area: &Area| View::Mapped {
        source: area.source,
        index: area.index(page),
        rights: area.rights,
        own: space.own(page),
    };
    space.find(page).map_or(View::Nothing, mapped)
}

/// The content of page `page` of an area that moves. The area grows as far as required.
fn moved(model: &Model, space: usize, from: &Range<u64>, page: u64) -> View {
    let space = &model.spaces[space];
    if from.contains(&page) {
        return view(space, page);
    }
    space.find(from.start).map_or(View::Nothing, |area| View::Mapped {
        source: area.source,
        index: area.index(page),
        rights: area.rights,
        own: None,
    })
}

/// Whether a change may leave a page without a mapping, so that another mapping may be made there.
fn takes_away(change: &Change, page: u64) -> bool {
    matches!(change, Change::Unmap(range) | Change::Remap(range, ..) if range.contains(&page))
}

fn overlap(one: &Range<u64>, other: &Range<u64>) -> bool {
    one.start < other.end && other.start < one.end
}

fn bytes_of(index: u64, word: u64) -> Range<u64> {
    let start = index * PAGE + word * 8;
    start..start + 8
}

/// Whether two operations must not be under way together. Asked in both orders.
pub(crate) fn apart(model: &Model, one: &Flight, other: &Flight) -> bool {
    match (one, other) {
        (Flight::Access(one), Flight::Access(other)) => {
            if let (Some(Target::Copy(file, index)), Some(Target::File(of, at))) =
                (one.target(), other.target())
            {
                return file == of && index == at;
            }
            let alike = match (one.target(), other.target()) {
                (Some(Target::Copy(..)), Some(_)) => one.space == other.space && one.page == other.page,
                (Some(one), Some(other)) => one == other,
                _ => false,
            };
            alike && one.word == other.word
        }
        (Flight::Access(access), Flight::Change(space, change)) => {
            access.store.is_some() && apart_from_store(model, access, *space, change)
        }
        (Flight::Change(..), Flight::Access(_)) => false,
        (Flight::Change(one_space, one), Flight::Change(other_space, other)) => {
            one_space == other_space && apart_in_space(one, other) || apart_in_file(model, one, other)
        }
    }
}

fn apart_from_store(model: &Model, store: &Access, space: usize, change: &Change) -> bool {
    let target = store.target();
    // Its page may have moved since it began.
    let page = match target {
        Some(Target::Own(id)) if store.stranded => {
            model.spaces[store.space].page_of(id).unwrap_or(store.page)
        }
        _ => store.page,
    };
    let copies = matches!(target, Some(Target::Copy(..)));
    let area = model.spaces[store.space].find(page);
    let same = store.space == space;
    // The file and the place in it from which the page comes, also if it was unmapped since.
    let origin = match target {
        Some(Target::File(file, index) | Target::Copy(file, index)) => Some((file, index)),
        _ => area.and_then(|area| Some((area.source.file()?, area.index(page)))),
    };
    let resized = |file: usize, bytes: u64| {
        let first = bytes.min(model.files[file].bytes) / PAGE;
        origin.is_some_and(|(of, index)| of == file && index >= first)
    };
    let touches = |file: usize, range: &Range<u64>| match target {
        Some(Target::File(of, index)) => of == file && overlap(&bytes_of(index, store.word), range),
        Some(Target::Copy(of, index)) => of == file && overlap(&(index * PAGE..index * PAGE + PAGE), range),
        _ => false,
    };
    match change {
        Change::Map => same && store.stranded,
        Change::Remap(from, to, _) => {
            let onto = to.as_ref().is_some_and(|to| to.contains(&page) && !from.contains(&page));
            // Another mapping would be at the address of the store, and the store would take place there instead of
            // in its page.
            let instead = store.stranded && to.as_ref().is_none_or(|to| to.contains(&store.page));
            let other = store.stranded && !from.contains(&page);
            same && (other || onto || instead || copies && from.contains(&page))
        }
        Change::Discard(range) => {
            let private = area.is_none_or(|area| !matches!(area.source, Source::Shared(_)));
            same && private && range.contains(&page)
        }
        Change::GiveUp(range) => same && range.contains(&page),
        Change::Fork(_) => {
            let open = matches!(target, Some(Target::Own(id)) if !model.content(id).is_certain());
            same && (copies || open)
        }
        Change::Truncate(file, bytes) => resized(*file, *bytes),
        Change::Write(file, offset, bytes) => {
            let end = offset + bytes.len() as u64;
            touches(*file, &(*offset..end)) || end > model.files[*file].bytes && resized(*file, end)
        }
        Change::Read(file, range) => !copies && touches(*file, range),
        Change::Unmap(_) | Change::Protect(..) | Change::Attribute(_) => false,
    }
}

fn apart_in_space(one: &Change, other: &Change) -> bool {
    if one.is_layout() && other.is_layout() {
        return true;
    }
    let (Change::Discard(range) | Change::GiveUp(range)) = other else { return false };
    match one {
        Change::Map | Change::Fork(_) => true,
        Change::Unmap(changed) | Change::Attribute(changed) | Change::Protect(changed, _) => {
            overlap(range, changed)
        }
        Change::Remap(from, to, _) => overlap(range, from) || to.as_ref().is_none_or(|to| overlap(range, to)),
        _ => false,
    }
}

fn apart_in_file(model: &Model, one: &Change, other: &Change) -> bool {
    // The byte from which on it depends on the file's bytes or changes them, and whether it may change its length.
    let use_of = |change: &Change| match change {
        Change::Truncate(file, _) => Some((*file, 0..u64::MAX, true)),
        Change::Write(file, offset, bytes) => {
            let end = offset + bytes.len() as u64;
            Some((*file, *offset..end, end > model.files[*file].bytes))
        }
        Change::Read(file, range) => Some((*file, range.clone(), false)),
        _ => None,
    };
    let (Some(one), Some(other)) = (use_of(one), use_of(other)) else { return false };
    one.0 == other.0 && (one.2 || other.2 || overlap(&one.1, &other.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store to page 10, which was moved to page 20 meanwhile.
    #[test]
    fn no_mapping_moves_to_the_address_of_a_store_whose_page_moved_away() {
        let mut model = Model::new(1, &[]);
        let area = Area {
            start: 10,
            end: 11,
            source: Source::Anonymous,
            first: 10,
            rights: Rights::Write,
            may_write: true,
            locked: false,
            huge: false,
        };
        model.spaces[0].map(area);
        let target = model.target(0, 10);
        let mut flights = Flights::default();
        flights.begin(&model, 0, Flight::Access(Access::new(0, 10, 0, Some((target, 7)))));
        let away = Change::Remap(10..11, Some(20..21), 1);
        assert!(flights.admits(&model, &Flight::Change(0, away.clone())), "it moves along");
        flights.begin(&model, 1, Flight::Change(0, away));
        model.spaces[0].remap(&(10..11), &(20..21));
        flights.end(1);
        let admits = |to| flights.admits(&model, &Flight::Change(0, Change::Remap(20..21, to, 3)));
        assert!(admits(Some(30..33)), "on its way still");
        assert!(!admits(Some(8..11)), "the mapping grows over the address of the store");
        assert!(!admits(None), "that may be anywhere");
    }
}
