//! Results as JSON, in a file or on standard output.

use std::fs::{self, OpenOptions};

use serde_json::Value;

use crate::failure::{At as _, Failure};

/// The name that stands for standard output.
const PRINTED: &str = "-";

/// Whether the JSON goes to standard output, which then carries nothing else.
pub(crate) fn is_printed(file: Option<&str>) -> bool {
    file == Some(PRINTED)
}

/// Fails at once if the file cannot be written, before anything is measured. Keeps its contents.
pub(crate) fn check(file: &str) -> Result<(), Failure> {
    if is_printed(Some(file)) {
        return Ok(());
    }
    OpenOptions::new().append(true).create(true).open(file).map(|_| ()).at(file)
}

/// Writes the results.
pub(crate) fn write(file: &str, value: &Value) -> Result<(), Failure> {
    let text = format!("{value:#}\n");
    if is_printed(Some(file)) {
        print!("{text}");
        return Ok(());
    }
    fs::write(file, text).at(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_is_named() {
        let failure = check("no-such-folder/results.json").unwrap_err();
        assert!(failure.to_string().starts_with("no-such-folder/results.json: "), "{failure}");
        assert!(check(PRINTED).is_ok() && is_printed(Some(PRINTED)) && !is_printed(None));
    }
}
