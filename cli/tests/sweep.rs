//! Studies and intervals on the command line.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use ceasefire_experiments::Host;
use ceasefire_studies::Study;
use serde_json::Value;

use crate::common::{command, json, printed, refusal, refused, results, Folder};

/// A study of 24 short runs.
const STUDY: &str = r#"
experiments = ["migrate"]
machines = ["2-socket-intel"]
mechanisms = ["per-page", "batched"]
seeds = 3
check = "all"

[parameters]
scale = 0.0001
cpus = 2
costs.interrupt_deliver = { from = "300 ns", to = "3000 ns", steps = 4 }
"#;

fn study() -> Folder {
    let folder = Folder::new();
    fs::write(folder.path().join("deliver.toml"), STUDY).expect("a file");
    folder
}

/// Runs `ceasefire sweep` in the folder, and returns what it prints.
fn sweep(folder: &Folder, arguments: &[&str]) -> String {
    let output =
        command().current_dir(folder.path()).arg("sweep").args(arguments).output().expect("it starts");
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {message}");
    assert!(message.is_empty(), "{arguments:?}: {message}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The Parquet files in a folder, however deep.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| match path.extension() {
            Some(end) if end == "parquet" => vec![path],
            _ => parts(&path),
        })
        .collect()
}

#[test]
fn a_study_that_is_killed_goes_on_and_runs_nothing_twice() {
    let folder = study();
    assert_eq!(sweep(&folder, &["deliver.toml", "--dry-run"]), "24 points, 24 left\n");
    assert!(parts(folder.path()).is_empty(), "a dry run writes nothing");
    // Long enough that it is killed before its end.
    let long = STUDY.replace("seeds = 3", "seeds = 3000");
    fs::write(folder.path().join("long.toml"), long).expect("a file");
    let mut killed = command()
        .current_dir(folder.path())
        .args(["sweep", "long.toml", "-o", "results", "--quiet"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    while parts(&folder.path().join("results")).is_empty() {
        assert!(killed.try_wait().expect("a child").is_none(), "it ended before it was killed");
        std::thread::yield_now();
    }
    killed.kill().expect("it runs");
    killed.wait().expect("a child");
    let left = sweep(&folder, &["long.toml", "-o", "results", "--dry-run"]);
    let left: u64 = left
        .strip_prefix("24000 points, ")
        .and_then(|rest| rest.split(' ').next()?.parse().ok())
        .expect("a number");
    assert!(left > 0 && left < 24_000, "{left}");
    // The points of the shorter study are among those of the longer one.
    let printed = sweep(&folder, &["deliver.toml", "-o", "results", "--quiet"]);
    assert!(printed.starts_with("results: 24 points"), "{printed}");
    assert_eq!(
        sweep(&folder, &["deliver.toml", "-o", "results"]),
        "results: 24 points, 24 of them from before\n"
    );
}

#[test]
fn wrong_studies_and_folders_are_refused_in_one_line() {
    let folder = study();
    fs::write(folder.path().join("file"), "").expect("a file");
    let unknown = STUDY.replace("interrupt_deliver", "interupt_deliver");
    fs::write(folder.path().join("unknown.toml"), unknown).expect("a file");
    let empty = STUDY.replace("3000 ns", "300 ns");
    fs::write(folder.path().join("empty.toml"), empty).expect("a file");
    let many = STUDY.replace("steps = 4", "steps = 1000000").replace("seeds = 3", "seeds = 1000000");
    fs::write(folder.path().join("many.toml"), many).expect("a file");
    for (arguments, parts) in [
        (&["no.toml"][..], &["no.toml: cannot read: "][..]),
        (&["deliver.toml", "-o", "file"], &["file: ", "exists"]),
        (&["deliver.toml", "-o", "file/x"], &["file/x: Not a directory"]),
        (&["unknown.toml"], &["unknown.toml:11: ", "did you mean 'costs.interrupt_deliver'?"]),
        (&["empty.toml"], &["empty.toml:11: ", "300 to 300: must be a range: `from` below `to`"]),
        (&["many.toml"], &["many.toml: 2000000000000 points: must be at most 300000000"]),
        (&["deliver.toml", "--jobs", "0"], &["1 to 65535"]),
        (&[], &["<STUDY>"]),
    ] {
        let message = refusal(command().current_dir(folder.path()).arg("sweep").args(arguments));
        for part in parts {
            assert!(message.contains(part), "{part} in the answer to {arguments:?}: {message}");
        }
    }
}

#[test]
fn the_command_of_a_row_repeats_its_run() {
    let of = |parameters: &str| {
        let text = format!(
            "experiments = ['tlb-flush2']\nmachines = ['milan-72']\nmechanisms = ['batched']\n[parameters]\n\
             scale = 0.0002\n{parameters}"
        );
        let study = Study::from_text("study.toml", &text, Path::new("")).expect("a valid study");
        study.point(0).run(&Host::new(), || true).expect("it is not stopped")
    };
    for (parameters, end) in [
        ("threads = 4\nkernel = '6.13'", "--threads 4 --kernel 6.13 --set lru_drain=eager"),
        ("cpus = 4", "--cpus 4 --threads 4 --kernel 6.13 --set lru_drain=eager"),
        ("cpus = 4\nthreads = 3\nkernel = '6.18'", "--threads 3 --kernel 6.18 --set lru_drain=batched"),
        ("cpus = 4\nlru_drain = 'batched'", "--set lru_drain=batched --threads 4 --kernel 6.13"),
    ] {
        let row = of(parameters);
        assert!(row.command.ends_with(end), "{}", row.command);
        let words: Vec<&str> = row.command.split(' ').skip(2).collect();
        let again = results(&words);
        assert_eq!(again.len(), 1, "{}", row.command);
        for name in ["elapsed_s", "operations", "interrupts", "lock_wait_s"] {
            let figure = row.figures.iter().find(|(known, _)| known == name).map(|(_, figure)| *figure);
            assert_eq!(again[0][name].as_f64(), figure, "{name} of {}", row.command);
        }
    }
}

#[test]
fn a_prediction_has_an_interval() {
    let arguments = [
        "migrate",
        "--machine",
        "2-socket-intel",
        "--scale",
        "0.0006",
        "--repeats",
        "1",
        "--check=none",
        "--draw",
        "uncertainty=3",
    ];
    let all = json(&arguments);
    assert_eq!(all["uncertainty"]["failed"], 0);
    let rows = all["uncertainty"]["rows"].as_array().expect("a list");
    let pages = rows.iter().find(|row| row["metric"] == "pages_migrated_per_second").expect("a row");
    let number = |name: &str| pages[name].as_f64().expect("a number");
    assert!(number("low") < number("median") && number("median") < number("high"), "{pages}");
    assert_eq!((pages["draws"].as_u64(), pages["label"].as_str()), (Some(3), Some("predicted")));
    let ours: Vec<f64> = all["results"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|run| run["published"]["pages_migrated_per_second"]["ours"].as_f64())
        .collect();
    assert!(ours.contains(&number("ours")), "{ours:?} {pages}");
    // The draws are determined, also on one thread.
    let again = json(&[&arguments[..], &["--jobs", "1"]].concat());
    assert_eq!(all["uncertainty"], again["uncertainty"]);
    assert_eq!(json(&arguments[..8])["uncertainty"], Value::Null);
}

#[test]
fn a_prediction_depends_on_numbers_of_the_machine() {
    let folder = Folder::new();
    let page = folder.file("page.html");
    let arguments = [
        "migrate",
        "--machine",
        "2-socket-intel",
        "--cpus",
        "2",
        "--scale",
        "0.0001",
        "--repeats",
        "1",
        "--check=none",
    ];
    let all = json(&[&arguments[..], &["--draw", "sensitivity=2", "--html", &page]].concat());
    let rows = all["sensitivity"]["rows"].as_array().expect("a list");
    let [row] = &rows[..] else { panic!("one ratio: {rows:?}") };
    assert_eq!((row["mechanism"].as_str(), row["pairs"].as_u64()), (Some("batched"), Some(2)));
    let numbers = row["numbers"].as_array().expect("a list");
    let totals: Vec<f64> = numbers.iter().map(|number| number["total"].as_f64().expect("a number")).collect();
    assert!(totals.len() > 20 && totals[0] > 0.0, "{totals:?}");
    assert!(totals.windows(2).all(|pair| pair[0] >= pair[1]), "{totals:?}");
    let page = fs::read_to_string(page).expect("the page");
    assert!(page.contains("What the ratios depend on."));
    let text = printed(&[&arguments[..], &["--draw", "sensitivity=2", "--jobs", "1"]].concat());
    let first = numbers[0]["key"].as_str().expect("a key");
    assert!(text.contains("What matters") && text.contains(first), "{first} in {text}");

    for (extra, part) in [
        (&["migrate", "--draw", "sensitivity=1"][..], "2 to 65535"),
        (&["migrate", "--draw", "uncertainty=0"], "1 to 65535"),
        (&["migrate", "--draw", "certainty"], "must be uncertainty or sensitivity"),
        (&["migrate", "--draw", "uncertainty", "--trace", "t"], "cannot be used with"),
        (&["mmap-read", "--draw", "sensitivity", "--machine", "host"], "--draw: 'host' has no file"),
    ] {
        let message = refused(&[&["compare"], extra].concat());
        assert!(message.contains(part), "{message}");
    }
}
