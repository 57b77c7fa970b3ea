//! The recordings of the book's worked example: the causes and the processes that the chapter names, and a replay that
//! can be believed.

use std::path::PathBuf;

use ceasefire_linux::recording::Recording;
use ceasefire_linux::replay::{replay, Mechanism, Replay};
use ceasefire_linux::shootdowns::Cause;

/// Each recording with its program, and the cause that sends most of the program's interrupts, if there are any.
const RECORDINGS: [(&str, &str, Option<Cause>); 6] = [
    ("purge", "purge", Some(Cause::Madvise)),
    ("purge-after", "purge", None),
    ("lmdb", "lmdb", Some(Cause::Reclaim)),
    ("lmdb-after", "lmdb", Some(Cause::Reclaim)),
    ("scavenge", "scavenge", Some(Cause::Madvise)),
    ("scavenge-after", "scavenge", Some(Cause::Madvise)),
];

fn replayed(name: &str) -> Replay {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings/worked").join(name);
    let mut recording = Recording::open(&path.with_extension("parquet")).expect("a recording");
    replay(&mut recording, &[Mechanism::of_linux("6.18.44")]).expect("a full recording")
}

#[test]
fn nothing_was_lost_and_requests_are_those_of_the_tlb_row() {
    for (name, ..) in RECORDINGS {
        let facts = replayed(name).facts;
        assert_eq!(Some(facts.answered), facts.tlb_row, "{name}");
        assert!(facts.tlb_row_unsure == 0 && facts.lost.is_none(), "{name}: {facts:?}");
    }
}

#[test]
fn a_program_is_known_by_its_own_name_and_its_main_cause() {
    for (name, program, cause) in RECORDINGS {
        let replayed = replayed(name);
        let of_program = replayed.observed.totals.processes.iter();
        let of_program = of_program.filter(|((process, _), _)| replayed.program(*process) == Some(program));
        let most = of_program.max_by_key(|(_, sum)| sum.requests).map(|((_, cause), _)| *cause);
        assert_eq!(most, cause, "{name}");
    }
}
