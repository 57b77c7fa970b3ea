//! The command's interface: its output, its one-line errors, its exit codes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::Value;

mod common;

use common::{ceasefire, refused};

/// The JSON of a quick run.
fn quick(more: &[&str]) -> String {
    let mut arguments =
        vec!["compare", "mmap-read", "--machine", "1-socket", "--scale", "0.003", "--json", "-"];
    arguments.extend(more);
    let output = ceasefire(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "nothing but JSON in a pipe");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The results of a tiny run of a migration, from its JSON.
fn quick_migration(experiment: &str) -> Vec<Value> {
    let output = ceasefire(&[
        "compare",
        experiment,
        "--machine",
        "2-socket-intel",
        "--cpus",
        "4",
        "--scale",
        "0.0005",
        "--json",
        "-",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "nothing but JSON in a pipe");
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    json["results"].as_array().expect("an array").clone()
}

/// A temporary file of one test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("ceasefire-{}-{name}", std::process::id()));
        fs::write(&path, text).expect("a writable folder for temporary files");
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A file that remains in the folder for temporary files does no harm.
        let _ = fs::remove_file(&self.0);
    }
}

/// The JSON without the host's time.
fn without_wall(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.contains("\"wall_s\"")).collect()
}

#[test]
fn the_json_has_every_field_with_its_type() {
    let json: Value = serde_json::from_str(&quick(&[])).expect("JSON");
    assert_eq!(json["ceasefire"], env!("CARGO_PKG_VERSION"));
    let results = json["results"].as_array().expect("an array");
    assert_eq!(results.len(), 3);
    for result in results {
        for field in ["experiment", "machine", "mechanism"] {
            assert!(result[field].is_string(), "{field}");
        }
        for field in [
            "seed",
            "cpus",
            "threads",
            "operations",
            "faults",
            "pages_reclaimed",
            "pages_migrated",
            "interrupts",
            "shootdowns",
            "broadcasts",
            "flushes_full",
            "flushes_page",
            "flushes_free",
            "tlb_misses_load",
            "tlb_misses_store",
            "tlb_misses_fetch",
            "accesses",
            "debts_created",
            "stale_hits",
            "violations",
            "pages_scanned",
            "loads_compared",
            "loads_wrong",
        ] {
            assert!(result[field].is_u64(), "{field}");
        }
        for field in [
            "scale",
            "elapsed_s",
            "user_s",
            "system_s",
            "finish_range_s",
            "finish_stddev_s",
            "operations_per_s",
            "interrupts_per_s",
            "debt_age_max_s",
            "kernel_s",
            "lock_wait_s",
            "answer_wait_s",
            "wall_s",
        ] {
            assert!(result[field].is_f64(), "{field}");
        }
        for field in ["interrupt", "broadcast", "switch", "tick", "local"] {
            assert!(result["debts_settled_by"][field].is_u64(), "{field}");
        }
        for field in
            ["user_s", "walks_s", "faults_s", "flushes_s", "answers_s", "locks_s", "kernel_s", "idle_s"]
        {
            assert!(result["time"][field].is_f64(), "{field}");
        }
        assert!(result["series"]["step_s"].is_f64() && result["series"]["measured_s"].is_null());
        for field in ["interrupts", "broadcasts"] {
            let steps = result["series"][field].as_array().expect("an array");
            assert!(!steps.is_empty() && steps.len() < 128 && steps.iter().all(Value::is_u64), "{field}");
        }
        for field in ["before", "after", "ratio", "ours", "measured"] {
            assert!(result["published"]["elapsed"][field].is_f64(), "{field}");
        }
        assert_eq!(result["published"]["elapsed"]["unit"], "s");
        assert!(result["oracle"] == true && result["shadow"] == true && result["broken"].is_array());
        // The experiment migrates no pages.
        assert!(result["flush_wait_ns_per_mib"].is_null());
        // It times no single operations.
        assert!(result["latency"].is_null() && result["atomic"].is_null());
        // The first and the last load of each page, and those through older entries.
        assert!(result["loads_compared"].as_u64() > result["operations"].as_u64().map(|pages| 2 * pages));
        assert_eq!(result["loads_wrong"], 0);
        assert_eq!(result["violations"], 0);
    }
    let [per_page, batched, lazy] = &results[..] else { panic!("three mechanisms") };
    assert_eq!([per_page, batched, lazy].map(|result| &result["mechanism"]), ["per-page", "batched", "lazy"]);
    assert_eq!(
        [per_page, batched, lazy].map(|result| &result["settle"]),
        [&Value::Null, &Value::Null, &"free".into()]
    );
    // R8: at most the maximum age and a tick.
    let age = |result: &Value| result["debt_age_max_s"].as_f64().expect("a number");
    assert!(age(lazy) > 0.0 && age(lazy) <= 0.014, "{}", age(lazy));
    let ours = batched["interrupts_per_s"].as_f64().expect("a number")
        / per_page["interrupts_per_s"].as_f64().expect("a number");
    let said = batched["published"]["interrupts_per_second"]["ours"].as_f64().expect("a number");
    assert!((said - ours).abs() < 1e-9, "{said} is {ours}");
    assert!(ours < 0.2, "batching saves interrupts: {ours}");
    assert_eq!(batched["accesses"].as_u64(), batched["operations"].as_u64().map(|pages| pages * 512));
}

