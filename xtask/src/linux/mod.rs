//! `cargo xtask linux`: the series of `ports/linux/` on Linux's own sources, in QEMU.
//!
//! `source` fetches Debian's sources of Linux and applies the series to a second copy. `build` makes a kernel of each,
//! with one configuration. `guest` boots one and runs a program in it. `compare` boots stock and lazy in turn and counts.
//! `guards` runs the selftest, with each guard of the series taken away in turn. `suites` runs the tests of others.

mod build;
mod compare;
mod guards;
mod guest;
pub(crate) mod source;
mod suites;

use compare::Load;
use guest::{Boot, Guest};

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
    /// With the series, and with the configuration of the stock kernel.
    Off,
    /// With the series, and `CONFIG_LAZY_UNMAP`.
    Lazy,
    /// The same with `CONFIG_DEBUG_LAZY_UNMAP`.
    Debug,
}

impl Kernel {
    const ALL: [Self; 4] = [Self::Stock, Self::Off, Self::Lazy, Self::Debug];

    /// Those of which one must do as well as the other.
    const COMPARED: [Self; 2] = [Self::Stock, Self::Lazy];

    /// What its configuration has beyond that of the stock kernel.
    fn options(self) -> &'static str {
        match self {
            Self::Stock | Self::Off => "",
            Self::Lazy => "CONFIG_LAZY_UNMAP=y\n",
            Self::Debug => "CONFIG_LAZY_UNMAP=y\nCONFIG_DEBUG_LAZY_UNMAP=y\n",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Off => "off",
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
    Boot(Boot),
    /// Runs the selftest for so many seconds, and then without each guard.
    Test(u32),
    /// Runs Linux's own tests, and stress-ng.
    Suites,
    /// Boots each kernel so often with each of these loads.
    Compare(u32, Vec<Load>),
}

/// What a boot by hand is asked for. Without a command it is a shell, which ends at once.
fn boot(mut arguments: &[&str]) -> Result<Boot, Failure> {
    let (mut nodes, mut parameters) = (Nodes::Alike, "");
    loop {
        match arguments {
            ["--tiers", rest @ ..] => {
                nodes = Nodes::Tiers;
                arguments = rest;
            }
            ["--append", given, rest @ ..] => {
                parameters = given;
                arguments = rest;
            }
            ["--append"] => return Err(Failure::usage("`--append` needs parameters of the kernel")),
            [unknown, ..] if unknown.starts_with('-') => {
                return Err(Failure::usage(format!(
                    "`linux boot` has no option `{unknown}`; known: --tiers and --append"
                )));
            }
            [name, command @ ..] => {
                let kernel = Kernel::ALL.into_iter().find(|kernel| kernel.name() == *name);
                let kernel = kernel.ok_or_else(|| {
                    Failure::usage(format!("unknown kernel `{name}`; known: stock, off, lazy and debug"))
                })?;
                let command = if command.is_empty() { "sh".to_owned() } else { command.join(" ") };
                return Ok(Boot { nodes, parameters: parameters.to_owned(), ..Boot::new(kernel, &command) });
            }
            [] => return Err(Failure::usage("`linux boot` needs a kernel: stock, off, lazy or debug")),
        }
    }
}

impl Options {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, Failure> {
        match arguments {
            [] => Err(Failure::usage("`linux` needs one of: fetch, build, boot, test, suites, compare")),
            ["fetch"] => Ok(Self::Fetch),
            ["build"] => Ok(Self::Build),
            ["boot", arguments @ ..] => Ok(Self::Boot(boot(arguments)?)),
            ["test"] => Ok(Self::Test(60)),
            ["test", seconds] => Ok(Self::Test(number(seconds, "seconds")?)),
            ["suites"] => Ok(Self::Suites),
            ["compare"] => Ok(Self::Compare(5, Load::ALL.to_vec())),
            ["compare", boots] => Ok(Self::Compare(number(boots, "boots")?, Load::ALL.to_vec())),
            ["compare", boots, names @ ..] => {
                let loads = names.iter().map(|name| Load::of(name)).collect::<Result<_, _>>()?;
                Ok(Self::Compare(number(boots, "boots")?, loads))
            }
            ["fetch" | "build" | "test" | "suites", .., surplus] => {
                Err(Failure::usage(format!("`linux {}`: surplus argument `{surplus}`", arguments[0])))
            }
            [unknown, ..] => Err(Failure::usage(format!(
                "`linux` has no `{unknown}`; known: fetch, build, boot, test, suites and compare"
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
        Options::Boot(boot) => {
            let guest = Guest::make(&workspace, &[boot.kernel], None)?;
            print!("{}", guest.run(boot)?);
            Ok(())
        }
        Options::Test(seconds) => guards::run(&workspace, *seconds),
        Options::Suites => suites::run(&workspace),
        Options::Compare(boots, loads) => compare::run(&workspace, *boots, loads),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_wrong_ones_are_usage_errors() {
        assert_eq!(Options::parse(&["compare", "3"]).unwrap(), Options::Compare(3, Load::ALL.to_vec()));
        assert_eq!(
            Options::parse(&["compare", "3", "demote"]).unwrap(),
            Options::Compare(3, vec![Load::of("demote").unwrap()])
        );
        let boot = ["boot", "--append", "nosmp", "--tiers", "lazy", "cat", "/proc/version"];
        assert_eq!(
            Options::parse(&boot).unwrap(),
            Options::Boot(Boot {
                kernel: Kernel::Lazy,
                nodes: Nodes::Tiers,
                parameters: "nosmp".to_owned(),
                command: "cat /proc/version".to_owned(),
            })
        );
        for wrong in [
            &[][..],
            &["mend"],
            &["boot"],
            &["boot", "new"],
            &["boot", "--append"],
            &["boot", "--tiers"],
            &["boot", "--tier", "lazy"],
            &["compare", "3", "all"],
            &["test", "0"],
            &["compare", "many"],
            &["fetch", "all"],
            &["suites", "10"],
        ] {
            assert_eq!(Options::parse(wrong).unwrap_err().code(), 2, "{wrong:?}");
        }
        let typo = Options::parse(&["boot", "--tier", "lazy"]).unwrap_err();
        assert!(typo.to_string().contains("no option `--tier`"), "{typo}");
    }
}
