//! Translates a step's relative numbers to a call with addresses and its expected result.

use std::ops::Range;

use crate::call::{Advice, Call, Place};
use crate::flight::Change;
use crate::model::{Area, Model, Rights, Source, Space, PAGE};
use crate::operation::Operation;
use crate::script::Setup;

/// The words of a page that are used, including both ends.
const WORDS: [u64; 6] = [0, 1, 7, 256, 510, 511];
/// The greatest number of mappings of a space.
const MOST_AREAS: usize = 8;
/// The greatest number of pages of a mapping.
const MOST_PAGES: u64 = 40;
/// The greatest number of pages of a file.
const MOST_FILE: u64 = 72;
/// The first page beyond all mappings except those by [`Place::At`].
const FIXED: u64 = 0x4000_0000;
/// The first page beyond all mappings.
const WILD: u64 = 0x5000_0000;
/// The first page beyond the user addresses.
const USER_PAGES: u64 = ceasefire_memory::USER_END / PAGE;

/// Whether a call succeeds. Running out of memory is always possible too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Success,
    Refusal,
    /// Depends on state that the model does not know.
    Either,
}

/// A call to be made.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) call: Call,
    pub(crate) change: Option<Change>,
    pub(crate) expected: Expected,
}

impl Plan {
    fn new(call: Call, change: Option<Change>, expected: Expected) -> Self {
        Self { call, change, expected }
    }

    /// A call whose effect no program sees.
    fn unseen(call: Call, expected: Expected) -> Self {
        Self::new(call, None, expected)
    }
}

/// The source of stored values: each has a number of its own.
#[derive(Debug, Default)]
pub(crate) struct Values(u64);

impl Values {
    /// A value that was never stored before and has no zero byte.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 += 1;
        // Each byte holds seven bits of the number, with its top bit set.
        (0..8).fold(0, |value, byte| value | ((self.0 >> (7 * byte) & 0x7f) | 0x80) << (8 * byte))
    }

    fn bytes(&mut self, offset: u64, count: u64) -> Vec<u8> {
        let skip = (offset % 8) as usize;
        let words = (skip as u64 + count).div_ceil(8);
        let all: Vec<u8> = (0..words).flat_map(|_| self.next().to_le_bytes()).collect();
        all[skip..skip + count as usize].to_vec()
    }
}

/// The page and the word of a load or a store; nothing if there is no page to access.
pub(crate) fn accessed(space: &Space, area: u32, page: u32, word: u32) -> Option<(u64, u64)> {
    let area = pick(space, area)?;
    let page = area.start + u64::from(page) % area.pages();
    Some((page, WORDS[word as usize % WORDS.len()]))
}

/// An unmapped page.
pub(crate) fn wild(page: u32) -> u64 {
    if page.is_multiple_of(2) {
        u64::from(page) / 2
    } else {
        WILD + u64::from(page)
    }
}

/// Whether a store to a word would go beyond the end of the file, in its last page. Its effect is undefined.
pub(crate) fn is_in_tail(model: &Model, space: usize, page: u64, word: u64) -> bool {
    let Some(area) = model.spaces[space].find(page) else { return false };
    let Some(file) = area.source.file() else { return false };
    let bytes = model.files[file].bytes;
    area.index(page) < bytes.div_ceil(PAGE) && area.index(page) * PAGE + word * 8 + 8 > bytes
}

fn pick(space: &Space, area: u32) -> Option<&Area> {
    let count = space.areas().count();
    space.areas().nth(area as usize % count.max(1))
}

/// Pages of an area.
fn range_of(area: &Area, page: u32, pages: u32) -> Range<u64> {
    let start = area.start + u64::from(page) % area.pages();
    start..start + 1 + u64::from(pages) % (area.end - start)
}

fn addresses(range: &Range<u64>) -> (u64, u64) {
    (range.start * PAGE, (range.end - range.start) * PAGE)
}

/// Frames that programs may need at once and that only swap can free.
fn committed(model: &Model) -> u64 {
    let of_space = |space: &Space| {
        let pages = |area: &Area| match area.source {
            Source::Shared(_) => 1 + if area.locked { area.pages() } else { 0 },
            _ => 1 + area.pages(),
        };
        4 + space.areas().map(pages).sum::<u64>()
    };
    model.spaces.iter().filter(|space| space.areas().next().is_some()).map(of_space).sum()
}

