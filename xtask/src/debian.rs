//! Debian's packages that the machine lacks, or has in an older version: fetched by apt from the machine's own mirror and
//! unpacked below `target/`. Nothing is installed, so the packages of another release do no harm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{self, ensure, At as _, Failure};
use crate::guests;

/// Unpacks the packages that `fetch` puts into a folder. What an earlier, unfinished call left is replaced.
pub(crate) fn unpack(
    into: &Path,
    suites: &[&str],
    fetch: impl FnOnce(&Apt, &Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let begun = into.with_extension("begun");
    for left in [into, &begun] {
        let _ = fs::remove_dir_all(left);
    }
    let packages = begun.join("packages");
    guests::make(&packages.join("partial"))?;
    let apt = Apt::new(&begun.join("apt"), suites)?;
    failure::run(&mut apt.get(&["update"]))?;
    fetch(&apt, &packages)?;
    guests::unpack_all(&packages, &begun)?;
    for done in [packages, begun.join("apt")] {
        let _ = fs::remove_dir_all(done);
    }
    // Whole, or not there.
    fs::rename(&begun, into).at(into)
}

/// apt with lists and caches of its own.
pub(crate) struct Apt {
    folder: PathBuf,
}

impl Apt {
    fn new(folder: &Path, suites: &[&str]) -> Result<Self, Failure> {
        for part in ["lists/partial", "cache/archives/partial"] {
            guests::make(&folder.join(part))?;
        }
        let list = ["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"];
        let known = failure::stdout(Command::new("apt-get").args(list))?;
        let mirror = mirror(&known);
        ensure!(mirror.is_some(), new, "apt knows no mirror of Debian: {}", guests::add_suite(suites[0]));
        let mirror = mirror.unwrap_or_default();
        let sources: Vec<String> =
            suites.iter().map(|suite| format!("deb {mirror} {suite} main\n")).collect();
        let file = folder.join("sources.list");
        fs::write(&file, sources.concat()).at(&file)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Fetches packages of the newest suite.
    pub(crate) fn download<'a>(
        &self,
        names: impl IntoIterator<Item = &'a str>,
        into: &Path,
    ) -> Result<(), Failure> {
        failure::run(self.get(&["download"]).args(names).current_dir(into))
    }

    /// Fetches packages of a suite, and all that the machine lacks of what they need.
    pub(crate) fn download_all(&self, names: &[&str], suite: &str, into: &Path) -> Result<(), Failure> {
        let mut command = self.get(&["install", "--download-only", "--no-install-recommends", "--yes"]);
        command.args(["-o", &format!("Dir::Cache::Archives={}", into.display())]);
        // Whoever installs nothing need not be root.
        command.args(["-o", "Debug::NoLocking=true", "--target-release", suite]);
        failure::run(command.args(names))
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

/// The names of packages in a package's field of dependencies; of alternatives the first.
pub(crate) fn depends(package: &Path) -> Result<Vec<String>, Failure> {
    let field = failure::stdout(Command::new("dpkg-deb").arg("--field").arg(package).arg("Depends"))?;
    Ok(names(&field).map(str::to_owned).collect())
}

fn names(depends: &str) -> impl Iterator<Item = &str> {
    depends.split(',').filter_map(|one| one.split_whitespace().next())
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
