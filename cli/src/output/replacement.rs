//! Files that are written whole or not at all.
//!
//! A file is written beside its place and takes the place when it is complete. So a run that is interrupted, or that
//! fails, leaves the file of an earlier run as it was. Pipes and devices are written directly.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, TempPath};

use super::interrupt;
use crate::failure::{Done, Failure};

/// The place of a file that can be written.
#[derive(Debug)]
pub(crate) struct Place {
    /// The name as the user gave it.
    shown: String,
    target: Target,
}

#[derive(Debug)]
enum Target {
    /// A regular file, existing or not.
    File(PathBuf),
    /// A pipe or a device.
    Direct(File),
}

impl Place {
    /// Checks that the file can be written, and leaves it as it is. Called before the runs, so a wrong path fails at
    /// once.
    pub(crate) fn check(path: &Path) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        match Self::find(path) {
            Ok(target) => Ok(Self { shown, target }),
            Err(error) => Err(Failure::writing(shown, &error)),
        }
    }

    fn find(path: &Path) -> io::Result<Target> {
        if path.to_string_lossy().ends_with(std::path::is_separator) {
            return Err(io::Error::new(
                io::ErrorKind::IsADirectory,
                "it is the name of a folder, not of a file",
            ));
        }
        match fs::metadata(path) {
            Ok(found) if found.is_file() => {
                OpenOptions::new().write(true).open(path)?;
            }
            Ok(_) => return Ok(Target::Direct(OpenOptions::new().write(true).open(path)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let path = followed(path)?;
        beside(&path)?;
        Ok(Target::File(path))
    }

    /// Replaces the file's contents.
    pub(crate) fn write(self, bytes: &[u8]) -> Done {
        let Self { shown, target } = self;
        let written = match target {
            Target::Direct(mut file) => file.write_all(bytes),
            Target::File(path) => beside(&path).and_then(|mut file| {
                file.write_all(bytes)?;
                take_place(file.into_temp_path(), &path)
            }),
        };
        written.map_err(|error| Failure::writing(shown, &error))
    }

    /// Opens the file for a run that writes it bit by bit before the eyes of a reader. Its former contents are gone.
    pub(crate) fn open(self) -> Result<File, Failure> {
        match self.target {
            Target::Direct(file) => Ok(file),
            Target::File(path) => File::create(path).map_err(|error| Failure::writing(self.shown, &error)),
        }
    }

    /// Gives the path to which a run writes the file, bit by bit.
    pub(crate) fn stream(self) -> Result<Stream, Failure> {
        let Self { shown, target } = self;
        let begun = match target {
            Target::Direct(_) => Ok(None),
            Target::File(path) => beside(&path).map(|file| Some((file.into_temp_path(), path))),
        };
        match begun {
            Ok(begun) => {
                if let Some((beside, _)) = &begun {
                    interrupt::remove_if_interrupted(beside);
                }
                Ok(Stream { shown, begun })
            }
            Err(error) => Err(Failure::writing(shown, &error)),
        }
    }
}

/// A file that a run writes.
#[derive(Debug)]
pub(crate) struct Stream {
    shown: String,
    /// The file beside the place, and the place. `None` for a pipe or a device.
    begun: Option<(TempPath, PathBuf)>,
}

impl Stream {
    /// The path to write to.
    pub(crate) fn path(&self) -> &Path {
        self.begun.as_ref().map_or(Path::new(&self.shown), |(beside, _)| beside)
    }

    /// Puts the complete file in its place.
    pub(crate) fn finish(self) -> Done {
        let Some((beside, path)) = self.begun else { return Ok(()) };
        take_place(beside, &path).map_err(|error| Failure::writing(self.shown, &error))
    }

    /// The same for a recording, which cannot be made again: a former file is kept as `NAME.old`, as `perf record` does.
    /// Returns the file's name, with that of the former one.
    pub(crate) fn finish_beside_former(self) -> Result<String, Failure> {
        let shown = self.shown.clone();
        let former = self.begun.as_ref().map(|(_, path)| path).filter(|path| {
            // An empty one is a mere name, such as that of `mktemp`.
            fs::metadata(path).is_ok_and(|found| found.len() > 0)
        });
        let Some(former) = former else { return self.finish().map(|()| shown) };
        let mut old = former.clone().into_os_string();
        old.push(".old");
        fs::rename(former, &old).map_err(|error| Failure::writing(old.display(), &error))?;
        self.finish()?;
        Ok(format!("{shown} (the former one: {})", old.display()))
    }
}

/// The path that a chain of symbolic links leads to, whether something is there or not. The links of `/dev/stdout` and
/// `/dev/fd` to pipes lead to no path.
pub(super) fn followed(path: &Path) -> io::Result<PathBuf> {
    // Linux follows as many links.
    const MOST_LINKS: u32 = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        path = folder(&path).join(next);
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// The folder of a file.
pub(super) fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a file beside another, with its extension, that is removed unless it takes that file's place.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let suffix = path.extension().map_or(String::new(), |suffix| format!(".{}", suffix.to_string_lossy()));
    let mut builder = Builder::new();
    builder.prefix(".ceasefire-").suffix(&suffix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // As any new file; the user's mask applies.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let folder = folder(path);
    if let Err(error) = fs::metadata(folder) {
        return Err(match error.kind() {
            io::ErrorKind::NotFound => {
                io::Error::new(error.kind(), format!("there is no folder {}", folder.display()))
            }
            _ => error,
        });
    }
    // The error's own text has the name of the file beside, which says nothing to the user.
    builder.tempfile_in(folder).map_err(|error| error.kind().into())
}

/// Moves a complete file to its place, with the permissions of the file there.
fn take_place(beside: TempPath, path: &Path) -> io::Result<()> {
    if let Ok(existing) = fs::metadata(path) {
        fs::set_permissions(&beside, existing.permissions())?;
    }
    beside.persist(path).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_file_keeps_its_contents_until_the_new_ones_are_complete() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out.json");
        fs::write(&path, "old").expect("writable");
        let place = Place::check(&path).expect("writable");
        assert_eq!(names(folder.path()), ["out.json"], "nothing lies beside it during the runs");
        assert_eq!(fs::read_to_string(&path).expect("readable"), "old");
        place.write(b"new").expect("writable");
        assert_eq!(
            (fs::read_to_string(&path).expect("readable"), names(folder.path()).len()),
            ("new".into(), 1)
        );
    }

    #[test]
    fn a_stream_that_is_not_finished_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.pftrace");
        for finish in [false, true] {
            let stream = Place::check(&path).and_then(Place::stream).expect("writable");
            assert_eq!(stream.path().extension(), path.extension());
            fs::write(stream.path(), "trace").expect("writable");
            assert!(!path.exists());
            if finish {
                stream.finish().expect("writable");
            } else {
                drop(stream);
            }
            assert_eq!(names(folder.path()).len(), usize::from(finish));
        }
        assert_eq!(fs::read_to_string(&path).expect("readable"), "trace");
    }

    #[test]
    fn a_former_file_is_kept_if_it_is_wanted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("recording.parquet");
        fs::write(&path, "").expect("writable");
        for (text, keeps_former) in [("first", true), ("second", true), ("third", true), ("fourth", false)] {
            let stream = Place::check(&path).and_then(Place::stream).expect("writable");
            fs::write(stream.path(), text).expect("writable");
            if keeps_former {
                let told = stream.finish_beside_former().expect("writable");
                let old = format!("{} (the former one: {}.old)", path.display(), path.display());
                assert_eq!(told, if text == "first" { path.display().to_string() } else { old });
            } else {
                stream.finish().expect("writable");
            }
        }
        let texts = ["recording.parquet", "recording.parquet.old"]
            .map(|name| fs::read_to_string(folder.path().join(name)).expect("readable"));
        assert_eq!((texts, names(folder.path()).len()), (["fourth".to_owned(), "second".to_owned()], 2));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        use std::os::unix::fs::{symlink, PermissionsExt as _};
        let folder = tempfile::tempdir().expect("a folder");
        let (link, path) = (folder.path().join("link"), folder.path().join("real"));
        symlink("real", &link).expect("a link");
        Place::check(&link).expect("writable").write(b"first").expect("writable");
        assert_eq!(fs::read_to_string(&path).expect("readable"), "first");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("own file");
        Place::check(&link).expect("writable").write(b"second").expect("writable");
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o640);
        symlink("circle", folder.path().join("circle")).expect("a link");
        assert!(Place::check(&folder.path().join("circle")).is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_under_the_name_of_its_descriptor_is_written_directly() {
        use std::io::Read as _;
        use std::os::fd::AsRawFd as _;
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let place = Place::check(format!("/dev/fd/{}", writer.as_raw_fd()).as_ref()).expect("writable");
        drop(writer);
        place.write(b"text").expect("writable");
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("readable");
        assert_eq!(text, "text");
    }

    #[test]
    fn a_place_that_cannot_be_written_is_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, reason) in [("", "folder"), ("new/", "folder, not of a file"), ("none/out", "no folder")] {
            match Place::check(&folder.path().join(name)) {
                Err(Failure::Input(message)) => assert!(message.contains(reason), "{message}"),
                other => panic!("{name}: {other:?}"),
            }
        }
    }
}