#[test]
fn a_migration_moves_pages_and_every_load_finds_what_was_stored() {
    let number = |result: &Value, field: &str| result[field].as_f64().unwrap_or_else(|| panic!("{field}"));
    let small = quick_migration("migrate");
    let huge = quick_migration("migrate-huge");
    for result in small.iter().chain(&huge) {
        assert!(number(result, "pages_migrated") > 0.0);
        assert_eq!(result["operations"], result["pages_migrated"]);
        assert_eq!(result["violations"], 0);
        let compares = result["experiment"] == "migrate";
        assert_eq!(result["loads_compared"].as_u64().is_some_and(|count| count > 0), compares);
        assert_eq!(result["loads_wrong"], if compares { 0.into() } else { Value::Null });
        let mib = number(result, "pages_migrated") / 256.0;
        let (wait, said) =
            (number(result, "answer_wait_s") * 1e9 / mib, number(result, "flush_wait_ns_per_mib"));
        assert!(said > 0.0 && (said / wait - 1.0).abs() < 1e-9, "{said} is {wait}");
    }
    let [per_page, batched] = &small[..] else { panic!("two mechanisms") };
    // Each page is flushed on its own, and a page of 2 MiB costs as much as one of 4 KiB.
    for (result, pages) in [(per_page, 1.0), (&huge[0], 512.0)] {
        let moved = number(result, "pages_migrated") / pages;
        // The measured time may begin or end between a page's flush and its arrival.
        assert!((number(result, "shootdowns") - moved).abs() <= 1.0, "{moved} of {pages} pages");
    }
    assert!(number(batched, "shootdowns") * 256.0 < number(batched, "pages_migrated"));
    let paper = &batched["published"];
    assert_eq!(
        (&paper["tlb_interrupts"]["unit"], &paper["tlb_interrupts"]["after"]),
        (&"relative".into(), &0.009.into())
    );
    let ours = number(batched, "interrupts_per_s") / number(per_page, "interrupts_per_s");
    assert!((number(&paper["tlb_interrupts"], "ours") - ours).abs() < 1e-9);
    let ours = number(batched, "operations_per_s") / number(per_page, "operations_per_s");
    assert!((number(&paper["pages_migrated_per_second"], "ours") - ours).abs() < 1e-9);
}

