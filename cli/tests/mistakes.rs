//! Mistakes on the command line: each is answered with one line that helps to correct it, and no results are lost.

use std::fs;
use std::path::PathBuf;

mod common;

use common::ceasefire;

/// A short run that broadcasts nothing and owes nothing.
const RUN: &[&str] =
    &["compare", "tlb-flush2", "--machine", "milan-36", "--threads", "2", "--lru-drain", "batched"];

/// Runs that command with further arguments and returns its one-line error.
fn refused(more: &[&str]) -> String {
    common::refused(&[RUN, more].concat())
}

/// A temporary folder of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ceasefire-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a writable folder for temporary files");
        Self(path)
    }

    /// The path of a file in it.
    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_number_out_of_range_is_answered_with_its_range() {
    for (option, values, bound) in [
        ("--scale", &["1/x", "", "a lot"][..], "such as 0.0625 or 1/16"),
        ("--seed", &["-1", "x", "99999999999999999999999"], "0 to 18446744073709551615"),
        ("--jobs", &["0", "-1", "1.5"], "1 to 65535"),
    ] {
        for value in values {
            let message = refused(&[option, value]);
            assert!(message.contains(bound) && message.contains(option), "{message}");
        }
    }
    let run = ["compare", "tlb-flush2", "--threads"];
    for value in ["0", "-1", "1.5", "1,,2", "65536"] {
        let output = ceasefire(&[&run[..], &[value]].concat());
        let message = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(output.status.code() == Some(2) && message.contains("1 to 65535"), "{message}");
    }
    for scale in ["0", "-1", "nan", "0/0", "1e-300", "-0"] {
        let message = refused(&["--scale", scale]);
        assert!(message.contains("must be at least 0.0001") && message.len() < 100, "{message}");
    }
    for scale in ["1e300", "inf", "1/0", "2/1"] {
        let message = refused(&["--scale", scale]);
        assert!(message.contains("above 1") && message.len() < 100, "{message}");
    }
}

#[test]
fn a_scale_may_be_a_fraction() {
    let run = |scale| {
        let more = ["--mechanism", "batched", "--json", "-", "--scale", scale];
        let output = ceasefire(&[RUN, &more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        (json["results"][0]["scale"].clone(), json["results"][0]["operations"].clone())
    };
    assert_eq!(run("1/4096"), run("0.000244140625"));
}

#[test]
fn an_option_without_effect_is_refused() {
    for settle in ["free", "demand"] {
        let message = refused(&["--settle", settle]);
        assert!(message.contains("--settle applies only to lazy and all"), "{message}");
        let lazy = ["--settle", settle, "--mechanism", "all", "--scale", "0.0002"];
        assert_eq!(ceasefire(&[RUN, &lazy].concat()).status.code(), Some(0));
    }
    let message = refused(&["--trace", "-", "--mechanism", "batched"]);
    assert!(message.contains("--trace writes to a file"), "{message}");
}

#[test]
fn no_two_options_name_one_file() {
    let folder = Folder::new("one-file");
    let name = folder.0.file_name().and_then(|name| name.to_str()).expect("UTF-8");
    let (file, detour) = (folder.file("out"), folder.file(&format!("../{name}/out")));
    // First without the file, then with it.
    for _ in 0..2 {
        for (one, path, other) in [
            ("--json", &file, "--html"),
            ("--json", &detour, "--html"),
            ("--html", &file, "--trace"),
            ("--json", &detour, "--trace"),
        ] {
            let message = refused(&["--mechanism", "batched", one, path, other, &file]);
            assert!(message.contains(&format!("{one} and {other} name the same file")), "{message}");
        }
        fs::write(&file, "kept").expect("writable");
    }
    assert_eq!(fs::read_to_string(&file).expect("readable"), "kept");

    let machine = folder.file("machine.toml");
    let text = include_str!("../../machine/machines/1-socket.toml");
    fs::write(&machine, text).expect("writable");
    let output = ceasefire(&["compare", "mmap-read", "--machine", &machine, "--json", &machine]);
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(output.status.code() == Some(2) && message.contains("--machine and --json"), "{message}");
    assert_eq!(fs::read_to_string(&machine).expect("readable"), text, "the machine is still there");
}

#[test]
fn a_mark_that_names_no_published_figure_is_refused_with_the_known_ones() {
    let folder = Folder::new("mark");
    let file = folder.file("machine.toml");
    let text = include_str!("../../machine/machines/1-socket.toml");
    for (from, to, expected) in [
        (
            "\"mmap-read user before\"",
            "\"mmap-read usr before\"",
            "topology.nodes[0].memory.seen[0]: \"mmap-read usr before\": must be \"mmap-read\" and then one of ",
        ),
        (
            "fitted = \"mmap-read 1-socket system before\"",
            "fitted = \"mmap-read system before\"",
            "costs.reclaim_page.fitted: \"mmap-read system before\": must be one figure, not 2; it can be narrowed by \
             4-node-48-cpu, 1-socket",
        ),
    ] {
        assert!(text.contains(from));
        fs::write(&file, text.replace(from, to)).expect("a writable folder");
        let message = common::refused(&["compare", "mmap-read", "--machine", &file]);
        assert!(message.contains(expected) && message.contains("machine.toml:"), "{message}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_fails_does_not_stop_the_others() {
    let folder = Folder::new("full");
    let json = folder.file("results.json");
    let run = [RUN, &["--mechanism", "batched", "--scale", "0.0002"]].concat();
    let output = ceasefire(&[&run[..], &["--html", "/dev/full", "--json", &json]].concat());
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{message}");
    assert!(message.contains("/dev/full"), "{message}");
    let text = fs::read_to_string(&json).expect("readable");
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("tlb-flush2 on milan-36"));

    let output = ceasefire(&[&run[..], &["--html", "/dev/full", "--json", "/dev/full"]].concat());
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!((output.status.code(), message.lines().count()), (Some(2), 2), "both are reported: {message}");
}

#[test]
fn a_run_that_fails_does_not_stop_the_others() {
    let processes =
        ["tlb-flush2-processes", "--machine", "small-vm", "--scale", "0.1", "--mechanism", "batched"];
    let compared = |threads: &str| {
        ceasefire(&[&["compare"], &processes[..], &["--threads", threads, "--json", "-"]].concat())
    };
    // The memory is enough for four threads, but not for 1600.
    let output = compared("4,1600");
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("of 1600 threads failed: out of memory"), "{message}");
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let results = results["results"].as_array().expect("a list");
    assert_eq!(results.iter().map(|result| result["threads"].as_u64()).collect::<Vec<_>>(), [Some(4)]);
    let output = compared("1600,1800");
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{message}");
    assert!(message.contains("1600") && message.contains("1800"), "each is reported: {message}");
}
