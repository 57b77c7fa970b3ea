//! The build of the kernel and its programs, for a machine without an operating system.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::arch::Arch;
use super::options::MOST_CPUS;
use crate::failure::{self, Failure};
use crate::workspace::Workspace;

/// The images that the machine boots.
pub(super) struct Images {
    pub(super) kernel: PathBuf,
    pub(super) programs: PathBuf,
}

/// Both builds of the images that the machine boots.
pub(super) struct Builds {
    pub(super) guarded: Images,
    /// Guards can be removed from it.
    pub(super) sabotaged: Images,
}

/// Makes both builds.
pub(super) fn build_both(workspace: &Workspace, arch: Arch) -> Result<Builds, Failure> {
    Ok(Builds { guarded: build(workspace, arch, false)?, sabotaged: build(workspace, arch, true)? })
}

/// Builds the images, after installing the target where it is missing; `sabotaged` so that guards can be removed.
pub(super) fn build(workspace: &Workspace, arch: Arch, sabotaged: bool) -> Result<Images, Failure> {
    let target = arch.target;
    if !has_target(workspace, target)? {
        failure::run(Command::new("rustup").args(["target", "add", target]))?;
    }
    let packages = "--package ceasefire-kernel --package ceasefire-kernel-programs";
    let line = format!("build --profile checked {packages} --target {target}");
    let (mut command, folder) = if sabotaged {
        (workspace.cargo_sabotaged(&line), workspace.sabotaged())
    } else {
        (workspace.cargo(&line), workspace.target.clone())
    };
    failure::run(sized(&mut command))?;
    let folder = folder.join(target).join("checked");
    Ok(Images { kernel: folder.join("ceasefire-kernel"), programs: folder.join("programs") })
}

/// Has the engine built for as many CPUs as the kernel uses at most, which the kernel asserts.
pub(crate) fn sized(command: &mut Command) -> &mut Command {
    command.env("CEASEFIRE_MAX_CPUS", MOST_CPUS.to_string())
}

/// Whether the compiler has a library for the target, from any source.
fn has_target(workspace: &Workspace, target: &str) -> Result<bool, Failure> {
    let mut ask = Command::new("rustc");
    ask.args(["--print", "target-libdir", "--target", target]).current_dir(&workspace.root);
    Ok(Path::new(failure::stdout(&mut ask)?.trim()).is_dir())
}
