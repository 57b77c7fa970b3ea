//! The messages of errors: one line that names the wrong value and the bound that it crossed.

use std::error::Error;

use ceasefire::CpuId;
use ceasefire_memory::shadow::{Misuse, Wrong};
use ceasefire_memory::{
    AdviseError, Busy, CollapseError, ConfigError, Ended, FaultError, ForkError, FrameNumber, KernelMapError,
    LockError, MapError, MigrateError, Migrated, NodeId, OfflineError, OutOfMemory, Pages, ProtectError,
    RangeError, RemapError, TooManyObjects, TruncateError, UnmapError, WriteError,
};

const NO_FRAME: &str = "out of memory: no frame is free and none can be reclaimed";
const RANGE: RangeError = RangeError { start: 0x1001, pages: Pages::new(2) };
const BAD_RANGE: &str =
    "2 pages from 0x1001 on: must be at least one, from a multiple of 4096 on, below 0x800000000000";

fn assert_messages<const N: usize>(messages: [(&dyn Error, &str); N]) {
    for (error, message) in messages {
        assert_eq!(error.to_string(), message, "{error:?}");
    }
}

#[test]
fn a_call_without_a_frame_says_that_memory_is_out() {
    assert_messages([
        (&OutOfMemory, NO_FRAME),
        (&AdviseError::OutOfMemory, NO_FRAME),
        (&ConfigError::OutOfMemory, NO_FRAME),
        (&FaultError::OutOfMemory, NO_FRAME),
        (&ForkError::OutOfMemory, NO_FRAME),
        (&KernelMapError::OutOfMemory, NO_FRAME),
        (&LockError::OutOfMemory, NO_FRAME),
        (&ProtectError::OutOfMemory, NO_FRAME),
        (&RemapError::OutOfMemory, NO_FRAME),
        (&TruncateError::OutOfMemory, NO_FRAME),
        (&UnmapError::OutOfMemory, NO_FRAME),
        (&CollapseError::OutOfMemory, "no 512 neighbouring frames are free"),
        (&WriteError::OutOfMemory { written: 7 }, "out of memory after 7 bytes"),
    ]);
}

#[test]
fn a_call_with_the_handle_of_an_ended_space_says_so() {
    let errors: [&dyn Error; 11] = [
        &Ended,
        &AdviseError::Ended,
        &CollapseError::Ended,
        &FaultError::Ended,
        &ForkError::Ended,
        &LockError::Ended,
        &MapError::Ended,
        &MigrateError::Ended,
        &ProtectError::Ended,
        &RemapError::Ended,
        &UnmapError::Ended,
    ];
    assert_messages(errors.map(|error| (error, "the space has ended")));
}

#[test]
fn a_range_that_is_none_is_named_with_its_bounds() {
    assert_messages([
        (&RANGE, BAD_RANGE),
        (&AdviseError::Range(RANGE), BAD_RANGE),
        (&LockError::Range(RANGE), BAD_RANGE),
        (&ProtectError::Range(RANGE), BAD_RANGE),
        (&RemapError::Range(RANGE), BAD_RANGE),
        (&UnmapError::Range(RANGE), BAD_RANGE),
    ]);
}

#[test]
fn an_address_that_is_refused_is_named() {
    assert_messages([
        (&AdviseError::NotMapped(0x1000), "nothing is mapped at 0x1000"),
        (&AdviseError::NotAnonymous(0x1000), "0x1000 is not private anonymous memory"),
        (&AdviseError::Locked(0x1000), "the pages at 0x1000 are locked in memory"),
        (
            &CollapseError::NotAnonymous(0x1000),
            "the 2 MiB around 0x1000 are not one mapping of anonymous memory",
        ),
        (&FaultError::NotMapped(0x1000), "nothing is mapped at 0x1000"),
        (&FaultError::ReadOnly(0x1000), "0x1000 is mapped read-only"),
        (&FaultError::NoAccess(0x1000), "no access is allowed at 0x1000"),
        (&FaultError::BeyondEnd(0x1000), "0x1000 is beyond the end of the file mapped there"),
        (&LockError::NotMapped(0x1000), "nothing that could be locked is mapped at 0x1000"),
        (&ProtectError::NotMapped(0x1000), "nothing is mapped at 0x1000"),
        (&ProtectError::Forbidden(0x1000), "the file mapped at 0x1000 may not be written"),
        (&RemapError::NotOneMapping(0x1000), "the range at 0x1000 is not one mapping"),
        (&RemapError::Overlap, "the old and the new range overlap"),
    ]);
}

#[test]
fn a_length_without_room_is_named() {
    const PAGES: Pages = Pages::new(3);
    const NONE: Pages = Pages::new(0);
    assert_messages([
        (&MapError::Length(NONE), "0 pages cannot be mapped: between 1 and 4294967295 can"),
        (&MapError::NoRoom(PAGES), "no free range of 3 pages below 0x800000000000"),
        (&RemapError::NoRoom(PAGES), "no room for 3 pages"),
        (&KernelMapError::NoRoom, "the area has no free range of that length"),
        (
            &WriteError::TooLong(1 << 50),
            "a file cannot end at byte 1125899906842624: at most at 17592186040320",
        ),
        (
            &TruncateError::TooLong(1 << 50),
            "a file cannot have 1125899906842624 bytes: at most 17592186040320",
        ),
    ]);
}

#[test]
fn nodes_frames_and_objects_are_named() {
    let limit = TooManyObjects { limit: 9 };
    let (node, migrated) = (NodeId(5), Migrated { moved: 6, busy: 1 });
    let (frame, first) = (FrameNumber::new(0x20), FrameNumber::new(0x10));
    assert_messages([
        (&limit, "all 9 files or anonymous areas are in use"),
        (&MapError::Objects(limit), "all 9 files or anonymous areas are in use"),
        (&Busy { pages: 4 }, "4 pages are in use"),
        (&MigrateError::NoNode(node), "there is no node 5"),
        (&MigrateError::Full { node, migrated }, "node 5 is full: 6 pages were moved before"),
        (
            &OfflineError::NoSuchFrame { frame, first, frames: 8 },
            "there is no frame 0x20: 8 frames from frame 0x10 on",
        ),
        (&OfflineError::InUse(frame), "frame 0x20 is in use"),
    ]);
}

#[test]
fn a_misuse_names_the_frame_and_the_cpu_that_can_reach_it() {
    let reached = |wrong| Misuse {
        wrong,
        frame: FrameNumber::new(0x20),
        cpu: CpuId::new(1).ok(),
        address: Some(0x1000),
        since: Some(7),
    };
    let tail = ": CPU 1 has not flushed 0x1000 since 7 ns";
    for (wrong, head) in [
        (Wrong::Reused, "frame 0x20 was handed out"),
        (Wrong::Accessed, "frame 0x20 is free and was touched"),
        (Wrong::Retranslated, "frame 0x20 was replaced at its address"),
        (Wrong::Replaced, "frame 0x20 holds an older copy of a page that was found"),
        (Wrong::Unflushed, "frame 0x20 came back into reach"),
    ] {
        assert_eq!(reached(wrong).to_string(), format!("{head}{tail}"));
        assert_eq!(Misuse { cpu: None, ..reached(wrong) }.to_string(), head);
    }
}
