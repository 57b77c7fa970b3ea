//! Bytes as recordings of other programs, and as formats of events with records. The fuzzer in `check/fuzz/` searches for some
//! that are not read as they must be, and those that it kept are read with every `cargo test`.

use std::io::{Cursor, Write as _};
use std::path::Path;

use ceasefire::Schedule;
use ceasefire_linux::events::{Decoder, Lookup};
use ceasefire_linux::import::{import, Kallsyms};
use ceasefire_linux::kernel::symbols::Symbols;
use ceasefire_linux::recording::Recording;
use ceasefire_linux::replay::{replay, Mechanism};
use ceasefire_linux::tracefs::Format;

/// The symbols of the machine that recorded the files from which the fuzzer began.
const KALLSYMS: &str = include_str!("../recordings/import/kallsyms");

/// Imports bytes, and replays the recording.
///
/// # Panics
/// If an error has more than one line, or if a recording that an import made cannot be opened or replayed.
pub(crate) fn check_import(bytes: &[u8]) {
    let kallsyms = Kallsyms { given: Some(KALLSYMS), running: None };
    match import(Cursor::new(bytes.to_vec()), Vec::new(), kallsyms, vec!["test".into()], Vec::new()) {
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        Ok(imported) => {
            let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
            file.write_all(&imported.recorded.to).expect("room");
            let mut recording = Recording::open(file.path()).unwrap_or_else(|error| panic!("{error}"));
            let mechanisms = [Mechanism::new(Schedule::PerPage, false), Mechanism::new(Schedule::Lazy, true)];
            if let Err(error) = replay(&mut recording, &mechanisms) {
                assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}

/// Reads the text before the first zero as the format of an event, and the rest as one of its records.
///
/// # Panics
/// If an error has more than one line, or if a field is read that the record does not have.
pub(crate) fn check_format(bytes: &[u8]) {
    let (text, record) = bytes.split_at(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
    let Ok(text) = std::str::from_utf8(text) else { return };
    let record = record.get(1..).unwrap_or_default();
    for system in ["tlb", "csd", "syscalls", "sched", "lock", "migrate", "irq_vectors"] {
        let format = match Format::parse(system, text) {
            Ok(format) => format,
            Err(error) => {
                assert!(!error.to_string().contains('\n'), "{error}");
                return;
            }
        };
        for field in format.arguments() {
            let rest = field.rest(record);
            assert!(field.bytes(record).is_none_or(|bytes| rest.is_some_and(|rest| rest.starts_with(bytes))));
            assert!(rest.is_some_and(|rest| !rest.is_empty()) || field.value(record).is_none(), "{field:?}");
        }
        format.words("reason");
        match Decoder::of_formats(&[format]) {
            Ok(Some(decoder)) => {
                decoder.event(0, 0, record, &mut Lookup::new(Symbols::parse(KALLSYMS)));
            }
            Ok(None) => {}
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
}

fn each(folder: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(folder);
    let files: Vec<_> =
        std::fs::read_dir(folder).expect("inputs").map(|entry| entry.expect("an entry").path()).collect();
    assert!(!files.is_empty(), "inputs are kept");
    for file in files {
        println!("{}", file.display());
        check(&std::fs::read(&file).expect("an input"));
    }
}

#[test]
fn kept_imports_are_read_or_refused_in_one_line() {
    each("imports", check_import);
}

#[test]
fn kept_formats_are_read_or_refused_in_one_line() {
    each("formats", check_format);
}
