//! The groups of commands, each for one kind of user.

use std::fmt::Write as _;

use clap::Command as Clap;

/// The headings, and the commands under each.
const GROUPS: [(&str, &[&str]); 4] = [
    ("This Linux machine", &["top", "record", "replay", "diff", "import", "anonymize", "calibrate"]),
    ("The simulator", &["compare", "list", "sweep", "fit"]),
    ("The engine and kernels", &["check", "sanitize"]),
    ("This command", &["completions", "man"]),
];

/// The width of the help, in characters.
const WIDTH: usize = 80;

/// The headings, with the definitions of the commands under each.
pub(crate) fn groups(whole: &Clap) -> impl Iterator<Item = (&'static str, Vec<&Clap>)> {
    GROUPS.into_iter().map(|(heading, names)| {
        (heading, names.iter().filter_map(|name| whole.find_subcommand(name)).collect())
    })
}

/// The names of all commands, in the order of the groups.
pub(crate) fn commands() -> Vec<&'static str> {
    GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect()
}

/// The template of the help: the commands by groups, and no options, which are those of `compare`.
pub(super) fn help(whole: &Clap) -> String {
    let about = whole.get_long_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!(
        "{}\n\nUsage: ceasefire COMMAND [OPTIONS]\n       ceasefire [EXPERIMENT|FILE]... [OPTIONS]  (compare)\n",
        textwrap::fill(&about, WIDTH)
    );
    for (heading, commands) in groups(whole) {
        // Writing to a string does not fail.
        let _ = write!(text, "\n{heading}:\n");
        for command in commands {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {:<13}{about}", command.get_name());
        }
    }
    text.push_str(
        "\n`ceasefire COMMAND --help` has the options of a command. --version prints the\n\
         version. Three first hours are in docs/src/start in the repository.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::super::Arguments;
    use super::*;

    #[test]
    fn every_command_is_in_one_group_and_its_line_fits_a_terminal() {
        let whole = Arguments::definition();
        let mut defined: Vec<&str> = whole.get_subcommands().map(Clap::get_name).collect();
        let mut grouped = commands();
        defined.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, defined);
        for line in help(&whole).lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
        }
    }
}
