//! The kernels of Debian that guests run, as the machine's own package manager has them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::make;
use crate::failure::{self, At as _, Failure};

/// The kernels: the version, and the suite in which Debian has it.
pub(super) const KERNELS: &[(&str, &str)] =
    &[("6.1", "bookworm"), ("6.12", "bookworm-backports"), ("7.2", "sid")];

/// The modules without which a guest has no disks, in the order in which they are loaded. Newer kernels have some of
/// them built in.
const MODULES: [&str; 6] =
    ["virtio", "virtio_ring", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk"];

/// Fetches packages by their names and unpacks them into a folder.
pub(crate) fn unpack(packages: &[String], into: &Path) -> Result<(), Failure> {
    let folder = into.join("packages");
    make(&folder)?;
    failure::run(Command::new("apt-get").args(["--quiet", "download"]).args(packages).current_dir(&folder))?;
    unpack_all(&folder, into)
}

/// Unpacks the packages that lie in a folder into another.
pub(crate) fn unpack_all(packages: &Path, into: &Path) -> Result<(), Failure> {
    for file in find(packages, "*.deb")? {
        failure::output(Command::new("dpkg").arg("-x").arg(file).arg(into))?;
    }
    Ok(())
}

/// The packages of the newest kernel of a version. Since 6.17 Debian has the image and the modules apart.
pub(super) fn packages(version: &str, suite: &str) -> Result<Vec<String>, Failure> {
    let pattern = format!("^linux-(image|binary)-{}[.0-9]*[-+].*cloud-amd64$", version.replace('.', "[.]"));
    let mut search = Command::new("sh");
    // A line for each, with the release and the kind.
    let sorted =
        r#"apt-cache search --names-only "$0" | sed -E 's/ .*//; s/^linux-([a-z]+)-(.*)/\2 \1/' | sort -V"#;
    let found = failure::stdout(search.args(["-c", sorted, &pattern]))?;
    let mut lines = found.lines().filter(|line| is_of(line, version));
    let newest = lines.next_back().and_then(|line| line.split(' ').next());
    let release = newest
        .ok_or_else(|| Failure::new(format!("apt knows no cloud kernel {version}: {}", add_suite(suite))))?;
    let is_apart = found.lines().any(|line| line == format!("{release} binary"));
    let parts: &[_] = if is_apart { &["binary", "modules"] } else { &["image"] };
    Ok(parts.iter().map(|part| format!("linux-{part}-{release}")).collect())
}

/// What to do where apt does not know a package.
pub(crate) fn add_suite(suite: &str) -> String {
    format!(
        "add Debian's suite `{suite}` to its sources, or to those of a configuration that APT_CONFIG names, and run \
         `apt-get update`"
    )
}

/// Whether a release is of a version: 6.12.95 is not of 6.1.
fn is_of(release: &str, version: &str) -> bool {
    release.strip_prefix(version).is_some_and(|rest| rest.starts_with(['.', '-', '+']))
}

/// A file of unpacked packages, by a pattern of its path.
pub(crate) fn file(unpacked: &Path, pattern: &str) -> Result<PathBuf, Failure> {
    let found = find(unpacked, pattern)?.into_iter().next();
    found.ok_or_else(|| Failure::new(format!("the packages in {} have no {pattern}", unpacked.display())))
}

/// The modules of a guest, uncompressed, in a folder.
pub(super) fn modules(unpacked: &Path, into: &Path) -> Result<(), Failure> {
    make(into)?;
    for (number, name) in MODULES.iter().enumerate() {
        let Some(module) = find(unpacked, &format!("*/{name}.ko*"))?.into_iter().next() else { continue };
        let target = into.join(format!("{number}-{name}.ko"));
        let bytes = match module.extension() {
            Some(extension) if extension == "xz" => {
                failure::output(Command::new("xz").args(["-dc"]).arg(&module))?.stdout
            }
            _ => fs::read(&module).at(&module)?,
        };
        fs::write(&target, bytes).at(&target)?;
    }
    Ok(())
}

/// The files in a folder and below whose paths match a pattern.
fn find(folder: &Path, pattern: &str) -> Result<Vec<PathBuf>, Failure> {
    let found = failure::stdout(Command::new("find").arg(folder).args(["-type", "f", "-path", pattern]))?;
    Ok(found.lines().map(PathBuf::from).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_of_the_version_that_it_begins_with() {
        assert!(is_of("6.1.0-44-cloud-amd64", "6.1") && is_of("6.12.117+deb12-cloud-amd64", "6.12"));
        assert!(is_of("7.2+deb14-cloud-amd64", "7.2"));
        assert!(!is_of("6.12.117+deb12-cloud-amd64", "6.1") && !is_of("16.1.0-cloud-amd64", "6.1"));
    }
}
