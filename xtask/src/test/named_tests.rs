//! Every test that the book names in a table must exist.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::workspace::Workspace;

/// The chapters with such tables.
const CHAPTERS: [&str; 2] = ["docs/src/ideas/objections.md", "docs/src/adopt/obligations.md"];

/// The chapter with a row for each guard, and the sources that list the guards.
const OBLIGATIONS: &str = CHAPTERS[1];
const GUARDS: [&str; 2] = ["engine/src/sabotage.rs", "memory/src/sabotage.rs"];

/// Lists every test that a chapter names and that does not exist, and every guard without a row.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let read = |file: &Path| {
        fs::read_to_string(workspace.root.join(file))
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))
    };
    let files = workspace.files()?;
    let mut missing = Vec::new();
    for chapter in CHAPTERS {
        for (file, test) in tests(&read(Path::new(chapter))?) {
            let mut found = false;
            for path in files.iter().filter(|path| ends_with(path, &file)) {
                found |= has(&read(path)?, &test);
            }
            if !found {
                missing.push(format!("\n{chapter}: {file} has no test `{test}`"));
            }
        }
    }
    let rows = read(Path::new(OBLIGATIONS))?;
    for source in GUARDS {
        let source = read(Path::new(source))?;
        let unnamed = guards(&source).filter(|guard| !rows.contains(&format!("\n| `{guard}` |")));
        missing.extend(unnamed.map(|guard| format!("\n{OBLIGATIONS} has no row for the guard `{guard}`")));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("named tests:{}", missing.concat())))
}

fn ends_with(path: &Path, file: &str) -> bool {
    path.ends_with(PathBuf::from(file))
}

/// Whether a source has a test of that name.
fn has(source: &str, test: &str) -> bool {
    let head = format!("fn {test}()");
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let attributes = |at: usize| lines[..at].iter().rev().take_while(|line| line.starts_with("#["));
    let is_test = |at: usize| attributes(at).any(|&line| line == "#[test]");
    lines.iter().enumerate().any(|(at, line)| line.starts_with(&head) && is_test(at))
}

/// The tests in the last cells of a table's rows, with their file, which the cell names first. All are in code.
fn tests(chapter: &str) -> Vec<(String, String)> {
    let mut tests = Vec::new();
    for row in chapter.lines().filter(|line| line.starts_with('|')) {
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let mut code = cell.split('`').skip(1).step_by(2);
        if let Some(file) = code.next() {
            tests.extend(code.map(|test| (file.to_owned(), test.to_owned())));
        }
    }
    tests
}

/// The variants of a source's enum of guards.
fn guards(source: &str) -> impl Iterator<Item = &str> {
    let lines = source.lines().skip_while(|line| !line.starts_with("pub enum Guard")).skip(1);
    let lines = lines.take_while(|line| *line != "}").map(str::trim).filter(|line| !line.starts_with("//"));
    lines.filter_map(|line| Some(line.split_once(" = ")?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variants_of_the_enum_are_guards() {
        let source = "pub enum No {\n    A = 1,\n}\npub enum Guard {\n    /// It is = 1.\n    B = 2,\n    C = 4,\n}\nlet d = 8;\n";
        assert_eq!(guards(source).collect::<Vec<_>>(), ["B", "C"]);
    }

    #[test]
    fn the_last_cell_of_a_row_names_tests() {
        let chapter =
            "text `x.rs`: `no`\n| a | `b` | c |\n|---|---|---|\n| 1 | `x` | `x.rs`: `one`, `two` |\n";
        let named = |test: &str| ("x.rs".to_owned(), test.to_owned());
        assert_eq!(tests(chapter), [named("one"), named("two")]);
        assert_eq!(tests("| 1 | x | none |\n"), []);
    }

    #[test]
    fn a_test_has_the_attribute() {
        let source = "#[cfg(feature = \"x\")]\n#[test]\nfn one() {\n}\n\nfn two() {\n}\n";
        assert!(has(source, "one") && !has(source, "two") && !has(source, "on"));
    }

    #[test]
    fn every_scenario_and_every_hole_has_a_test_that_exists() {
        let workspace = Workspace::load().unwrap();
        check(&workspace).unwrap();
        let named = tests(&fs::read_to_string(workspace.root.join(CHAPTERS[0])).unwrap());
        let wanted = |kind: &str, most: u32| {
            (1..=most).map(|number| format!("{kind}_{number:02}_")).collect::<Vec<_>>()
        };
        for wanted in wanted("scenario", 17).into_iter().chain(wanted("hole", 12)) {
            assert!(named.iter().any(|(_, test)| test.starts_with(&wanted)), "{wanted}");
        }
    }
}
