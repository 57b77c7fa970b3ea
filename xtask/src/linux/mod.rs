//! `cargo xtask linux`: the series of `linux-lazy/` on Linux's own sources, in QEMU.
//!
//! `source` fetches Debian's sources of Linux and applies the series to a second copy. `build` makes a kernel of each,
//! with one configuration. `guest` boots one and runs a program in it. `compare` boots both in turn and counts.

mod build;
mod compare;
mod guest;
mod source;

use crate::failure::Failure;
use crate::workspace::Workspace;

/// The version of Linux that the series is for.
const VERSION: &str = "7.2";

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// As Debian has it.
    Stock,
    /// With the series, and `CONFIG_LAZY_UNMAP`.
    Lazy,
}

impl Kernel {
    const ALL: [Self; 2] = [Self::Stock, Self::Lazy];

    fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Lazy => "lazy",
        }
    }
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Options {
    Fetch,
    Build,
    /// Runs a command in a guest.
    Boot(Kernel, Vec<String>),
    /// Runs the selftest for so many seconds.
    Test(u32),
    /// Boots each kernel so often.
    Compare(u32),
}

impl Options {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, Failure> {
        match arguments {
            [] => Err(Failure::usage("`linux` needs one of: fetch, build, boot, test, compare")),
            ["fetch"] => Ok(Self::Fetch),
            ["build"] => Ok(Self::Build),
            ["boot", name, command @ ..] => {
                let kernel = Kernel::ALL.into_iter().find(|kernel| kernel.name() == *name);
                let unknown = || Failure::usage(format!("unknown kernel `{name}`; known: stock and lazy"));
                let command = command.iter().map(|word| (*word).to_owned()).collect();
                Ok(Self::Boot(kernel.ok_or_else(unknown)?, command))
            }
            ["boot"] => Err(Failure::usage("`linux boot` needs a kernel: stock or lazy")),
            ["test"] => Ok(Self::Test(60)),
            ["test", seconds] => Ok(Self::Test(number(seconds, "seconds")?)),
            ["compare"] => Ok(Self::Compare(5)),
            ["compare", boots] => Ok(Self::Compare(number(boots, "boots")?)),
            ["fetch" | "build" | "test" | "compare", .., surplus] => {
                Err(Failure::usage(format!("`linux {}`: surplus argument `{surplus}`", arguments[0])))
            }
            [unknown, ..] => Err(Failure::usage(format!(
                "`linux` has no `{unknown}`; known: fetch, build, boot, test and compare"
            ))),
        }
    }
}

fn number(text: &str, what: &str) -> Result<u32, Failure> {
    let found = text.parse().ok().filter(|number| (1..=86_400).contains(number));
    found.ok_or_else(|| Failure::usage(format!("`{text}` is no number of {what} from 1 to 86400")))
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    match options {
        Options::Fetch => source::fetch(&workspace),
        Options::Build => Kernel::ALL.into_iter().try_for_each(|kernel| build::run(&workspace, kernel)),
        Options::Boot(kernel, command) => {
            let command = if command.is_empty() { "sh".to_owned() } else { command.join(" ") };
            let output = guest::Guest::make(&workspace, &[*kernel])?.run(*kernel, &command, guest::MEMORY)?;
            print!("{output}");
            Ok(())
        }
        Options::Test(seconds) => compare::test(&workspace, *seconds),
        Options::Compare(boots) => compare::run(&workspace, *boots),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_are_usage_errors() {
        assert_eq!(Options::parse(&["compare", "3"]).unwrap(), Options::Compare(3));
        assert_eq!(
            Options::parse(&["boot", "lazy", "cat", "/proc/version"]).unwrap(),
            Options::Boot(Kernel::Lazy, vec!["cat".to_owned(), "/proc/version".to_owned()])
        );
        for wrong in [
            &[][..],
            &["mend"],
            &["boot"],
            &["boot", "new"],
            &["test", "0"],
            &["compare", "many"],
            &["fetch", "all"],
        ] {
            assert_eq!(Options::parse(wrong).unwrap_err().code(), 2, "{wrong:?}");
        }
    }
}
