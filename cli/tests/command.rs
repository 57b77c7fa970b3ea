//! The command's interface: its output, its one-line errors, its exit codes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

use serde_json::Value;

use crate::common::{ceasefire, command, json, printed, refused, results, unwrapped, Folder};

/// A quick run, whose machine has published figures.
const QUICK: &[&str] = &["mmap-read", "--machine", "1-socket", "--scale", "0.003", "--repeats", "1"];

/// The results of a tiny run of a migration.
fn quick_migration(experiment: &str) -> Vec<Value> {
    let run = [experiment, "--machine", "2-socket-intel", "--scale", "0.0005", "--repeats", "1"];
    // With few CPUs, so few huge pages are enough. Such a machine has no published figures.
    let few: &[&str] = if experiment == "migrate-huge" { &["--cpus", "4"] } else { &[] };
    results(&[&run[..], few].concat())
}

#[test]
fn the_json_has_the_command_line_and_every_parameter_of_its_machines() {
    let run = [QUICK, &["--check=none", "--mechanism", "per-page,batched"]].concat();
    let json = json(&run);
    let command = json["command"].as_str().expect("the command line");
    assert_eq!(command, format!("ceasefire compare --quiet {} --json -", run.join(" ")));
    let [machine] = &json["machines"].as_array().expect("an array")[..] else { panic!("one machine") };
    assert_eq!((&machine["name"], &machine["built_in"]), (&"1-socket".into(), &"1-socket".into()));
    let parameters = machine["parameters"].as_array().expect("an array");
    let access = parameters.iter().find(|one| one["key"] == "costs.access").expect("a parameter");
    assert_eq!((&access["value"], &access["unit"]), (&3.382.into(), &"ns".into()));
    assert_eq!(access["fitted"], "mmap-read 1-socket user before");
    assert!(access["source"].is_string(), "{access}");
    let [headline] = &json["summary"].as_array().expect("an array")[..] else { panic!("one row") };
    assert_eq!((&headline["metric"], &headline["label"]), (&"elapsed time".into(), &"follows".into()));
    for result in json["results"].as_array().expect("an array") {
        assert_eq!(result["machine_hash"], machine["hash"]);
    }
}

#[test]
fn a_run_that_speculates_breaks_no_rule_and_has_no_published_figure() {
    let run = |more: &[&str]| json(&[QUICK, &["--mechanism", "lazy"], more].concat());
    let (plain, eager) = (run(&[]), run(&["--set", "speculate=0.1"]));
    let rate = |json: &Value| json["results"][0]["speculate"].as_f64();
    assert_eq!(
        [rate(&plain), rate(&eager), rate(&run(&["--set", "speculate=0"]))],
        [Some(0.0), Some(0.1), Some(0.0)]
    );
    let [before, result] = [&plain, &eager].map(|json| &json["results"][0]);
    assert_eq!((&result["violations"], &result["loads_wrong"]), (&0.into(), &0.into()));
    assert_eq!((&before["built_in"], &result["built_in"]), (&"1-socket".into(), &Value::Null));
    assert_ne!(before["machine_hash"], result["machine_hash"]);
    assert_ne!(before["tlb_misses_load"], result["tlb_misses_load"], "the fills changed the TLBs");
    let same = run(&["--set", " speculate = 1e-1"]);
    assert_eq!(result["tlb_misses_load"], same["results"][0]["tlb_misses_load"]);
    let parameters = eager["machines"][0]["parameters"].as_array().expect("an array");
    assert!(parameters.iter().any(|one| one["key"] == "processor.speculate" && one["value"] == 0.1));
}

