//! A kernel, from one configuration for all.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use super::{source, Kernel};
use crate::failure::{self, Failure};
use crate::guests;
use crate::workspace::Workspace;

/// The image below the folder of objects.
const IMAGE: &str = "arch/x86/boot/bzImage";

/// The image of a kernel that [`run`] has made.
pub(super) fn image(workspace: &Workspace, kernel: Kernel) -> Result<PathBuf, Failure> {
    let image = objects(workspace, kernel).join(IMAGE);
    let is_there = image.is_file();
    let missing =
        || Failure::new(format!("the {} kernel is missing: `cargo xtask linux build`", kernel.name()));
    is_there.then_some(image).ok_or_else(missing)
}

fn objects(workspace: &Workspace, kernel: Kernel) -> PathBuf {
    workspace.target.join("linux").join(kernel.name()).join("build")
}

pub(super) fn run(workspace: &Workspace, kernel: Kernel) -> Result<(), Failure> {
    let (source, objects) = (source::fetched(workspace, kernel)?, objects(workspace, kernel));
    guests::make(&objects)?;
    let make = |target: &str| {
        let mut make = Command::new("make");
        make.arg("--silent").arg("-C").arg(&source).arg(format!("O={}", objects.display())).arg(target);
        make
    };
    failure::run(&mut make("tinyconfig"))?;
    let file = workspace.root.join("ports/linux/config");
    let wanted =
        fs::read_to_string(&file).map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
    let path = objects.join(".config");
    let tiny =
        fs::read_to_string(&path).map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    // The last line of an option counts.
    guests::write(&path, format!("{tiny}{wanted}{}", kernel.options()).as_bytes())?;
    failure::run(&mut make("olddefconfig"))?;
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    failure::run(make("bzImage").arg(format!("-j{jobs}")))
}
