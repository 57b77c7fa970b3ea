//! The columns of a recording, and the values of each kind of event in them.

use crate::events::{Kind, Name, Names, Spelled};
use crate::recording::words::{Meanings, Word};

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Whether its values are text. All others are whole numbers.
    pub is_text: bool,
    /// Whether every row has a value.
    pub is_required: bool,
    /// The meaning, with the unit.
    pub meaning: &'static str,
}

const fn column(name: &'static str, is_text: bool, is_required: bool, meaning: &'static str) -> Column {
    Column { name, is_text, is_required, meaning }
}

/// All columns, in their order.
pub const COLUMNS: &[Column] = &[
    column("time_ns", false, true, "time on the kernel's monotonic clock, in nanoseconds"),
    column("cpu", false, true, "CPU on which the event happened"),
    column("thread", false, true, "thread that ran there; 0 is the idle one"),
    column("process", false, true, "process of the thread; 0 is the kernel"),
    column("program", true, true, "name of the thread"),
    column("event", true, true, "kind of event"),
    column("target", false, false, "CPU that is asked"),
    column("call", false, false, "number that pairs a request with its handler; used again"),
    column("pages", false, false, "pages that are flushed (none: all), moved, reclaimed or mapped"),
    column("address", false, false, "address of a fault or of a lock; first argument of a system call"),
    column("bytes", false, false, "second argument of a system call: a length, or a number of ranges"),
    column("flags", false, false, "third argument of a system call; the processor's code for a fault; 1 if a mapped page can be stored to"),
    column("result", false, false, "result of a system call or of a wait; 1 if a collapse was done"),
    column("other", false, false, "thread to which the CPU goes on, or that is made or named"),
    column("frame", false, false, "frame number"),
    column("order", false, false, "logarithm to base 2 of the number of frames"),
    column("inode", false, false, "number of a file"),
    column("index", false, false, "number of a page in its file"),
    column("last", false, false, "number of the last of several pages in their file"),
    column("failed", false, false, "pages that could not be moved"),
    column("lost", false, false, "events that were lost here, at least"),
    column("function", true, false, "function that the asked CPU runs"),
    column("site", true, false, "kernel function that sends the request"),
    column("reason", true, false, "the kernel's reason for a flush or a migration; kind of a lock"),
    column("syscall", true, false, "name of a system call"),
    column("name", true, false, "name of a new or renamed thread"),
    column("stack", true, false, "kernel functions of the event before on the same CPU, innermost first"),
];

/// The optional columns of numbers, by their place in [`Cells::numbers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Target,
    Call,
    Pages,
    Address,
    Bytes,
    Flags,
    Result,
    Other,
    Frame,
    Order,
    Inode,
    Index,
    Last,
    Failed,
    Lost,
}

/// The optional columns of text, by their place in [`Cells::texts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    Function,
    Site,
    Reason,
    Syscall,
    Name,
    Stack,
}

/// The number of columns before the optional ones, of optional columns of numbers, and of those of text.
pub(super) const REQUIRED: usize = 6;
pub(super) const NUMBERS: usize = Number::Lost as usize + 1;
pub(super) const TEXTS: usize = Text::Stack as usize + 1;

const _: () = assert!(REQUIRED + NUMBERS + TEXTS == COLUMNS.len());

/// The values of the optional columns in one row that is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cells {
    pub(super) numbers: [Option<i64>; NUMBERS],
    pub(super) texts: [Option<Name>; TEXTS],
}

impl Cells {
    fn put(&mut self, column: Number, value: u64) {
        self.numbers[column as usize] = Some(value.cast_signed());
    }

    fn spell(&mut self, column: Text, value: impl Spelled, names: &mut Names) {
        self.texts[column as usize] = Some(names.add(value.word()));
    }

