//! `ceasefire replay` on recordings of a real machine.

use std::collections::BTreeSet;

use crate::common::{ceasefire, refused, unwrapped, Folder};
use ceasefire_linux::events::{Kind, Names};
use ceasefire_linux::export::export;
use ceasefire_linux::recording::{Facts, Recording, RecordingError, Writer};
use serde_json::Value;

/// A recording that is kept for tests.
fn recording(name: &str) -> String {
    format!("{}/../linux/recordings/{name}.parquet", env!("CARGO_MANIFEST_DIR"))
}

/// What a replay of it prints.
fn replayed(name: &str, options: &[&str]) -> String {
    let file = recording(name);
    let output = ceasefire(&[&["replay", &file], options].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn json(name: &str, options: &[&str]) -> Value {
    serde_json::from_str(&replayed(name, &[&["--json", "-"], options].concat())).expect("JSON")
}

#[test]
fn advice_names_the_call_and_the_change_that_saves_most_and_is_none_where_nothing_saves() {
    let lines = |name| json(name, &["--process-madvise"])["advice"].as_array().expect("an array").clone();
    let purge = lines("purge");
    assert_eq!(purge.len(), 1, "{purge:?}");
    let line = purge[0].as_str().expect("text");
    assert!(
        line.starts_with("madvise by shootdowns (") && line.contains("'process_madvise' would leave 0.02"),
        "{line}"
    );
    assert_eq!(lines("mprotect"), [Value::Null; 0]);
}

#[test]
fn a_replay_that_misses_what_was_observed_says_so_first_and_gives_no_advice() {
    let found = json("guests/6.12-migrate-4", &[]);
    let misfit = found["misfit"].as_str().expect("a sentence");
    let why = "this recording has too little to tell whether the model fits";
    assert!(misfit.starts_with(why) && misfit.contains("0.926"), "{misfit}");
    assert_eq!(found["advice"], serde_json::json!([]));
    let text = replayed("guests/6.12-migrate-4", &[]);
    assert!(text.starts_with(why), "{text}");
    let folder = Folder::new();
    let page = folder.file("page.html");
    replayed("guests/6.12-migrate-4", &["--html", &page]);
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("<div class=\"alarm\"><p><strong>this recording has too little"), "{page}");
    assert_eq!(json("guests/6.12-madvise", &[])["misfit"], Value::Null);
}

#[test]
fn mechanisms_that_leave_the_same_share_a_line_of_advice() {
    let lines = json("worked/lmdb", &[])["advice"].clone();
    let lines = lines.as_array().expect("an array");
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = lines[0].as_str().expect("text");
    assert!(line.contains("; 'batched', 'lazy', 'broadcast', 'all' would leave 0.476 of all ("), "{line}");
}

#[test]
fn the_share_of_the_time_that_shootdowns_took_is_told_if_there_are_any() {
    assert!(
        replayed("worked/lmdb", &[]).contains("\nshootdowns took 2.245% of the CPUs' time: senders waited")
    );
    assert!(!replayed("worked/purge-after", &[]).contains("shootdowns took"));
}

#[test]
fn every_division_has_all_requests() {
    let found = json("purge", &["--decay", "1ms"]);
    let rows = found["predicted"].as_array().expect("rows").iter().chain([&found["observed"]]);
    for row in rows {
        let sum = |part: &str| -> u64 {
            match &row[part] {
                Value::Object(causes) => causes.values().filter_map(Value::as_u64).sum(),
                Value::Array(rows) => {
                    rows.iter().filter_map(|row| row.as_u64().or(row["requests"].as_u64())).sum()
                }
                _ => u64::MAX,
            }
        };
        let requests = row["requests"].as_u64().expect("a count");
        assert_eq!(["causes", "processes", "sent", "received"].map(sum), [requests; 4], "{row}");
        let by_cause = row["interrupts_by_cause"].as_object().expect("an object");
        let interrupts: u64 = by_cause.values().filter_map(Value::as_u64).sum();
        assert_eq!(Some(interrupts), row["interrupts"].as_u64(), "{row}");
    }
    let kept = &found["predicted"].as_array().expect("rows")[6];
    assert_eq!((&kept["mechanism"], &kept["most_kept_bytes"]), (&"decay 1ms".into(), &(40 * 4096).into()));
}

#[test]
fn words_divide_requests_as_they_are_asked_to() {
    for (by, line) in
        [("process", "shootdowns ("), ("cause", "madvise "), ("sender", "CPU 0 "), ("victim", "CPU 1 ")]
    {
        let text = replayed("purge", &["--mechanism", "batched", "--by", by]);
        let (_, parts) = text.split_once(&format!("by {by}")).expect("the table");
        assert!(parts.lines().nth(1).is_some_and(|first| first.starts_with(line)), "{text}");
        // Not one of the other mechanisms.
        assert!(!text.contains("lazy"), "{text}");
    }
}

#[test]
fn the_page_is_one_file_with_every_part_of_the_replay() {
    let folder = Folder::new();
    let page = folder.file("page.html");
    replayed("purge", &["--process-madvise", "--html", &page]);
    let text = std::fs::read_to_string(&page).expect("the page");
    for part in [
        "TLB shootdowns of purge.parquet",
        "<b>Over time.</b>",
        "from CPU 0 to CPU 1: 402",
        "process_madvise: 0.0274 (0.0226-0.0523)",
        "madvise by shootdowns (",
        "<th scope=\"row\">madvise</th><td>400</td><td>400</td>",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(text.matches("role=\"img\"").count(), 3);
    for outside in ["http:", "https:", "src=", "<script", "@import", "NaN"] {
        assert!(!text.contains(outside), "{outside}");
    }
}

#[test]
fn the_page_of_two_recordings_says_which_rates_differ() {
    let folder = Folder::new();
    let page = folder.file("page.html");
    let output = ceasefire(&["diff", &recording("madvise"), &recording("munmap"), "--html", &page]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(&page).expect("the page");
    for part in [
        "TLB shootdowns of two recordings",
        "madvise.parquet",
        "<th scope=\"row\">interrupts/s</th>",
        "differs",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn the_trace_of_a_recording_replaces_an_earlier_one_when_it_is_complete() {
    let folder = Folder::new();
    let trace = folder.write("earlier.pftrace", "earlier");
    replayed("purge", &["--mechanism", "batched", "--trace", &trace]);
    let mut expected = Vec::new();
    let mut file = Recording::open(recording("purge").as_ref()).expect("a recording");
    export(&mut file, &mut expected).expect("memory");
    let contents = folder.contents();
    assert_eq!(contents.keys().collect::<Vec<_>>(), ["earlier.pftrace"]);
    assert!(contents["earlier.pftrace"] == expected);
    let before = folder.write("kept.pftrace", "kept");
    let damaged = folder.write("damaged.parquet", "no recording");
    refused(&["replay", &damaged, "--trace", &before]);
    assert_eq!(folder.contents()["kept.pftrace"], b"kept");
}

#[test]
fn waits_for_locks_are_told_with_the_part_that_flushes_explain() {
    let found = json("waits", &[]);
    let rows = found["observed"]["locks"].as_array().expect("rows");
    let first = &rows[0];
    assert_eq!(
        (&first["kind"], &first["cause"], &first["program"], &first["waits"], &first["locks"]),
        (&"rwsem, for reading".into(), &"page fault".into(), &"guest_loads".into(), &63.into(), &1.into())
    );
    let ns = |key: &str| first[key].as_u64().expect("a time");
    assert!(0 < ns("during_flushes_ns") && ns("during_flushes_ns") < ns("waited_ns") / 50, "{first}");
    let advice = found["advice"][0].as_str().expect("a line");
    assert!(
        advice.starts_with("threads of guest_loads (26103) waited 78.15 ms for locks, 0.0069 of it")
            && advice.ends_with("most is for rwsem, for reading (page fault)."),
        "{advice}"
    );
    let text = replayed("waits", &[]);
    assert!(
        text.contains("rwsem, for writing munmap     guest_loads (26103)    21  21.71             1%"),
        "{text}"
    );
    // Before they were recorded.
    assert_eq!(json("purge", &[])["observed"]["locks"], Value::Null);
    assert!(!replayed("purge", &[]).contains("waits for"));
}

#[test]
fn the_page_has_the_waits_for_locks() {
    let folder = Folder::new();
    let page = folder.file("page.html");
    replayed("waits", &["--html", &page]);
    let text = std::fs::read_to_string(&page).expect("the page");
    for part in ["<h3>Waits for locks</h3>", "<td class=\"word\">munmap</td>", "<td>mmap_lock</td>"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// What a comparison of two files prints.
fn compared(one: &str, other: &str, options: &[&str]) -> String {
    let output = ceasefire(&[&["diff", one, other], options].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn waits_are_compared_if_both_recordings_tell_them() {
    let differ = |one, other| compared(&recording(one), &recording(other), &[]);
    let same = differ("waits", "waits");
    assert!(
        same.contains("lock waits, ms/s") && same.contains("  rwsem, for writing (munmap), ms/s"),
        "{same}"
    );
    let other = differ("waits", "munmap");
    assert!(
        !other.contains("rwsem") && other.contains("the second recording has no events lock:*"),
        "{other}"
    );
}

#[test]
fn a_recording_for_strangers_lies_beside_its_own_and_has_no_names() {
    let folder = Folder::new();
    let own = folder.file("slow.parquet");
    std::fs::copy(recording("purge"), &own).expect("room");
    let neutral = folder.file("slow.anonymous.parquet");
    for written in [neutral.clone(), format!("{neutral} (the former one: {neutral}.old)")] {
        let output = ceasefire(&["anonymize", &own]);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout), format!("written: {written}\n"));
    }
    assert_eq!(std::fs::read(&own).expect("a file"), std::fs::read(recording("purge")).expect("a file"));
    let output = ceasefire(&["replay", &neutral, "--by", "process"]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.contains("\nprogram-") && !text.contains("\nshootdowns ("), "{text}");
    let named = ceasefire(&["anonymize", &own, "-o", &folder.file("other")]);
    assert_eq!(named.status.code(), Some(0));
    assert_eq!(folder.contents()["other"], folder.contents()["slow.anonymous.parquet"]);
    folder.write("text", "no recording");
    assert!(refused(&["anonymize", &folder.file("text")]).contains("it is no recording"));
    assert!(!folder.contents().contains_key("text.anonymous.parquet"));
}

/// The rows of a kind in a comparison.
fn rows_of(one: &str, other: &str, figure: &str) -> Vec<Value> {
    let found: Value = serde_json::from_str(&compared(one, other, &["--json", "-"])).expect("JSON");
    let rows = found["differences"].as_array().expect("rows").iter();
    rows.filter(|row| row["figure"] == figure).cloned().collect()
}

#[test]
fn a_light_recording_has_no_causes_to_compare() {
    let folder = Folder::new();
    let full = recording("madvise");
    let mut file = Recording::open(full.as_ref()).expect("a recording");
    let (mut names, mut writer) = (Names::default(), Writer::new(Vec::new()).expect("memory"));
    let is_light = |kind: &Kind| {
        matches!(
            kind,
            Kind::Sent { .. }
                | Kind::HandlerBegan { .. }
                | Kind::HandlerEnded { .. }
                | Kind::ThreadBegan { .. }
                | Kind::ThreadNamed { .. }
                | Kind::ThreadEnded
        )
    };
    let each = file.each::<RecordingError>(&mut names, |row, names| {
        if is_light(&row.event.kind) {
            writer.add(&row, names)?;
        }
        Ok(())
    });
    each.expect("a whole recording");
    let mut facts = Facts { light: true, ..file.facts().clone() };
    facts.events.retain(|event| ["csd:", "task:"].iter().any(|system| event.starts_with(system)));
    let light = folder.file("light.parquet");
    std::fs::write(&light, writer.finish(&facts, &names).expect("memory")).expect("a file");
    for (one, other, which) in [(&full, &light, "second"), (&light, &full, "first")] {
        assert_eq!(rows_of(one, other, "requests_per_s_by_cause"), [Value::Null; 0]);
        assert_eq!(rows_of(one, other, "requests_per_s")[0]["ratio"], 1.0);
        let text = compared(one, other, &[]);
        let note = format!("the {which} recording does not tell what led to requests");
        let text = unwrapped(&text);
        assert!(text.contains(&note) && !text.contains(" differs "), "{text}");
        let note = format!("the {which} recording has no event tlb:tlb_flush");
        assert!(
            text.contains(&note) && !text.contains("flushes/s") && !text.contains("senders wait"),
            "{text}"
        );
        let page = folder.file("page.html");
        compared(one, other, &["--html", &page]);
        let page = std::fs::read_to_string(&page).expect("the page");
        assert!(
            page.contains(&note) && !page.contains(">  madvise<") && !page.contains("madvise:"),
            "{page}"
        );
    }
    assert!(!compared(&light, &light, &[]).contains("does not tell"));
    // It tells no flushes, and an older kernel nothing else.
    let message = refused(&["diff", &recording("guests/6.1-madvise"), &light]);
    assert!(message.contains("the first recording is of a kernel without events csd:*"), "{message}");
}

#[test]
fn a_kernel_that_counts_flushes_is_compared_in_flushes_alone() {
    let (before, with) = (recording("guests/6.1-madvise"), recording("guests/6.12-madvise"));
    for (one, other, which) in
        [(&before, &with, "the first"), (&with, &before, "the second"), (&before, &before, "each")]
    {
        let folder = Folder::new();
        let page = folder.file("page.html");
        let text = unwrapped(&compared(one, other, &["--html", &page]));
        let note = format!("{which} recording is of a kernel without events csd:* (before Linux 6.4)");
        let page = std::fs::read_to_string(&page).expect("the page");
        let found: Value = serde_json::from_str(&compared(one, other, &["--json", "-"])).expect("JSON");
        assert!(found["remarks"][0].as_str().is_some_and(|remark| remark.starts_with(&note)), "{found}");
        assert!(text.contains(&note) && page.contains(&note), "{text}");
        let rows = found["differences"].as_array().expect("rows");
        let figures: Vec<&Value> = rows.iter().map(|row| &row["figure"]).collect();
        assert_eq!(figures[..2], ["flushes_that_asked_per_s", "flushes_for_others_per_s"]);
        assert!(figures[2..]
            .iter()
            .all(|figure| figure.as_str().is_some_and(|name| name.starts_with("wait"))));
        assert!(rows[..2].iter().all(|row| row["first"].as_f64() > Some(0.0)), "{found}");
        assert!(!text.contains("senders wait") && !text.contains("guest_loads"), "{text}");
    }
}

#[test]
fn a_comparison_and_a_replay_have_the_same_processes() {
    // A thread of the program in the last one has a name of its own.
    for name in ["madvise", "worked/lmdb", "worked/scavenge", "guests/7.2-madvise", "guests/6.12-reclaim"] {
        let file = recording(name);
        // A comparison has rows of processes whose flushes interrupted no CPU.
        let mut of_diff = rows_of(&file, &file, "requests_per_s_by_program");
        of_diff.retain(|row| row["first"].as_f64() > Some(0.0));
        let replayed = json(name, &[]);
        let of_replay = replayed["observed"]["processes"].as_array().expect("rows");
        let names = |rows: &[Value], key: &str| -> BTreeSet<String> {
            let name = |row: &Value| match row["process"].as_u64() {
                Some(0) => "kernel".to_owned(),
                _ => row[key].as_str().unwrap_or_default().to_owned(),
            };
            rows.iter().map(name).collect()
        };
        let (of_diff, of_replay) = (names(&of_diff, "of"), names(of_replay, "program"));
        assert_eq!(of_diff, of_replay, "{name}");
    }
}
