//! Texts as workload files. The fuzzer in `check/fuzz/` searches for one that is not read as it must be, and those that it kept
//! are read with every `cargo test`.

use ceasefire_experiments::Experiment;

/// Reads a text as a workload file.
///
/// # Panics
/// If an error has more than one line or names no place, or if two variants have one name.
pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Experiment::variants_in("f.toml", text) {
        Err(error) => {
            let line = error.to_string();
            assert!(!line.contains('\n') && line.starts_with("f.toml"), "{line}");
            let lines = text.lines().count().max(1) as u32 + 1;
            assert!(
                error.line.is_some_and(|line| (1..=lines).contains(&line)) || error.key.is_some(),
                "{line}"
            );
        }
        Ok(mut names) => {
            let count = names.len();
            assert!(count > 0);
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{names:?}");
        }
    }
}

#[test]
fn kept_texts_are_read_or_refused_in_one_line() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/workload-files");
    let files: Vec<_> =
        std::fs::read_dir(folder).expect("texts").map(|entry| entry.expect("an entry").path()).collect();
    assert!(!files.is_empty(), "texts are kept");
    for file in files {
        println!("{}", file.display());
        check(&std::fs::read(&file).expect("a text"));
    }
}
