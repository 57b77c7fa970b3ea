//! `ceasefire completions` and `ceasefire man`: what a shell and a manual need to know, from the definition of the
//! arguments.

use clap::CommandFactory as _;
use clap_complete::{generate, Shell};
use clap_mangen::Man;

use crate::args::Arguments;
use crate::failure::{Done, Failure};
use crate::stdout::print;

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Done {
    let mut text = Vec::new();
    generate(shell, &mut Arguments::command(), "ceasefire", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Prints the manual page: the command itself, and then each of its commands.
pub(crate) fn page() -> Done {
    let mut text = Vec::new();
    let written = Man::new(Arguments::command()).render(&mut text);
    written.map_err(|error| Failure::writing("the manual page", &error))?;
    print(&String::from_utf8_lossy(&text))
}
