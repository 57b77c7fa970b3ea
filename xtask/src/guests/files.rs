//! Files of guests: folders, scripts, and the archive that a kernel unpacks when it starts.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{self, ensure, At as _, Failure};

/// Packs a folder as the kernel unpacks it.
pub(crate) fn pack(root: &Path, busybox: &Path, into: &Path) -> Result<(), Failure> {
    let names = failure::output(Command::new("find").arg(".").current_dir(root))?.stdout;
    let archive = File::create(into).at(into)?;
    let mut command = Command::new(busybox);
    command.args(["cpio", "-o", "-H", "newc"]).current_dir(root).stdin(Stdio::piped()).stdout(archive);
    let mut packing = command.spawn().at(busybox)?;
    let written = packing.stdin.take().map_or(Ok(()), |mut input| input.write_all(&names));
    let status = packing.wait().at(busybox)?;
    written.at(into)?;
    ensure!(status.success(), new, "cannot pack {}: {status}", root.display());
    Ok(())
}

pub(crate) fn make(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).at(folder)
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::copy(from, to).map(|_| ()).at(to)
}

/// Writes a script that can be executed.
pub(crate) fn program(path: &Path, text: &str) -> Result<(), Failure> {
    let mode = fs::Permissions::from_mode(0o755);
    fs::write(path, text).and_then(|()| fs::set_permissions(path, mode)).at(path)
}

/// Makes an empty disk, which takes up no room before something is written to it.
pub(crate) fn disk(path: &Path, bytes: u64) -> Result<(), Failure> {
    File::create(path).and_then(|file| file.set_len(bytes)).at(path)
}

/// What a folder holds.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).at(folder)?;
    entries.map(|entry| Ok(entry.at(folder)?.path())).collect()
}
