//! The library packages must contain all that a reader of a package needs.
//!
//! Cargo packages only files below a crate's folder, so each library has copies of the licences.

use crate::failure::{self, Failure};
use crate::workspace::Workspace;

/// The packages that kernels depend on, or test with.
const PACKAGES: [&str; 3] = ["ceasefire", "ceasefire-memory", "ceasefire-conformance"];

/// The files that each package must contain.
const FILES: [&str; 4] = ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// Lists every file that a package lacks.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let mut problems = Vec::new();
    for package in PACKAGES {
        let line = format!("package --quiet --offline --allow-dirty --list --package {package}");
        let list = failure::stdout(&mut workspace.cargo(&line))?;
        problems.extend(missing(&list).map(|file| format!("\n{package}: {file} is not in the package")));
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("packages:{}", problems.concat())))
}

/// The files that a list of cargo's lacks.
fn missing(list: &str) -> impl Iterator<Item = &'static str> + '_ {
    FILES.into_iter().filter(move |file| !list.lines().any(|line| line == *file))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    #[test]
    fn a_missing_file_is_named() {
        let list = "Cargo.toml\nCHANGELOG.md\nLICENSE-APACHE\ndocs/README.md\nsrc/lib.rs\n";
        assert_eq!(missing(list).collect::<Vec<_>>(), ["README.md", "LICENSE-MIT"]);
    }

    #[test]
    fn the_packages_have_the_licences_of_the_root() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for folder in ["engine", "memory", "check/conformance"] {
            for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
                let read = |folder: &str| fs::read(root.join(folder).join(licence)).unwrap();
                assert_eq!(read(folder), read("."), "{folder}/{licence}");
            }
        }
    }
}