#[test]
fn an_experiment_that_was_not_named_and_cannot_run_is_skipped_with_a_line() {
    let run = |arguments: &[&str]| {
        let output = ceasefire(&[&["compare", "--mechanism", "batched"], arguments].concat());
        let (out, told) = (String::from_utf8(output.stdout), String::from_utf8(output.stderr));
        let (out, told) = (out.expect("UTF-8"), told.expect("UTF-8"));
        assert_eq!(output.status.code(), Some(0), "{told}");
        (out, told)
    };
    let skipped = |told: &str| -> Vec<String> {
        let lines = told.lines().map(|line| {
            let line = line.strip_prefix("ceasefire: skipped: ").unwrap_or_else(|| panic!("{line}"));
            line.split_once(':').expect("a reason").0.to_owned()
        });
        lines.collect()
    };
    // One socket is one node.
    let (out, told) = run(&["--machine", "1-socket", "--scale", "0.003"]);
    assert!(out.contains("mmap-read on 1-socket") && !out.contains("migrate"), "{out}");
    assert_eq!(skipped(&told), ["migrate on 1-socket", "migrate-huge on 1-socket"]);
    assert!(told.contains("at least 2"), "{told}");
    // On the papers' machines, at a scale that is too small for some experiments.
    let (out, told) = run(&["--cpus", "4", "--scale", "0.0001", "--json", "-"]);
    let json: Value = serde_json::from_str(&out).expect("JSON");
    let ran: Vec<_> =
        json["results"].as_array().expect("an array").iter().map(|run| &run["experiment"]).collect();
    // Both machines of the last experiment, with both values of `lru_drain`.
    let flushes = ["tlb-flush2"; 4];
    assert_eq!(ran, [&["migrate", "migrate", "tiered-inference"], &flushes[..]].concat());
    assert_eq!(
        skipped(&told),
        ["mmap-read on 4-node-48-cpu", "mmap-read on 1-socket", "migrate-huge on 2-socket-intel"]
    );
    assert!(told.lines().all(|line| line.contains("scale 0.0001") && line.contains("at least")), "{told}");
    // If no experiment can run, the error has every bound in one line.
    let message = refused(&["compare", "--machine", "1-socket", "--scale", "0.00001"]);
    for part in ["no experiment can run", "at least 0.002", "too few nodes with CPUs: 1, must be at least 2"]
    {
        assert!(message.contains(part), "{part} in {message}");
    }
}

#[test]
fn an_experiment_that_was_named_and_cannot_run_is_refused_with_its_bound() {
    let message = refused(&["compare", "migrate", "--machine", "1-socket"]);
    assert!(message.contains("migrate on 1-socket") && message.contains("at least 2"), "{message}");
    refused(&["compare", "mmap-read", "migrate", "--machine", "1-socket"]);
    let message = refused(&["compare", "migrate", "--machine", "2-socket-intel", "--cpus", "1"]);
    assert!(message.contains("too few nodes with CPUs: 1"), "{message}");
    let message = refused(&["compare", "migrate", "--machine", "2-socket-intel", "--scale", "0.0001"]);
    assert!(message.contains("at least 0.0005"), "{message}");
    // The range does not fit on a node of 2 GiB, at any scale.
    let text = include_str!("../../machine/machines/2-socket-intel.toml")
        .replace("value = 64, unit = \"GiB\"", "value = 2, unit = \"GiB\"");
    let file = Scratch::new("narrow.toml", &text);
    let message = refused(&["compare", "migrate", "--machine", file.path()]);
    assert!(message.contains("node 0 has 2048.0 MiB") && message.contains("at least 5120 MiB"), "{message}");
}