/// The number of further frames before memory may run out.
fn spare(model: &Model, setup: &Setup) -> u64 {
    let (frames, swap) = (u64::from(setup.frames()), u64::from(setup.swap));
    (frames * 9 / 20 + swap.min(frames) / 2).saturating_sub(committed(model))
}

/// The call for an operation in the current state; nothing if there is nothing to do.
// One line or two for each operation.
#[allow(clippy::too_many_lines)]
pub(crate) fn plan(
    model: &Model,
    setup: &Setup,
    space_number: usize,
    operation: &Operation,
    values: &mut Values,
) -> Option<Plan> {
    use Expected::{Either, Refusal, Success};
    let space = &model.spaces[space_number];
    let file_of = |file: u32| file as usize % model.files.len();
    let part = |area: u32, page: u32, pages: u32| {
        let area = pick(space, area)?;
        Some((area, range_of(area, page, pages)))
    };
    let unless_locked = |area: &Area| if area.locked { Either } else { Success };
    match *operation {
        Operation::MapAnonymous { pages } => {
            let pages = new_pages(model, setup, space, pages)?;
            let huge = setup.frames() > 1024 && pages.is_multiple_of(8);
            let pages = if huge { 600 } else { pages };
            Some(Plan::new(Call::MapAnonymous { pages }, Some(Change::Map), Success))
        }
        Operation::MapPrivate { file, first, pages } => {
            let pages = new_pages(model, setup, space, pages)?;
            let (file, first) = (file_of(file), first % MOST_FILE as u32);
            let call = Call::MapPrivate { file, first, pages };
            Some(Plan::new(call, Some(Change::Map), Success))
        }
        Operation::MapShared { file, first, pages, writable } => {
            let room = space.areas().count() < MOST_AREAS && spare(model, setup) > 1;
            let pages = 1 + u64::from(pages) % MOST_PAGES;
            let (file, first) = (file_of(file), first % MOST_FILE as u32);
            let call = Call::MapShared { file, first, pages, writable: writable > 0 };
            room.then(|| Plan::new(call, Some(Change::Map), Success))
        }
        Operation::Unmap { area, page, pages } => {
            let (_, range) = part(area, page, pages)?;
            let (start, bytes) = addresses(&range);
            Some(Plan::new(Call::Unmap { start, bytes }, Some(Change::Unmap(range)), Success))
        }
        Operation::Discard { area, page, pages } => {
            let (area, range) = part(area, page, pages)?;
            let (start, bytes) = addresses(&range);
            let call = Call::Discard { start, bytes };
            Some(Plan::new(call, Some(Change::Discard(range)), unless_locked(area)))
        }
        Operation::Protect { area, page, pages, to } => {
            let (area, range) = part(area, page, pages)?;
            let (start, bytes) = addresses(&range);
            let to = [Rights::None, Rights::Read, Rights::Write, Rights::Write][to as usize % 4];
            let refused = to == Rights::Write && !area.may_write;
            let call = Call::Protect { start, bytes, to };
            let change = if refused { Change::Attribute(range) } else { Change::Protect(range, to) };
            Some(Plan::new(call, Some(change), if refused { Refusal } else { Success }))
        }
        Operation::Remap { area, page, pages, size, to } => {
            let (area, range) = part(area, page, pages)?;
            remap(model, setup, space, area, range, u64::from(size), to)
        }
        Operation::Free { area, page, pages } => {
            let (area, range) = part(area, page, pages)?;
            let (start, bytes) = addresses(&range);
            let expected = match area.source {
                Source::Anonymous => unless_locked(area),
                _ => Refusal,
            };
            let call = Call::Advise { start, bytes, advice: Advice::Free };
            Some(Plan::new(call, Some(Change::GiveUp(range)), expected))
        }
        Operation::Cold { area, page, pages } | Operation::PageOut { area, page, pages } => {
            let (area, range) = part(area, page, pages)?;
            let (start, bytes) = addresses(&range);
            let cold = matches!(operation, Operation::Cold { .. });
            let advice = if cold { Advice::Cold } else { Advice::PageOut };
            Some(Plan::unseen(Call::Advise { start, bytes, advice }, unless_locked(area)))
        }
        Operation::Huge { area, allow } => {
            let area = pick(space, area)?;
            let range = area.start..area.end;
            let (start, bytes) = addresses(&range);
            let expected = if area.source == Source::Anonymous { Success } else { Either };
            let call = Call::Advise { start, bytes, advice: Advice::Huge(allow % 2 == 1) };
            Some(Plan::new(call, Some(Change::Attribute(range)), expected))
        }
        Operation::Lock { area, page, pages } => {
            let (area, range) = part(area, page, pages)?;
            let (start, bytes) = addresses(&range);
            let fits = (range.end - range.start).min(8) * 2 <= spare(model, setup);
            // A page that cannot be accessed cannot be kept in memory.
            let expected = if area.source == Source::Anonymous && area.rights == Rights::Write {
                Success
            } else {
                Either
            };
            let change = Some(Change::Attribute(range));
            fits.then(|| Plan::new(Call::Lock { start, bytes }, change, expected))
        }
        Operation::Unlock { area, page, pages } => {
            let (_, range) = part(area, page, pages)?;
            let (start, bytes) = addresses(&range);
            Some(Plan::new(Call::Unlock { start, bytes }, Some(Change::Attribute(range)), Success))
        }
        Operation::Fork { .. } => {
            let own: u64 = 8 + space.areas().map(|area| 1 + area.pages()).sum::<u64>();
            let fits = own <= spare(model, setup);
            fits.then(|| Plan::new(Call::Fork, Some(Change::Fork(Vec::new())), Success))
        }
        Operation::Collapse { area, page } => {
            let (page, _) = accessed(space, area, page, 0)?;
            Some(Plan::unseen(Call::Collapse { address: page * PAGE }, Either))
        }
        Operation::MigrateSpace { from, to } => {
            let nodes = setup.nodes.len() as u32;
            // Sometimes there is no such node.
            let (from, to) = (from % nodes, if to == 7 { nodes } else { to % nodes });
            let expected = if to == nodes { Refusal } else { Success };
            Some(Plan::unseen(Call::MigrateSpace { from: from as u16, to: to as u16 }, expected))
        }
        Operation::MovePages { area, page, pages, node } => {
            let (_, range) = part(area, page, pages)?;
            let node = (node % setup.nodes.len() as u32) as u16;
            let pages = range.map(|page| (page * PAGE, node)).collect();
            Some(Plan::unseen(Call::MovePages { pages }, Success))
        }
        Operation::Hint { area, page, pages } => {
            let (start, bytes) = addresses(&part(area, page, pages)?.1);
            Some(Plan::unseen(Call::Hint { start, bytes }, Success))
        }
        Operation::Read { file, page, inside, bytes } => {
            let file = file_of(file);
            let offset = u64::from(page) % MOST_FILE * PAGE + u64::from(inside) % PAGE;
            let bytes = u64::from(bytes) % (3 * PAGE);
            let change = Change::Read(file, offset..offset + bytes);
            Some(Plan::new(Call::Read { file, offset, bytes }, Some(change), Success))
        }
        Operation::Write { file, page, inside, bytes } => {
            let file = file_of(file);
            let offset = u64::from(page) % MOST_FILE * PAGE + u64::from(inside) % PAGE;
            let data = values.bytes(offset, 1 + u64::from(bytes) % (3 * PAGE));
            let change = Change::Write(file, offset, data.clone());
            Some(Plan::new(Call::Write { file, offset, data }, Some(change), Success))
        }
        Operation::Truncate { file, page, inside } => {
            let file = file_of(file);
            let bytes = u64::from(page) % MOST_FILE * PAGE + u64::from(inside) % PAGE;
            Some(Plan::new(Call::Truncate { file, bytes }, Some(Change::Truncate(file, bytes)), Success))
        }
        Operation::Invalidate { file, page, pages } => {
            let first = page % MOST_FILE as u32;
            Some(Plan::unseen(Call::Invalidate { file: file_of(file), first, pages: 1 + pages }, Success))
        }
        Operation::Sync { file } => Some(Plan::unseen(Call::Sync { file: file_of(file) }, Success)),
        Operation::Wrong { area, call, how } => wrong(space, area, call, how),
        Operation::Load { .. }
        | Operation::Store { .. }
        | Operation::Sweep { .. }
        | Operation::Wild { .. }
        | Operation::Exit {} => None,
    }
}

