//! `ceasefire fit` prints the fitted numbers and writes them into a machine file.

use crate::common::{ceasefire, refused, Folder};

const SMALL: [&str; 3] = ["--scale", "0.002", "--quiet"];

/// What a fit that goes well prints. It warns of nothing.
fn fitted(arguments: &[&str]) -> String {
    let output = ceasefire(&[&["fit"], arguments, &SMALL].concat());
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*message), (Some(0), ""), "{arguments:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn the_fitted_numbers_are_printed_and_written() {
    let folder = Folder::new();
    let file = folder.file("fitted.toml");
    let text = fitted(&["1-socket", "--output", &file, "--repeats", "2"]);
    for line in [
        "Fit of 1-socket: scale 1/500, seed 1; ",
        "costs.access, ns, to mmap-read 1-socket user before",
        "costs.reclaim_page, ns, to mmap-read 1-socket system before",
        "seeds: the standard deviation",
        "condition: ",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    // The machine that was written has these numbers: a further fit begins where the first ended.
    let row = |text: &str, key: &str| -> Vec<String> {
        let mut lines = text.lines().skip_while(|line| !line.starts_with(key)).skip(1);
        lines.next().expect("a row").split_whitespace().map(str::to_owned).collect()
    };
    let again = fitted(&[&file]);
    for key in ["costs.access", "costs.reclaim_page"] {
        let (first, second) = (row(&text, key), row(&again, key));
        assert_eq!(first[1], second[0], "{text}{again}");
        let number = |text: &str| text.parse::<f64>().expect("a number");
        let change = number(&second[1]) / number(&second[0]);
        assert!((0.98..1.02).contains(&change), "it has nearly nothing to change: {again}");
    }
}

#[test]
fn wrong_requests_are_refused_in_one_line() {
    for (arguments, expected) in [
        (&["fit", "1-soket"][..], "no machine is called '1-soket'; did you mean '1-socket'?"),
        (
            &["fit", "128-core-arm64"],
            "is fitted: name a published figure, and a number to vary: --to ROW --vary KEY",
        ),
        (&["fit", "1-socket", "--to", "mmap-read 1-socket usr before"], "one of elapsed, before, after"),
        (&["fit", "1-socket", "--to", "mmap-read 1-socket user"], "must be one figure, not 2"),
        (&["fit", "1-socket", "--vary", "costs.fault"], "--to"),
        (
            &["fit", "1-socket", "--to", "mmap-read 1-socket elapsed before"],
            "name a number to vary: --vary KEY",
        ),
        (&["fit", "1-socket", "--scale", "2"], "scale 2.0 is above 1"),
        (&["fit", "1-socket", "-o", "-"], "--output writes to a file, not to standard output"),
    ] {
        let line = refused(arguments);
        assert!(line.contains(expected), "{line}");
    }
}