#[test]
fn nodes_without_cpus_are_skipped() {
    let mut text = include_str!("../../machine/machines/2-socket-intel.toml").to_owned();
    let node = "    { cpus = 32,";
    let far = "    { cpus = 0, memory = { value = 64, unit = \"GiB\", source = \"invented\" } },\n";
    text.insert_str(text.find(node).expect("a node"), far);
    let file = Scratch::new("far.toml", &text);
    let output = ceasefire(&[
        "compare",
        "migrate",
        "--machine",
        file.path(),
        "--cpus",
        "2",
        "--scale",
        "0.0005",
        "--json",
        "-",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(json["results"][0]["pages_migrated"].as_u64().is_some_and(|pages| pages > 0));
}

#[test]
fn the_table_of_a_migration_has_rows_for_migration() {
    let table = |experiment: &str| {
        let machine = ["--machine", "2-socket-intel", "--cpus", "4", "--scale", "0.0005"];
        let output = ceasefire(&[&["compare", experiment], &machine[..]].concat());
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    // The cells of a row.
    let row = |text: &str, name: &str| -> Option<Vec<String>> {
        let rows =
            text.lines().map(|line| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>());
        rows.into_iter()
            .find(|cells| cells.get(1).is_some_and(|cell| cell == name))
            .map(|cells| cells[2..].to_vec())
    };
    let text = table("migrate");
    let per_mib = |text: &str| {
        let row = row(text, "shootdowns per MiB moved").expect("a row");
        row[0].parse::<f64>().unwrap_or_else(|_| panic!("{row:?}"))
    };
    // One page's flush may lie inside the measured time and its arrival outside.
    assert!((per_mib(&text) / 256.0 - 1.0).abs() < 0.02, "{text}");
    assert_eq!(row(&text, "TLB interrupts per second").expect("a row")[3], "relative: 1 -> 0.009");
    assert_eq!(row(&text, "pages migrated per second").expect("a row")[3], "relative: 1 -> 3.917");
    assert!(row(&text, "pages migrated").is_some() && row(&text, "flush waits per MiB moved, ns").is_some());
    assert_eq!(row(&text, "loads wrong").expect("a row")[..2], ["0", "0"]);
    assert_eq!(row(&text, "rules broken").expect("a row")[..2], ["0", "0"]);
    assert!(text.contains("no rule was broken, no load was wrong"), "{text}");
    // These have no values, or none for the measured part of the run.
    for name in ["pages reclaimed", "broadcasts", "user time, s", "range of finishes, s"] {
        assert!(row(&text, name).is_none(), "{name} in {text}");
    }
    let text = table("migrate-huge");
    assert!((per_mib(&text) / 0.5 - 1.0).abs() < 0.02, "{text}");
    // It has no published figures.
    assert!(!text.contains("relative"), "{text}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let first = quick(&[]);
    assert_eq!(without_wall(&first), without_wall(&quick(&["--jobs", "1"])));
    assert_ne!(without_wall(&first), without_wall(&quick(&["--seed", "2"])));
}

#[test]
fn the_table_shows_ours_beside_the_published() {
    let output = ceasefire(&["compare", "mmap-read", "--machine", "1-socket", "--scale", "0.003"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for part in
        ["mmap-read on 1-socket", "per-page", "batched", "500_000 -> 45_000", "fitted", "no rule was broken"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn the_output_ends_with_a_summary_at_most_100_characters_wide() {
    let arguments = ["compare", "mmap-read", "migrate", "migrate-huge", "--cpus", "4", "--scale", "0.002"];
    let output = ceasefire(&[&arguments[..], &["--no-oracle"]].concat());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let (_, last) = text.split_once("all results ").expect("the table of all results");
    let rows: Vec<Vec<&str>> = last.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    assert!(last.lines().all(|line| line.chars().count() <= 100), "{last}");
    let names: Vec<&[&str]> = rows.iter().map(|row| &row[..3]).collect();
    assert_eq!(
        names,
        [
            ["mmap-read", "4-node-48-cpu", "elapsed"],
            ["mmap-read", "1-socket", "elapsed"],
            ["migrate", "2-socket-intel", "pages/s"],
            ["migrate", "128-core-arm64", "pages/s"],
            ["migrate-huge", "2-socket-intel", "ops/s"],
        ]
    );
    assert_eq!(rows[0][3..6], ["159.6", "120.7", "0.756"]);
    assert_eq!((rows[0][10], rows[2][10], rows[4][10]), ("follows", "predicted", "-"));
}

#[test]
fn the_page_has_a_section_for_each_experiment_and_machine_and_leaves_standard_output_alone() {
    let page = Scratch::new("page.html", &"x".repeat(500_000));
    let arguments =
        ["compare", "mmap-read", "migrate", "--cpus", "4", "--scale", "0.002", "--html", page.path()];
    let output = ceasefire(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("all results"), "tables are printed too");
    let text = fs::read_to_string(&page.0).expect("a page");
    assert!(
        text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>"),
        "nothing of the earlier contents is left"
    );
    assert!(!text.contains("NaN"));
    for part in [
        "mmap-read <span>on 4-node-48-cpu</span>",
        "mmap-read <span>on 1-socket</span>",
        "migrate <span>on 2-socket-intel</span>",
        "migrate <span>on 128-core-arm64</span>",
        "no coherence rule was broken",
        "compare mmap-read migrate --cpus 4 --scale 0.002 --html",
        "interrupt_deliver",
        // The fourth machine broadcasts and sends no interrupts.
        "<title>Broadcasts over time, migrate on 128-core-arm64</title>",
    ] {
        assert!(text.contains(part), "{part}");
    }
    // Each of the four sections has ratios, a figure over time, and bars of CPU time.
    assert_eq!(text.matches("role=\"img\"").count(), 12);
    assert!(refused(&["compare", "mmap-read", "--html", "-"]).contains("--html"));
}

#[test]
fn the_same_runs_make_the_same_page() {
    let page = Scratch::new("same.html", "");
    let made = || {
        let run = ["compare", "migrate", "--machine", "2-socket-intel", "--cpus", "4", "--scale", "0.0005"];
        assert_eq!(ceasefire(&[&run[..], &["--html", page.path()]].concat()).status.code(), Some(0));
        fs::read_to_string(&page.0).expect("a page")
    };
    assert_eq!(made(), made());
}

#[test]
fn a_page_that_cannot_be_written_is_reported_before_the_first_run() {
    // The runs would take minutes at the paper's size.
    let message = refused(&["compare", "mmap-read", "--scale", "1", "--html", "/nowhere/page.html"]);
    assert!(message.contains("/nowhere/page.html"), "{message}");
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    assert!(refused(&["compare", "mmap-raed"]).contains("did you mean 'mmap-read'?"));
    assert!(refused(&["compare", "--mechanism", "per-page,bathced"]).contains("did you mean 'batched'?"));
    assert!(refused(&["compare", "--machine", "1-sockets"]).contains("did you mean '1-socket'?"));
    assert!(refused(&["compare", "--machine", "zzz"]).contains(
        "Known machines: 4-node-48-cpu, 1-socket, 2-socket-intel, 128-core-arm64, xeon-6430-cxl, small-vm, milan-36, milan-72, \
         milan-8192, host"
    ));
    assert!(refused(&["compare", "--sale", "1"]).contains("--sale"));
    assert!(refused(&["list", "machine"]).contains("machines"));
    // The answer is one line for any name.
    assert!(refused(&["compare", "mmap\nread"]).contains("mmap\\nread"));
    assert!(refused(&["compare", "--json", "/nowhere/a\nb"]).contains("a\\nb"));
}

#[test]
fn a_machine_file_is_read_and_its_errors_name_the_cause() {
    let good = include_str!("../../machine/machines/1-socket.toml");
    let file = Scratch::new("good.toml", good);
    let output = ceasefire(&[
        "compare",
        "mmap-read",
        "--machine",
        file.path(),
        "--scale",
        "0.003",
        "--mechanism",
        "batched",
        "--json",
        "-",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));

    let replaced = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        good.replacen(from, to, 1)
    };
    let kept: Vec<&str> = good.lines().filter(|line| !line.starts_with("lock =")).collect();
    let missing = kept.join("\n");
    for (name, text, expected) in [
        ("missing.toml", missing, vec!["lock"]),
        ("negative.toml", replaced("lock = { value = ", "lock = { value = -"), vec!["lock", "-", "0"]),
        ("cpus.toml", replaced("cpus = 8,", "cpus = 0,"), vec!["cpus", "0"]),
        ("many.toml", replaced("cpus = 8,", "cpus = 8193,"), vec!["8193", "8192"]),
        ("memory.toml", replaced("memory = { value = 8,", "memory = { value = 0,"), vec!["memory"]),
        ("matrix.toml", replaced("cpus = 8,", "cpus = 4,"), vec!["4", "8"]),
        ("syntax.toml", replaced("[tlb]", "[tlb"), vec!["syntax.toml:"]),
    ] {
        let file = Scratch::new(name, &text);
        let message = refused(&["compare", "--machine", file.path()]);
        assert!(message.contains(name), "{message}");
        for part in expected {
            assert!(message.contains(part), "{part} in {message}");
        }
    }
    assert!(refused(&["compare", "--machine", "nowhere/machine.toml"]).contains("nowhere/machine.toml"));
}

#[test]
fn a_sweep_has_a_row_for_each_number_of_threads_beside_its_published_figures() {
    let arguments =
        ["compare", "tlb-flush2", "--machine", "milan-72", "--threads", "1,4", "--scale", "0.0002"];
    let swept =
        [&arguments[..], &["--lru-drain", "batched", "--mechanism", "batched,broadcast,all"]].concat();
    let output = ceasefire(&swept);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{text}");
    let line = |threads: &str| {
        let begin = format!("|       {threads} | ");
        let found = text.lines().find(|line| line.starts_with(&begin));
        found.unwrap_or_else(|| panic!("{threads} in {text}")).to_owned()
    };
    assert!(line("1").contains(" 315_000 ") && line("1").contains(" 304_000 "), "{text}");
    let mark =
        |threads: &str, side: usize| line(threads).split('|').map(str::trim).nth(side).map(str::to_owned);
    assert_eq!([mark("1", 6), mark("1", 10)].map(Option::unwrap), ["fitted", "tuned in sight"], "{text}");
    assert_eq!([mark("4", 6), mark("4", 10)].map(Option::unwrap), ["tuned in sight"; 2], "{text}");
    assert!(text.contains("'fitted': ") && text.contains("'tuned in sight': "), "{text}");
    assert!(line("4").contains(" 644_000 ") && line("4").contains(" 1_032_000 "), "{text}");
    assert!(text.contains("no rule was broken, no load was wrong"), "{text}");

    let json =
        [&arguments[..], &["--lru-drain", "eager,batched", "--mechanism", "all", "--json", "-"]].concat();
    let json: Value = serde_json::from_slice(&ceasefire(&json).stdout).expect("JSON");
    let cases: Vec<_> = json["results"]
        .as_array()
        .expect("results")
        .iter()
        .map(|result| {
            (
                result["threads"].as_u64(),
                result["lru_drain"].as_str().map(str::to_owned),
                result["settle"].as_str().map(str::to_owned),
            )
        })
        .collect();
    let case = |threads, drain: &str| (Some(threads), Some(drain.to_owned()), Some("free".to_owned()));
    assert_eq!(cases, [case(1, "eager"), case(4, "eager"), case(1, "batched"), case(4, "batched")]);

    // A single number of threads has the table of the other experiments.
    let one = ["compare", "tlb-flush2", "--machine", "milan-72", "--threads", "1", "--lru-drain", "batched"];
    let output = ceasefire(&[&one[..], &["--scale", "0.0002"]].concat());
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(
        text.contains("1 thread, new pages listed batched")
            && text.contains("fitted: before; tuned in sight: after"),
        "{text}"
    );

    let message = refused(&["compare", "migrate", "--threads", "3"]);
    assert!(message.contains("the number of threads cannot be chosen"), "{message}");
    let message = refused(&["compare", "tlb-flush2", "--machine", "milan-36", "--threads", "37"]);
    assert!(message.contains("must be 1 to 36"), "{message}");
}

#[test]
fn broadcasts_need_asids_and_a_broadcast_of_no_pages_gives_a_warning() {
    let good = include_str!("../../machine/machines/milan-36.toml");
    let run = |file: &Scratch, mechanism: &'static str| {
        ["compare", "tlb-flush2", "--machine", file.path(), "--mechanism", mechanism, "--scale", "0.0002"]
            .map(str::to_owned)
    };
    let file = Scratch::new("no-asids.toml", &good.replace("asid_space = 4096", "asids = false"));
    let arguments = run(&file, "broadcast");
    let message = refused(&arguments.each_ref().map(String::as_str));
    assert!(message.contains("'broadcast' needs TLB entries with ASIDs"), "{message}");
    assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    let output = ceasefire(&run(&file, "batched").each_ref().map(String::as_str));
    assert_eq!(output.status.code(), Some(0), "interrupts need none");

    let file = Scratch::new("no-pages.toml", &good.replace("broadcast_pages = 8", "broadcast_pages = 0"));
    let output = ceasefire(&run(&file, "broadcast").each_ref().map(String::as_str));
    let told = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("broadcast_pages: 0: must be at least 1, and is taken for 1"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn a_matrix_that_is_not_square_is_refused() {
    let matrix = Scratch::new("ragged.csv", ",,\n10,,\n10,11\n");
    let name = matrix.0.file_name().expect("a name").to_str().expect("UTF-8");
    let good = include_str!("../../machine/machines/1-socket.toml");
    let ours = format!("matrix = \"{name}\"");
    let lines: Vec<&str> =
        good.lines().map(|line| if line.starts_with("matrix =") { ours.as_str() } else { line }).collect();
    let text = lines.join("\n");
    let file = Scratch::new("ragged.toml", &text);
    let message = refused(&["compare", "--machine", file.path()]);
    assert!(message.contains("ragged.csv"), "{message}");
}

#[test]
fn sizes_out_of_bounds_are_answered_with_the_bound() {
    let message = refused(&["compare", "mmap-read", "--machine", "1-socket", "--scale", "0.0001"]);
    let least = message.trim_end().rsplit("at least ").next().expect("the least scale");
    let output =
        ceasefire(&["compare", "mmap-read", "--machine", "1-socket", "--scale", least, "--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "the least scale, {least}, works");
    for scale in ["0", "-1", "nan", "1.5"] {
        refused(&["compare", "mmap-read", "--machine", "1-socket", &format!("--scale={scale}")]);
    }
    assert!(refused(&["compare", "--scale", "-1"]).contains("at least"));
    let message = refused(&["compare", "mmap-read", "--machine", "1-socket", "--cpus", "8192"]);
    let most = message.trim_end().rsplit(' ').next().expect("the most CPUs");
    let output =
        ceasefire(&["compare", "mmap-read", "--machine", "1-socket", "--cpus", "8192", "--scale", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(most.parse::<u16>().is_ok_and(|most| most > 8), "{message}");
    for cpus in ["0", "-1", "x", "99999999999"] {
        assert!(refused(&["compare", "--cpus", cpus]).contains("8192"));
    }
    assert!(refused(&["compare", "--cpus", "8193"]).contains("8192"));
    refused(&["compare", "--jobs", "0"]);
}

#[test]
fn a_trace_has_a_line_for_each_event() {
    let file = Scratch::new("trace", "");
    let one = [
        "compare",
        "mmap-read",
        "--machine",
        "1-socket",
        "--scale",
        "0.003",
        "--mechanism",
        "batched",
        "--json",
        "-",
    ];
    let mut arguments = one.to_vec();
    arguments.extend(["--trace", file.path()]);
    let output = ceasefire(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let trace = fs::read_to_string(&file.0).expect("the trace");
    let interrupts = trace.lines().filter(|line| line.ends_with(" interrupt")).count() as u64;
    assert_eq!(result["results"][0]["interrupts"].as_u64(), Some(interrupts));
    let sends = trace.lines().filter(|line| line.contains("\"remote ipi send\"")).count() as u64;
    assert_eq!(result["results"][0]["shootdowns"].as_u64(), Some(sends));
    for line in trace.lines() {
        let mut fields = line.splitn(3, ' ');
        assert!(fields.next().is_some_and(|time| time.parse::<f64>().is_ok()), "{line}");
        assert!(fields.next().is_some_and(|cpu| cpu.parse::<u16>().is_ok_and(|cpu| cpu < 8)), "{line}");
        assert!(
            fields.next().is_some_and(|event| event == "interrupt" || event.starts_with("flush \"")),
            "{line}"
        );
    }
    assert!(refused(&["compare", "--trace", file.path()]).contains("choose one"));
    assert!(refused(&[
        "compare",
        "mmap-read",
        "--machine",
        "1-socket",
        "--mechanism",
        "batched",
        "--trace",
        "/nowhere/t"
    ])
    .contains("/nowhere/t"));
}

#[test]
fn the_lists_are_complete() {
    for (what, parts) in [
        (
            "experiments",
            vec![
                "mmap-read\n",
                "BATCH-RECLAIM",
                "4-node-48-cpu, 1-socket",
                "migrate\n",
                "BATCH-MIGRATE",
                "2-socket-intel, 128-core-arm64",
                "needs: 2 nodes with CPUs",
                "migrate-huge\n",
                "tlb-flush2\n",
                "milan-36, milan-72",
                "tiered-inference\n",
                "xeon-6430-cxl",
                "runs: by default",
                "write-heavy\n",
                "fork-heavy\n",
                "allocation-latency\n",
                "small-machine\n",
                "LUF",
                "runs: only if named",
            ],
        ),
        (
            "machines",
            vec![
                "4-node-48-cpu",
                "CPUs: 48, nodes: 4, memory: 64 GiB",
                "1-socket",
                "memory: 0.25 GiB",
                "host",
            ],
        ),
        ("mechanisms", vec!["per-page", "batched", "lazy", "broadcast", "all "]),
    ] {
        let output = ceasefire(&["list", what]);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        for part in parts {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
    let output = ceasefire(&["list", "machines", "--parameters"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(
        text.contains("interrupt_deliver = ")
            && text.contains("; fitted to: mmap-read 4-node-48-cpu system after"),
        "{text}"
    );
    assert!(
        text.contains("; tuned in sight of: tlb-flush2 milan-72 x4 after, tlb-flush2 milan-72 x8 after\n"),
        "{text}"
    );
    assert_eq!(text.matches("fitted to a published figure").count(), 11, "ten machines and all together");
    assert!(
        text.lines().any(
            |line| line.starts_with("    ") && line.contains(": 3 fitted to a published figure, 8 tuned")
        ),
        "{text}"
    );
    assert!(
        text.lines().last().is_some_and(|line| line.starts_with("in all: ") && line.contains(": 14 fitted")),
        "{text}"
    );
    refused(&["list", "mechanisms", "--parameters"]);
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_ceasefire"))
        .args(["list", "machines", "--parameters"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the built command starts");
    // A reader that closes the pipe after a line must cause no error.
    if let Some(out) = child.stdout.take() {
        let mut line = String::new();
        BufReader::with_capacity(16, out).read_line(&mut line).expect("a line");
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_host_can_be_a_machine() {
    let output = ceasefire(&[
        "compare",
        "mmap-read",
        "--machine",
        "host",
        "--scale",
        "0.002",
        "--mechanism",
        "batched",
        "--json",
        "-",
    ]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    // A computer with little memory for its CPUs needs a larger scale, and the error gives it.
    assert!(output.status.code() == Some(0) || message.contains("at least"), "{message}");
}

#[test]
fn a_mechanism_named_twice_runs_once() {
    let json: Value = serde_json::from_str(&quick(&["--mechanism", "batched,batched"])).expect("JSON");
    let results = json["results"].as_array().expect("an array");
    assert_eq!(results.len(), 1);
    // Without the baseline there is no ratio.
    assert!(results[0]["published"]["elapsed"]["ours"].is_null());
}

#[test]
fn the_default_scale_holds_the_working_set_of_more_cpus() {
    let output = ceasefire(&[
        "compare",
        "mmap-read",
        "--machine",
        "1-socket",
        "--cpus",
        "300",
        "--mechanism",
        "batched",
        "--no-oracle",
    ]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("The published figures are for 8 CPUs, not 300."), "{text}");
}

#[test]
fn earlier_results_survive_a_run_that_fails() {
    let file = Scratch::new("earlier.json", "earlier");
    let arguments =
        ["compare", "mmap-read", "--machine", "1-socket", "--scale", "0.003", "--mechanism", "batched"];
    refused(&[&arguments[..], &["--json", file.path(), "--trace", "/nowhere/t"]].concat());
    assert_eq!(fs::read_to_string(&file.0).expect("readable"), "earlier");
    let longer = "x".repeat(100_000);
    fs::write(&file.0, longer).expect("writable");
    let output = ceasefire(&[&arguments[..], &["--json", file.path()]].concat());
    assert_eq!(output.status.code(), Some(0));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("mmap-read on 1-socket"),
        "the table is printed too"
    );
    let text = fs::read_to_string(&file.0).expect("readable");
    assert!(serde_json::from_str::<Value>(&text).is_ok(), "nothing of the earlier text is left");
}

/// A pipe without a reader.
fn broken_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn output_without_a_reader_is_no_error() {
    let run = ["compare", "mmap-read", "--machine", "1-socket", "--scale", "0.003", "--mechanism", "batched"];
    for arguments in [&run[..], &[&run[..], &["--json", "-"]].concat(), &["list", "machines"], &["--help"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ceasefire"));
        let child = command.args(arguments).stdout(broken_pipe()).stderr(Stdio::piped()).spawn();
        let output = child.and_then(std::process::Child::wait_with_output).expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_ceasefire"));
    let status = command.args(["compare", "bad"]).stderr(broken_pipe()).status().expect("it ends");
    assert_eq!(status.code(), Some(2), "an error without a reader is still an error");
    #[cfg(target_os = "linux")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ceasefire"));
        let traced = command.args(run).args(["--trace", "/dev/stdout", "--json", "-"]);
        let child = traced.stdout(broken_pipe()).stderr(Stdio::piped()).spawn();
        let output = child.and_then(std::process::Child::wait_with_output).expect("it ends");
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    }
}
