//! The width of the terminal.

use std::io::{stdout, IsTerminal as _};

use terminal_size::{terminal_size_of, Width};

/// The width of a text that is no terminal's, in characters.
const USUAL: usize = 80;
/// The least width that tables have room for.
const LEAST: usize = 40;

/// The width for text on standard output.
pub(crate) fn width() -> usize {
    if !stdout().is_terminal() {
        return USUAL;
    }
    terminal_size_of(stdout()).map_or(USUAL, |(Width(width), _)| usize::from(width).max(LEAST))
}
