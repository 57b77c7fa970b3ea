//! The kernel and its programs, built for a machine without an operating system.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{self, Failure};
use crate::test::BARE_METAL;
use crate::workspace::Workspace;

/// What the machine boots.
pub(super) struct Images {
    pub(super) kernel: PathBuf,
    pub(super) programs: PathBuf,
}

/// Builds both, after installing the target where it is missing.
pub(super) fn build(workspace: &Workspace) -> Result<Images, Failure> {
    if !has_target(workspace)? {
        install_target()?;
    }
    let packages = "--package ceasefire-kernel --package ceasefire-kernel-programs";
    quietly(&mut workspace.cargo(&format!("build --profile checked {packages} --target {BARE_METAL}")))?;
    let folder = workspace.target.join(BARE_METAL).join("checked");
    Ok(Images { kernel: folder.join("ceasefire-kernel"), programs: folder.join("programs") })
}

/// Whether the compiler has a library for the target, wherever it came from.
fn has_target(workspace: &Workspace) -> Result<bool, Failure> {
    let mut ask = Command::new("rustc");
    ask.args(["--print", "target-libdir", "--target", BARE_METAL]).current_dir(&workspace.root);
    Ok(Path::new(failure::stdout(&mut ask)?.trim()).is_dir())
}

fn install_target() -> Result<(), Failure> {
    if Command::new("rustup").arg("--version").output().is_err() {
        return Err(Failure::new(format!(
            "Rust's target {BARE_METAL} is missing, and rustup too, which would add it"
        )));
    }
    quietly(Command::new("rustup").args(["target", "add", BARE_METAL]))
}

/// Runs the command and leaves standard output, which may be for JSON, alone.
fn quietly(command: &mut Command) -> Result<(), Failure> {
    eprintln!("==> {}", failure::line(command));
    failure::stdout(command).map(|_| ())
}