#[test]
fn the_json_has_every_field_with_its_type() {
    let json = json(QUICK);
    assert_eq!(json["ceasefire"], env!("CARGO_PKG_VERSION"));
    let results = json["results"].as_array().expect("an array");
    assert_eq!(results.len(), 3);
    for result in results {
        for field in ["experiment", "machine", "mechanism", "machine_hash", "built_in"] {
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
            "requests",
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
            "cpu_s",
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
        assert!(result["requests"].as_u64() > result["interrupts"].as_u64(), "some meet others");
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
        let usual = ["compare", "--quiet", "--repeats", "1", "--mechanism", "batched"];
        let output = ceasefire(&[&usual, arguments].concat());
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
        ["mmap-read on 1-socket", "mmap-read on 4-node-48-cpu", "migrate-huge on 2-socket-intel"]
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
fn nodes_without_cpus_are_skipped() {
    let mut text = include_str!("../../sim/machine/machines/2-socket-intel.toml").to_owned();
    let node = "[[topology.nodes]]\n";
    let far =
        "[[topology.nodes]]\ncpus = 0\nmemory = { value = 64, unit = \"GiB\", source = \"invented\" }\n\n";
    text.insert_str(text.find(node).expect("a node"), far);
    let folder = Folder::new();
    let file = folder.write("far.toml", &text);
    let results =
        results(&["migrate", "--machine", &file, "--cpus", "2", "--scale", "0.0005", "--repeats", "1"]);
    assert!(results[0]["pages_migrated"].as_u64().is_some_and(|pages| pages > 0));
}

/// The rows under a heading of a table, one for each mechanism, without the mechanisms' names.
fn rows(text: &str, heading: &str) -> Option<Vec<Vec<String>>> {
    let is_heading = |line: &&str| **line == *heading || line.starts_with(&format!("{heading} ("));
    let mut lines = text.lines().skip_while(|line| !is_heading(line));
    lines.next()?;
    let cells = |line: &str| line.split_whitespace().skip(1).map(str::to_owned).collect();
    Some(lines.take_while(|line| line.starts_with("  ")).map(cells).collect())
}

#[test]
fn the_table_of_a_migration_has_rows_for_migration() {
    let table = |more: &[&str]| {
        let run = ["--machine", "2-socket-intel", "--scale", "0.0005", "--repeats", "1", "--all"];
        printed(&[&run[..], more].concat())
    };
    let text = table(&["migrate"]);
    let per_mib = |text: &str| {
        let rows = rows(text, "shootdowns per MiB moved").expect("rows");
        rows[0][0].parse::<f64>().unwrap_or_else(|_| panic!("{rows:?}"))
    };
    // One page's flush may lie inside the measured time and its arrival outside.
    assert!((per_mib(&text) / 256.0 - 1.0).abs() < 0.02, "{text}");
    let paper = |heading: &str| rows(&text, heading).expect("rows")[1][2].clone();
    assert_eq!(paper("TLB interrupts per second"), "0.0090", "{text}");
    assert_eq!(paper("pages migrated per second"), "3.92", "{text}");
    assert!(
        rows(&text, "pages migrated").is_some() && rows(&text, "flush waits per MiB moved, ns").is_some()
    );
    for name in ["loads wrong", "rules broken"] {
        let rows = rows(&text, name).expect("rows");
        assert_eq!([&rows[0][0], &rows[1][0]], ["0", "0"], "{name} in {text}");
    }
    assert!(text.contains("No rule was broken, none of "), "{text}");
    // These have no values, or none for the measured part of the run.
    for name in ["pages reclaimed", "broadcasts", "user time, s", "range of finishes, s"] {
        assert!(rows(&text, name).is_none(), "{name} in {text}");
    }
    let text = table(&["migrate-huge", "--cpus", "4"]);
    assert!((per_mib(&text) / 0.5 - 1.0).abs() < 0.02, "{text}");
    // It has no published figures.
    assert!(!text.contains("paper differs"), "{text}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let bytes = |more: &[&str]| {
        let text = printed(&[QUICK, more, &["--json", "-"]].concat());
        // The command line and the host's time differ.
        let differs = ["\"command\"", "\"wall_s\"", "\"cpu_s\""];
        let lines = text.lines().filter(|line| !differs.iter().any(|field| line.contains(field)));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let first = bytes(&[]);
    assert_eq!(first, bytes(&["--jobs", "1"]));
    assert_ne!(first, bytes(&["--seed", "2"]));
}

#[test]
fn the_table_shows_ours_beside_the_published() {
    let text = printed(QUICK);
    for part in
        ["mmap-read on 1-socket", "per-page", "batched", "25.33 to 20.38", "follows", "No rule was broken"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    let interrupts = rows(&text, "TLB interrupts per second").expect("rows");
    assert_eq!((interrupts[0][1].as_str(), interrupts[1][1].as_str()), ("500k", "45k"), "{text}");
}

#[test]
fn compare_may_be_left_out() {
    let run = [&["--quiet", "--check=none"], QUICK, &["--table", "-"]].concat();
    let output = ceasefire(&run);
    let named = ceasefire(&[&["compare"], &run[..]].concat());
    let rows = |output: &std::process::Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let rows = text.lines().filter(|line| !line.contains(",wall_s,") && !line.contains(",cpu_s,"));
        rows.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!((output.status.code(), named.status.code()), (Some(0), Some(0)));
    assert!(rows(&output).len() > 100);
    assert_eq!(rows(&output), rows(&named));
}

#[test]
fn a_scale_may_be_a_fraction() {
    let run = |scale| {
        let run = ["tlb-flush2", "--machine", "milan-36", "--threads", "2", "--set", "lru_drain=batched"];
        let results =
            results(&[&run[..], &["--mechanism", "batched", "--repeats", "1", "--scale", scale]].concat());
        (results[0]["scale"].clone(), results[0]["operations"].clone())
    };
    assert_eq!(run("1/4096"), run("0.000244140625"));
}

#[test]
fn a_release_of_linux_has_its_own_locks_and_no_fitted_figures() {
    let run = ["tlb-flush2", "--machine", "milan-36", "--mechanism", "batched", "--scale", "0.0005"];
    let with = |kernel: &[&str]| results(&[&run[..], &["--repeats", "1", "--check", "all"], kernel].concat());
    let kernel = |name: &str| with(&["--kernel", name]);
    let (usual, old, new) = (with(&[]), kernel("6.3"), kernel("6.18"));
    let of = |results: &[Value], key: &str| results.iter().map(|one| one[key].clone()).collect::<Vec<_>>();
    assert_eq!(
        (of(&usual, "kernel"), of(&old, "lru_drain")),
        (vec![Value::from("6.13"); 2], vec!["eager".into()])
    );
    assert_eq!((of(&new, "kernel"), of(&new, "lru_drain")), (vec!["6.18".into()], vec!["batched".into()]));
    let waits = |results: &[Value], class: &str| results[0]["lock_wait_by_class_s"][class].as_f64();
    // All faults come to the space's lock, or to the area that all threads share.
    assert_eq!(waits(&old, "area"), Some(0.0));
    assert!(waits(&new, "area") > Some(0.0), "{new:?}");
    let both = ["tlb-flush2", "--machine", "milan-36", "--scale", "0.0005", "--repeats", "1"];
    let text = printed(&[&both[..], &["--kernel", "6.18"]].concat());
    assert!(text.contains("as Linux 6.18") && text.contains("altered"), "{text}");
    // The workload's own release, where it is chosen, lists new pages at its own time too.
    let (own, batched) = (kernel("6.13"), with(&["--kernel", "6.13", "--set", "lru_drain=batched"]));
    assert_eq!(of(&own, "lru_drain"), vec![Value::from("eager")]);
    assert_eq!(of(&batched, "lru_drain"), vec![Value::from("batched")]);
    let said = |more: &[&str]| {
        let output =
            ceasefire(&[&run[..], &["--repeats", "1", "--check", "none", "--json", "-"], more].concat());
        String::from_utf8_lossy(&output.stderr).contains("new pages are listed as Linux 6.13 does")
    };
    assert!(said(&["--kernel", "6.13"]) && !said(&[]));
    assert!(!said(&["--kernel", "6.13", "--set", "lru_drain=batched"]));
    // So has the machine whose file names it.
    let folder = Folder::new();
    let machine = include_str!("../../sim/machine/machines/milan-36.toml");
    let file = folder.write("machine.toml", &format!("linux = '6.18'\n{machine}"));
    let its = run.map(|word| if word == "milan-36" { file.as_str() } else { word });
    let its = results(&[&its[..], &["--repeats", "1", "--check", "all"]].concat());
    assert_eq!((of(&its, "kernel"), of(&its, "elapsed_s")), (of(&new, "kernel"), of(&new, "elapsed_s")));
}

#[test]
fn debts_can_be_settled_in_two_ways() {
    let run = ["tlb-flush2", "--machine", "milan-36", "--threads", "2", "--set", "lru_drain=batched"];
    for settle in ["free", "demand"] {
        let set = format!("settle={settle}");
        let lazy = ["--set", &set, "--mechanism", "all", "--scale", "0.0002", "--repeats", "1"];
        assert_eq!(results(&[&run[..], &lazy].concat())[0]["settle"], settle);
    }
}

#[test]
fn the_output_ends_with_a_summary_that_fits_80_columns() {
    let run = ["mmap-read", "migrate", "migrate-huge", "--cpus", "4", "--scale", "0.002"];
    let text = printed(&[&run[..], &["--check=none", "--repeats", "1"]].concat());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let (_, last) = text.split_once("\nAll results ").expect("the table of all results");
    let rows: Vec<Vec<&str>> = last.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    // No paper measured such small machines.
    let headings = rows.iter().filter(|row| row.get(1) == Some(&"on"));
    let names: Vec<[&str; 2]> = headings.map(|row| [row[0], row[2].trim_end_matches(':')]).collect();
    assert_eq!(
        names,
        [
            ["mmap-read", "4-node-48-cpu"],
            ["mmap-read", "1-socket"],
            ["migrate", "2-socket-intel"],
            ["migrate", "128-core-arm64"],
            ["migrate-huge", "2-socket-intel"],
        ]
    );
    let count = |mechanism| rows.iter().filter(|row| row[0] == mechanism && row.len() >= 2).count();
    assert_eq!((count("per-page"), count("batched")), (5, 5), "{last}");
}

#[test]
fn the_page_has_a_section_for_each_experiment_and_machine_and_leaves_standard_output_alone() {
    let folder = Folder::new();
    let page = folder.write("page.html", &"x".repeat(500_000));
    let run = ["mmap-read", "migrate", "--cpus", "4", "--scale", "0.002", "--repeats", "1", "--html", &page];
    assert!(printed(&run).contains("All results"), "tables are printed too");
    let text = fs::read_to_string(&page).expect("a page");
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
        "mmap-read migrate --cpus 4 --scale 0.002 --repeats 1 --html",
        "interrupt_deliver",
        // The fourth machine broadcasts and sends no interrupts.
        "<title>Broadcasts over time, migrate on 128-core-arm64</title>",
    ] {
        assert!(text.contains(part), "{part}");
    }
    // Each of the four sections has the speed, a figure over time and bars of CPU time. No paper measured such small
    // machines, so none has ratios.
    assert_eq!(text.matches("role=\"img\"").count(), 12);
}

#[test]
fn the_same_runs_make_the_same_page() {
    let folder = Folder::new();
    let file = folder.file("same.html");
    let made = || {
        let run = ["migrate", "--machine", "2-socket-intel", "--scale", "0.0005", "--check=none"];
        printed(&[&run[..], &["--repeats", "1", "--html", &file]].concat());
        fs::read_to_string(&file).expect("a page")
    };
    let page = made();
    assert_eq!(page, made());
    assert_eq!(page.matches("role=\"img\"").count(), 3, "with ratios, since the paper measured this machine");
}

#[test]
fn a_machine_may_be_a_file() {
    let folder = Folder::new();
    let file = folder.write("good.toml", include_str!("../../sim/machine/machines/1-socket.toml"));
    let run =
        ["mmap-read", "--machine", &file, "--scale", "0.003", "--mechanism", "batched", "--repeats", "1"];
    assert_eq!(results(&run)[0]["machine"], "1-socket");
}

#[test]
fn a_sweep_has_rows_for_each_number_of_threads_beside_its_published_figures() {
    let run =
        ["tlb-flush2", "--machine", "milan-72", "--threads", "1,4", "--scale", "0.0002", "--repeats", "1"];
    let swept = [&run[..], &["--set", "lru_drain=batched", "--mechanism", "batched,broadcast,all"]].concat();
    let text = printed(&swept);
    let mut lines = text.lines().skip_while(|line| !line.contains("threads listed")).skip(1);
    let mut row = || lines.next().unwrap_or_else(|| panic!("{text}")).split_whitespace().collect::<Vec<_>>();
    // The paper's figure, and the basis of ours. The rows of a mechanism that the paper does not propose have neither.
    for (begin, paper, basis) in [
        (&["1", "batched", "batched"][..], "315k", "fitted"),
        (&["broadcast"], "304k", "tuned"),
        (&["all"], "", ""),
        (&["4", "batched", "batched"], "644k", "tuned"),
        (&["broadcast"], "1.032M", "tuned"),
        (&["all"], "", ""),
    ] {
        let row = row();
        assert!(row.starts_with(begin), "{begin:?} in {text}");
        let has = |cell: &str| cell.is_empty() || row.contains(&cell);
        assert!(has(paper) && has(basis), "{paper} and {basis} in {row:?} of {text}");
        assert!(!paper.is_empty() || row.len() == 3, "{row:?}");
    }
    assert!(text.contains("'fitted': ") && text.contains("'tuned': "), "{text}");
    assert!(text.contains("No rule was broken, none of "), "{text}");

    let cases: Vec<_> =
        results(&[&run[..], &["--set", "lru_drain=eager,batched", "--mechanism", "all"]].concat())
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
    let one = ["tlb-flush2", "--machine", "milan-72", "--threads", "1", "--set", "lru_drain=batched"];
    let text = printed(&[&one[..], &["--scale", "0.0002", "--repeats", "1"]].concat());
    assert!(text.contains("1 thread, new pages listed batched"), "{text}");
    assert!(rows(&text, "operations per second").is_some_and(|rows| rows.len() == 2), "{text}");
}

#[test]
fn only_broadcasts_need_asids_and_a_broadcast_of_no_pages_gives_a_warning() {
    let good = include_str!("../../sim/machine/machines/milan-36.toml");
    let run = |file: &str, mechanism: &str| {
        let run =
            ["compare", "tlb-flush2", "--quiet", "--repeats", "1", "--scale", "0.0002", "--threads", "2"];
        ceasefire(&[&run[..], &["--machine", file, "--mechanism", mechanism]].concat())
    };
    let folder = Folder::new();
    let file = folder.write("no-asids.toml", &good.replace("asid_space = 4096", "asids = false"));
    assert_eq!(run(&file, "batched").status.code(), Some(0), "interrupts need none");

    let file = folder.write("no-pages.toml", &good.replace("broadcast_pages = 8", "broadcast_pages = 0"));
    let output = run(&file, "broadcast");
    let told = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("broadcast_pages: 0: must be at least 1, and is taken for 1"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn a_trace_has_a_line_for_each_event() {
    let folder = Folder::new();
    let file = folder.file("trace");
    let result = json(&[QUICK, &["--mechanism", "batched", "--trace", &file]].concat());
    let trace = fs::read_to_string(&file).expect("the trace");
    let interrupts = trace.lines().filter(|line| line.ends_with(" interrupt")).count() as u64;
    assert_eq!(result["results"][0]["interrupts"].as_u64(), Some(interrupts));
    let sends = trace.lines().filter(|line| line.contains("\"remote ipi send\"")).count() as u64;
    assert_eq!(result["results"][0]["shootdowns"].as_u64(), Some(sends));
    let about = |name: &str| {
        let begun = format!("# {name} = ");
        trace.lines().find_map(|line| line.strip_prefix(&begun)).unwrap_or_else(|| panic!("no {name}"))
    };
    assert!(about("command").starts_with("ceasefire compare --quiet mmap-read "), "{}", about("command"));
    assert_eq!(result["machines"][0]["hash"], about("machine_hash"));
    assert_eq!(
        ["experiment", "mechanism", "scale", "seed"].map(about),
        ["mmap-read", "batched", "0.003", "1"]
    );
    assert!(about("machine.costs.access").contains("; fitted to: mmap-read 1-socket user before"));
    let shown = folder.file("trace.pftrace");
    json(&[QUICK, &["--mechanism", "batched", "--trace", &shown]].concat());
    let shown = fs::read(&shown).expect("the trace");
    let requests = shown.windows(15).filter(|bytes| bytes == b"remote ipi send").count() as u64;
    assert_eq!(requests, 2 * sends, "each request has its reason as name and as argument");
    for line in trace.lines().filter(|line| !line.starts_with('#')) {
        let mut fields = line.splitn(3, ' ');
        assert!(fields.next().is_some_and(|time| time.parse::<f64>().is_ok()), "{line}");
        assert!(fields.next().is_some_and(|cpu| cpu.parse::<u16>().is_ok_and(|cpu| cpu < 8)), "{line}");
        assert!(
            fields.next().is_some_and(|event| event == "interrupt" || event.starts_with("flush \"")),
            "{line}"
        );
    }
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
                "runs: in the overview too",
                "write-heavy\n",
                "fork-heavy\n",
                "allocation-latency\n",
                "small-machine\n",
                "LUF",
                "kernel: 6.9",
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
        (
            "kernels",
            vec![
                "6.12\n  nothing for TLBs or these locks\n6.13\n  nothing",
                "6.18\n  an unmap lists no new pages (6.14",
            ],
        ),
    ] {
        let output = ceasefire(&["list", what]);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        for part in parts {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
    let output = ceasefire(&["list", "machines", "--parameters"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let last = text.lines().rfind(|line| !line.starts_with(' ')).map(str::to_owned);
    let text = unwrapped(&text);
    assert!(
        text.contains("interrupt_deliver = ")
            && text.contains("; fitted to: mmap-read 4-node-48-cpu system after"),
        "{text}"
    );
    assert!(
        text.contains(
            "; tuned in sight of: tlb-flush2 milan-72 x4 after, tlb-flush2 milan-72 x8 after; may be 300 to 1000 ns \
             (0.3 to 1 us) costs."
        ),
        "{text}"
    );
    assert_eq!(text.matches("fitted to a published figure").count(), 11, "ten machines and all together");
    assert!(text.contains(" numbers: 3 fitted to a published figure, 8 tuned"), "{text}");
    assert!(last.is_some_and(|line| line.starts_with("in all: ") && line.contains(": 14 fitted")), "{text}");
    let output = ceasefire(&["list"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    for name in ["mmap-read", "switching-left", "4-node-48-cpu", "host", "per-page", "all"] {
        assert!(text.lines().any(|line| line.starts_with(&format!("  {name} "))), "{name} in {text}");
    }
}

#[test]
fn a_reader_that_closes_the_pipe_is_no_error() {
    let mut child = command()
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
    let run =
        ["mmap-read", "--machine", "host", "--scale", "0.002", "--mechanism", "batched", "--repeats", "1"];
    let output = ceasefire(&[&["--quiet", "--check=none"], &run[..]].concat());
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    // A computer with little memory for its CPUs needs a larger scale, and the error gives it.
    assert!(output.status.code() == Some(0) || message.contains("at least"), "{message}");
}

#[test]
fn a_mechanism_named_twice_runs_once() {
    let results = results(&[QUICK, &["--mechanism", "batched,batched"]].concat());
    assert_eq!(results.len(), 1);
    // Without the baseline there is no ratio.
    assert!(results[0]["published"]["elapsed"]["ours"].is_null());
}

#[test]
fn the_default_scale_holds_the_working_set_of_more_cpus() {
    let run =
        ["mmap-read", "--machine", "1-socket", "--cpus", "100", "--mechanism", "batched", "--repeats", "1"];
    let text = printed(&[&run[..], &["--check=none"]].concat());
    assert!(text.contains("mmap-read on 1-socket: 100 CPUs"), "{text}");
}

/// A pipe without a reader.
fn broken_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn output_without_a_reader_is_no_error() {
    let run = [QUICK, &["--quiet", "--mechanism", "batched"]].concat();
    for arguments in
        [&run[..], &[&run[..], &["--json", "-"]].concat(), &["list", "machines"], &["man"], &["--help"]]
    {
        let mut command = crate::common::command();
        let child = command.args(arguments).stdout(broken_pipe()).stderr(Stdio::piped()).spawn();
        let output = child.and_then(std::process::Child::wait_with_output).expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert!(output.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut command = crate::common::command();
    let status = command.args(["compare", "bad"]).stderr(broken_pipe()).status().expect("it ends");
    assert_eq!(status.code(), Some(2), "an error without a reader is still an error");
    #[cfg(target_os = "linux")]
    {
        let mut command = crate::common::command();
        let traced = command.args(&run).args(["--trace", "/dev/stdout", "--json", "-"]);
        let child = traced.stdout(broken_pipe()).stderr(Stdio::piped()).spawn();
        let output = child.and_then(std::process::Child::wait_with_output).expect("it ends");
        assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0));
    }
}