    /// The values of an event, and the word for its kind.
    #[allow(clippy::too_many_lines)] // One arm for each kind.
    pub(super) fn of(kind: Kind, names: &mut Names) -> (Word, Self) {
        let mut cells = Self::default();
        let word = match kind {
            Kind::Sent { target, work, call, site } => {
                cells.put(Number::Target, target.into());
                cells.put(Number::Call, call);
                cells.spell(Text::Function, work, names);
                cells.texts[Text::Site as usize] = Some(site);
                Word::Sent
            }
            Kind::HandlerBegan { work, call } => {
                cells.put(Number::Call, call);
                cells.spell(Text::Function, work, names);
                Word::HandlerBegan
            }
            Kind::HandlerEnded { work, call } => {
                cells.put(Number::Call, call);
                cells.spell(Text::Function, work, names);
                Word::HandlerEnded
            }
            Kind::Flush { reason, pages } => {
                cells.spell(Text::Reason, reason, names);
                if let Some(pages) = pages {
                    cells.put(Number::Pages, pages);
                }
                Word::Flush
            }
            Kind::Switch { next } => {
                cells.put(Number::Other, next.into());
                Word::Switch
            }
            Kind::Fault { address, code } => {
                cells.put(Number::Address, address);
                cells.put(Number::Flags, code);
                Word::Fault
            }
            Kind::CallBegan { call, address, bytes, flags } => {
                cells.spell(Text::Syscall, call, names);
                cells.put(Number::Address, address);
                cells.put(Number::Bytes, bytes);
                cells.put(Number::Flags, flags);
                Word::CallBegan
            }
            Kind::CallEnded { call, result } => {
                cells.spell(Text::Syscall, call, names);
                cells.put(Number::Result, result.cast_unsigned());
                Word::CallEnded
            }
            Kind::MigrationBegan { reason } => {
                cells.spell(Text::Reason, reason, names);
                Word::MigrationBegan
            }
            Kind::MigrationEnded { reason, moved, failed } => {
                cells.spell(Text::Reason, reason, names);
                cells.put(Number::Pages, moved);
                cells.put(Number::Failed, failed);
                Word::MigrationEnded
            }
            Kind::ReclaimBegan => Word::ReclaimBegan,
            Kind::ReclaimEnded { frames } => {
                cells.put(Number::Pages, frames);
                Word::ReclaimEnded
            }
            Kind::Collapsed { done } => {
                cells.put(Number::Result, done.into());
                Word::Collapsed
            }
            Kind::WaitBegan { lock, kind } => {
                cells.put(Number::Address, lock);
                cells.spell(Text::Reason, kind, names);
                Word::WaitBegan
            }
            Kind::WaitEnded { lock, result } => {
                cells.put(Number::Address, lock);
                cells.put(Number::Result, result.cast_unsigned());
                Word::WaitEnded
            }
            Kind::Allocated { frame, order } => {
                cells.put(Number::Frame, frame);
                cells.put(Number::Order, order.into());
                Word::Allocated
            }
            Kind::Freed { frame, order } => {
                cells.put(Number::Frame, frame);
                cells.put(Number::Order, order.into());
                Word::Freed
            }
            Kind::Cached { frame, inode, index } => {
                cells.put_page(frame, inode, index);
                Word::Cached
            }
            Kind::Uncached { frame, inode, index } => {
                cells.put_page(frame, inode, index);
                Word::Uncached
            }
            Kind::FileMapped { inode, first, last } => {
                cells.put(Number::Inode, inode);
                cells.put(Number::Index, first);
                cells.put(Number::Last, last);
                Word::FileMapped
            }
            Kind::Mapped { frame, pages, inode, index, stores } => {
                cells.put_page(frame, inode, index);
                cells.put(Number::Pages, pages);
                cells.put(Number::Flags, stores.into());
                Word::Mapped
            }
            Kind::ThreadBegan { thread, same_process, name } => {
                cells.put(Number::Other, thread.into());
                cells.put(Number::Flags, same_process.into());
                cells.texts[Text::Name as usize] = Some(name);
                Word::ThreadBegan
            }
            Kind::ThreadNamed { thread, name } => {
                cells.put(Number::Other, thread.into());
                cells.texts[Text::Name as usize] = Some(name);
                Word::ThreadNamed
            }
            Kind::ThreadEnded => Word::ThreadEnded,
            Kind::Stack { functions } => {
                cells.texts[Text::Stack as usize] = Some(functions);
                Word::Stack
            }
            Kind::Lost { events } => {
                cells.put(Number::Lost, events);
                Word::Lost
            }
        };
        (word, cells)
    }

    fn put_page(&mut self, frame: u64, inode: u64, index: u64) {
        self.put(Number::Frame, frame);
        self.put(Number::Inode, inode);
        self.put(Number::Index, index);
    }
}

/// The values of the optional columns in one row that is read.
pub(super) trait Optional {
    /// A number, if the row has it.
    fn number(&self, column: Number) -> Option<i64>;

