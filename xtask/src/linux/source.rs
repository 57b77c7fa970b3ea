//! Linux's sources: two copies, one of them with the series, of which both `lazy` and `debug` are made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Kernel, VERSION};
use crate::failure::{self, Failure};
use crate::guests;
use crate::workspace::Workspace;

/// The folder of a kernel's sources.
pub(super) fn folder(workspace: &Workspace, kernel: Kernel) -> PathBuf {
    let copy = if kernel == Kernel::Stock { Kernel::Stock } else { Kernel::Lazy };
    workspace.target.join("linux").join(copy.name()).join("source")
}

/// The patches of the series, in their order.
pub(super) fn series(workspace: &Workspace) -> Result<Vec<PathBuf>, Failure> {
    let folder = workspace.root.join("linux-lazy/series");
    let unread = |error: &std::io::Error| Failure::new(format!("{}: {error}", folder.display()));
    let mut patches = Vec::new();
    for entry in fs::read_dir(&folder).map_err(|error| unread(&error))? {
        let path = entry.map_err(|error| unread(&error))?.path();
        if path.extension().is_some_and(|extension| extension == "patch") {
            patches.push(path);
        }
    }
    patches.sort();
    Ok(patches)
}

/// Fetches the sources and applies the series to one copy of them. What an earlier call left is replaced.
pub(super) fn fetch(workspace: &Workspace) -> Result<(), Failure> {
    let package = format!("linux-source-{VERSION}");
    let known =
        failure::stdout(Command::new("apt-cache").args(["search", "--names-only", &format!("^{package}$")]))?;
    if known.is_empty() {
        return Err(Failure::new(format!(
            "apt knows no package {package}: add Debian's suite `sid` to its sources, or to those of a configuration \
             that APT_CONFIG names, and run `apt-get update`"
        )));
    }
    let unpacked = workspace.target.join("linux/package");
    let _ = fs::remove_dir_all(&unpacked);
    guests::unpack(&[package], &unpacked)?;
    let archive = guests::file(&unpacked, "*/linux-source-*.tar.xz")?;
    for kernel in [Kernel::Stock, Kernel::Lazy] {
        let folder = folder(workspace, kernel);
        let _ = fs::remove_dir_all(&folder);
        guests::make(&folder)?;
        let mut tar = Command::new("tar");
        failure::run(tar.arg("xf").arg(&archive).args(["--strip-components", "1", "-C"]).arg(&folder))?;
    }
    apply(workspace, &folder(workspace, Kernel::Lazy))
}

/// Applies the series. Each patch must fit without a shift, and satisfy Linux's own check of style.
fn apply(workspace: &Workspace, source: &Path) -> Result<(), Failure> {
    for patch in series(workspace)? {
        let mut apply = Command::new("patch");
        apply.args(["-p1", "--fuzz=0", "--no-backup-if-mismatch", "--input"]).arg(&patch).current_dir(source);
        failure::run(&mut apply)?;
        let mut check = Command::new("scripts/checkpatch.pl");
        // The series has no sign-off and no entry in MAINTAINERS: both are for the person that posts it.
        check.args(["--no-tree", "--no-signoff", "--terse", "--ignore", "FILE_PATH_CHANGES"]).arg(&patch);
        failure::run(check.current_dir(source))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_adds_the_selftest_that_runs_by_itself() {
        let workspace = Workspace::load().unwrap();
        let name = "selftest/lazy_unmap.c";
        let alone = fs::read_to_string(workspace.root.join("linux-lazy").join(name)).unwrap();
        let last = series(&workspace).unwrap().pop().expect("there are patches");
        let patch = fs::read_to_string(last).unwrap();
        let (_, file) =
            patch.split_once("+++ b/tools/testing/selftests/mm/lazy_unmap.c\n").expect("it is added");
        let added = file.lines().skip(1).map_while(|line| line.strip_prefix('+'));
        assert!(added.eq(alone.lines()), "{name} and the series differ");
    }
}
