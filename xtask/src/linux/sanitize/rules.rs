//! Runs under `ceasefire sanitize`, which leaves out what lazy unmap does on purpose, and reclaim in two phases, and follows
//! the pages that lose their slots or are freed: many are filled by a device then, which the plugin does not see.

use std::process::Command;

use crate::failure::{self, ensure, Failure};
use crate::linux::guest::{Boot, Guest};
use crate::linux::{source, Kernel};
use crate::sanitize::emulator::Emulator;
use crate::workspace::Workspace;

/// Runs a command on a kernel, which ends with one of these codes. Returns the kinds of what was found.
pub(super) fn run(
    workspace: &Workspace,
    emulator: &Emulator,
    guest: &Guest,
    name: &str,
    kernel: Kernel,
    command: &str,
    codes: &[u8],
) -> Result<Option<String>, Failure> {
    failure::run(&mut workspace.cargo("build --quiet --release --package ceasefire-cli"))?;
    let parameters =
        "nokaslr trace_event=kmem:mm_page_free,filemap:mm_filemap_delete_from_page_cache".to_owned();
    let boot = Boot { parameters, ..Boot::new(kernel, command) };
    let qemu = guest.command(emulator.unwatched("x86_64"), &boot)?;
    let mut sanitize = Command::new(workspace.target.join("release/ceasefire"));
    sanitize.arg("sanitize").arg("--kernel").arg(source::symbols(workspace, kernel)?);
    sanitize.args(["--preset", "linux", "--suppress"]).arg(workspace.root.join("ports/linux/lazy.toml"));
    // With other rules, `--read` judges it again.
    sanitize.arg("--output").arg(workspace.target.join(format!("linux/guest/{name}.report")));
    sanitize.arg("--").arg(qemu.get_program()).args(qemu.get_args());
    for (name, value) in qemu.get_envs() {
        sanitize.env(name, value.unwrap_or_default());
    }
    let (text, status) = failure::watched(&mut sanitize)?;
    let kinds = kinds(&text);
    let is_right = if kinds.is_some() { status.code() == Some(1) } else { status.success() };
    ensure!(
        is_right && text.lines().any(|line| is_end(line, codes)),
        new,
        "the guest did not end well: {status}"
    );
    Ok(kinds)
}

/// Whether a line of the guest says that the command has come to its end.
fn is_end(line: &str, codes: &[u8]) -> bool {
    line.trim_end()
        .strip_prefix("exit ")
        .and_then(|code| code.parse().ok())
        .is_some_and(|code| codes.contains(&code))
}

/// The kinds of the finds that are shown, each once: a line begins with a find's number and its kind, before the rule.
fn kinds(text: &str) -> Option<String> {
    let kind = |line: &str| {
        let (number, rest) = line.split_once(". ")?;
        number.parse::<usize>().ok()?;
        rest.split_once(" (R").map(|(kind, _)| kind.to_owned())
    };
    let mut kinds: Vec<String> = text.lines().filter_map(kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    (!kinds.is_empty()).then(|| kinds.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_ends_with_a_code_that_is_expected() {
        assert!(is_end("exit 1\r", &[0, 1]) && !is_end("exit 1", &[0]));
        assert!(!is_end("ok 1 exit 0", &[0]) && !is_end("exit", &[0]));
    }

    #[test]
    fn each_kind_that_is_shown_is_named_once() {
        let text = "1..9\n# page 1. R\n1. reuse (R1): CPU 1\n  -1.0 ms\n\n2. late use (R3): CPU 2\n3. reuse (R1): CPU 1\n";
        assert_eq!(kinds(text).as_deref(), Some("late use, reuse"));
        assert_eq!(kinds("Suppressed: 1 find: why.\nNo flush was missing: 1 (R1)\n"), None);
    }
}
