//! Words of a recording, and what they mean.
//!
//! A column of text repeats few words very often. So a word is looked up when it is first read, and not in each row.

use crate::events::{FlushReason, LockKind, MigrationReason, Name, Names, Spelled, SystemCall, Work};

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    Sent,
    HandlerBegan,
    HandlerEnded,
    Flush,
    Switch,
    Fault,
    CallBegan,
    CallEnded,
    MigrationBegan,
    MigrationEnded,
    ReclaimBegan,
    ReclaimEnded,
    Collapsed,
    WaitBegan,
    WaitEnded,
    Allocated,
    Freed,
    Cached,
    Uncached,
    FileMapped,
    Mapped,
    ThreadBegan,
    ThreadNamed,
    ThreadEnded,
    Stack,
    Lost,
}

impl Spelled for Word {
    const WORDS: &'static [(Self, &'static str)] = &[
        (Self::Sent, "sent"),
        (Self::HandlerBegan, "handler_began"),
        (Self::HandlerEnded, "handler_ended"),
        (Self::Flush, "flush"),
        (Self::Switch, "switch"),
        (Self::Fault, "fault"),
        (Self::CallBegan, "call_began"),
        (Self::CallEnded, "call_ended"),
        (Self::MigrationBegan, "migration_began"),
        (Self::MigrationEnded, "migration_ended"),
        (Self::ReclaimBegan, "reclaim_began"),
        (Self::ReclaimEnded, "reclaim_ended"),
        (Self::Collapsed, "collapsed"),
        (Self::WaitBegan, "wait_began"),
        (Self::WaitEnded, "wait_ended"),
        (Self::Allocated, "allocated"),
        (Self::Freed, "freed"),
        (Self::Cached, "cached"),
        (Self::Uncached, "uncached"),
        (Self::FileMapped, "file_mapped"),
        (Self::Mapped, "mapped"),
        (Self::ThreadBegan, "thread_began"),
        (Self::ThreadNamed, "thread_named"),
        (Self::ThreadEnded, "thread_ended"),
        (Self::Stack, "stack"),
        (Self::Lost, "lost"),
    ];
}

/// What a text means in each of the columns whose values are a closed set.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meaning {
    pub(super) event: Option<Word>,
    pub(super) work: Option<Work>,
    pub(super) flush: Option<FlushReason>,
    pub(super) migration: Option<MigrationReason>,
    pub(super) call: Option<SystemCall>,
    pub(super) lock: Option<LockKind>,
}

impl Meaning {
    fn of(word: &str) -> Self {
        Self {
            event: Word::of_word(word),
            work: Work::of_word(word),
            flush: FlushReason::of_word(word),
            migration: MigrationReason::of_word(word),
            call: SystemCall::of_word(word),
            lock: LockKind::of_word(word),
        }
    }
}

/// The meanings of the first names of a set.
#[derive(Debug, Default)]
pub(super) struct Meanings(Vec<Meaning>);

impl Meanings {
    /// Looks up the names that were added since the last time.
    pub(super) fn learn(&mut self, names: &Names) {
        self.0.extend(names.since(self.0.len()).map(Meaning::of));
    }

    /// The meaning of a name, if it was looked up.
    pub(super) fn get(&self, name: Name) -> Option<&Meaning> {
        self.0.get(name.index())
    }
}
