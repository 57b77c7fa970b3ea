//! Every package that the project depends on must have a licence that `deny.toml` allows.

use std::fs;

use crate::failure::Failure;
use crate::workspace::Workspace;

/// Lists every package whose licence expression the allowed licences do not satisfy.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let rules = fs::read_to_string(workspace.root.join("deny.toml"))
        .map_err(|error| Failure::new(format!("deny.toml: {error}")))?;
    let allowed = allowed(&rules);
    if allowed.is_empty() {
        return Err(Failure::new("deny.toml: [licenses] has no list `allow`"));
    }
    let refused: Vec<String> = workspace
        .packages
        .iter()
        .filter(|package| !package["license"].as_str().is_some_and(|licence| permits(&allowed, licence)))
        .map(|package| format!("\n{} {}: {}", package["name"], package["version"], package["license"]))
        .collect();
    if refused.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("licences that deny.toml does not allow:{}", refused.concat())))
}

/// The strings of `allow = [...]` in the section `[licenses]`.
fn allowed(rules: &str) -> Vec<&str> {
    let section = rules.lines().map(str::trim).skip_while(|line| *line != "[licenses]").skip(1);
    let section = section.take_while(|line| !line.starts_with('['));
    let list = section.skip_while(|line| !line.starts_with("allow = ["));
    let mut names = Vec::new();
    for line in list {
        let line = line.split('#').next().unwrap_or(line);
        names.extend(line.split('"').skip(1).step_by(2));
        if line.contains(']') {
            break;
        }
    }
    names
}

/// Whether the allowed licences satisfy an SPDX expression. A malformed expression is not satisfied.
fn permits(allowed: &[&str], expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut reader = Reader { words: spaced.split_whitespace().peekable(), allowed };
    reader.any() == Some(true) && reader.words.next().is_none()
}

/// Reads an expression from the left: alternatives of conjunctions of licences or of expressions in parentheses.
/// Returns whether the allowed licences satisfy it, or nothing if it is malformed.
struct Reader<'a, Words: Iterator<Item = &'a str>> {
    words: std::iter::Peekable<Words>,
    allowed: &'a [&'a str],
}

impl<'a, Words: Iterator<Item = &'a str>> Reader<'a, Words> {
    fn any(&mut self) -> Option<bool> {
        let mut met = self.all()?;
        while self.words.next_if_eq(&"OR").is_some() {
            met |= self.all()?;
        }
        Some(met)
    }

    fn all(&mut self) -> Option<bool> {
        let mut met = self.one()?;
        while self.words.next_if_eq(&"AND").is_some() {
            met &= self.one()?;
        }
        Some(met)
    }

    fn one(&mut self) -> Option<bool> {
        let licence = self.words.next()?;
        if licence == "(" {
            let met = self.any()?;
            return self.words.next_if_eq(&")").map(|_| met);
        }
        if self.words.next_if_eq(&"WITH").is_none() {
            return Some(self.allowed.contains(&licence));
        }
        let licence = format!("{licence} WITH {}", self.words.next()?);
        Some(self.allowed.contains(&licence.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_read_from_its_own_section() {
        let rules = "[bans]\nallow = [\"x\"]\n[licenses]\nversion = 2\nallow = [\n  \"MIT\", # short\n  \"ISC\",\n]\n\
                     exceptions = [\"GPL-3.0\"]\n[sources]\nallow = [\"y\"]\n";
        assert_eq!(allowed(rules), ["MIT", "ISC"]);
        assert_eq!(allowed("[licenses]\nallow = [\"MIT\"]\n"), ["MIT"]);
        assert_eq!(allowed("[bans]\nallow = [\"MIT\"]\n"), [""; 0]);
    }

    #[test]
    fn expressions_are_satisfied_by_their_licences() {
        let allowed = ["MIT", "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "Unicode-3.0"];
        for met in [
            "MIT",
            "MIT/GPL-3.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            "GPL-3.0 AND GPL-2.0 OR MIT",
        ] {
            assert!(permits(&allowed, met), "{met}");
        }
        for unmet in [
            "",
            "GPL-3.0",
            "MIT AND GPL-3.0",
            "MIT OR",
            "(MIT",
            "MIT)",
            "MIT Apache-2.0",
            "MIT WITH LLVM-exception",
            "GPL-3.0 AND (MIT OR Apache-2.0)",
        ] {
            assert!(!permits(&allowed, unmet), "{unmet}");
        }
    }
}
