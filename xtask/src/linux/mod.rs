//! `cargo xtask linux`: the series of `linux-lazy/` on Linux's own sources, in QEMU.
//!
//! `source` fetches Debian's sources of Linux and applies the series to a second copy. `build` makes a kernel of each,
//! with one configuration. `guest` boots one and runs a program in it. `compare` boots stock and lazy in turn and counts.
//! `guards` runs the selftest, with each guard of the series taken away in turn.

mod build;
mod compare;
mod guards;
mod guest;
mod source;

use crate::failure::Failure;
use crate::guests::Nodes;
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
    /// The same with `CONFIG_DEBUG_LAZY_UNMAP`.
    Debug,
}

impl Kernel {
    const ALL: [Self; 3] = [Self::Stock, Self::Lazy, Self::Debug];

    /// What its configuration has beyond that of the stock kernel.
    fn options(self) -> &'static str {
        match self {
            Self::Stock => "",
            Self::Lazy => "CONFIG_LAZY_UNMAP=y\n",
            Self::Debug => "CONFIG_LAZY_UNMAP=y\nCONFIG_DEBUG_LAZY_UNMAP=y\n",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Lazy => "lazy",
            Self::Debug => "debug",
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
    /// Runs the selftest for so many seconds, and then without each guard.
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
                let unknown =
                    || Failure::usage(format!("unknown kernel `{name}`; known: stock, lazy and debug"));
                let command = command.iter().map(|word| (*word).to_owned()).collect();
                Ok(Self::Boot(kernel.ok_or_else(unknown)?, command))
            }
            ["boot"] => Err(Failure::usage("`linux boot` needs a kernel: stock, lazy or debug")),
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
            let guest = guest::Guest::make(&workspace, &[*kernel])?;
            print!("{}", guest.run(*kernel, &command, Nodes::Alike)?);
            Ok(())
        }
        Options::Test(seconds) => guards::run(&workspace, *seconds),
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
