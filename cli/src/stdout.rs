//! Writing to standard output.

use std::io::{self, Write as _};

use crate::failure::{Done, Failure};

/// Writes a text to standard output and flushes it.
pub(crate) fn print(text: &str) -> Done {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| Failure::writing("standard output", &error))
}
