//! Files of guests: folders, scripts, and the archive that a kernel unpacks when it starts.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{self, Failure};

/// Packs a folder as the kernel unpacks it.
pub(crate) fn pack(root: &Path, busybox: &Path, into: &Path) -> Result<(), Failure> {
    let names = failure::output(Command::new("find").arg(".").current_dir(root))?.stdout;
    let archive = File::create(into).map_err(|error| unwritten(into, &error))?;
    let mut command = Command::new(busybox);
    command.args(["cpio", "-o", "-H", "newc"]).current_dir(root).stdin(Stdio::piped()).stdout(archive);
    let failed = |error: &std::io::Error| Failure::new(format!("cannot pack {}: {error}", root.display()));
    let mut packing = command.spawn().map_err(|error| failed(&error))?;
    let written = packing.stdin.take().map_or(Ok(()), |mut input| input.write_all(&names));
    let ended = packing.wait().map_err(|error| failed(&error))?;
    written.map_err(|error| failed(&error))?;
    ended.success().then_some(()).ok_or_else(|| Failure::new(format!("cannot pack {}", root.display())))
}

pub(crate) fn make(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| unwritten(folder, &error))
}

pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes).map_err(|error| unwritten(path, &error))
}

pub(crate) fn copy(from: &Path, to: &Path) -> Result<(), Failure> {
    fs::copy(from, to).map(|_| ()).map_err(|error| unwritten(to, &error))
}

/// Writes a script that can be executed.
pub(crate) fn program(path: &Path, text: &str) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt as _;
    write(path, text.as_bytes())?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(|error| unwritten(path, &error))
}

pub(crate) fn unwritten(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write {}: {error}", path.display()))
}

/// Makes an empty disk, which takes up no room before something is written to it.
pub(crate) fn disk(path: &Path, bytes: u64) -> Result<(), Failure> {
    let made = File::create(path).and_then(|file| file.set_len(bytes));
    made.map_err(|error| unwritten(path, &error))
}
