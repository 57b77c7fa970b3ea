//! The guide for kernel authors must state the engine's interface as it is, and the smallest port must stay small.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use crate::failure::Failure;
use crate::workspace::Workspace;

/// The chapters that together state the engine's whole interface. The others state no signatures.
const GUIDE: [&str; 3] =
    ["docs/src/adopt/engine.md", "docs/src/adopt/reference.md", "docs/src/ideas/lazy.md"];

const ENGINE: &str = "engine/src";

/// The guards that tests remove, and the parts that models of the protocol use, are no part of the interface.
const NO_INTERFACE: [&str; 2] = ["engine/src/sabotage.rs", "engine/src/cores.rs"];

const PORT: &str = "engine/examples/port.rs";

/// The number of lines that the smallest port stays below.
const LINES: usize = 150;

/// Lists every public function and type that the guide lacks, and every signature in the guide that the engine lacks.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let read = |file: &Path| {
        fs::read_to_string(workspace.root.join(file))
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))
    };
    let guide = GUIDE.iter().map(|chapter| read(Path::new(chapter))).collect::<Result<String, Failure>>()?;
    let stated = bare(&guide);
    let mut problems = Vec::new();
    let mut interface = BTreeSet::new();
    for file in workspace.files()? {
        let is_source = file.starts_with(ENGINE) && file.extension() == Some(OsStr::new("rs"));
        if !is_source || NO_INTERFACE.iter().any(|other| file == Path::new(other)) {
            continue;
        }
        for signature in signatures(&read(&file)?) {
            if !stated.contains(&bare(&signature)) {
                problems.push(format!("\nthe guide lacks `{signature}` of {}", file.display()));
            }
            interface.insert(bare(&signature));
        }
    }
    let promised = promised(&guide).filter(|signature| !interface.contains(&bare(signature)));
    problems.extend(promised.map(|signature| format!("\nthe guide: {ENGINE} has no `{signature}`")));
    let names = exports(&read(&Path::new(ENGINE).join("lib.rs"))?);
    let unknown = names.into_iter().filter(|name| !guide.contains(name.as_str()));
    problems.extend(unknown.map(|name| format!("\nthe guide does not name `{name}`")));
    let lines = read(Path::new(PORT))?.lines().count();
    if lines >= LINES {
        problems.push(format!("\n{PORT} has {lines} lines: fewer than {LINES} were promised"));
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("guide:{}", problems.concat())))
}

/// The signatures of a file's public functions and of the functions of its public traits, from their names on.
fn signatures(source: &str) -> Vec<String> {
    let mut signatures = Vec::new();
    let mut lines = source.lines().take_while(|line| *line != "mod tests {");
    let mut in_trait = false;
    while let Some(line) = lines.next() {
        in_trait |= line.starts_with("pub trait ") || line.starts_with("pub unsafe trait ");
        in_trait &= line != "}";
        let trimmed = line.trim();
        let public = trimmed.strip_prefix("pub ").or(in_trait.then_some(trimmed));
        let Some(start) = public.map(|rest| rest.trim_start_matches("const ")) else { continue };
        let Some(mut signature) = start.strip_prefix("fn ").map(str::to_owned) else { continue };
        while !signature.ends_with(['{', ';', '}']) {
            let Some(more) = lines.next() else { break };
            signature = format!("{signature} {}", more.trim());
        }
        signatures.push(signature.trim_end_matches(['{', ';', '}', ' ']).to_owned());
    }
    signatures
}

/// The signatures of public functions that the guide's code states, from their names on.
fn promised(guide: &str) -> impl Iterator<Item = &str> {
    let code = guide.split("```").skip(1).step_by(2);
    code.flat_map(|code| code.split("pub ").skip(1)).filter_map(|item| {
        let signature = item.trim_start_matches("const ").strip_prefix("fn ")?;
        signature.split(';').next()
    })
}

/// A signature without whitespace, so that line breaks make no difference, and without `mut` before a parameter.
fn bare(signature: &str) -> String {
    let text: String = signature.chars().filter(|char| !char.is_whitespace()).collect();
    text.replace(",)", ")").replace("(mutself", "(self").replace(",mut", ",")
}

/// The names that a crate exports at its root.
fn exports(root: &str) -> Vec<String> {
    let statements = root.split("\npub use ").skip(1).filter_map(|rest| rest.split(';').next());
    let names = statements.flat_map(|statement| statement.rsplit("::").next().unwrap_or_default().split(','));
    let names = names.map(|name| name.trim_matches(|char: char| !(char.is_alphanumeric() || char == '_')));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_found_over_several_lines_and_in_traits() {
        let source = "impl A {\n    pub const fn a(self) -> u8 {\n        1\n    }\n    pub fn b<T>(\n        \
                      &mut self,\n        mut x: T,\n    ) {\n    }\n    pub(crate) fn no() {}\n    pub fn d(mut \
                      self) {}\n}\npub unsafe trait C {\n    fn c(&self);\n}\nfn no() {\n}\nmod tests {\n    pub fn \
                      no() {}\n";
        let found: Vec<String> = signatures(source).iter().map(|signature| bare(signature)).collect();
        assert_eq!(found, ["a(self)->u8", "b<T>(&mutself,x:T)", "d(self)", "c(&self)"]);
    }

    #[test]
    fn the_guides_code_promises_functions() {
        let guide =
            "`pub fn no();`\n```rust\npub fn a(self) -> u8; // pub\npub struct B;\npub const fn c();\n```\n";
        assert_eq!(promised(guide).collect::<Vec<_>>(), ["a(self) -> u8", "c()"]);
    }

    #[test]
    fn the_names_at_the_root_are_found() {
        let root = "use no::No;\npub use a::A;\npub use b::{\n    B, c,\n    D_E,\n};\n";
        assert_eq!(exports(root), ["A", "B", "c", "D_E"]);
    }

    #[test]
    fn the_guide_states_the_interface() {
        check(&Workspace::load().unwrap()).unwrap();
    }
}
