//! The tools that steps need, installed where they are missing with the ordinary clients.

use std::env;
use std::process::Command;

use crate::failure::{self, Failure};

/// rustfmt and clippy.
pub(super) fn components() -> Result<(), Failure> {
    if ["fmt", "clippy"].iter().all(|tool| succeeds(Command::new("cargo").args([tool, "--version"]))) {
        return Ok(());
    }
    failure::run(Command::new("rustup").args(["component", "add", "rustfmt", "clippy"]))
}

/// A Python that can make virtual environments, which Debian packs separately.
pub(super) fn python() -> Result<(), Failure> {
    if succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"])) {
        return Ok(());
    }
    install("python3-venv")
}

/// A program of a Debian package.
pub(super) fn debian(program: &str, package: &str) -> Result<(), Failure> {
    let folders = env::var_os("PATH").unwrap_or_default();
    if env::split_paths(&folders).any(|folder| folder.join(program).is_file()) {
        return Ok(());
    }
    install(package)
}

fn install(package: &str) -> Result<(), Failure> {
    let apt = |arguments: &[&str]| {
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
        let mut command = Command::new(if is_root { "apt-get" } else { "sudo" });
        if !is_root {
            command.arg("apt-get");
        }
        failure::run(command.args(arguments))
    };
    apt(&["update", "-q"])?;
    apt(&["install", "-qy", "--no-install-recommends", package])
}

fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
