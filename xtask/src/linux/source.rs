//! Linux's sources: copies as they are, with the fixes, with the series on top of these, with what takes its guards away, with
//! bugs, and with the mails of others; from one configuration.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use super::{Kernel, BUGS, DEBUG, FIXED, LAZY, MAILS, OFF, STOCK, VERSION};
use crate::failure::{self, ensure, At as _, Failure};
use crate::guests;
use crate::workspace::Workspace;

/// The folder of a kernel's sources.
fn folder(workspace: &Workspace, kernel: Kernel) -> PathBuf {
    let copy = if kernel == OFF { LAZY } else { kernel };
    workspace.target.join("linux").join(copy.name).join("source")
}

/// The same, if [`fetch`] has brought them.
pub(super) fn fetched(workspace: &Workspace, kernel: Kernel) -> Result<PathBuf, Failure> {
    let folder = folder(workspace, kernel);
    let is_there = folder.join("Makefile").is_file();
    ensure!(is_there, new, "the sources are missing: `cargo xtask linux fetch`");
    Ok(folder)
}

/// The mails of both series of fixes, in their order.
fn fixes(workspace: &Workspace) -> Result<Vec<PathBuf>, Failure> {
    Ok([patches(workspace, "fixes/reclaim")?, patches(workspace, "fixes/install")?].concat())
}

/// All mails: the series comes on top of the fixes.
fn mails(workspace: &Workspace) -> Result<Vec<PathBuf>, Failure> {
    Ok([fixes(workspace)?, patches(workspace, "series")?].concat())
}

/// All mails, and what takes the guards away on top of them.
fn guards(workspace: &Workspace) -> Result<Vec<PathBuf>, Failure> {
    Ok([mails(workspace)?, patches(workspace, "guards")?].concat())
}

/// The patches of a folder below `ports/linux`, in their order.
pub(super) fn patches(workspace: &Workspace, folder: &str) -> Result<Vec<PathBuf>, Failure> {
    sorted(&workspace.root.join("ports/linux").join(folder))
}

/// The patches of a folder, in their order, without their letter.
fn sorted(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut patches = guests::files(folder)?;
    let is_letter =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("0000-"));
    patches.retain(|path| path.extension().is_some_and(|extension| extension == "patch") && !is_letter(path));
    patches.sort();
    Ok(patches)
}

/// Fetches the sources, and applies the fixes, the series and the bugs to a copy each. What an earlier call left is replaced.
pub(super) fn fetch(workspace: &Workspace) -> Result<(), Failure> {
    let package = format!("linux-source-{VERSION}");
    let known =
        failure::stdout(Command::new("apt-cache").args(["search", "--names-only", &format!("^{package}$")]))?;
    ensure!(!known.is_empty(), new, "apt knows no package {package}: {}", guests::add_suite("sid"));
    let unpacked = unpacked(workspace);
    let _ = fs::remove_dir_all(&unpacked);
    guests::unpack(&[package], &unpacked)?;
    for (kernel, patches) in [
        (STOCK, Vec::new()),
        (FIXED, fixes(workspace)?),
        (LAZY, mails(workspace)?),
        (DEBUG, guards(workspace)?),
        (BUGS, patches(workspace, "bugs")?),
    ] {
        copy_with(workspace, kernel, &patches)?;
    }
    check_style(workspace, &folder(workspace, STOCK))
}

/// Makes the sources of a kernel, with patches, from the package that [`fetch`] has brought.
fn copy_with(workspace: &Workspace, kernel: Kernel, patches: &[PathBuf]) -> Result<(), Failure> {
    let archive = guests::file(&unpacked(workspace), "*/linux-source-*.tar.xz")?;
    let folder = folder(workspace, kernel);
    let _ = fs::remove_dir_all(&folder);
    guests::make(&folder)?;
    let mut tar = Command::new("tar");
    failure::run(tar.arg("xf").arg(&archive).args(["--strip-components", "1", "-C"]).arg(&folder))?;
    fit(patches, &folder)
}

/// Where the package is unpacked.
fn unpacked(workspace: &Workspace) -> PathBuf {
    workspace.target.join("linux/package")
}

/// Applies the patches to copies of the files that they change, if [`fetch`] has brought them. Returns whether it has.
pub(crate) fn check(workspace: &Workspace) -> Result<bool, Failure> {
    let Ok(source) = fetched(workspace, STOCK) else { return Ok(false) };
    // What takes the guards away comes after all mails.
    for patches in [guards(workspace)?, patches(workspace, "bugs")?] {
        fit(&patches, &copies(workspace, &source, &patches)?)?;
    }
    check_style(workspace, &source)?;
    Ok(true)
}

/// Copies of the files that patches change, in a folder.
fn copies(workspace: &Workspace, source: &Path, patches: &[PathBuf]) -> Result<PathBuf, Failure> {
    let copies = workspace.target.join("linux/check");
    let _ = fs::remove_dir_all(&copies);
    for patch in patches {
        for file in changed(&fs::read_to_string(patch).at(patch)?) {
            let (from, to) = (source.join(file), copies.join(file));
            // Other files are added by the patches.
            if from.is_file() && !to.is_file() {
                guests::make(to.parent().unwrap_or(&copies))?;
                guests::copy(&from, &to)?;
            }
        }
    }
    Ok(copies)
}

