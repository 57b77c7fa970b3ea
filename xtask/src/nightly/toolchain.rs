//! The nightly toolchain, whose date is pinned: another one may print other things or fail otherwise.

use std::process::Command;

use crate::failure::{self, Failure};
use crate::workspace::Workspace;

const NIGHTLY: &str = "nightly-2026-05-20";
const COMPONENTS: [&str; 2] = ["miri", "rust-src"];

/// The target for which the standard library is built anew.
pub(super) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Installs the toolchain where it is missing.
pub(super) fn ensure() -> Result<(), Failure> {
    let list = ["component", "list", "--installed", "--toolchain", NIGHTLY];
    let installed = Command::new("rustup").args(list).output();
    let installed = installed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let has = |component: &&str| {
        installed.as_ref().is_ok_and(|list| list.lines().any(|line| line.starts_with(component)))
    };
    if COMPONENTS.iter().all(has) {
        return Ok(());
    }
    let mut install = Command::new("rustup");
    install.args(["toolchain", "install", NIGHTLY, "--profile", "minimal"]);
    for component in COMPONENTS {
        install.args(["--component", component]);
    }
    failure::run(&mut install)
}

/// A command of the nightly cargo. It builds in a folder of its own, since its results are of no use to others.
pub(super) fn cargo(workspace: &Workspace, line: &str) -> Command {
    let mut command = workspace.cargo(&format!("+{NIGHTLY} {line}"));
    command.env("CARGO_TARGET_DIR", workspace.target.join("nightly"));
    command
}
