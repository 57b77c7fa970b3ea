//! Every test that a table of the book or a guard names must exist.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::workspace::Workspace;

/// The chapters with such tables.
const CHAPTERS: [&str; 2] = ["docs/src/ideas/objections.md", "docs/src/adopt/obligations.md"];

/// The sources that list the guards, each with the tests that miss it in braces.
const GUARDS: [&str; 2] = ["engine/src/sabotage.rs", "memory/src/sabotage.rs"];

/// What reads the tests of a file, each with the file that it stands in.
type Reader = fn(&str) -> Vec<(String, String)>;

/// Lists every test that a chapter or a guard names and that does not exist.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let read = |file: &Path| {
        fs::read_to_string(workspace.root.join(file))
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))
    };
    let files = workspace.files()?;
    let mut missing = Vec::new();
    let named = CHAPTERS
        .into_iter()
        .map(|file| (file, tests as Reader))
        .chain(GUARDS.map(|file| (file, of_guards as Reader)));
    for (chapter, tests) in named {
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

/// The tests in the braces of a source's guards, `{ FILE: TEST, TEST; FILE: TEST }`. A scenario of the adversary is no test of
/// its own.
fn of_guards(source: &str) -> Vec<(String, String)> {
    let list =
        source.split("// ANCHOR: guards").nth(1).and_then(|rest| rest.split("// ANCHOR_END: guards").next());
    let braces = list.unwrap_or_default().split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let files = braces.flat_map(|brace| brace.split(';')).filter_map(|part| part.split_once(": "));
    let of_file = |(file, tests): (&str, &str)| {
        let file = file.trim().to_owned();
        tests.split(',').map(|test| (file.clone(), test.trim().to_owned())).collect::<Vec<_>>()
    };
    files.flat_map(of_file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_braces_of_a_guard_name_tests() {
        let source = "// ANCHOR: guards\n    A [R1] \"x\"\n        { a.rs: one,\n          two; b.rs: three }\n    B [R2] \"y\"\n        { scenario D1 }\n// ANCHOR_END: guards\n{ c.rs: four }";
        let named = |file: &str, test: &str| (file.to_owned(), test.to_owned());
        assert_eq!(of_guards(source), [named("a.rs", "one"), named("a.rs", "two"), named("b.rs", "three")]);
        for source in GUARDS {
            let text =
                fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(source)).unwrap();
            assert!(of_guards(&text).len() > 8, "{source}");
        }
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
