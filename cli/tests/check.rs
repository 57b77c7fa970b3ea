//! `ceasefire check`: its table, its timelines and what it refuses.

use crate::common::{ceasefire, command, refusal};

fn output(arguments: &[&str]) -> (Option<i32>, String) {
    let output = ceasefire(&[&["check"], arguments].concat());
    (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
}

#[test]
fn a_scenario_holds_with_its_guards_and_breaks_without() {
    let (code, table) = output(&["A1", "L1", "--schedules", "50", "--jobs", "2"]);
    assert_eq!(code, Some(0), "{table}");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["scenario", "guarded", "schedules", "without", "breaks", "after"]);
    assert_eq!(rows[1][..5], ["A1-mremap", "holds", "50", "unlock-flush", "R7"]);
    assert_eq!(
        (rows[2][0], &rows[2][3..5], &rows[3][..2]),
        ("L1-frame-used-again-while-owed", &["stamp", "R1"][..], &["sweep", "R1"][..])
    );
    assert!(table.ends_with("2 scenarios, 100 schedules with all guards, each run twice\n"), "{table}");
}

#[test]
fn a_missing_guard_is_shown_and_the_last_line_repeats_it() {
    let (code, shown) = output(&["A3", "--without", "gather-flush"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("!! R1: page 1 leads to frame 1, which was freed"), "{shown}");
    let repeat = shown.lines().rfind(|line| !line.is_empty()).expect("a command");
    let arguments: Vec<&str> = repeat.split_whitespace().skip(2).collect();
    assert_eq!(output(&arguments), (Some(0), shown.clone()), "{repeat}");
}

#[test]
fn one_schedule_with_all_guards_can_be_looked_at() {
    let (code, shown) = output(&["A3", "--seed", "5"]);
    assert_eq!(code, Some(0));
    assert!(shown.contains("> munmap pages 1..2") && shown.contains("no rule is broken"), "{shown}");
}

#[test]
fn random_operations_break_no_rule_on_any_machine() {
    let (code, table) = output(&["--random", "500", "--seed", "7"]);
    assert_eq!(code, Some(0), "{table}");
    let rows: Vec<Vec<&str>> = table.lines().skip(1).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows.len(), 12, "{table}");
    assert!(rows.iter().all(|row| row[1] == "holds"), "{table}");
    // A schedule of one machine may take many times as long as one of another. Each machine gets its share of the steps.
    let column = |at: usize| rows.iter().map(move |row| row[at].parse::<u64>().expect("a number"));
    let (least, most) = (column(3).min().expect("twelve"), column(3).max().expect("twelve"));
    assert!(column(2).sum::<u64>() >= 500 && most < 3 * least, "{table}");
    let (code, shown) = output(&["R3", "--seed", "7"]);
    assert!(code == Some(0) && shown.ends_with("ceasefire check R3-broadcasts --seed 7\n\n"), "{shown}");
}

#[test]
fn unknown_names_and_numbers_are_refused_with_what_is_known() {
    for (arguments, part) in [
        (&["A33"][..], "no scenario is called 'A33'"),
        (&["A1-mremp"], "did you mean 'A1-mremap'?"),
        (&["--without", "setle"], "did you mean 'settle'?"),
        (&["A1", "--without", "settle"], "no scenario that is named has the guard 'settle'"),
        (&["--schedules", "0"], "must be a whole number, 1 to 1000000000"),
        (&["--random", "5", "A1"], "cannot be used with"),
        (&["--seed", "-1"], "must be a whole number, 0 to"),
    ] {
        let message = refusal(command().arg("check").args(arguments));
        assert!(message.contains(part), "{arguments:?}: {message}");
    }
}
