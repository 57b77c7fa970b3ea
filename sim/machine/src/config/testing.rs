//! Directories for tests.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// A new directory, removed when dropped.
pub(super) struct TempDir(PathBuf);

impl TempDir {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ceasefire-config-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = env::temp_dir().join(name);
        fs::create_dir_all(&path).expect("the temporary directory can be written");
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes `text` to the file called `name`, and creates its directories.
    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("the temporary directory can be written");
        }
        fs::write(path, text).expect("the temporary directory can be written");
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        // At worst the directory is left behind. A second panic here would hide the first.
        let _ = fs::remove_dir_all(&self.0);
    }
}
