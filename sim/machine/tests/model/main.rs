//! Random programs against a plain model of memory.
//!
//! A [script](script::Script) is a small machine and the operations of a few programs' threads on it, all at once in
//! simulated time. Scripts use every call, on few frames, so reclaim, swap and migration run beside them. The
//! [model](model::Model) defines the possible results of each load and read, and the possible failures. The oracle
//! checks the run too, and at the end no frame may be missing.
//!
//! `CEASEFIRE_PROGRAMS` is the number of scripts, and `CEASEFIRE_SEED` the number of the first. A failing script is
//! made small and printed as text. Put into a file of `programs/`, it is part of every `cargo test` from then on.
//! `CEASEFIRE_REPLAY=FILE` runs a single file.

mod call;
mod calls;
#[path = "../common/mod.rs"]
mod common;
mod content;
mod corpus;
mod flight;
mod generate;
mod model;
mod operation;
mod plain;
mod plan;
mod run;
mod script;
mod search;
mod shrink;

use std::path::Path;
use std::rc::Rc;

use crate::call::Subject;
use crate::calls::Simulated;
#[cfg(ceasefire_sabotage)]
use crate::common::guards;
use crate::plain::{Defect, Plain};
use crate::script::Script;
#[cfg(ceasefire_sabotage)]
use crate::search::Found;
use crate::search::{attempt, number, search};

fn simulated() -> Rc<dyn Subject> {
    Rc::new(Simulated::default())
}

#[test]
fn random_programs_agree_with_the_model() {
    let count = number("CEASEFIRE_PROGRAMS").unwrap_or_else(|| ceasefire_testing::cases(300).into());
    let (tally, found) = search(count, simulated);
    if let Some(found) = found {
        panic!("{}", found.shrunk(simulated));
    }
    println!("{count} programs: {tally:?}");
    assert!(count < 100 || tally.disturbed.min(tally.reclaimed).min(tally.interrupts) > count, "{tally:?}");
    assert!(
        count < 100
            || (2 * tally.matured).min(10 * tally.stale).min(tally.broadcasts).min(tally.speculated) > count,
        "{tally:?}"
    );
    assert!(count < 100 || tally.out_of_memory * 100 < tally.accesses + tally.calls, "{tally:?}");
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_a_guard_random_programs_differ_from_the_model() {
    for guard in [guards::Engine::Settle.into(), guards::Engine::Stamp.into(), guards::Own::Slot.into()] {
        let subject = || -> Rc<dyn Subject> { Rc::new(Simulated::without(guard)) };
        let (_, found) = search(10_000, subject);
        let Found { number, failure } = found.expect("a difference within 10000 programs");
        println!("{guard:?}: program {number}: {failure}");
        assert_eq!(attempt(&generate::script(number), simulated()).map(drop), Ok(()), "with the guard");
    }
}

#[test]
fn kept_programs_agree_with_the_model() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/model/programs");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("a folder of programs")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    assert!(files.len() >= 2, "programs are kept");
    for path in files {
        replay(&path);
    }
}

#[test]
fn a_replayed_program_agrees_with_the_model() {
    if let Some(path) = std::env::var_os("CEASEFIRE_REPLAY") {
        replay(Path::new(&path));
    }
}

fn replay(path: &Path) {
    let text = std::fs::read_to_string(path).expect("a readable file");
    let script: Script = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for subject in [simulated(), Rc::new(Plain::default())] {
        if let Err(failure) = attempt(&script, subject) {
            panic!("{}: {failure}", path.display());
        }
    }
}

#[test]
fn a_plain_memory_agrees_with_the_model() {
    let subject = || -> Rc<dyn Subject> { Rc::new(Plain::default()) };
    // A tenth of the programs: only the model can change the result.
    let count =
        number("CEASEFIRE_PROGRAMS").unwrap_or_else(|| ceasefire_testing::cases(3000).into()).div_ceil(10);
    let (tally, found) = search(count, subject);
    if let Some(found) = found {
        panic!("{}", found.shrunk(subject));
    }
    println!("{count} programs: {tally:?}");
    assert!(count < 100 || tally.disturbed > count && 2 * tally.forks > count, "{tally:?}");
}

#[test]
fn every_defect_of_a_plain_memory_is_found() {
    let defects = [
        Defect::LostStore,
        Defect::SharedAfterFork,
        Defect::DiscardLeavesOne,
        Defect::UnmapLeavesOne,
        Defect::RemapLosesOne,
        Defect::ProtectKeepsStores,
        Defect::TruncateKeepsBytes,
        Defect::FreedComesBack,
        Defect::WriteStopsEarly,
        Defect::FreedStoreKeepsHalf,
    ];
    for defect in defects {
        let (_, found) = search(1000, || Rc::new(Plain::with(defect)));
        let found = found.unwrap_or_else(|| panic!("{defect:?} is not found"));
        println!("{defect:?}: program {}: {}", found.number, found.failure);
    }
}

#[test]
fn a_failure_is_made_small_and_can_be_replayed() {
    let subject = || -> Rc<dyn Subject> { Rc::new(Plain::with(Defect::RemapLosesOne)) };
    let found = search(1000, subject).1.expect("found");
    let (script, _) = found.smallest(subject);
    assert!(script.steps.len() <= 6, "{script}");
    let again: Script = script.to_string().parse().expect("text of a script");
    assert!(attempt(&again, subject()).is_err());
}
