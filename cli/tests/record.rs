//! `ceasefire record` ends in order, whatever ends it: a whole recording or one line of error, and tracing as before.

#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use ceasefire_linux::events::{Kind, Names};
use ceasefire_linux::recording::{Facts, Recording, RecordingError};
use rustix::process::{geteuid, kill_process, Pid, Signal};

mod common;

use common::terminal::terminal;
use common::tracing::{can_trace, instances_of};
use common::{ceasefire, command, refusal, Folder};

/// Starts a recording without an end, and waits until it has buffers.
fn recording(output: &str) -> Child {
    let mut command = command();
    command.args(["record", "--output", output]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the built command starts");
    while instances_of(child.id()).is_empty() {
        assert!(child.try_wait().expect("a child").is_none(), "it has ended by itself");
        thread::yield_now();
    }
    child
}

/// A program that makes many events.
const BUSY: &str = "i=0; while [ $i -lt 100 ]; do ls / > /dev/null; i=$((i + 1)); done";

#[test]
fn a_signal_ends_a_recording_that_is_whole() {
    if !can_trace() {
        return;
    }
    let folder = Folder::new();
    for signal in [Signal::INT, Signal::TERM] {
        let output = folder.file("of-signal.parquet");
        let child = recording(&output);
        let id = child.id();
        kill_process(Pid::from_child(&child), signal).expect("a process");
        let ended = child.wait_with_output().expect("it ends");
        assert_eq!((ended.status.code(), String::from_utf8_lossy(&ended.stderr)), (Some(0), "".into()));
        let recording = Recording::open(output.as_ref()).expect("a whole recording");
        assert!(recording.facts().ended_ns > recording.facts().began_ns);
        assert_eq!(instances_of(id), Vec::<PathBuf>::new());
    }
    let names: Vec<String> = folder.contents().into_keys().collect();
    assert_eq!(
        names,
        ["of-signal.parquet", "of-signal.parquet.old"],
        "of both recordings, and of nothing else"
    );
}

#[test]
fn a_recording_that_was_killed_is_cleared_up_by_the_next() {
    if !can_trace() {
        return;
    }
    let folder = Folder::new();
    let mut child = recording(&folder.file("killed.parquet"));
    child.kill().expect("a process");
    child.wait().expect("it ends");
    // It could not remove its buffers. Other tests' recordings may have, by now.
    assert!(!folder.path().join("killed.parquet").exists());
    let next = ceasefire(&["record", "--output", &folder.file("next.parquet"), "--duration", "1ms"]);
    assert_eq!(next.status.code(), Some(0), "{}", String::from_utf8_lossy(&next.stderr));
    assert_eq!(instances_of(child.id()), Vec::<PathBuf>::new());
}

#[test]
fn a_disk_that_is_full_is_one_line_and_leaves_nothing() {
    if !can_trace() {
        return;
    }
    let folder = Folder::new();
    let disk = |script: &str| {
        let mut shell = Command::new("unshare");
        let script = format!("mount -t tmpfs -o size=256k none '{}' && {script}", folder.path().display());
        shell.args(["--mount", "sh", "-c", &script]);
        shell
    };
    if !geteuid().is_root() || !disk("true").status().is_ok_and(|status| status.success()) {
        println!("not tested: no small disk can be mounted");
        return;
    }
    let ceasefire = env!("CARGO_BIN_EXE_ceasefire");
    let output = folder.file("full.parquet");
    let message =
        refusal(&mut disk(&format!("exec '{ceasefire}' record --output '{output}' -- sh -c '{BUSY}'")));
    assert!(message.contains("No space left on device"), "{message}");
}

#[test]
fn a_terminal_shows_how_much_is_written() {
    if !can_trace() {
        return;
    }
    let folder = Folder::new();
    let (mut own, program) = terminal(80, 24).expect("Linux gives a terminal");
    let mut command = command();
    let output = folder.file("shown.parquet");
    command.args(["record", "--output", &output, "--", "sh", "-c", BUSY]).env("TERM", "xterm");
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::from(program)).spawn();
    // Its copy of the terminal's end would keep the reader waiting.
    drop(command);
    let mut shown = Vec::new();
    // Linux reports the end as an error once no program has the terminal.
    let _ = own.read_to_end(&mut shown);
    let ended = child.expect("the built command starts").wait().expect("it ends");
    let shown = String::from_utf8_lossy(&shown);
    assert!(ended.success() && shown.contains("writing [") && shown.contains('%'), "{shown}");
}

