//! `ceasefire calibrate`, and the machine `host` after it.

use std::fs;
use std::process::Output;

use ceasefire_machine::config::{Linux, Machine};

mod common;

use common::{command, interruptible, unwrapped, Folder};

/// Runs the command with the user's data in a folder.
fn with_data(folder: &Folder, arguments: &[&str]) -> Output {
    let output = command().env("XDG_DATA_HOME", folder.path()).args(arguments).output();
    output.expect("the built command starts")
}

/// The standard output and the standard error of a command that succeeds.
fn texts(output: Output) -> (String, String) {
    let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("UTF-8"));
    assert_eq!(output.status.code(), Some(0), "{error}");
    (out, error)
}

#[test]
fn a_whole_calibration_is_what_host_uses() {
    let folder = Folder::new();
    let (table, error) = texts(with_data(&folder, &["calibrate"]));
    assert_eq!(error, "");
    assert!(table.lines().all(|line| line.chars().count() <= 80 || line.contains('/')), "{table}");
    assert!(
        table.contains("system call (getppid)") && table.contains("which --machine host uses"),
        "{table}"
    );
    let (list, error) = texts(with_data(&folder, &["list", "machines", "--parameters"]));
    assert_eq!(error, "");
    let host = unwrapped(list.split("\nhost\n").nth(1).expect("the host"));
    assert!(host.contains("measured by ceasefire calibrate"), "{host}");
    assert!(host.contains("costs.system_call = ") && host.contains("--only switch"), "{host}");
    let run =
        ["mmap-read", "--machine", "host", "--scale", "0.002", "--mechanism", "batched", "--repeats", "1"];
    let output = with_data(&folder, &[&["compare", "--quiet", "--check=none"], &run[..]].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    // A computer with little memory for its CPUs needs a larger scale, and the error gives it.
    assert!(output.status.code() == Some(0) || message.contains("at least"), "{message}");
}

#[test]
fn a_part_writes_only_the_file_that_is_named() {
    let folder = Folder::new();
    let (table, _) = texts(with_data(&folder, &["calibrate", "--only", "switch"]));
    assert!(table.contains("--only switch") && !table.contains("Written"), "{table}");
    assert!(folder.contents().is_empty(), "{:?}", folder.contents());
    let file = folder.write("my.toml", "earlier");
    let (table, _) = texts(with_data(&folder, &["calibrate", "--only", "switch,switch", "-o", &file]));
    assert!(table.contains("my.toml uses it."), "{table}");
    assert_eq!(folder.contents().len(), 1, "{:?}", folder.contents());
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("Linux says its release");
    let machine = Machine::from_file(file.as_ref()).expect("a valid file");
    assert_eq!(machine.linux, Linux::of_release(&release), "{release}");
    let run = [
        "mmap-read",
        "--mechanism",
        "batched",
        "--repeats",
        "1",
        "--scale",
        "0.002",
        "--check=none",
        "--quiet",
    ];
    let output = with_data(&folder, &[&["compare", "--machine", &file], &run[..]].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(0) || message.contains("at least"), "{message}");
}

#[test]
fn a_calibration_of_another_computer_is_ignored_in_one_line() {
    let folder = Folder::new();
    fs::create_dir(folder.path().join("ceasefire")).expect("writable");
    let file = folder.file("ceasefire/host.toml");
    texts(with_data(&folder, &["calibrate", "--only", "switch", "--output", &file]));
    let (list, error) = texts(with_data(&folder, &["list", "machines"]));
    assert!(
        unwrapped(&list).contains("measured by ceasefire calibrate") && error.is_empty(),
        "{list}{error}"
    );
    let text = fs::read_to_string(&file).expect("readable");
    for (changed, reason) in [
        (text.replace("description = \"", "description = \"Other "), "it is of another computer (Other "),
        (text.replace("[costs.", "[cost."), "costs: missing"),
        ("x".to_owned(), "host.toml:1: "),
    ] {
        fs::write(&file, changed).expect("writable");
        let (list, error) = texts(with_data(&folder, &["list", "machines"]));
        assert!(unwrapped(&list).contains("topology from Linux, costs assumed"), "{list}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.starts_with("ceasefire: ignored: ") && error.contains(reason), "{error}");
    }
}

#[test]
fn ctrl_c_leaves_no_file() {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Stdio;

    use rustix::event::{poll, PollFd, PollFlags};
    use rustix::fs::inotify::{add_watch, init, CreateFlags, WatchFlags};
    use rustix::process::{kill_process, Pid, Signal};

    let folder = Folder::new();
    let file = folder.write("host.toml", "earlier");
    let before = folder.contents();
    let watch = init(CreateFlags::CLOEXEC).expect("Linux watches folders");
    // The command tries whether it can write there, and leaves nothing.
    add_watch(&watch, folder.path(), WatchFlags::DELETE).expect("the folder is there");
    let mut command = interruptible();
    command.args(["calibrate", "-o", &file]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the built command starts");
    let ended = child.stderr.take().expect("a pipe");
    let mut either = [PollFd::new(&watch, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
    poll(&mut either, None).expect("both can be waited for");
    assert!(either[0].revents().contains(PollFlags::IN), "{:?}", child.wait());
    kill_process(Pid::from_child(&child), Signal::INT).expect("it still runs");
    assert_eq!(child.wait().expect("it ends").signal(), Some(Signal::INT.as_raw()));
    assert!(folder.contents() == before, "{:?}", folder.contents().keys());
}
