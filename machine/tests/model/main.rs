//! Random programs against a plain model of memory.
//!
//! A [script](script::Script) is a small machine and what the threads of a few programs do on it, all at once in simulated
//! time: every call there is, on few frames, so that reclaim, swap and migration go on beside all of it. The
//! [model](model::Model) says what each load and each read may return, and what may fail; beside it the oracle watches,
//! and at the end no frame may be missing.
//!
//! `CEASEFIRE_PROGRAMS` says how many scripts are tried and `CEASEFIRE_SEED` from which number on. A failure is made small
//! and printed as text: put into a file of `programs/` it is run by `cargo test` ever after, and
//! `CEASEFIRE_REPLAY=FILE` runs a file alone.

mod call;
mod calls;
#[path = "../common/mod.rs"]
mod common;
mod content;
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
use crate::common::guards::Guard;
use crate::plain::{Defect, Plain};
use crate::script::Script;
#[cfg(ceasefire_sabotage)]
use crate::search::Found;
use crate::search::{attempt, number, search};

fn simulated() -> Rc<dyn Subject> {
    Rc::new(Simulated::default())
}

#[test]
fn random_programs_find_what_the_model_says() {
    let count = number("CEASEFIRE_PROGRAMS").unwrap_or(300);
    let (tally, found) = search(count, simulated);
    if let Some(found) = found {
        panic!("{}", found.shrunk(simulated));
    }
    println!("{count} programs: {tally:?}");
    assert!(count < 100 || tally.disturbed.min(tally.reclaimed).min(tally.interrupts) > count, "{tally:?}");
    assert!(
        count < 100 || (2 * tally.matured).min(10 * tally.stale).min(tally.broadcasts) > count,
        "{tally:?}"
    );
    assert!(count < 100 || tally.out_of_memory * 100 < tally.accesses + tally.calls, "{tally:?}");
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_a_guard_random_programs_find_a_difference() {
    for guard in [Guard::Settle, Guard::Stamp, Guard::Slot] {
        let subject = || -> Rc<dyn Subject> { Rc::new(Simulated::without(guard)) };
        let (_, found) = search(10_000, subject);
        let Found { number, failure } = found.expect("a difference within 10000 programs");
        println!("{guard:?}: program {number}: {failure}");
        assert_eq!(attempt(&generate::script(number), simulated()).map(drop), Ok(()), "with the guard");
    }
}

#[test]
fn kept_programs_find_what_the_model_says() {
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
fn the_program_asked_for_finds_what_the_model_says() {
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
fn a_plain_memory_does_what_the_model_says() {
    let subject = || -> Rc<dyn Subject> { Rc::new(Plain::default()) };
    // A tenth of the programs: nothing changes here but the model.
    let count = number("CEASEFIRE_PROGRAMS").unwrap_or(3000).div_ceil(10);
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
