//! The build of the kernel and its programs, for a machine without an operating system.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::arch::Arch;
use crate::failure::{self, Failure};
use crate::workspace::Workspace;

/// The images that the machine boots.
pub(super) struct Images {
    pub(super) kernel: PathBuf,
    pub(super) programs: PathBuf,
}

/// Builds both, after installing the target if it is missing.
pub(super) fn build(workspace: &Workspace, arch: Arch) -> Result<Images, Failure> {
    let target = arch.target();
    if !has_target(workspace, target)? {
        install_target(target)?;
    }
    let packages = "--package ceasefire-kernel --package ceasefire-kernel-programs";
    quietly(&mut workspace.cargo(&format!("build --profile checked {packages} --target {target}")))?;
    let folder = workspace.target.join(target).join("checked");
    Ok(Images { kernel: folder.join("ceasefire-kernel"), programs: folder.join("programs") })
}

/// Whether the compiler has a library for the target, from any source.
fn has_target(workspace: &Workspace, target: &str) -> Result<bool, Failure> {
    let mut ask = Command::new("rustc");
    ask.args(["--print", "target-libdir", "--target", target]).current_dir(&workspace.root);
    Ok(Path::new(failure::stdout(&mut ask)?.trim()).is_dir())
}

fn install_target(target: &str) -> Result<(), Failure> {
    if Command::new("rustup").arg("--version").output().is_err() {
        return Err(Failure::new(format!(
            "Rust's target {target} is missing, and so is rustup, which would add it"
        )));
    }
    quietly(Command::new("rustup").args(["target", "add", target]))
}

/// Runs the command without using standard output, which may be for JSON.
fn quietly(command: &mut Command) -> Result<(), Failure> {
    eprintln!("==> {}", failure::line(command));
    failure::stdout(command).map(|_| ())
}
