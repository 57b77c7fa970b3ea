//! The columns of a recording, and the values of each kind of event in them.

use crate::events::{FlushReason, Kind, MigrationReason, Name, Names, Spelled, SystemCall, Work};

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
    column("target", false, false, "CPU that is interrupted"),
    column("call", false, false, "number that pairs an interrupt with its handler; used again"),
    column("pages", false, false, "pages that are flushed (none: all), moved or reclaimed"),
    column("address", false, false, "address of a fault; first argument of a system call"),
    column("bytes", false, false, "second argument of a system call: a length, or a number of ranges"),
    column("flags", false, false, "third argument of a system call; the processor's code for a fault"),
    column("result", false, false, "result of a system call; 1 if a collapse was done"),
    column("other", false, false, "thread to which the CPU goes on, or that is made or named"),
    column("frame", false, false, "frame number"),
    column("order", false, false, "logarithm to base 2 of the number of frames"),
    column("inode", false, false, "number of a file"),
    column("index", false, false, "number of a page in its file"),
    column("last", false, false, "number of the last of several pages in their file"),
    column("failed", false, false, "pages that could not be moved"),
    column("lost", false, false, "events that were lost here, at least"),
    column("function", true, false, "function that the interrupted CPU runs"),
    column("site", true, false, "kernel function that sends the interrupt"),
    column("reason", true, false, "the kernel's reason for a flush or a migration"),
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

/// The values of the optional columns in one row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cells {
    pub(super) numbers: [Option<i64>; NUMBERS],
    pub(super) texts: [Option<Name>; TEXTS],
}

impl Cells {
    fn put(&mut self, column: Number, value: u64) {
        self.numbers[column as usize] = Some(value.cast_signed());
    }

    fn number(&self, column: Number) -> Option<u64> {
        self.numbers[column as usize].map(i64::cast_unsigned)
    }

    fn spell(&mut self, column: Text, value: impl Spelled, names: &mut Names) {
        self.texts[column as usize] = Some(names.add(value.word()));
    }

    fn spelled<T: Spelled>(&self, column: Text, names: &Names) -> Option<T> {
        T::of_word(names.get(self.texts[column as usize]?))
    }

    /// The values of an event, and the word for its kind.
    #[allow(clippy::too_many_lines)] // One arm for each kind.
    pub(super) fn of(kind: Kind, names: &mut Names) -> (&'static str, Self) {
        let mut cells = Self::default();
        let word = match kind {
            Kind::Sent { target, work, call, site } => {
                cells.put(Number::Target, target.into());
                cells.put(Number::Call, call);
                cells.spell(Text::Function, work, names);
                cells.texts[Text::Site as usize] = Some(site);
                "sent"
            }
            Kind::HandlerBegan { work, call } => {
                cells.put(Number::Call, call);
                cells.spell(Text::Function, work, names);
                "handler_began"
            }
            Kind::HandlerEnded { work, call } => {
                cells.put(Number::Call, call);
                cells.spell(Text::Function, work, names);
                "handler_ended"
            }
            Kind::Flush { reason, pages } => {
                cells.spell(Text::Reason, reason, names);
                if let Some(pages) = pages {
                    cells.put(Number::Pages, pages);
                }
                "flush"
            }
            Kind::Switch { next } => {
                cells.put(Number::Other, next.into());
                "switch"
            }
            Kind::Fault { address, code } => {
                cells.put(Number::Address, address);
                cells.put(Number::Flags, code);
                "fault"
            }
            Kind::CallBegan { call, address, bytes, flags } => {
                cells.spell(Text::Syscall, call, names);
                cells.put(Number::Address, address);
                cells.put(Number::Bytes, bytes);
                cells.put(Number::Flags, flags);
                "call_began"
            }
            Kind::CallEnded { call, result } => {
                cells.spell(Text::Syscall, call, names);
                cells.put(Number::Result, result.cast_unsigned());
                "call_ended"
            }
            Kind::MigrationBegan { reason } => {
                cells.spell(Text::Reason, reason, names);
                "migration_began"
            }
            Kind::MigrationEnded { reason, moved, failed } => {
                cells.spell(Text::Reason, reason, names);
                cells.put(Number::Pages, moved);
                cells.put(Number::Failed, failed);
                "migration_ended"
            }
            Kind::ReclaimBegan => "reclaim_began",
            Kind::ReclaimEnded { frames } => {
                cells.put(Number::Pages, frames);
                "reclaim_ended"
            }
            Kind::Collapsed { done } => {
                cells.put(Number::Result, done.into());
                "collapsed"
            }
            Kind::Allocated { frame, order } => {
                cells.put(Number::Frame, frame);
                cells.put(Number::Order, order.into());
                "allocated"
            }
            Kind::Freed { frame, order } => {
                cells.put(Number::Frame, frame);
                cells.put(Number::Order, order.into());
                "freed"
            }
            Kind::Cached { frame, inode, index } => {
                cells.put_page(frame, inode, index);
                "cached"
            }
            Kind::Uncached { frame, inode, index } => {
                cells.put_page(frame, inode, index);
                "uncached"
            }
            Kind::FileMapped { inode, first, last } => {
                cells.put(Number::Inode, inode);
                cells.put(Number::Index, first);
                cells.put(Number::Last, last);
                "file_mapped"
            }
            Kind::ThreadBegan { thread, same_process, name } => {
                cells.put(Number::Other, thread.into());
                cells.put(Number::Flags, same_process.into());
                cells.texts[Text::Name as usize] = Some(name);
                "thread_began"
            }
            Kind::ThreadNamed { thread, name } => {
                cells.put(Number::Other, thread.into());
                cells.texts[Text::Name as usize] = Some(name);
                "thread_named"
            }
            Kind::ThreadEnded => "thread_ended",
            Kind::Stack { functions } => {
                cells.texts[Text::Stack as usize] = Some(functions);
                "stack"
            }
            Kind::Lost { events } => {
                cells.put(Number::Lost, events);
                "lost"
            }
        };
        (word, cells)
    }