/// The files that exist before a patch, and that it changes.
fn changed(patch: &str) -> impl Iterator<Item = &str> {
    patch.lines().filter_map(|line| line.strip_prefix("--- a/"))
}

/// Applies patches to `files`. Each must fit without a shift.
fn fit(patches: &[PathBuf], files: &Path) -> Result<(), Failure> {
    patches.iter().try_for_each(|patch| {
        let mut apply = Command::new("patch");
        apply.args(["-p1", "--force", "--fuzz=0", "--no-backup-if-mismatch", "--input"]);
        failure::run(apply.arg(patch).current_dir(files))
    })
}

/// Each mail must satisfy the check of style of the `source`.
fn check_style(workspace: &Workspace, source: &Path) -> Result<(), Failure> {
    for patch in mails(workspace)? {
        let mut check = Command::new("scripts/checkpatch.pl");
        // There is no sign-off and no entry in MAINTAINERS: both are for the person that posts it. Commits that `Fixes:` names
        // are not in the package.
        check.args([
            "--strict",
            "--no-tree",
            "--no-signoff",
            "--terse",
            "--ignore",
            "FILE_PATH_CHANGES,UNKNOWN_COMMIT_ID",
        ]);
        check.arg(patch);
        failure::run(check.current_dir(source))?;
    }
    Ok(())
}

/// The image below the folder of objects.
const IMAGE: &str = "arch/x86/boot/bzImage";

/// The image of a kernel that [`build`] has made.
pub(super) fn image(workspace: &Workspace, kernel: Kernel) -> Result<PathBuf, Failure> {
    let image = objects(workspace, kernel).join(IMAGE);
    let folder = if kernel == MAILS { " FOLDER" } else { "" };
    ensure!(image.is_file(), new, "the {} kernel is missing: `cargo xtask linux build{folder}`", kernel.name);
    Ok(image)
}

/// The symbols of a kernel.
pub(super) fn symbols(workspace: &Workspace, kernel: Kernel) -> Result<PathBuf, Failure> {
    image(workspace, kernel)?;
    Ok(objects(workspace, kernel).join("System.map"))
}

fn objects(workspace: &Workspace, kernel: Kernel) -> PathBuf {
    workspace.target.join("linux").join(kernel.name).join("build")
}

/// Builds the kernel of the mails in a folder. Its objects remain from call to call.
pub(super) fn build_mails(workspace: &Workspace, folder: &Path) -> Result<(), Failure> {
    let patches = sorted(folder)?;
    ensure!(!patches.is_empty(), new, "{} has no file *.patch", folder.display());
    let config = folder.join("config");
    let options = if config.is_file() { fs::read_to_string(&config).at(&config)? } else { String::new() };
    fetched(workspace, STOCK)?;
    copy_with(workspace, MAILS, &patches)?;
    build(workspace, MAILS, &options)
}

/// Builds a kernel, with options beyond those of all.
pub(super) fn build(workspace: &Workspace, kernel: Kernel, options: &str) -> Result<(), Failure> {
    let (source, objects) = (fetched(workspace, kernel)?, objects(workspace, kernel));
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
    fs::write(&path, format!("{tiny}{wanted}{options}")).at(&path)?;
    failure::run(&mut make("olddefconfig"))?;
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    failure::run(make("bzImage").arg(format!("-j{jobs}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_a_patch_adds_is_not_there_before() {
        let patch = "--- a/mm/rmap.c\n+++ b/mm/rmap.c\n--- /dev/null\n+++ b/mm/lazy_unmap.c\n";
        assert_eq!(changed(patch).collect::<Vec<_>>(), ["mm/rmap.c"]);
    }

    #[test]
    fn the_patches_add_the_selftests_that_run_by_themselves() {
        let workspace = Workspace::load().unwrap();
        for (name, patches) in
            [("lazy_unmap", patches(&workspace, "series")), ("owed_flush", fixes(&workspace))]
        {
            let file = format!("tools/testing/selftests/mm/{name}.c");
            let folder = workspace.target.join("selftests").join(name);
            let _ = fs::remove_dir_all(&folder);
            guests::make(&folder).unwrap();
            for patch in patches.unwrap() {
                let text = fs::read_to_string(patch).unwrap();
                // The rest changes files that are not here.
                let only = text.split("diff --git ").find(|part| part.starts_with(&format!("a/{file} ")));
                let Some(only) = only else { continue };
                let path = folder.join("one.patch");
                fs::write(&path, format!("diff --git {only}")).unwrap();
                let mut apply = Command::new("git");
                // The folder is in nobody's repository.
                apply.args(["apply", "one.patch"]).current_dir(&folder);
                failure::run(apply.env("GIT_CEILING_DIRECTORIES", &workspace.target)).unwrap();
            }
            let [alone, added] = [format!("ports/linux/selftest/{name}.c"), file].map(|name| {
                fs::read_to_string(workspace.root.join(&name))
                    .or(fs::read_to_string(folder.join(&name)))
                    .unwrap()
            });
            assert!(alone == added, "{name} and the patches differ");
        }
    }
}
