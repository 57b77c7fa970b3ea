//! A text on standard output, named `-`, or in a file.

use std::path::Path;

use serde_json::Value;

use super::replacement::Place;
use crate::failure::{Done, Failure};
use crate::stdout::print;

/// The destination of a text.
pub(crate) enum Text {
    /// Standard output, which then holds nothing else.
    Printed,
    /// A file.
    File(Place),
}

impl Text {
    /// The destination that a path names. Called before the work, so a wrong path fails at once.
    pub(crate) fn check(path: &Path) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Printed);
        }
        Place::check(path).map(Self::File)
    }
}

/// The file that a path names; none for standard output.
pub(crate) fn file(path: Option<&Path>) -> Option<&Path> {
    path.filter(|path| *path != Path::new("-"))
}

/// Refuses standard output for what only a file can hold.
pub(crate) fn is_file(option: &str, path: Option<&Path>) -> Done {
    if path == Some(Path::new("-")) {
        return Err(Failure::Input(format!("{option} writes to a file, not to standard output")));
    }
    Ok(())
}

/// Writes results: as JSON if that has a destination, and in words unless the JSON is on standard output.
pub(crate) fn write(
    json: Option<Text>,
    value: impl FnOnce() -> Value,
    words: impl FnOnce() -> String,
) -> Done {
    match json {
        None => print(&words()),
        Some(Text::Printed) => print(&format!("{:#}\n", value())),
        Some(Text::File(place)) => {
            Failure::both(place.write(format!("{:#}\n", value()).as_bytes()), print(&words()))
        }
    }
}
