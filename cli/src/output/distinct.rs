//! The check that no two options name the same file, whose last writer would overwrite the others.

use std::fs;
use std::path::{Path, PathBuf};

use super::replacement::{folder, followed};
use crate::failure::{Done, Failure};

/// Refuses different options that name the same file, even by different paths or through links. Pipes and devices may
/// be named repeatedly.
pub(crate) fn distinct<'a>(options: impl IntoIterator<Item = (&'static str, Option<&'a Path>)>) -> Done {
    let mut seen: Vec<(&str, File)> = Vec::new();
    for (option, path) in options {
        let Some((path, file)) = path.and_then(|path| Some((path, file(path)?))) else { continue };
        if let Some((earlier, _)) = seen.iter().find(|(earlier, other)| *other == file && *earlier != option)
        {
            return Err(Failure::Input(format!(
                "{earlier} and {option} name the same file: {}",
                path.display()
            )));
        }
        seen.push((option, file));
    }
    Ok(())
}

/// A file that exists or could be created.
#[derive(Debug, PartialEq, Eq)]
enum File {
    /// The device and number of one that exists: all its names are the same file.
    #[cfg(unix)]
    Existing(u64, u64),
    /// The canonical path of another.
    At(PathBuf),
}

/// The file at a path; `None` for anything else.
fn file(path: &Path) -> Option<File> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => None,
        #[cfg(unix)]
        Ok(found) => {
            use std::os::unix::fs::MetadataExt as _;
            Some(File::Existing(found.dev(), found.ino()))
        }
        _ => {
            let path = followed(path).ok()?;
            Some(File::At(folder(&path).canonicalize().ok()?.join(path.file_name()?)))
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_name_of_a_file_is_the_same_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        symlink("new", path("to-new")).expect("a link");
        symlink("to-new", path("to-link")).expect("a link");
        fs::write(path("old"), "").expect("writable");
        fs::hard_link(path("old"), path("hard")).expect("a link");
        symlink("old", path("soft")).expect("a link");
        let same = |one: &str, other: &str| {
            distinct([("--json", Some(path(one).as_path())), ("--html", Some(path(other).as_path()))])
                .is_err()
        };
        for (one, other) in [("new", "to-new"), ("to-link", "to-new"), ("old", "hard"), ("soft", "hard")] {
            assert!(same(one, other), "{one} and {other}");
        }
        assert!(!same("new", "old") && !same("to-new", "soft"));
        let (_reader, writer) = std::io::pipe().expect("a pipe");
        let pipe = format!("/dev/fd/{}", writer.as_raw_fd());
        for repeated in ["/dev/null", &pipe] {
            let path = Some(Path::new(repeated));
            assert!(distinct([("--json", path), ("--html", path)]).is_ok(), "{repeated}");
        }
    }
}
