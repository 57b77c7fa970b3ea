//! The command on a terminal: no line is wider than it, and a wider one shows more.

#![cfg(target_os = "linux")]

use std::io::Read as _;
use std::process::{Command, Stdio};
use std::thread;

mod common;

use common::command;
use common::terminal::terminal;

/// The text that the command shows on a terminal with that many columns.
fn shown(columns: u16, arguments: &[&str]) -> String {
    shown_by(command(), columns, arguments)
}

/// The same of a command with variables of its own.
fn shown_by(mut command: Command, columns: u16, arguments: &[&str]) -> String {
    let (mut own, program) = terminal(columns, 50).expect("Linux gives a terminal");
    let reader = thread::spawn(move || {
        let (mut text, mut part) = (Vec::new(), [0; 4096]);
        // Linux reports the end as an error once no program has the terminal.
        while let Ok(count @ 1..) = own.read(&mut part) {
            text.extend_from_slice(&part[..count]);
        }
        String::from_utf8(text).expect("UTF-8").replace("\r\n", "\n")
    });
    // Colours are no characters.
    command.args(arguments).env("NO_COLOR", "1").stdin(Stdio::null());
    let child = command.stdout(Stdio::from(program)).stderr(Stdio::piped()).spawn();
    // Its copy of the terminal's end would keep the reader waiting.
    drop(command);
    let output = child.and_then(std::process::Child::wait_with_output).expect("the built command ends");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    reader.join().expect("the reader ends")
}

/// Shows the text on terminals of 80, 120 and 200 columns, and returns it after it was found to fit.
fn fitting(arguments: &[&str]) -> [String; 3] {
    [80, 120, 200].map(|columns| {
        let text = shown(columns, arguments);
        assert!(!text.is_empty() && !text.contains('\u{1b}'), "{arguments:?}: {text}");
        for line in text.lines() {
            assert!(
                line.chars().count() <= usize::from(columns),
                "{arguments:?} on {columns} columns: {line}"
            );
        }
        text
    })
}

/// The heads of the columns of a run's table: of the first line after the one that is empty.
fn heads(text: &str) -> Vec<&str> {
    let line = text.lines().skip_while(|line| !line.is_empty()).nth(1).expect("the heads of the table");
    line.split_whitespace().collect()
}

#[test]
fn lists_and_help_fit_the_terminal() {
    for arguments in [
        &["list"][..],
        &["list", "experiments"],
        &["list", "machines"],
        &["list", "machines", "--parameters"],
        &["list", "mechanisms"],
        &["--help"],
        &["-h"],
        &["compare", "--help"],
        &["list", "--help"],
        &["completions", "--help"],
        &["--version"],
    ] {
        fitting(arguments);
    }
}

#[test]
fn wide_terminals_have_shorter_lists() {
    let [narrow, middle, wide] = fitting(&["list"]).map(|text| text.lines().count());
    assert!(narrow > middle && middle > wide, "{narrow}, {middle} and {wide} lines");
}

#[test]
fn the_tables_of_a_run_fit_the_terminal_and_wide_ones_have_more_columns() {
    let run = ["mmap-read", "--machine", "1-socket", "--scale", "0.003", "--repeats", "2", "--check=none"];
    let run = [&run[..], &["--quiet", "--mechanism", "per-page,batched"]].concat();
    let [narrow, middle, wide] = fitting(&run);
    // That of the figure, and "its range": that of the ratio.
    let ranges = |text: &str| heads(text).iter().filter(|head| **head == "range").count();
    assert_eq!((ranges(&middle), ranges(&wide)), (2, 2), "{wide}");
    assert!(heads(&narrow).len() < heads(&wide).len(), "{narrow}");
    assert!(heads(&wide).contains(&"published"), "{wide}");
    let all = fitting(&[&run[..], &["--all"]].concat());
    for (all, headlines) in all.iter().zip([narrow, middle, wide]) {
        assert!(all.contains("shootdowns\n") && !headlines.contains("shootdowns\n"), "{all}");
        assert!(headlines.contains("--all") && !all.contains("--all"), "{headlines}");
    }
}

#[test]
fn a_sweep_fits_the_terminal() {
    let sweep = ["tlb-flush2", "--machine", "milan-72", "--threads", "1,4", "--scale", "0.0002"];
    let sweep = [&sweep[..], &["--repeats", "2", "--quiet", "--check=none"]].concat();
    for more in [&[][..], &["--all"]] {
        let [narrow, _, wide] = fitting(&[&sweep[..], more].concat());
        assert!(heads(&wide).contains(&"range") && heads(&wide).contains(&"paper"), "{wide}");
        assert!(heads(&narrow).len() <= heads(&wide).len(), "{narrow}");
    }
}

#[test]
fn a_narrow_terminal_gets_what_fits_into_40_columns() {
    for arguments in [&["list"][..], &["list", "machines", "--parameters"]] {
        let text = shown(40, arguments);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
    }
}

#[test]
fn the_variable_columns_is_the_width_on_a_terminal_and_in_a_file() {
    let asked = |columns: &str| {
        let mut command = command();
        command.env("COLUMNS", columns);
        command
    };
    let in_file = |columns| {
        let output = asked(columns).arg("list").output().expect("the built command starts");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    for columns in ["60", "120"] {
        let width = columns.parse().expect("a number");
        let widest = |text: &str| text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        let text = in_file(columns);
        assert!((width - 15..=width).contains(&widest(&text)), "{text}");
        assert_eq!(shown_by(asked(columns), 80, &["list"]), text);
    }
    assert_eq!(in_file("wide"), shown(80, &["list"]));
}
