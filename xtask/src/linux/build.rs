//! A kernel, from one configuration for all.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;

use super::{source, Kernel};
use crate::failure::{self, ensure, At as _, Failure};
use crate::guests;
use crate::workspace::Workspace;

/// The image below the folder of objects.
const IMAGE: &str = "arch/x86/boot/bzImage";

/// The image of a kernel that [`run`] has made.
pub(super) fn image(workspace: &Workspace, kernel: Kernel) -> Result<PathBuf, Failure> {
    let image = objects(workspace, kernel).join(IMAGE);
    ensure!(image.is_file(), new, "the {} kernel is missing: `cargo xtask linux build`", kernel.name);
    Ok(image)
}

fn objects(workspace: &Workspace, kernel: Kernel) -> PathBuf {
    workspace.target.join("linux").join(kernel.name).join("build")
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
    let wanted = fs::read_to_string(&file).at(&file)?;
    let path = objects.join(".config");
    let tiny = fs::read_to_string(&path).at(&path)?;
    // The last line of an option counts.
    fs::write(&path, format!("{tiny}{wanted}{}", kernel.options)).at(&path)?;
    failure::run(&mut make("olddefconfig"))?;
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    failure::run(make("bzImage").arg(format!("-j{jobs}")))
}
