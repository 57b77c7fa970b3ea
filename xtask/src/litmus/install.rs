//! herd7 where the machine has none: Debian's package `herdtools7` of the suite `sid` with the libraries that it needs,
//! fetched by apt from the machine's own mirror and unpacked below `target/`. Nothing is installed, so the C library of
//! another release does no harm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{self, ensure, At as _, Failure};
use crate::guests;

const PACKAGE: &str = "herdtools7";
const SUITE: &str = "sid";

/// Fetches and unpacks the package into a folder. What an earlier, unfinished call left is replaced.
pub(super) fn install(folder: &Path) -> Result<(), Failure> {
    let begun = folder.with_extension("begun");
    for left in [folder, &begun] {
        let _ = fs::remove_dir_all(left);
    }
    let packages = begun.join("packages");
    guests::make(&packages)?;
    let apt = Apt::new(&begun.join("apt"))?;
    failure::run(&mut apt.get(&["update"]))?;
    failure::run(apt.get(&["download", PACKAGE]).current_dir(&packages))?;
    let archive = guests::file(&packages, "*.deb")?;
    let depends = failure::stdout(Command::new("dpkg-deb").arg("--field").arg(archive).arg("Depends"))?;
    failure::run(apt.get(&["download"]).args(names(&depends)).current_dir(&packages))?;
    guests::unpack_all(&packages, &begun)?;
    for done in [packages, begun.join("apt")] {
        let _ = fs::remove_dir_all(done);
    }
    // Whole, or not there.
    fs::rename(&begun, folder).at(folder)
}

/// The names of packages in a field of dependencies; of alternatives the first.
fn names(depends: &str) -> impl Iterator<Item = &str> {
    depends.split(',').filter_map(|one| one.split_whitespace().next())
}

/// apt with lists and caches of its own.
struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(folder: &Path) -> Result<Self, Failure> {
        for part in ["lists/partial", "cache/archives/partial"] {
            guests::make(&folder.join(part))?;
        }
        let list = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"];
        let known = failure::stdout(Command::new("apt-get").args(list))?;
        let mirror = mirror(&known);
        ensure!(mirror.is_some(), new, "apt knows no mirror of Debian: {}", guests::add_suite(SUITE));
        let source = format!("deb {} {SUITE} main\n", mirror.unwrap_or_default());
        let file = folder.join("sources.list");
        fs::write(&file, source).at(&file)?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn get(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("apt-get");
        let folder = self.folder.display();
        for option in [
            format!("Dir::Etc::SourceList={folder}/sources.list"),
            "Dir::Etc::SourceParts=/dev/null".to_owned(),
            format!("Dir::State::Lists={folder}/lists"),
            format!("Dir::Cache={folder}/cache"),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        ] {
            command.arg("-o").arg(option);
        }
        command.arg("-q").args(arguments);
        command
    }
}

/// Debian's mirror among the addresses of package lists: the one whose path is `debian`.
fn mirror(addresses: &str) -> Option<&str> {
    addresses.lines().find(|address| address.trim_end_matches('/').ends_with("/debian"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_that_of_the_whole_distribution() {
        let known = "mirror://a/debian-security/\nmirror://a/debian/\nmirror://b/other\n";
        assert_eq!(mirror(known), Some("mirror://a/debian/"));
        assert_eq!(mirror("mirror://a/ubuntu/\n"), None);
    }

    #[test]
    fn of_a_dependency_the_name_is_taken() {
        let depends = "libc6 (>= 2.42), libgmp10 (>= 2:6.3.0+dfsg) | libgmp11\n";
        assert_eq!(names(depends).collect::<Vec<_>>(), ["libc6", "libgmp10"]);
    }
}
