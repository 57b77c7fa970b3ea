//! Texts as machine files. The fuzzer in `check/fuzz/` searches for one that is not read as it must be, and those that it kept
//! are read with every `cargo test`.

use std::path::Path;

use ceasefire_machine::config::{Machine, MachineError};

/// The name of the file in errors.
const FILE: &str = "f.toml";

/// Reads a text as a machine file.
///
/// # Panics
/// If an error has more than one line or names no place, if two readings differ, or if a machine that was read is not
/// sound.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // There is no such folder, so no matrix but those that are built in.
    let read = || Machine::from_toml(FILE, text, Path::new("no-such-folder"));
    match read() {
        Err(error) => check_error(&error, text),
        Ok(machine) => {
            assert_eq!(read().map(|again| again.hash()), Ok(machine.hash()), "two readings");
            check_machine(&machine);
        }
    }
}

fn check_error(error: &MachineError, text: &str) {
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    // An error in a matrix names the matrix.
    if error.file == FILE {
        let lines = text.lines().count().max(1) as u32 + 1;
        assert!(error.line.is_some_and(|line| (1..=lines).contains(&line)) || error.key.is_some(), "{line}");
    }
}

fn check_machine(machine: &Machine) {
    let cpus = machine.topology.cpu_count();
    assert!(cpus > 0 && machine.topology.nodes().iter().all(|node| node.cpus.iter().all(|cpu| *cpu < cpus)));
    assert!(machine.topology.bytes() > 0);
    let smaller = [machine.with_cpus(1), machine.with_cpus(u32::from(cpus)), machine.scaled(0.5)];
    for error in smaller.into_iter().filter_map(Result::err) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn kept_texts_are_read_or_refused_in_one_line() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/machine-files");
    let files: Vec<_> =
        std::fs::read_dir(folder).expect("texts").map(|entry| entry.expect("an entry").path()).collect();
    assert!(!files.is_empty(), "texts are kept");
    for file in files {
        println!("{}", file.display());
        check(&std::fs::read(&file).expect("a text"));
    }
}
