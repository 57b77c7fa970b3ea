//! `cargo xtask litmus`: the flush paths judged by Arm's own model of virtual memory.
//!
//! `ceasefire-litmus` makes the tests and says the verdict that each must have. `herd` fetches herd7, which knows the
//! model, and runs it. The task fails if a verdict is another one.

mod herd;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ceasefire_litmus::{Test, Verdict, BARRIERS, PROPERTIES};

use crate::failure::{ensure, Failure};
use crate::table;
use crate::workspace::Workspace;
use herd::Herd;

/// The tests to run.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// The short ones, as every change can wait for.
    #[arg(long)]
    part: bool,
    /// Prints each test with its verdict, each weaker instruction that suffices, and what no test can have.
    #[arg(long)]
    list: bool,
    /// Parts of the tests' names [default: all tests].
    names: Vec<String>,
}

/// What a run found.
pub(crate) struct Done {
    tests: usize,
    never: usize,
}

impl Done {
    /// The counts in words.
    pub(crate) fn figure(&self) -> String {
        let Self { tests, never } = self;
        format!("{tests} tests, {never} never and {} sometimes, all as expected", tests - never)
    }
}

/// Finds herd7, or fetches it.
pub(crate) fn find(workspace: &Workspace) -> Result<(), Failure> {
    Herd::find(workspace).map(|_| ())
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let done = judge(&Workspace::load()?, options)?;
    println!("==> {}", done.figure());
    Ok(())
}

/// Runs the tests that the options name.
pub(crate) fn judge(workspace: &Workspace, options: &Options) -> Result<Done, Failure> {
    let all = ceasefire_litmus::tests().map_err(|unread| Failure::new(unread.to_string()))?;
    let is_named =
        |test: &Test| options.names.is_empty() || options.names.iter().any(|part| test.name.contains(part));
    let mut chosen: Vec<Test> =
        all.into_iter().filter(|test| is_named(test) && (!options.part || test.is_short())).collect();
    ensure!(!chosen.is_empty(), usage, "no test has such a name");
    let herd = Herd::find(workspace)?;
    if herd.knows_non_shareable() {
        // Its model has no other view of DSB NSH.
        chosen.retain(|test| !test.name.ends_with("+model-as-it-is"));
    }
    let verdicts = herd.judge(&chosen)?;
    let found = |test: &Test| verdicts[&test.name];
    if options.list {
        print!("{}", list(&chosen, &verdicts));
    }
    print!("{}", summary(&chosen, &verdicts));
    let wrong: Vec<String> = chosen
        .iter()
        .filter(|test| found(test) != test.expected)
        .map(|test| format!("\n{}: {:?}, not {:?} ({})", test.name, found(test), test.expected, test.promise))
        .collect();
    ensure!(wrong.is_empty(), new, "verdicts that are not as expected:{}", wrong.concat());
    let never = chosen.iter().filter(|test| found(test) == Verdict::Never).count();
    Ok(Done { tests: chosen.len(), never })
}

/// A row for each flush path: its tests, and how many have each verdict.
fn summary(tests: &[Test], verdicts: &BTreeMap<String, Verdict>) -> String {
    let mut rows: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    for test in tests {
        let path = test.sequence.split('.').next().unwrap_or_default();
        let row = rows.entry(path).or_default();
        row[0] += 1;
        row[1] += usize::from(test.name == test.sequence);
        let never = verdicts.get(&test.name) == Some(&Verdict::Never);
        row[if never { 2 } else { 3 }] += 1;
    }
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(path, counts)| {
            [path.to_owned()].into_iter().chain(counts.map(|count| count.to_string())).collect()
        })
        .collect();
    table::format(["path", "tests", "as written", "never", "sometimes"], &rows)
}

/// All tests, and all that is out of their reach.
fn list(tests: &[Test], verdicts: &BTreeMap<String, Verdict>) -> String {
    let mut text = String::new();
    for test in tests {
        let reason = test.reason.as_deref().map_or_else(String::new, |reason| format!(": {reason}"));
        let _ = writeln!(text, "{:?} {} ({}){reason}", verdicts[&test.name], test.name, test.promise);
    }
    for (file, function, reason) in BARRIERS {
        let _ = writeln!(text, "in no test: kernel/src/{file} {function}: {reason}");
    }
    for (property, reason) in PROPERTIES {
        let _ = writeln!(text, "not expressed: {property}: {reason}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_counts_the_verdicts_of_each_path() {
        let all = ceasefire_litmus::tests().unwrap();
        let tests: Vec<Test> = all.into_iter().filter(|test| test.sequence == "publish.kernel").collect();
        let verdicts = tests.iter().map(|test| (test.name.clone(), test.expected)).collect();
        assert_eq!(
            summary(&tests, &verdicts),
            "path     tests  as written  never  sometimes\npublish      4           1      1          3\n"
        );
    }

    #[test]
    fn names_are_parts_of_names() {
        let options: Options = crate::parse("--part twice local").unwrap();
        assert!(options.part && options.names == ["twice", "local"]);
    }
}
