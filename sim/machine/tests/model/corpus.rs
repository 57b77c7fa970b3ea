//! Scripts as bytes. The fuzzer in `check/fuzz/` searches for bytes whose script differs from the model, and those that it kept
//! run with every `cargo test`.

use std::rc::Rc;

use crate::calls::Simulated;
use crate::generate;
use crate::search::attempt;

/// Runs the script of some bytes.
///
/// # Errors
/// The difference, with the script.
pub(crate) fn run_bytes(bytes: &[u8]) -> Result<(), String> {
    let script = generate::of_bytes(bytes);
    attempt(&script, Rc::new(Simulated::default())).map(drop).map_err(|error| format!("{error}\n{script}"))
}

#[test]
fn kept_scripts_agree_with_the_model() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/programs");
    let files: Vec<_> =
        std::fs::read_dir(folder).expect("scripts").map(|entry| entry.expect("an entry").path()).collect();
    assert!(!files.is_empty(), "scripts are kept");
    for file in files {
        let bytes = std::fs::read(&file).expect("a script");
        assert_eq!(run_bytes(&bytes), Ok(()), "{}", file.display());
    }
}
