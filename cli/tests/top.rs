//! `ceasefire top` on a terminal: it ends in order, whatever ends it, and leaves terminal and tracing as they were.

#![cfg(target_os = "linux")]

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Stdio};
use std::thread;

use rustix::process::{kill_process, Pid, Signal};
use rustix::termios::{tcgetattr, tcsetwinsize, LocalModes, Winsize};

mod common;

use common::terminal::terminal;
use common::tracing::{can_trace, instances_of};
use common::{ceasefire, command, refusal};

/// The command on a terminal.
struct Shown {
    child: Child,
    /// Its own end. The program's is open in the program alone, so reading ends with it.
    own: File,
    /// What it has shown and was not looked for.
    text: String,
}

impl Shown {
    /// Starts it, and waits for its first screen.
    fn start() -> Self {
        let (own, program) = terminal(80, 24).expect("Linux gives a terminal");
        let end = || Stdio::from(program.try_clone().expect("another handle"));
        let mut command = command();
        command.args(["top", "--interval", "100ms"]).stdin(end()).stdout(end()).stderr(Stdio::piped());
        let child = command.spawn().expect("the built command starts");
        drop((command, program));
        let mut shown = Self { child, own, text: String::new() };
        shown.wait_for("overhead");
        shown
    }

    /// Waits until it has shown a text.
    fn wait_for(&mut self, text: &str) {
        let mut part = [0; 4096];
        loop {
            if let Some(at) = self.text.find(text) {
                self.text.drain(..at + text.len());
                return;
            }
            let count = self.own.read(&mut part).expect("it still shows something");
            self.text.push_str(&String::from_utf8_lossy(&part[..count]));
        }
    }

    fn press(&mut self, keys: &[u8]) {
        self.own.write_all(keys).expect("a terminal");
    }

    /// Whether the terminal is in the mode in which shells expect it.
    fn is_usual(&self) -> bool {
        let modes = tcgetattr(&self.own).expect("modes").local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    /// Its end, after which no buffers of it are left.
    fn end(mut self, is_open: bool) {
        if is_open {
            assert!(!self.is_usual(), "the screen is shown");
            // The terminal leaves its second screen.
            self.wait_for("\u{1b}[?1049l");
        }
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
        if is_open {
            assert!(self.is_usual());
        }
        let mut message = String::new();
        self.child.stderr.take().expect("a pipe").read_to_string(&mut message).expect("UTF-8");
        assert_eq!(message, "");
        assert_eq!(instances_of(self.child.id()), Vec::<std::path::PathBuf>::new());
    }
}

#[test]
fn keys_change_the_view_and_quit() {
    if !can_trace() {
        return;
    }
    let mut shown = Shown::start();
    // Only what changes is drawn: a view is told by a word that stands nowhere else.
    shown.press(b"C");
    shown.wait_for("[7mcause");
    shown.press(b"h");
    shown.wait_for("Ctrl-C");
    // The help goes at the next key.
    shown.press(b" ");
    shown.press(b"M");
    shown.wait_for("(column)");
    shown.press(b"q");
    shown.end(true);
}

#[test]
fn a_new_size_is_drawn_and_ctrl_c_ends_it() {
    if !can_trace() {
        return;
    }
    let mut shown = Shown::start();
    let size = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&shown.own, size).expect("a size");
    // The last line is the 50th now.
    shown.wait_for("\u{1b}[50;");
    shown.press(b"\x03");
    shown.end(true);
}

#[test]
fn signals_end_it_in_order() {
    if !can_trace() {
        return;
    }
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let shown = Shown::start();
        kill_process(Pid::from_child(&shown.child), signal).expect("a process");
        shown.end(true);
    }
}

#[test]
fn a_terminal_that_is_closed_ends_it() {
    if !can_trace() {
        return;
    }
    let mut shown = Shown::start();
    shown.own = File::open("/dev/null").expect("a device");
    shown.end(false);
}

#[test]
fn one_interval_is_printed_as_text_or_as_json() {
    if !can_trace() {
        return;
    }
    let output = ceasefire(&["top", "--once", "--interval", "50ms"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("requests ") && text.contains("\noverhead: "), "{text}");
    for (arguments, lines) in [(&["--once"][..], 1), (&["--count", "2"], 2)] {
        let output = ceasefire(&[&["top", "--json", "-", "--interval", "50ms"], arguments].concat());
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!((output.status.code(), text.lines().count()), (Some(0), lines), "{text}");
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert!(value["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{line}");
            assert!(value["cpus"].as_u64().is_some_and(|cpus| cpus > 0), "{line}");
        }
    }
}

#[test]
fn a_file_has_each_interval_when_it_is_over() {
    if !can_trace() {
        return;
    }
    let folder = common::Folder::new();
    let file = folder.write("top.json", "of an earlier run\n");
    let mut command = command();
    command
        .args(["top", "--json", &file, "--interval", "10ms"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the built command starts");
    let lines = |text: &str| text.lines().filter(|line| line.starts_with('{')).count();
    while lines(&fs::read_to_string(&file).expect("a file")) < 2 {
        assert!(child.try_wait().expect("a child").is_none(), "it has ended by itself");
        thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::INT).expect("a process");
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!((ended.status.code(), ended.stdout.len(), ended.stderr.len()), (Some(0), 0, 0));
    let text = fs::read_to_string(&file).expect("a file");
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()), "{text}");
    assert_eq!(folder.contents().len(), 1, "nothing is beside it");
}

#[test]
fn a_user_without_rights_is_told_how_to_get_them() {
    // Only root can become another user.
    if !rustix::process::geteuid().is_root() {
        println!("not tested: only root can run a command as another user");
        return;
    }
    // The other user may not reach the built command.
    let folder = common::Folder::new();
    let copy = folder.file("ceasefire");
    fs::copy(env!("CARGO_BIN_EXE_ceasefire"), &copy).expect("room");
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("a folder");
    let nobody = 65534;
    let message = refusal(
        std::process::Command::new(copy).args(["top", "--once"]).uid(nobody).gid(nobody).current_dir("/"),
    );
    let told = message.contains("run the command as root") || message.contains("tracefs is not mounted");
    assert!(told, "{message}");
}
