//! Workload files on the command line, which `run` names as well as `compare`.

use std::fs;
use std::path::PathBuf;

use crate::common::{ceasefire, refused};

const TEXT: &str = "\
machines = ['1-socket']
memory = '32 MiB'
[sweep]
batch = [1, 8]
[[process]]
name = 'worker'
threads = 2
mapping.heap = { size = '64 KiB', of = 'thread' }
[[process.phase]]
times = 20
do = [
    { store = 'heap', pages = 8 },
    { madvise = 'heap', pattern = 'sequential', pages = 8, batch = '$batch' },
]
";

/// A temporary file with this text, in a folder of its own.
struct Workload(PathBuf);

impl Workload {
    fn new(name: &str, text: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("ceasefire-run-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).expect("a writable folder for temporary files");
        let path = folder.join(name);
        fs::write(&path, text).expect("writable");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }

    /// The results of running it.
    fn results(&self, more: &[&str]) -> Vec<serde_json::Value> {
        let output = ceasefire(&[&["compare", self.path(), "--repeats", "1", "--json", "-"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        json["results"].as_array().expect("results").clone()
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        let _ = self.0.parent().map(fs::remove_dir_all);
    }
}

#[test]
fn a_file_runs_once_for_each_variant_and_mechanism() {
    let file = Workload::new("mine.toml", TEXT);
    let results = file.results(&[]);
    let of = |key: &str| results.iter().map(|result| result[key].to_string()).collect::<Vec<_>>();
    let name = |batch: u32| format!("\"{}:batch={batch}\"", file.path());
    assert_eq!(of("experiment"), [name(1), name(1), name(8), name(8)]);
    assert_eq!(of("mechanism"), ["\"batched\"", "\"lazy\""].repeat(2));
    assert_eq!(of("operations"), ["40"; 4]);
    assert_eq!(of("faults"), ["320"; 4]);
    let waits = results[0]["lock_wait_by_class_s"].as_object().expect("an object");
    let sum: f64 = waits.values().filter_map(serde_json::Value::as_f64).sum();
    assert!((sum - results[0]["lock_wait_s"].as_f64().expect("a time")).abs() < 1e-12);
    assert_eq!(file.results(&["--machine", "milan-36", "--mechanism", "broadcast", "--seed", "2"]).len(), 2);
}

#[test]
fn a_built_in_workload_runs_by_name_and_a_copy_of_it_has_no_published_figures() {
    let output = ceasefire(&[
        "run",
        "mmap-read",
        "--machine",
        "1-socket",
        "--scale",
        "1/256",
        "--kernel",
        "4.2",
        "--repeats",
        "1",
        "--json",
        "-",
    ]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let original = &json["results"][1];
    assert!(original["published"].as_object().is_some_and(|figures| !figures.is_empty()));
    let file = Workload::new("mmap-read", include_str!("../../sim/experiments/workloads/mmap-read.toml"));
    let copy = &file.results(&["--machine", "1-socket", "--scale", "1/256"])[1];
    assert!(copy["published"].as_object().is_some_and(serde_json::Map::is_empty));
    for key in ["elapsed_s", "interrupts", "operations", "loads_compared", "time", "series"] {
        assert_eq!(original[key], copy[key], "{key}");
    }
}

#[test]
fn the_command_line_chooses_another_kernel_than_the_machine_and_the_machine_than_the_workload() {
    let machine = include_str!("../../sim/machine/machines/1-socket.toml");
    let machine = Workload::new("machine.toml", &format!("linux = '6.12'\n{machine}"));
    let of = |machine: &str, text: &str, more: &[&str]| {
        let file = Workload::new("kernel.toml", text);
        let more = [&["--machine", machine, "--mechanism", "batched"], more].concat();
        file.results(&more)[0]["kernel"].as_str().map(str::to_owned)
    };
    let named = format!("kernel.linux = '6.9'\n{TEXT}");
    assert_eq!(of("1-socket", TEXT, &[]).as_deref(), Some("7.2"));
    assert_eq!(of("1-socket", &named, &[]).as_deref(), Some("6.9"));
    assert_eq!(of(machine.path(), &named, &[]).as_deref(), Some("6.12"));
    assert_eq!(of(machine.path(), &named, &["--kernel", "6.3"]).as_deref(), Some("6.3"));
    let file = Workload::new("wrong-kernel.toml", &named.replace("6.9", "6.10"));
    let message = refused(&[file.path()]);
    let expected = "kernel.linux: \"6.10\": must be one of \"4.2\", \"6.3\", ";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn a_variant_of_a_text_that_looks_like_a_number_is_named() {
    let text = TEXT.replace("batch = [1, 8]", "linux = ['6.9', '6.18']\nbatch = [8]");
    let file = Workload::new("texts.toml", &format!("kernel.linux = '$linux'\n{text}"));
    let output =
        ceasefire(&[&format!("{}:linux=6.9", file.path()), "--quiet", "--repeats", "1", "--json", "-"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(json["results"][0]["kernel"], "6.9");
}

#[test]
fn an_error_of_runs_with_several_mechanisms_is_one_line() {
    let file = Workload::new("short.toml", &format!("measure.time = '1 ns'\n{TEXT}"));
    let message = refused(&[&format!("{}:batch=8", file.path())]);
    assert!(message.contains("1-socket batched, lazy: ") && message.contains("no operation"), "{message}");
}

#[test]
fn a_wrong_file_is_answered_with_its_line() {
    let message = refused(&["wasm-pol"]);
    assert!(message.contains("did you mean 'wasm-pool'?") && !message.contains("batch="), "{message}");
    assert!(refused(&["none.toml"]).contains("none.toml: cannot read"));
    let file = Workload::new("wrong.toml", &TEXT.replace("threads = 2", "threds = 2"));
    let message = refused(&[file.path()]);
    let expected = "wrong.toml:7: process[0].threds: unknown key; did you mean 'threads'?\n";
    assert!(message.ends_with(expected), "{message}");
    let file = Workload::new("kept.toml", TEXT);
    assert!(refused(&["compare", file.path(), "--json", file.path()]).contains("name the same file"));
    assert_eq!(fs::read_to_string(&file.0).expect("readable"), TEXT);
}

#[test]
fn a_workload_of_ones_own_has_a_row_for_each_mechanism_and_nothing_of_a_paper() {
    let text = TEXT.replace("[1, 8]", "[8]").replace("times = 20\n", "");
    let text = text.replace("[sweep]", "[measure]\nwarm_up = '50 us'\ntime = '400 us'\n[sweep]");
    let file = Workload::new("own.toml", &text);
    let page = file.0.with_extension("html");
    let page_name = page.to_str().expect("UTF-8");
    let run = [file.path(), "--repeats", "1", "--quiet", "--mechanism", "lazy,batched,broadcast"];
    let output = ceasefire(&[&["compare"], &run[..], &["--html", page_name]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(!text.contains("elapsed time"), "it is the same for all: {text}");
    let (_, summary) = text.split_once("\nAll results ").expect("the summary");
    let rows: Vec<Vec<&str>> = summary.lines().map(|line| line.split_whitespace().collect()).collect();
    let row = |name| rows.iter().find(|row| row.first() == Some(&name)).expect("a row");
    assert_eq!(row("lazy").get(2), Some(&"baseline"), "the first of the list: {summary}");
    for other in ["batched", "broadcast"] {
        let ratio = row(other)[2].parse::<f64>();
        assert!(ratio.is_ok_and(|ratio| ratio > 0.0), "{other}: {summary}");
    }
    let page = fs::read_to_string(page).expect("a page");
    let (results, _) = page.split_once("<h2 id=\"machines\"").expect("the machines");
    for word in ["published and", ">published<", "the paper", "none.", ">before<", ">basis<"] {
        assert!(!text.contains(word) && !results.contains(word), "{word} in {text}{results}");
    }
    assert!(results.contains("<b>Speed.</b> Operations per second."), "{results}");
}
