//! The build of the kernel and its programs, for a machine without an operating system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::arch::Arch;
use super::options::MOST_CPUS;
use crate::failure::{self, Failure};
use crate::workspace::{Variant, Workspace};

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
    ensure_target(workspace, target)?;
    let line = format!("build --profile checked --package ceasefire-kernel --package ceasefire-kernel-programs --target {target}");
    let mut command =
        if sabotaged { workspace.variant(Variant::Sabotage, &line) } else { workspace.cargo(&line) };
    failure::run(sized(&mut command))?;
    // The next build of another variant replaces the images.
    let kept =
        workspace.target.join("kernel").join(target).join(if sabotaged { "sabotaged" } else { "guarded" });
    let built = workspace.target.join(target).join("checked");
    let keep = |name: &str| {
        let copy = kept.join(name);
        let copied = fs::create_dir_all(&kept).and_then(|()| fs::copy(built.join(name), &copy));
        copied.map(|_| copy).map_err(|error| Failure::new(format!("{}: {error}", kept.display())))
    };
    Ok(Images { kernel: keep("ceasefire-kernel")?, programs: keep("programs")? })
}

/// Has the engine built for as many CPUs as the kernel uses at most, which the kernel asserts.
pub(crate) fn sized(command: &mut Command) -> &mut Command {
    command.env("CEASEFIRE_MAX_CPUS", MOST_CPUS.to_string())
}

/// Installs the target, unless the compiler has a library for it, from any source.
pub(crate) fn ensure_target(workspace: &Workspace, target: &str) -> Result<(), Failure> {
    let mut ask = Command::new("rustc");
    ask.args(["--print", "target-libdir", "--target", target]).current_dir(&workspace.root);
    if Path::new(failure::stdout(&mut ask)?.trim()).is_dir() {
        return Ok(());
    }
    failure::run(Command::new("rustup").args(["target", "add", target]))
}
