//! The last result of each step, in `docs/nightly.json`, and as a table in the book.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use serde_json::{json, Map, Value};

use super::{Done, STEPS};
use crate::failure::{self, At as _, Failure};
use crate::steps::Time;
use crate::workspace::Workspace;

const RESULTS: &str = "docs/nightly.json";
const CHAPTER: &str = "docs/src/checking/searches.md";
/// The lines of the chapter between which the table stands.
const MARKS: [&str; 2] = ["<!-- cargo xtask nightly: begin -->\n", "<!-- cargo xtask nightly: end -->"];

/// The last result of a step.
pub(super) fn entry(
    workspace: &Workspace,
    result: &Result<Done, Failure>,
    time: Time,
) -> Result<Value, Failure> {
    let date = failure::stdout(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let mut head = Command::new("git");
    head.args(["rev-parse", "--short=12", "HEAD"]).current_dir(&workspace.root);
    let (command, figure) = match result {
        Ok(done) => (done.command.as_str(), done.figure.clone()),
        Err(failure) => ("", without_paths(workspace, &failure.to_string())),
    };
    Ok(json!({
        "passed": result.is_ok(),
        "command": command,
        "figure": figure,
        "seconds": time.passed.as_secs(),
        "processor_seconds": time.processor.map(|time| time.as_secs()),
        "date": date.trim(),
        "commit": failure::stdout(&mut head)?.trim(),
    }))
}

/// A text in which paths of the repository begin at its root: the book says nothing of the machine.
fn without_paths(workspace: &Workspace, text: &str) -> String {
    // The target folder may lie elsewhere.
    let text = text.replace(&*workspace.target.to_string_lossy(), "target");
    text.replace(&format!("{}/", workspace.root.display()), "")
}

/// Replaces the result of one step, in the file and in the chapter.
pub(super) fn update(workspace: &Workspace, step: &str, entry: Value) -> Result<(), Failure> {
    let mut results = read(workspace)?;
    results.insert(step.to_owned(), entry);
    let chapter = workspace.root.join(CHAPTER);
    let text = in_chapter(&fs::read_to_string(&chapter).at(CHAPTER)?, &results)?;
    fs::write(workspace.root.join(RESULTS), format!("{:#}\n", Value::Object(results))).at(RESULTS)?;
    fs::write(&chapter, text).at(CHAPTER)
}

/// The results of all steps.
fn read(workspace: &Workspace) -> Result<Map<String, Value>, Failure> {
    let text = fs::read_to_string(workspace.root.join(RESULTS)).at(RESULTS)?;
    serde_json::from_str(&text).at(RESULTS)
}

/// The chapter with these results as a table, in the order of the steps.
fn in_chapter(chapter: &str, results: &Map<String, Value>) -> Result<String, Failure> {
    let [begin, end] = MARKS;
    let parts = || Some((chapter.split_once(begin)?.0, chapter.split_once(end)?.1));
    let (before, after) = parts().ok_or("no marks for the table").at(CHAPTER)?;
    let mut table = "| step | result | minutes | date | commit |\n|---|---|---|---|---|\n".to_owned();
    for (name, _) in STEPS {
        let Some(entry) = results.get(*name) else { continue };
        let word = |key: &str| entry[key].as_str().unwrap_or_default().replace('|', "\\|");
        let passed = if entry["passed"] == json!(true) { "" } else { "failed: " };
        let minutes = entry["seconds"].as_u64().unwrap_or_default() as f64 / 60.0;
        let [figure, date, commit] = ["figure", "date", "commit"].map(word);
        let _ = writeln!(table, "| `{name}` | {passed}{figure} | {minutes:.1} | {date} | `{commit}` |");
    }
    Ok(format!("{before}{begin}{table}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_recorded_without_the_paths_of_the_machine() {
        let mut workspace = Workspace::load().unwrap();
        let command = |workspace: &Workspace| {
            let (target, root) = (workspace.target.display(), workspace.root.display());
            format!(
                "`TARGET=\"{target}/nightly\" fuzz {target}/fuzz {root}/sim/experiments/workloads` failed"
            )
        };
        let told = "`TARGET=\"target/nightly\" fuzz target/fuzz sim/experiments/workloads` failed";
        assert_eq!(without_paths(&workspace, &command(&workspace)), told);
        workspace.target = "/elsewhere".into();
        assert_eq!(without_paths(&workspace, &command(&workspace)), told);
    }

    #[test]
    fn the_chapter_shows_the_results() {
        let workspace = Workspace::load().unwrap();
        let chapter = fs::read_to_string(workspace.root.join(CHAPTER)).unwrap();
        assert_eq!(in_chapter(&chapter, &read(&workspace).unwrap()).unwrap(), chapter);
    }

    #[test]
    fn a_result_replaces_the_table_and_leaves_the_rest() {
        let entry = json!({
            "passed": false, "figure": "a | b", "seconds": 90, "date": "2026-01-02", "commit": "0123",
        });
        let results = Map::from_iter([("miri".to_owned(), entry)]);
        let [begin, end] = MARKS;
        let chapter = in_chapter(&format!("a\n{begin}old\n{end}\nz\n"), &results).unwrap();
        assert!(
            chapter.starts_with(&format!("a\n{begin}| step ")) && chapter.ends_with(&format!("{end}\nz\n"))
        );
        assert!(chapter.contains("| `miri` | failed: a \\| b | 1.5 | 2026-01-02 | `0123` |\n"), "{chapter}");
        assert!(in_chapter("no marks", &results).is_err());
    }
}
