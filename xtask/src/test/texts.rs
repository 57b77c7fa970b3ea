//! Words that no file may have, licences of what the project is built on, and the files of its packages.

use std::fs;
use std::process::Command;

use crate::failure::{self, Failure};
use crate::workspace::Workspace;

/// What no file may have: a regular expression of `git grep`, the files, and the reason. The dots in brackets keep the
/// expressions from matching themselves.
const REFUSED: [(&str, &[&str], &str); 2] = [
    (
        "(crates|pypi|npmjs|debian|pythonhosted|static[.]rust-lang|proxy[.]golang)[.](io|org|com)",
        &[".", ":!*.lock"],
        "package registries are the machine's choice, not the repository's",
    ),
    (
        "\\b([n]obody|[s]omebody|[w]hoever|[w]hatever)\\b",
        &["*.md", ":!CONTRIBUTING.md"],
        "a noun names each thing: rule 3 of CONTRIBUTING.md",
    ),
];

/// The packages that kernels depend on or test with. Cargo packages only files below a crate's folder, so each has copies
/// of the licences.
const PACKAGES: [(&str, &str); 3] =
    [("ceasefire", "engine"), ("ceasefire-memory", "memory"), ("ceasefire-conformance", "check/conformance")];

/// Fails with the lines that are wrong.
pub(super) fn check(workspace: &Workspace) -> Result<(), Failure> {
    for (expression, files, reason) in REFUSED {
        let mut grep = Command::new("git");
        grep.args(["grep", "-nIiE", "--untracked", expression, "--"])
            .args(files)
            .current_dir(&workspace.root);
        // It exits with 1 if it finds nothing.
        let found = grep.output().map_err(|error| Failure::new(format!("git grep: {error}")))?;
        if found.status.code() != Some(1) {
            return Err(Failure::new(format!("{reason}:\n{}", String::from_utf8_lossy(&found.stdout))));
        }
    }
    licences(workspace)?;
    PACKAGES.iter().try_for_each(|(name, folder)| package(workspace, name, folder))
}

/// Every package that the project depends on has a licence that `deny.toml` allows. (`cargo deny check` looks at more.)
fn licences(workspace: &Workspace) -> Result<(), Failure> {
    let rules = fs::read_to_string(workspace.root.join("deny.toml"));
    let rules = rules.map_err(|error| Failure::new(format!("deny.toml: {error}")))?;
    let rules: toml::Table = rules.parse().map_err(|error| Failure::new(format!("deny.toml: {error}")))?;
    let allowed: Vec<&str> =
        rules["licenses"]["allow"].as_array().into_iter().flatten().filter_map(toml::Value::as_str).collect();
    let refused = workspace.packages.iter().filter(|package| {
        !package["license"].as_str().is_some_and(|expression| permits(&allowed, expression))
    });
    let refused: Vec<String> =
        refused.map(|package| format!("\n{}: {}", package["name"], package["license"])).collect();
    if refused.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("licences that deny.toml does not allow:{}", refused.concat())))
}

/// Whether the allowed licences satisfy an expression of SPDX whose parentheses, if any, are around alternatives.
fn permits(allowed: &[&str], expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], "").replace('/', " OR ");
    plain.split(" AND ").all(|part| part.split(" OR ").any(|licence| allowed.contains(&licence.trim())))
}

/// A package has its readme and its changelog, and the licences as they are at the root.
fn package(workspace: &Workspace, name: &str, folder: &str) -> Result<(), Failure> {
    let line = format!("package --quiet --offline --allow-dirty --list --package {name}");
    let list = failure::stdout(&mut workspace.cargo(&line))?;
    let licences = ["LICENSE-APACHE", "LICENSE-MIT"];
    let mut files = licences.into_iter().chain(["README.md", "CHANGELOG.md"]);
    let is_same = |file: &str| {
        let read = |folder: &str| fs::read(workspace.root.join(folder).join(file)).ok();
        !licences.contains(&file) || read(folder) == read("")
    };
    match files.find(|file| !list.lines().any(|line| line == *file) || !is_same(file)) {
        None => Ok(()),
        Some(file) => Err(Failure::new(format!("{name}: {file} is not in the package, or not the root's"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alternative_of_each_conjunct_must_be_allowed() {
        let allowed = ["MIT", "Unicode-3.0", "Apache-2.0"];
        for (expression, expected) in [
            ("MIT", true),
            ("MIT/GPL-2.0", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("MIT AND MPL-2.0", false),
            ("MPL-2.0", false),
            ("", false),
        ] {
            assert_eq!(permits(&allowed, expression), expected, "{expression}");
        }
    }
}
