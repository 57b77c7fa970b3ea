//! The files of a run: their numbers are the same in every form, and an earlier file stays until the new one is
//! complete.

use std::collections::BTreeMap;
use std::fs::{self, File};

use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use crate::common::{ceasefire, json, printed, refused, Folder};

const RUN: &[&str] = &["mmap-read", "--machine", "1-socket", "--scale", "0.003"];

/// The fields of a run that say which run it is.
const SETTINGS: [&str; 5] = ["scale", "seed", "cpus", "threads", "speculate"];

/// A figure: its run's mechanism and seed, and its name.
type Key = (String, u64, String);

/// The numbers of the JSON, without settings, published figures and time series.
fn numbers(json: &Value) -> BTreeMap<Key, f64> {
    fn collect(all: &mut Vec<(String, f64)>, before: &str, value: &Value) {
        for (field, value) in value.as_object().expect("an object") {
            match value {
                Value::Number(number) => {
                    all.push((format!("{before}{field}"), number.as_f64().expect("a number")));
                }
                Value::Object(_) if field != "series" && field != "published" => {
                    collect(all, &format!("{before}{field}."), value);
                }
                _ => {}
            }
        }
    }
    let mut figures = BTreeMap::new();
    for result in json["results"].as_array().expect("a list") {
        let mut all = Vec::new();
        collect(&mut all, "", result);
        let mechanism = result["mechanism"].as_str().expect("a name");
        let seed = result["seed"].as_u64().expect("a number");
        all.retain(|(name, _)| !SETTINGS.contains(&name.as_str()));
        figures.extend(all.into_iter().map(|(name, value)| ((mechanism.to_owned(), seed, name), value)));
    }
    figures
}

#[test]
fn csv_and_parquet_have_the_numbers_of_the_json() {
    let folder = Folder::new();
    let [csv, parquet] = ["out.csv", "out.parquet"].map(|name| folder.file(name));
    let run = |table: &str| {
        let json = json(&[RUN, &["--repeats", "2", "--table", table]].concat());
        let expected = numbers(&json);
        assert!(expected.len() > 6 * 40, "three mechanisms with two seeds");
        let bits: BTreeMap<Key, u64> =
            expected.into_iter().map(|(key, value)| (key, value.to_bits())).collect();
        (json, bits)
    };
    let (_, expected_bits) = run(&csv);

    let mut reader = csv::Reader::from_path(csv).expect("readable");
    let rows: Vec<BTreeMap<String, String>> = reader.deserialize().map(|row| row.expect("a row")).collect();
    let key = |row: &BTreeMap<String, String>| {
        (row["mechanism"].clone(), row["seed"].parse().expect("a number"), row["metric"].clone())
    };
    let value = |row: &BTreeMap<String, String>| row["value"].parse::<f64>().expect("a number").to_bits();
    let found: BTreeMap<Key, u64> = rows.iter().map(|row| (key(row), value(row))).collect();
    assert_eq!((rows.len(), &found), (expected_bits.len(), &expected_bits));
    let elapsed = rows.iter().find(|row| row["metric"] == "elapsed_s" && row["mechanism"] == "per-page");
    let elapsed = elapsed.expect("a row");
    assert_eq!((elapsed["published"].as_str(), elapsed["unit"].as_str()), ("25.33", "s"));

    let (json, expected_bits) = run(&parquet);
    let reader = SerializedFileReader::new(File::open(parquet).expect("there")).expect("a Parquet file");
    let facts = reader.metadata().file_metadata().key_value_metadata().expect("facts");
    let fact = |key: &str| facts.iter().find(|fact| fact.key == key).and_then(|fact| fact.value.clone());
    assert_eq!(fact("command"), json["command"].as_str().map(str::to_owned));
    let machines: Value = serde_json::from_str(&fact("machines").expect("a fact")).expect("JSON");
    assert_eq!(machines, json["machines"]);
    let mut found = BTreeMap::new();
    for row in reader {
        let row = row.expect("a row");
        let cells: BTreeMap<&String, &Field> = row.get_column_iter().collect();
        let text = |name: &str| match cells[&name.to_owned()] {
            Field::Str(text) => text.clone(),
            other => panic!("{name}: {other:?}"),
        };
        let (Field::ULong(seed), Field::Double(value)) =
            (cells[&"seed".to_owned()], cells[&"value".to_owned()])
        else {
            panic!("{row:?}");
        };
        found.insert((text("mechanism"), *seed, text("metric")), value.to_bits());
    }
    assert_eq!(found, expected_bits);
}

#[test]
fn earlier_results_survive_a_run_that_fails() {
    let folder = Folder::new();
    let file = folder.write("earlier.json", "earlier");
    let run = [RUN, &["--repeats", "1", "--mechanism", "batched", "--json", &file]].concat();
    refused(&[&["compare"], &run[..], &["--trace", "/nowhere/t"]].concat());
    assert_eq!(fs::read_to_string(&file).expect("readable"), "earlier");
    fs::write(&file, "x".repeat(100_000)).expect("writable");
    assert!(printed(&run[..]).contains("mmap-read on 1-socket"), "the table is printed too");
    let text = fs::read_to_string(&file).expect("readable");
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "nothing of the earlier text is left");
}

#[test]
fn files_and_the_trace_leave_nothing_beside_them() {
    let folder = Folder::new();
    for table in ["rows.csv", "rows.parquet"] {
        let outputs = [("json", "json"), ("table", table), ("html", "html"), ("trace", "trace")]
            .map(|(option, name)| [format!("--{option}"), folder.file(name)]);
        let outputs: Vec<&str> = outputs.iter().flatten().map(String::as_str).collect();
        let output =
            ceasefire(&[RUN, &["--mechanism", "batched", "--repeats", "1", "--quiet"], &outputs].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let contents = folder.contents();
    let names = ["html", "json", "rows.csv", "rows.parquet", "trace"];
    assert_eq!(contents.keys().collect::<Vec<_>>(), names);
    assert!(contents.values().all(|bytes| !bytes.is_empty()));
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_leaves_the_earlier_files_and_nothing_beside_them() {
    use std::process::Stdio;

    use rustix::event::{poll, PollFd, PollFlags};
    use rustix::fs::inotify::{add_watch, init, CreateFlags, WatchFlags};
    use rustix::process::{kill_process, Pid, Signal};

    let folder = Folder::new();
    let outputs = ["--json", &folder.write("json", "earlier"), "--trace", &folder.write("trace", "earlier")];
    let before = folder.contents();
    // At the paper's size, the run takes minutes.
    let run = ["mmap-read", "--machine", "1-socket", "--scale", "1", "--mechanism", "per-page", "--quiet"];
    let watch = init(CreateFlags::CLOEXEC).expect("Linux watches folders");
    add_watch(&watch, folder.path(), WatchFlags::MODIFY).expect("the folder is there");
    let mut command = crate::common::command();
    let mut child = command
        .args(run)
        .args(outputs)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built command starts");
    // The run has begun to write its trace, or the command has ended without one.
    let ended = child.stderr.take().expect("a pipe");
    let mut either = [PollFd::new(&watch, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
    poll(&mut either, None).expect("both can be waited for");
    assert!(either[0].revents().contains(PollFlags::IN), "{:?}", child.wait());
    assert_eq!(folder.contents().len(), before.len() + 1, "the trace is written beside the earlier one");
    kill_process(Pid::from_child(&child), Signal::INT).expect("it still runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    assert!(folder.contents() == before, "{:?}", folder.contents().keys());
}
