//! The completions of shells and the manual page know every command and every option.

use std::collections::BTreeSet;

use crate::common::ceasefire;

/// The standard output of a command that succeeds and says nothing else.
fn printed(arguments: &[&str]) -> String {
    let output = ceasefire(arguments);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{arguments:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The long options of a command, from its help.
fn options(command: &[&str]) -> BTreeSet<String> {
    let help = printed(&[command, &["--help"]].concat());
    let words = help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    let options: BTreeSet<String> = words
        .filter_map(|word| word.strip_prefix("--"))
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    assert!(options.contains("help"), "{help}");
    options
}

#[test]
fn completions_and_the_manual_name_every_command_and_option() {
    let mut names: BTreeSet<String> = options(&["compare"]);
    assert!(names.len() > 15, "{names:?}");
    names.extend(options(&["list"]));
    names.extend(options(&["calibrate"]));
    names.extend(["compare", "list", "calibrate", "completions", "man"].map(str::to_owned));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let text = printed(&["completions", shell]);
        for name in &names {
            assert!(text.contains(name.as_str()), "{name} in the completions of {shell}");
        }
    }
    // The page writes a hyphen as `\-`.
    let page = printed(&["man"]).replace("\\-", "-");
    assert!(page.contains(".TH ceasefire 1"), "{page}");
    for name in options(&["compare"]).union(&options(&["list"])).chain(&options(&["calibrate"])) {
        assert!(page.contains(&format!("--{name}")), "{name} in {page}");
    }
    for command in ["COMPARE", "LIST", "CALIBRATE", "COMPLETIONS", "MAN"] {
        assert!(page.contains(&format!(".SH THE COMMAND {command}\n")), "{command} in {page}");
    }
    assert!(!page.contains("(1)"), "it refers to no other page: {page}");
}

#[test]
fn the_help_and_the_manual_group_the_commands_for_their_users() {
    let help = printed(&["--help"]);
    let page = printed(&["man"]).replace("\\-", "-");
    let (mut in_help, mut in_page) = (help.as_str(), page.as_str());
    for (heading, commands) in [
        ("This Linux machine", &["top", "record", "replay", "diff", "import", "anonymize", "calibrate"][..]),
        ("The simulator", &["compare", "list", "sweep", "fit"]),
        ("The engine and kernels", &["check", "sanitize"]),
        ("This command", &["completions", "man"]),
    ] {
        let after = |text: &str, part: &str| text.find(part).map(|at| at + part.len());
        let mut next = |one: &str, other: &str| {
            in_help = &in_help[after(in_help, one).unwrap_or_else(|| panic!("{one} in {help}"))..];
            in_page = &in_page[after(in_page, other).unwrap_or_else(|| panic!("{other} in {page}"))..];
        };
        next(&format!("\n{heading}:\n"), &format!(".SS {heading}\n"));
        for command in commands {
            next(&format!("  {command} "), &format!("ceasefire {command}"));
        }
    }
    assert_eq!(help, printed(&["-h"]));
    assert!(help.lines().count() < 40, "it fits a screen: {help}");
}

#[test]
fn compare_has_few_options() {
    let mut options = options(&["compare"]);
    options.remove("help");
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    assert_eq!(
        options,
        [
            "all",
            "check",
            "cpus",
            "draw",
            "html",
            "jobs",
            "json",
            "kernel",
            "machine",
            "mechanism",
            "quiet",
            "repeats",
            "scale",
            "seed",
            "set",
            "table",
            "threads",
            "trace"
        ]
    );
}

#[test]
fn the_help_names_files_that_exist() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = printed(&["man"]).replace("\\-", "-");
    let paths: BTreeSet<&str> = page
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | '(' | ')' | ':'))
        .filter(|word| word.starts_with("docs/"))
        .map(|word| word.trim_end_matches('.'))
        .collect();
    assert!(paths.len() > 3, "{page}");
    for path in paths {
        assert!(root.join(path).exists(), "{path}");
    }
    assert!(!page.contains("The book"), "a reader of the help has no book at hand: {page}");
}