/// The pages of a new private mapping, if there is room for any.
fn new_pages(model: &Model, setup: &Setup, space: &Space, pages: u32) -> Option<u64> {
    let most = spare(model, setup).saturating_sub(1);
    let room = space.areas().count() < MOST_AREAS && most > 0;
    room.then(|| (1 + u64::from(pages) % MOST_PAGES).min(most))
}

fn remap(
    model: &Model,
    setup: &Setup,
    space: &Space,
    area: &Area,
    range: Range<u64>,
    size: u64,
    to: u32,
) -> Option<Plan> {
    let old = range.end - range.start;
    let size = (1 + size % MOST_PAGES).min(old + spare(model, setup).saturating_sub(1));
    let (start, bytes) = addresses(&range);
    let in_place = range.start..range.start + size;
    let fits = size <= old || space.is_free(&(range.end..in_place.end));
    let (place, target, expected) = match to {
        0 => (Place::Here, Some(in_place), if fits { Expected::Success } else { Expected::Refusal }),
        1 => (Place::Anywhere, (size <= old).then_some(in_place), Expected::Success),
        _ => {
            let other = if to == 2 { None } else { pick(space, range.start as u32 / 7 + to) };
            let at = match other {
                Some(other) => other.start + other.pages() / 2,
                None => {
                    (0..1 << 16).map(|slot| FIXED + 512 * slot).find(|&at| space.is_free(&(at..at + 512)))?
                }
            };
            let target = at..at + size;
            let refused = at < range.end && range.start < target.end;
            (Place::At(at * PAGE), Some(target), if refused { Expected::Refusal } else { Expected::Success })
        }
    };
    let expected = match space.is_one(&range) {
        None if expected == Expected::Success => Expected::Either,
        Some(false) => Expected::Refusal,
        _ => expected,
    };
    // A mapping that is kept in memory needs its pages at once when it grows.
    let expected = if area.locked && expected == Expected::Success { Expected::Either } else { expected };
    let change = if expected == Expected::Refusal {
        Change::Attribute(range)
    } else {
        Change::Remap(range, target, size)
    };
    let call = Call::Remap { start, bytes, new_bytes: size * PAGE, place };
    Some(Plan::new(call, Some(change), expected))
}

