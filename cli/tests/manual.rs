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
    let mut names: BTreeSet<String> = options(&[]);
    assert!(names.len() > 20, "{names:?}");
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
    for name in options(&[]).union(&options(&["list"])).chain(&options(&["calibrate"])) {
        assert!(page.contains(&format!("--{name}")), "{name} in {page}");
    }
    for command in ["COMPARE", "LIST", "CALIBRATE", "COMPLETIONS", "MAN"] {
        assert!(page.contains(&format!(".SH THE COMMAND {command}\n")), "{command} in {page}");
    }
    assert!(!page.contains("(1)"), "it refers to no other page: {page}");
}
