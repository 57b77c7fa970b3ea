//! The width of the terminal, and the lines that fit it.

use std::io::{stdout, IsTerminal as _};

use terminal_size::{terminal_size_of, Width};
use textwrap::{Options, WordSplitter};

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

/// How text is broken into lines: between words, and never within a name such as `1-socket`. The first line begins with
/// `first`, the others with `rest`.
pub(crate) fn lines<'a>(width: usize, first: &'a str, rest: &'a str) -> Options<'a> {
    let options = Options::new(width).word_splitter(WordSplitter::NoHyphenation);
    options.initial_indent(first).subsequent_indent(rest)
}