    /// A text, if the row has it.
    fn text(&self, column: Text) -> Option<Name>;
}

/// The event of a word and a row's values; none if a value is missing or means nothing.
pub(super) fn kind(event: Word, row: &impl Optional, meanings: &Meanings) -> Option<Kind> {
    let number = |column| row.number(column).map(i64::cast_unsigned);
    let small = |column| number(column).and_then(|value| u32::try_from(value).ok());
    let meaning = |column| meanings.get(row.text(column)?);
    let work = || meaning(Text::Function)?.work;
    let page = || Some((number(Number::Frame)?, number(Number::Inode)?, number(Number::Index)?));
    Some(match event {
        Word::Sent => Kind::Sent {
            target: small(Number::Target)?,
            work: work()?,
            call: number(Number::Call)?,
            site: row.text(Text::Site)?,
        },
        Word::HandlerBegan => Kind::HandlerBegan { work: work()?, call: number(Number::Call)? },
        Word::HandlerEnded => Kind::HandlerEnded { work: work()?, call: number(Number::Call)? },
        Word::Flush => Kind::Flush { reason: meaning(Text::Reason)?.flush?, pages: number(Number::Pages) },
        Word::Switch => Kind::Switch { next: small(Number::Other)? },
        Word::Fault => Kind::Fault { address: number(Number::Address)?, code: number(Number::Flags)? },
        Word::CallBegan => Kind::CallBegan {
            call: meaning(Text::Syscall)?.call?,
            address: number(Number::Address)?,
            bytes: number(Number::Bytes)?,
            flags: number(Number::Flags)?,
        },
        Word::CallEnded => {
            Kind::CallEnded { call: meaning(Text::Syscall)?.call?, result: row.number(Number::Result)? }
        }
        Word::MigrationBegan => Kind::MigrationBegan { reason: meaning(Text::Reason)?.migration? },
        Word::MigrationEnded => Kind::MigrationEnded {
            reason: meaning(Text::Reason)?.migration?,
            moved: number(Number::Pages)?,
            failed: number(Number::Failed)?,
        },
        Word::ReclaimBegan => Kind::ReclaimBegan,
        Word::ReclaimEnded => Kind::ReclaimEnded { frames: number(Number::Pages)? },
        Word::Collapsed => Kind::Collapsed { done: number(Number::Result)? != 0 },
        Word::WaitBegan => {
            Kind::WaitBegan { lock: number(Number::Address)?, kind: meaning(Text::Reason)?.lock? }
        }
        Word::WaitEnded => {
            Kind::WaitEnded { lock: number(Number::Address)?, result: row.number(Number::Result)? }
        }
        Word::Allocated => Kind::Allocated { frame: number(Number::Frame)?, order: small(Number::Order)? },
        Word::Freed => Kind::Freed { frame: number(Number::Frame)?, order: small(Number::Order)? },
        Word::Cached => page().map(|(frame, inode, index)| Kind::Cached { frame, inode, index })?,
        Word::Uncached => page().map(|(frame, inode, index)| Kind::Uncached { frame, inode, index })?,
        Word::FileMapped => Kind::FileMapped {
            inode: number(Number::Inode)?,
            first: number(Number::Index)?,
            last: number(Number::Last)?,
        },
        Word::Mapped => {
            let (frame, inode, index) = page()?;
            let (pages, stores) = (number(Number::Pages)?, number(Number::Flags)? != 0);
            Kind::Mapped { frame, pages, inode, index, stores }
        }
        Word::ThreadBegan => Kind::ThreadBegan {
            thread: small(Number::Other)?,
            same_process: number(Number::Flags)? != 0,
            name: row.text(Text::Name)?,
        },
        Word::ThreadNamed => Kind::ThreadNamed { thread: small(Number::Other)?, name: row.text(Text::Name)? },
        Word::ThreadEnded => Kind::ThreadEnded,
        Word::Stack => Kind::Stack { functions: row.text(Text::Stack)? },
        Word::Lost => Kind::Lost { events: number(Number::Lost)? },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_has_every_column() {
        let book = include_str!("../../../docs/src/linux/record.md");
        let rows = book.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
        let rows: Vec<(&str, &str)> = rows.filter_map(|row| row.split_once("` | ")).collect();
        let columns: Vec<_> = COLUMNS.iter().map(|column| (column.name, column.meaning)).collect();
        assert_eq!(rows[..columns.len()], columns);
    }
}
