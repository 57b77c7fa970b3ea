//! The arguments of `sanitize`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct SanitizeArguments {
    /// The symbols of the guest's kernel: its vmlinux, its System.map, or what its /proc/kallsyms shows
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel: Option<PathBuf>,
    /// A kernel that is known: leaves out what it does on purpose, with the reason, and follows the frames that it frees
    #[arg(long, value_name = "KERNEL", requires = "kernel")]
    pub(crate) preset: Vec<Preset>,
    /// The same, by the rules of a file
    #[arg(long, value_name = "FILE", requires = "kernel")]
    pub(crate) suppress: Vec<PathBuf>,
    /// Show a report that was kept, with other symbols or rules
    #[arg(long, value_name = "FILE", conflicts_with_all = ["output", "plugin", "command"])]
    pub(crate) read: Option<PathBuf>,
    /// Keep the report that is written while the guest runs, with a line of JSON for each find
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write an HTML page with the events of each find
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// The plugin [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) plugin: Option<PathBuf>,
    /// QEMU and its arguments
    #[arg(last = true, required_unless_present = "read", value_name = "QEMU")]
    pub(crate) command: Vec<OsString>,
}

/// A kernel whose habits are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    Linux,
    GnuMach,
    Ostd,
    Xen,
}

impl Preset {
    /// Its rules, as a file for `--suppress` has them.
    pub(crate) fn rules(self) -> &'static str {
        match self {
            Self::Linux => include_str!("../sanitize/linux.toml"),
            Self::GnuMach => include_str!("../sanitize/gnu-mach.toml"),
            Self::Ostd => include_str!("../sanitize/ostd.toml"),
            Self::Xen => include_str!("../sanitize/xen.toml"),
        }
    }
}
