//! `ceasefire sweep --engine ray` and the process that it starts, which scripts play here. The tests of the Python
//! package have the real one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::common::{command, refusal, Folder};

const STUDY: &str =
    "experiments = ['migrate']\nmachines = ['2-socket-intel']\n[parameters]\nscale = 0.0001\ncpus = 2\n";
const PROGRESS: &str = r#"{"progress":{"all":2,"before":0,"done":2,"failed":0,"broken":0}}"#;

/// The command with an interpreter that has the package of a version, and does so when it runs it.
fn sweep(folder: &Folder, version: &str, run: &str) -> Command {
    let (study, interpreter) = (folder.file("study.toml"), folder.file("python"));
    fs::write(&study, STUDY).expect("a file");
    let script = format!("#!/bin/sh\n[ \"$1\" = -c ] && {{ {version}; exit; }}\n{run}\n");
    fs::write(&interpreter, script).expect("a file");
    fs::set_permissions(&interpreter, fs::Permissions::from_mode(0o755)).expect("a file of ours");
    let mut command = command();
    command.args(["sweep", &study, "--engine", "ray", "--quiet", "--output", &folder.file("data")]);
    command.env("CEASEFIRE_PYTHON", interpreter);
    command
}

/// The package of this version.
fn same() -> String {
    format!("echo {}", env!("CARGO_PKG_VERSION"))
}

#[test]
fn a_study_that_the_process_has_run_is_told() {
    let folder = Folder::new();
    let run = format!("echo \"$@\" > {}\necho '{PROGRESS}'", folder.file("arguments"));
    let mut command = sweep(&folder, &same(), &run);
    let output =
        command.args(["--address", "head:6379", "--jobs", "3", "--again"]).output().expect("it starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let (study, data) = (folder.file("study.toml"), folder.file("data"));
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{data}: 2 points\n"));
    assert_eq!(
        fs::read_to_string(folder.file("arguments")).expect("the script writes it"),
        format!("-m ceasefire {study} {data} --address head:6379 --jobs 3 --again\n")
    );
}

#[test]
fn a_process_that_cannot_run_the_study_is_one_line() {
    let folder = Folder::new();
    let python = folder.file("python");
    let begun = PROGRESS.replace("\"done\":2", "\"done\":1");
    for (version, run, line) in [
        (same(), "echo '{\"error\":\"no such address\"}'; exit 2".to_owned(), "no such address".to_owned()),
        (same(), "exit 7".to_owned(), format!("engine ray: {python}: ended early, exit status: 7")),
        (
            same(),
            format!("echo '{begun}'"),
            "stopped with 1 of 2 points done; the same command goes on".to_owned(),
        ),
        (
            "exit 1".to_owned(),
            String::new(),
            format!(
                "engine ray: {python}: the Python package ceasefire is not installed: pip install ./python"
            ),
        ),
        (
            "echo 0.0.7".to_owned(),
            String::new(),
            format!(
                "engine ray: {python}: version 0.0.7 of the Python package ceasefire: must be {}",
                env!("CARGO_PKG_VERSION")
            ),
        ),
    ] {
        assert_eq!(refusal(&mut sweep(&folder, &version, &run)), format!("ceasefire: {line}\n"));
    }
    let missing = refusal(sweep(&folder, "", "").env("CEASEFIRE_PYTHON", "/no/python"));
    assert_eq!(
        missing,
        "ceasefire: engine ray: /no/python: No such file or directory (os error 2): install Python, or name an \
         interpreter in $CEASEFIRE_PYTHON\n"
    );
}

#[test]
fn an_address_is_for_ray_alone() {
    let refused = refusal(command().args(["sweep", "study.toml", "--address", "head:6379"]));
    assert_eq!(refused, "ceasefire: address head:6379: must be left out, since the engine is threads\n");
}
