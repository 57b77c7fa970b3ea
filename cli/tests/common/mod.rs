//! Helpers that run the built command.

// Each test binary uses only a part of this module.
#![allow(dead_code)]

#[cfg(target_os = "linux")]
pub(crate) mod terminal;
#[cfg(target_os = "linux")]
pub(crate) mod tracing;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The built command.
pub(crate) fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ceasefire"));
    // No calibration of the computer that runs the tests is there.
    command.env("XDG_DATA_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/no-data"));
    // Nor is the width of the terminal at which the tests were started.
    command.env_remove("COLUMNS");
    command
}

/// The same command, which Ctrl-C ends wherever the tests were started: a script's background job ignores it.
pub(crate) fn interruptible() -> Command {
    let plain = command();
    let mut command = Command::new("env");
    command.arg("--default-signal=INT").arg(plain.get_program());
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Runs the command to its end.
pub(crate) fn ceasefire(arguments: &[&str]) -> Output {
    command().args(arguments).output().expect("the built command starts")
}

/// Runs experiments without progress lines, and returns standard output. Nothing may go wrong.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let output = ceasefire(&[&["compare", "--quiet"], arguments].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {message}");
    assert!(message.is_empty(), "{arguments:?}: {message}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The text on one line. Long lines are broken; the place depends on the words, such as the name of the processor.
pub(crate) fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The JSON of runs that go well.
pub(crate) fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(&[arguments, &["--json", "-"]].concat())).expect("JSON")
}

/// The results of runs that go well.
pub(crate) fn results(arguments: &[&str]) -> Vec<Value> {
    json(arguments)["results"].as_array().expect("a list").clone()
}

/// Runs the command with wrong arguments and returns its one-line error.
pub(crate) fn refused<T: AsRef<OsStr> + std::fmt::Debug>(arguments: &[T]) -> String {
    refusal(command().args(arguments))
}

/// Runs a command that must fail, and returns its one-line error.
pub(crate) fn refusal(command: &mut Command) -> String {
    let output = command.output().expect("the built command starts");
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{command:?}: {message}");
    assert_eq!(message.lines().count(), 1, "{command:?}: {message}");
    assert!(message.starts_with("ceasefire: "), "{command:?}: {message}");
    assert!(output.stdout.is_empty(), "{command:?}: {}", String::from_utf8_lossy(&output.stdout));
    message
}

/// A temporary folder of one test.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a writable folder for temporary files"))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The path of a file in it.
    pub(crate) fn file(&self, name: &str) -> String {
        self.path().join(name).to_str().expect("UTF-8").to_owned()
    }

    /// Writes a file in it, and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path().join(name), text).expect("a writable folder");
        self.file(name)
    }

    /// The names of everything in it, with the bytes of files and the targets of links.
    pub(crate) fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.path()).expect("a folder");
        let entry = |entry: fs::DirEntry| {
            let kind = entry.file_type().expect("a kind");
            let contents = match kind {
                _ if kind.is_file() => fs::read(entry.path()).expect("readable"),
                _ if kind.is_symlink() => {
                    let target = fs::read_link(entry.path()).expect("a link");
                    target.into_os_string().into_encoded_bytes()
                }
                _ if kind.is_dir() => folder_names(&entry.path()),
                _ => Vec::new(),
            };
            (entry.file_name().to_string_lossy().into_owned(), contents)
        };
        entries.map(|one| entry(one.expect("an entry"))).collect()
    }
}

/// The names in a folder, as one text.
fn folder_names(folder: &Path) -> Vec<u8> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    names.join(OsStr::new("\n")).into_encoded_bytes()
}