    fn put_page(&mut self, frame: u64, inode: u64, index: u64) {
        self.put(Number::Frame, frame);
        self.put(Number::Inode, inode);
        self.put(Number::Index, index);
    }

    /// The event of a word and these values; none if the word is unknown or a value is missing.
    pub(super) fn kind(&self, event: &str, names: &Names) -> Option<Kind> {
        let number = |column| self.number(column);
        let small = |column| self.number(column).and_then(|value| u32::try_from(value).ok());
        let text = |column: Text| self.texts[column as usize];
        let work = || self.spelled::<Work>(Text::Function, names);
        let page = || Some((number(Number::Frame)?, number(Number::Inode)?, number(Number::Index)?));
        Some(match event {
            "sent" => Kind::Sent {
                target: small(Number::Target)?,
                work: work()?,
                call: number(Number::Call)?,
                site: text(Text::Site)?,
            },
            "handler_began" => Kind::HandlerBegan { work: work()?, call: number(Number::Call)? },
            "handler_ended" => Kind::HandlerEnded { work: work()?, call: number(Number::Call)? },
            "flush" => Kind::Flush {
                reason: self.spelled::<FlushReason>(Text::Reason, names)?,
                pages: number(Number::Pages),
            },
            "switch" => Kind::Switch { next: small(Number::Other)? },
            "fault" => Kind::Fault { address: number(Number::Address)?, code: number(Number::Flags)? },
            "call_began" => Kind::CallBegan {
                call: self.spelled::<SystemCall>(Text::Syscall, names)?,
                address: number(Number::Address)?,
                bytes: number(Number::Bytes)?,
                flags: number(Number::Flags)?,
            },
            "call_ended" => Kind::CallEnded {
                call: self.spelled::<SystemCall>(Text::Syscall, names)?,
                result: self.numbers[Number::Result as usize]?,
            },
            "migration_began" => {
                Kind::MigrationBegan { reason: self.spelled::<MigrationReason>(Text::Reason, names)? }
            }
            "migration_ended" => Kind::MigrationEnded {
                reason: self.spelled::<MigrationReason>(Text::Reason, names)?,
                moved: number(Number::Pages)?,
                failed: number(Number::Failed)?,
            },
            "reclaim_began" => Kind::ReclaimBegan,
            "reclaim_ended" => Kind::ReclaimEnded { frames: number(Number::Pages)? },
            "collapsed" => Kind::Collapsed { done: number(Number::Result)? != 0 },
            "allocated" => Kind::Allocated { frame: number(Number::Frame)?, order: small(Number::Order)? },
            "freed" => Kind::Freed { frame: number(Number::Frame)?, order: small(Number::Order)? },
            "cached" => page().map(|(frame, inode, index)| Kind::Cached { frame, inode, index })?,
            "uncached" => page().map(|(frame, inode, index)| Kind::Uncached { frame, inode, index })?,
            "file_mapped" => Kind::FileMapped {
                inode: number(Number::Inode)?,
                first: number(Number::Index)?,
                last: number(Number::Last)?,
            },
            "thread_began" => Kind::ThreadBegan {
                thread: small(Number::Other)?,
                same_process: number(Number::Flags)? != 0,
                name: text(Text::Name)?,
            },
            "thread_named" => Kind::ThreadNamed { thread: small(Number::Other)?, name: text(Text::Name)? },
            "thread_ended" => Kind::ThreadEnded,
            "stack" => Kind::Stack { functions: text(Text::Stack)? },
            "lost" => Kind::Lost { events: number(Number::Lost)? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_has_every_column() {
        let book = include_str!("../../../docs/src/record.md");
        let rows = book.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
        let rows: Vec<(&str, &str)> = rows.filter_map(|row| row.split_once("` | ")).collect();
        let columns: Vec<_> = COLUMNS.iter().map(|column| (column.name, column.meaning)).collect();
        assert_eq!(rows[..columns.len()], columns);
    }
}