#[test]
fn a_recording_for_strangers_has_no_name_of_a_program() {
    if !can_trace() {
        return;
    }
    let folder = Folder::new();
    let output = folder.file("anonymous.parquet");
    let ended = ceasefire(&["record", "--anonymous", "--output", &output, "--", "sh", "-c", BUSY]);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let mut recording = Recording::open(output.as_ref()).expect("a whole recording");
    assert_eq!(recording.facts().command, [""; 0]);
    let (mut names, mut programs) = (Names::default(), BTreeSet::new());
    let read = recording.each::<RecordingError>(&mut names, |row, names| {
        programs.insert(names.get(row.program).to_owned());
        Ok(())
    });
    read.expect("a whole recording");
    assert!(programs.contains("program-1"), "{programs:?}");
    assert!(["sh", "ls", "ceasefire"].iter().all(|name| !programs.contains(*name)), "{programs:?}");
}

#[test]
fn a_recording_ends_as_its_program_did() {
    if !can_trace() {
        return;
    }
    let folder = Folder::new();
    let output = folder.file("failed.parquet");
    for (program, status) in [("exit 3", 3), ("kill -9 $$", 137)] {
        let ended = ceasefire(&["record", "--light", "--output", &output, "--", "sh", "-c", program]);
        let complaint = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(status), "{complaint}");
        assert!(complaint.contains("the program ended with"), "{complaint}");
        let told = String::from_utf8_lossy(&ended.stdout);
        assert!(!told.contains("flushes"), "{told}");
        assert!(Recording::open(output.as_ref()).is_ok());
    }
    // Whoever ends the command ends the program, which else would last.
    let mut command = command();
    command.args(["record", "--light", "--output", &output, "--", "sh", "-c", "echo begun; exec sleep 1000"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the command");
    let mut out = child.stdout.take().expect("a pipe");
    out.read_exact(&mut [0; 6]).expect("it begins");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("a process");
    let status = child.wait().expect("an end");
    assert_eq!(status.code(), Some(128 + 15), "{status}");
}

#[test]
fn the_end_of_the_program_ends_its_recording() {
    if !can_trace() {
        return;
    }
    let folder = Folder::new();
    let output = folder.file("program.parquet");
    let ended = ceasefire(&["record", "--json", "-", "--output", &output, "--", "sh", "-c", BUSY]);
    assert_eq!(ended.status.code(), Some(0), "{}", String::from_utf8_lossy(&ended.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("JSON");
    assert_eq!((&summary["lost"], &summary["light"]), (&0.into(), &false.into()), "{summary}");
    let waits = summary["locks"].as_array();
    assert_eq!(waits.is_some(), Recording::open(output.as_ref()).expect("a recording").facts().tells_waits());
    let names = ["requests", "interrupts", "overhead", "duration_s"];
    assert!(names.iter().all(|name| summary[name].as_f64().is_some_and(|value| value >= 0.0)), "{summary}");

    // While tracing began, not every kind of events was recorded: those are no part of it. A reader would move them to
    // the beginning.
    let mut recording = Recording::open(output.as_ref()).expect("a whole recording");
    let Facts { began_ns, ended_ns, .. } = *recording.facts();
    let mut at_beginning = 0;
    let read = recording.each::<RecordingError>(&mut Names::default(), |row, _| {
        assert!(row.event.time_ns <= ended_ns, "{row:?}");
        let is_listed = matches!(row.event.kind, Kind::ThreadNamed { .. } | Kind::Mapped { .. });
        at_beginning += u64::from(row.event.time_ns == began_ns && !is_listed);
        Ok(())
    });
    assert!(read.is_ok() && at_beginning <= 1, "{read:?}: {at_beginning} events");
}