/// A call with an invalid range.
fn wrong(space: &Space, area: u32, call: u32, how: u32) -> Option<Plan> {
    let area = pick(space, area)?;
    let (start, bytes) = addresses(&(area.start..area.end));
    let unmapped = how % 6 == 5;
    let (start, bytes) = match how % 6 {
        0 => (start + 1, bytes),
        1 => (start, 0),
        2 => (!(PAGE - 1), 2 * PAGE),
        3 => ((USER_PAGES - 1) * PAGE, 2 * PAGE),
        4 => (start + 8, PAGE),
        _ => (WILD * PAGE, 2 * PAGE),
    };
    let (call, tolerant) = match call % 8 {
        0 => (Call::Unmap { start, bytes }, true),
        1 => (Call::Discard { start, bytes }, true),
        2 => (Call::Protect { start, bytes, to: Rights::Read }, false),
        3 => (Call::Remap { start, bytes, new_bytes: PAGE, place: Place::Anywhere }, false),
        4 => (Call::Lock { start, bytes }, false),
        5 => (Call::Advise { start, bytes, advice: Advice::Free }, false),
        6 => (Call::Advise { start, bytes, advice: Advice::PageOut }, false),
        _ => (Call::Hint { start, bytes }, true),
    };
    let expected = if unmapped && tolerant { Expected::Either } else { Expected::Refusal };
    Some(Plan::unseen(call, expected))
}

/// Whether an operation ends by changing a mapping, and the area that it changes.
pub(crate) fn mapped(call: &Call, address: u64) -> Option<Area> {
    let start = address / PAGE;
    let area = |pages: u64, source, first: u32, writable: bool| Area {
        start,
        end: start + pages,
        source,
        first: u64::from(first),
        rights: if writable { Rights::Write } else { Rights::Read },
        may_write: writable,
        locked: false,
        huge: false,
    };
    match *call {
        Call::MapAnonymous { pages } => Some(area(pages, Source::Anonymous, 0, true)),
        Call::MapShared { file, first, pages, writable } => {
            Some(area(pages, Source::Shared(file), first, writable))
        }
        Call::MapPrivate { file, first, pages } => Some(area(pages, Source::Private(file), first, true)),
        _ => None,
    }
}
