//! `cargo xtask linux`: the series of `ports/linux/` on Linux's own sources, in QEMU.
//!
//! `source` fetches Debian's sources of Linux, applies patches to copies, and builds kernels. `guest` boots one and runs a
//! program in it. `matrix` counts what loads cost on each kernel, and `evening` does so on machines of others. `fixes` shows
//! what stock Linux does while it owes a flush, and that the fixes end it. `oom` looks when the OOM killer comes. `guards`
//! runs the selftest of the series, with each guard taken away in turn. `suites` runs the tests of others. `sanitize` looks
//! whether the sanitizer finds historic bugs, those of Linux, and guards that are missing.

mod evening;
mod fixes;
mod guards;
mod guest;
mod matrix;
mod oom;
mod sanitize;
pub(crate) mod source;
mod suites;

use std::path::PathBuf;

use clap::value_parser;

use crate::failure::Failure;
use crate::one_of;
use crate::workspace::Workspace;
use guest::{Boot, Guest};
use matrix::Matrix;
use sanitize::Case;

/// The version of Linux that the series is for.
const VERSION: &str = "7.2";

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kernel {
    name: &'static str,
    /// What its configuration has beyond that of the stock kernel.
    options: &'static str,
}

/// As Debian has it.
const STOCK: Kernel = Kernel { name: "stock", options: "" };
/// With the fixes of ports/linux/fixes.
const FIXED: Kernel = Kernel { name: "fixed", options: "" };
/// With the series on top of the fixes, and with the configuration of the stock kernel.
const OFF: Kernel = Kernel { name: "off", options: "" };
/// With the series, and `CONFIG_LAZY_UNMAP`.
const LAZY: Kernel = Kernel { name: "lazy", options: "CONFIG_LAZY_UNMAP=y\n" };
/// The same, and the kernel checks itself, and has switches for its guards.
const DEBUG: Kernel = Kernel { name: "debug", options: "CONFIG_LAZY_UNMAP=y\nCONFIG_DEBUG_LAZY_UNMAP=y\n" };
/// With the bugs of ports/linux/bugs, and what their loads need beyond the stock kernel.
const BUGS: Kernel = Kernel {
    name: "bugs",
    options: "CONFIG_NUMA_EMU=y\nCONFIG_HUGETLBFS=y\nCONFIG_CHECKPOINT_RESTORE=y\nCONFIG_MEM_SOFT_DIRTY=y\n",
};
/// As Debian has it, with the mails of a folder.
const MAILS: Kernel = Kernel { name: "mails", options: "" };

const KERNELS: &[Kernel] = &[STOCK, FIXED, OFF, LAZY, DEBUG, BUGS, MAILS];
/// Those of which each must do as well as the first.
const COMPARED: [Kernel; 3] = [STOCK, FIXED, LAZY];

impl Kernel {
    /// Whether it has lazy unmap.
    fn is_lazy(self) -> bool {
        self.options.contains("CONFIG_LAZY_UNMAP=y")
    }
}

/// What is to be done.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Options {
    /// Fetches the sources of Linux 7.2, and applies the fixes and the series of ports/linux/ to copies.
    Fetch,
    /// Builds kernels with the series and without; or `mails`, a kernel with the patches of a folder.
    Build {
        /// Mails of a series for Linux 7.2 as Debian has it, and perhaps a file `config` with the options that it needs.
        folder: Option<PathBuf>,
    },
    /// Runs a command in a guest; needs Debian's `qemu-system-x86`, `busybox-static` and `e2fsprogs`.
    Boot(Boot),
    /// Changes what is at an address for which reclaim owes a flush: CPUs use the old page on stock, and not with the fixes.
    Fixes {
        /// The changes of each kind.
        #[arg(default_value_t = 100, value_parser = value_parser!(u32).range(1..=1_000_000))]
        changes: u32,
    },
    /// Fills memory: the OOM killer must come where it comes on the stock kernel.
    Oom,
    /// Runs the series' own test on it, and then without each guard.
    Test {
        #[arg(default_value_t = 60, value_parser = value_parser!(u32).range(1..=86_400))]
        seconds: u32,
    },
    /// Runs Linux's own tests of memory management and stress-ng on the stock kernel and another.
    Suites {
        #[arg(default_value = LAZY.name, value_parser = one_of(KERNELS, |kernel| kernel.name))]
        kernel: Kernel,
    },
    /// Counts what loads cost on the stock kernel and on others: instructions of the kernel, and TLB interrupts.
    Matrix(Matrix),
    /// Packs what counts and times such loads on a real machine; or prints the table of what it has written there.
    Evening { file: Option<PathBuf> },
    /// Tries what the sanitizer finds: historic bugs, Linux's own, and what happens without the guards of the series.
    Sanitize {
        /// The seconds of a load, at most.
        #[arg(long, default_value_t = 120, value_parser = value_parser!(u32).range(1..=86_400))]
        seconds: u32,
        /// The runs [default: all].
        #[arg(value_parser = one_of(&Case::ALL, |case| case.name))]
        cases: Vec<Case>,
    },
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    match options {
        Options::Fetch => source::fetch(&workspace),
        Options::Build { folder: None } => {
            let mut ours = KERNELS.iter().filter(|kernel| **kernel != MAILS);
            ours.try_for_each(|kernel| source::build(&workspace, *kernel, kernel.options))
        }
        Options::Build { folder: Some(folder) } => source::build_mails(&workspace, folder),
        Options::Boot(boot) => {
            let guest = Guest::make(&workspace, &[boot.kernel], None)?;
            print!("{}", guest.run(boot)?);
            Ok(())
        }
        Options::Fixes { changes } => fixes::run(&workspace, *changes),
        Options::Oom => oom::run(&workspace),
        Options::Test { seconds } => guards::run(&workspace, *seconds),
        Options::Suites { kernel } => suites::run(&workspace, *kernel),
        Options::Matrix(matrix) => matrix::run(&workspace, matrix),
        Options::Evening { file: None } => evening::pack(&workspace),
        Options::Evening { file: Some(file) } => evening::print(file),
        Options::Sanitize { seconds, cases } => {
            sanitize::run(&workspace, *seconds, if cases.is_empty() { &Case::ALL } else { cases })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_after_a_kernel_are_the_command() {
        let boot: Boot = crate::parse("--append nosmp --tiers lazy cat -n /proc/version").unwrap();
        let expected = Boot {
            kernel: LAZY,
            tiers: true,
            parameters: "nosmp".to_owned(),
            command: ["cat", "-n", "/proc/version"].map(str::to_owned).into(),
            ..Boot::new(LAZY, "")
        };
        assert_eq!(boot, expected);
        assert_eq!(crate::parse::<Boot>("stock").unwrap(), Boot::new(STOCK, "sh"));
    }
}
