//! A program that stands in for QEMU in tests.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

/// A shell script in a file of its own, which is removed on drop.
pub(super) struct Script(PathBuf);

impl Script {
    /// Writes the script through another process. If the test's own process had the file open for writing, a process
    /// that another test starts at that moment would inherit it, and the file could not be run.
    pub(super) fn new(text: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("ceasefire-qemu-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = env::temp_dir().join(name);
        let mut writer = Command::new("sh")
            .args(["-c", "cat > \"$0\" && chmod +x \"$0\""])
            .arg(&path)
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut input = writer.stdin.take().expect("a pipe");
        write!(input, "#!/bin/sh\n{text}\n").expect("the shell reads it");
        drop(input);
        assert!(writer.wait().expect("our own child").success(), "the temporary directory can be written");
        Self(path)
    }

    pub(super) fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // At worst the file stays; a second panic here would hide the first.
        let _ = fs::remove_file(&self.0);
    }
}
