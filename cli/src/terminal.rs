//! The width of the terminal, and the lines that fit it.

use std::env;
use std::io::stdout;

use terminal_size::{terminal_size_of, Width};
use textwrap::{Options, WordSplitter};

/// The width of a text that is no terminal's, in characters.
const USUAL: usize = 80;
/// The least width that tables have room for.
const LEAST: usize = 40;

/// The width for text on standard output: that of the variable COLUMNS, or else the terminal's.
pub(crate) fn width() -> usize {
    let asked = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let of_terminal = || terminal_size_of(stdout()).map(|(Width(width), _)| usize::from(width));
    asked.filter(|width| *width > 0).or_else(of_terminal).map_or(USUAL, |width| width.max(LEAST))
}

/// How text is broken into lines: between words, and never within a name such as `1-socket`. The first line begins with
/// `first`, the others with `rest`.
pub(crate) fn lines<'a>(width: usize, first: &'a str, rest: &'a str) -> Options<'a> {
    let options = Options::new(width).word_splitter(WordSplitter::NoHyphenation);
    options.initial_indent(first).subsequent_indent(rest)
}
