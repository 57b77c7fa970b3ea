//! No file may name the server that packages come from.
//!
//! Scripts and texts name packages and leave the server to the machine's configuration, so that a machine behind a
//! mirror or without a network builds the same project. Lock files are exempt, because cargo writes them.

use std::fs;

use crate::failure::Failure;
use crate::workspace::Workspace;

/// The hosts, in two halves, because this file is checked like any other.
const HOSTS: [(&str, &str); 9] = [
    ("crates", "io"),
    ("static.rust-lang", "org"),
    ("static.rust-lang", "com"),
    ("debian", "org"),
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "com"),
    ("npmjs", "org"),
    ("proxy.golang", "org"),
];

/// Lists every line of every file that names such a host.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let mut found = Vec::new();
    for file in workspace.files()? {
        if file.extension().is_some_and(|extension| extension == "lock") {
            continue;
        }
        let bytes = fs::read(workspace.root.join(&file))
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?;
        let text = String::from_utf8_lossy(&bytes);
        found
            .extend(mentions(&text).map(|(line, host)| format!("\n{}:{line}: names {host}", file.display())));
    }
    if found.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "package registries are the machine's choice, not the repository's:{}",
        found.concat()
    )))
}

/// The lines of `text` that name a host, counted from 1.
fn mentions(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let hosts = HOSTS.map(|(name, domain)| format!("{name}.{domain}"));
    text.lines().enumerate().filter_map(move |(index, line)| {
        let host = hosts.iter().find(|host| line.contains(host.as_str()))?;
        Some((index + 1, host.clone()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_found_with_its_line() {
        let host = format!("{}.{}", HOSTS[0].0, HOSTS[0].1);
        let text = format!("a package\nfrom https://{host}/ceasefire\n");
        assert_eq!(mentions(&text).collect::<Vec<_>>(), [(2, host)]);
        assert_eq!(mentions("crates, io and pypi").count(), 0);
    }
}
