//! The arguments of `sanitize`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct SanitizeArguments {
    /// The symbols of the guest's kernel: its vmlinux, its System.map, or what its /proc/kallsyms shows
    #[arg(long, value_name = "FILE")]
    pub(crate) kernel: Option<PathBuf>,
    /// Keep the report that is written while the guest runs, with a line of JSON for each find
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The plugin [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    pub(crate) plugin: Option<PathBuf>,
    /// QEMU and its arguments
    #[arg(last = true, required = true, value_name = "QEMU")]
    pub(crate) command: Vec<OsString>,
}
