//! `ceasefire completions` and `ceasefire man`: what a shell and a manual need to know, from the definition of the
//! arguments.

use std::io::{self, Write as _};

use clap::Command as Clap;
use clap_complete::{generate, Shell};
use clap_mangen::Man;

use crate::args::{groups, Arguments};
use crate::failure::{Done, Failure};
use crate::stdout::print;

/// Prints the completions of a shell.
pub(crate) fn completions(shell: Shell) -> Done {
    let mut text = Vec::new();
    generate(shell, &mut Arguments::definition(), "ceasefire", &mut text);
    print(&String::from_utf8_lossy(&text))
}

/// Prints the manual page: the command itself, and then each of its commands.
pub(crate) fn page() -> Done {
    let text = rendered().map_err(|error| Failure::writing("the manual page", &error))?;
    print(&String::from_utf8_lossy(&text))
}

fn rendered() -> io::Result<Vec<u8>> {
    let mut whole = Arguments::definition();
    whole.build();
    let mut text = Vec::new();
    let page = Man::new(whole.clone());
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    synopsis(&whole, &mut text)?;
    page.render_description_section(&mut text)?;
    for command in groups(&whole).flat_map(|(_, commands)| commands) {
        let part = Man::new(command.clone());
        let mut sections = Vec::new();
        part.render_description_section(&mut sections)?;
        part.render_synopsis_section(&mut sections)?;
        part.render_options_section(&mut sections)?;
        let sections = String::from_utf8_lossy(&sections).replace(".SH ", ".SS ");
        text.extend(
            format!(".SH THE COMMAND {}\n{sections}", command.get_name().to_uppercase()).into_bytes(),
        );
    }
    page.render_version_section(&mut text)?;
    Ok(text)
}

/// A line for each command, by groups.
fn synopsis(whole: &Clap, text: &mut Vec<u8>) -> io::Result<()> {
    writeln!(text, ".SH SYNOPSIS")?;
    for (heading, commands) in groups(whole) {
        writeln!(text, ".SS {heading}")?;
        for command in commands {
            let usage = command.clone().render_usage().to_string();
            let usage = usage.trim_start_matches("Usage:").split_whitespace().collect::<Vec<_>>().join(" ");
            writeln!(text, "{}\n.br", usage.replace('-', "\\-"))?;
        }
    }
    Ok(())
}
