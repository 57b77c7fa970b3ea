//! `cargo xtask mutants`: changes a crate in one place at a time and runs the tests. A change that no test notices
//! survives.
//!
//! Each survivor must be explained (`explained`), and each explanation must belong to a survivor.

mod explained;
mod mutant;

use std::fmt;
use std::path::Path;
use std::process::Command;

use crate::failure::{self, Failure};
use crate::workspace::Workspace;
use explained::Explained;
use mutant::Mutant;

/// Copies of the sources that are built and tested side by side.
const JOBS: &str = "2";

/// The configuration of `cargo mutants`.
const CONFIGURATION: &str = ".cargo/mutants.toml";

/// A crate that is changed, and the tests that count.
#[derive(Debug, PartialEq, Eq)]
struct Subject {
    /// The crate's folder.
    folder: &'static str,
    package: &'static str,
    /// Each pass tests the survivors of the one before. The first is quick: most changes end there. The others have long
    /// tests, which are optimised.
    passes: &'static [Pass],
}

#[derive(Debug, PartialEq, Eq)]
struct Pass {
    /// The package whose tests run.
    tests: &'static str,
    /// The tests that are left out: those whose names contain one of these.
    skip: &'static [&'static str],
    /// Tests that need more seconds hang.
    timeout: &'static str,
}

const SUBJECTS: [Subject; 2] = [
    Subject {
        folder: "engine",
        package: "ceasefire",
        passes: &[
            Pass { tests: "ceasefire", skip: &["random_"], timeout: "60" },
            Pass { tests: "ceasefire", skip: &[], timeout: "600" },
            Pass { tests: "ceasefire-adversary", skip: &[], timeout: "1200" },
        ],
    },
    Subject {
        folder: "memory",
        package: "ceasefire-memory",
        passes: &[
            Pass {
                tests: "ceasefire-memory",
                skip: &[
                    "threads::",
                    "programs::",
                    "the_directory_behaves_like_a_map",
                    "hands_out_each_frame_once_and_merges_all_back",
                    "random_programs_see_what_they_stored",
                    "a_node_runs_ahead_only_while_frames_come_to_owe",
                    "a_page_owes_for_itself_and_its_neighbours_until_that_is_settled",
                ],
                timeout: "40",
            },
            Pass { tests: "ceasefire-memory", skip: &["threads::"], timeout: "300" },
            Pass { tests: "ceasefire-memory", skip: &[], timeout: "1800" },
        ],
    },
];

/// The crate and the part of its mutants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    subject: &'static Subject,
    /// Every N-th mutant from the K-th on, as `K/N`.
    shard: Option<String>,
    /// Whether only the explanations are checked.
    check: bool,
}

impl Options {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, Failure> {
        let (name, mut rest) = match arguments {
            [] => return Err(Failure::usage("`mutants` needs a crate: engine or memory")),
            [name, rest @ ..] => (name, rest.iter()),
        };
        let unknown = || Failure::usage(format!("`{name}` has no mutants; known: engine and memory"));
        let subject = SUBJECTS.iter().find(|subject| subject.folder == *name).ok_or_else(unknown)?;
        let mut options = Self { subject, shard: None, check: false };
        while let Some(&argument) = rest.next() {
            match argument {
                "--shard" => options.shard = Some(shard(rest.next().copied().unwrap_or_default())?),
                "--check" => options.check = true,
                _ => return Err(Failure::usage(format!("`mutants` has no option `{argument}`"))),
            }
        }
        Ok(options)
    }
}

/// Checks `K/N`, in which K counts from 0.
fn shard(text: &str) -> Result<String, Failure> {
    let number = |text: &str| text.parse::<u32>().ok();
    match text.split_once('/').and_then(|(k, n)| Some((number(k)?, number(n)?))) {
        Some((k, n)) if k < n => Ok(text.to_owned()),
        _ => Err(Failure::usage(format!("`{text}` is no shard: K/N with K from 0 to N - 1"))),
    }
}

/// Runs the passes and compares the survivors with the explanations.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    let version = Command::new("cargo").args(["mutants", "--version"]).output();
    if !version.is_ok_and(|output| output.status.success()) {
        return Err(Failure::inconclusive(
            "cargo-mutants is missing: `cargo install cargo-mutants --locked`",
        ));
    }
    let subject = options.subject;
    let mut list = workspace.cargo(&format!("mutants --list --package {}", subject.package));
    let all = mutant::parse(&failure::stdout(&mut list)?)?;
    let explained = Explained::read(&workspace, subject.folder)?;
    explained.exist_in(&all)?;
    check_patterns(&workspace)?;
    println!("{} mutants, {} explained", all.len(), explained.count());
    if options.check {
        return Ok(());
    }

    let mut report = Report::default();
    for (number, pass) in subject.passes.iter().enumerate() {
        let folder = workspace.target.join(format!("mutants-{}-{number}", subject.folder));
        let mut command = pass.command(&workspace, subject, &folder);
        if number > 0 {
            command.args(["--profile", "mutants-optimized"]);
            command.args(report.survivors.iter().flat_map(|mutant| ["--re".to_owned(), mutant.pattern()]));
        } else if let Some(shard) = &options.shard {
            command.args(["--shard", shard, "--sharding", "round-robin"]);
        }
        match failure::run(&mut pass.harness(command)) {
            // 2: mutants survive. 3: tests hang.
            Err(failure) if ![2, 3].contains(&failure.code()) => return Err(failure),
            _ => report.add(|list| read(&folder.join(format!("mutants.out/{list}.txt"))))?,
        }
        if report.survivors.is_empty() {
            break;
        }
    }
    println!("{report}");
    explained.compare(&report.tested, &report.survivors)
}

/// Checks that each pattern of the configuration leaves out a mutant.
fn check_patterns(workspace: &Workspace) -> Result<(), Failure> {
    let text = std::fs::read_to_string(workspace.root.join(CONFIGURATION));
    let text = text.map_err(|error| Failure::new(format!("{CONFIGURATION}: {error}")))?;
    for pattern in patterns(&text)? {
        let mut list = workspace.cargo("mutants --list --no-config");
        list.args(SUBJECTS.iter().flat_map(|subject| ["--package", subject.package]))
            .args(["--re", &pattern]);
        if failure::stdout(&mut list)?.is_empty() {
            return Err(Failure::new(format!("{CONFIGURATION}: no mutant matches `{pattern}`")));
        }
    }
    Ok(())
}

/// The patterns of the mutants that are left out.
fn patterns(configuration: &str) -> Result<Vec<String>, Failure> {
    let wrong = |reason: &str| Failure::new(format!("{CONFIGURATION}: {reason}"));
    let table: toml::Table =
        configuration.parse().map_err(|error: toml::de::Error| wrong(error.message()))?;
    let patterns = table.get("exclude_re").and_then(toml::Value::as_array);
    let patterns = patterns.ok_or_else(|| wrong("`exclude_re` is no list of patterns"))?;
    Ok(patterns.iter().filter_map(|pattern| pattern.as_str().map(str::to_owned)).collect())
}

impl Pass {
    fn command(&self, workspace: &Workspace, subject: &Subject, folder: &Path) -> Command {
        let (package, tests, timeout) = (subject.package, self.tests, self.timeout);
        let mut command = workspace.cargo(&format!(
            "mutants --package {package} --test-package {tests} --jobs {JOBS} --timeout {timeout} --no-times \
             --cargo-arg=--lib --cargo-arg=--tests"
        ));
        command.arg("--output").arg(folder);
        // Tests end at the first failure only with an option that a stable toolchain refuses without this.
        command.env("RUSTC_BOOTSTRAP", "1");
        // A mutant changes one function, and most builds of it reuse the rest.
        command.env("CARGO_INCREMENTAL", "1");
        // A test that fails has done its work: the smallest failure is not wanted.
        command.env("PROPTEST_MAX_SHRINK_ITERS", "0");
        command
    }

    /// The same command with the arguments of the test programs.
    fn harness(&self, mut command: Command) -> Command {
        command.args(["--", "--", "-Zunstable-options", "--fail-fast"]);
        command.args(self.skip.iter().flat_map(|name| ["--skip", name]));
        command
    }
}

fn read(list: &Path) -> Result<Vec<Mutant>, Failure> {
    let text = std::fs::read_to_string(list);
    mutant::parse(&text.map_err(|error| Failure::new(format!("{}: {error}", list.display())))?)
}

/// The results of all passes so far.
#[derive(Debug, Default)]
struct Report {
    tested: Vec<Mutant>,
    survivors: Vec<Mutant>,
    /// Mutants that do not compile.
    unviable: usize,
    /// Mutants under which tests hang. They count as noticed.
    hanging: usize,
}

impl Report {
    /// Adds a pass, from the lists that `cargo mutants` wrote.
    fn add(&mut self, read: impl Fn(&str) -> Result<Vec<Mutant>, Failure>) -> Result<(), Failure> {
        let (survivors, hanging, unviable) = (read("missed")?, read("timeout")?, read("unviable")?);
        if self.tested.is_empty() {
            self.tested.clone_from(&survivors);
            self.tested.extend_from_slice(&hanging);
            self.tested.extend(read("caught")?);
            self.survivors = survivors;
        } else {
            let mut tested = survivors.clone();
            for list in [&hanging, &unviable, &read("caught")?] {
                tested.extend_from_slice(list);
            }
            let left_out = self.survivors.iter().find(|mutant| !tested.contains(mutant));
            if let Some(left_out) = left_out.map(Mutant::lasting) {
                return Err(Failure::new(format!("the next pass did not test `{left_out}`")));
            }
            // `--re` leaves out no deleted fields, so a pass may test mutants that were noticed before.
            self.survivors.retain(|mutant| survivors.contains(mutant));
        }
        self.hanging += hanging.len();
        self.unviable += unviable.len();
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (viable, survivors) = (self.tested.len(), self.survivors.len());
        let (noticed, hanging, unviable) = (viable - survivors, self.hanging, self.unviable);
        write!(
            out,
            "{viable} tested: {noticed} noticed, {hanging} of them because tests hang; {survivors} survive. \
             {unviable} do not compile"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_anything_else_is_refused() {
        let options = Options::parse(&["engine", "--shard", "0/4"]).unwrap();
        assert_eq!(options.subject.package, "ceasefire");
        assert_eq!(options.shard.as_deref(), Some("0/4"));
        assert!(Options::parse(&["memory", "--check"]).unwrap().check);
        for wrong in [
            &[][..],
            &["machine"],
            &["engine", "--shard"],
            &["engine", "--shard", "4/4"],
            &["engine", "--shard", "1"],
            &["memory", "--fast"],
        ] {
            assert_eq!(Options::parse(wrong).unwrap_err().code(), 2, "{wrong:?}");
        }
    }

    #[test]
    fn the_configuration_has_patterns() {
        assert_eq!(patterns("profile = 'x'\nexclude_re = ['a', 'b']\n").unwrap(), ["a", "b"]);
        assert_eq!(patterns("profile = 'x'\n").unwrap_err().code(), 1);
    }

    #[test]
    fn a_second_pass_decides_over_the_survivors_of_the_first() {
        let mut report = Report::default();
        for lists in [
            [
                ("caught", "a.rs:1:1: x\na.rs:2:1: x\n"),
                ("missed", "a.rs:3:1: x\na.rs:4:1: x\na.rs:5:1: x\n"),
                ("timeout", "a.rs:6:1: x\n"),
                ("unviable", "a.rs:7:1: x\n"),
            ],
            [
                ("caught", "a.rs:3:1: x\n"),
                ("missed", "a.rs:4:1: x\n"),
                ("timeout", "a.rs:5:1: x\n"),
                ("unviable", ""),
            ],
        ] {
            report
                .add(|list| mutant::parse(lists.iter().find(|(name, _)| *name == list).unwrap().1))
                .unwrap();
        }
        assert_eq!(
            report.to_string(),
            "6 tested: 5 noticed, 2 of them because tests hang; 1 survive. 1 do not compile"
        );
        assert_eq!(report.survivors, mutant::parse("a.rs:4:1: x").unwrap());
    }

    #[test]
    fn a_survivor_that_the_next_pass_leaves_out_is_not_taken_for_noticed() {
        let mut report = Report::default();
        let lists = |missed: &'static str| {
            move |list: &str| mutant::parse(if list == "missed" { missed } else { "" })
        };
        report.add(lists("a.rs:3:1: x\na.rs:4:1: y\n")).unwrap();
        let failure = report.add(lists("a.rs:3:1: x\n")).unwrap_err();
        assert_eq!(failure.to_string(), "the next pass did not test `a.rs: y`");
    }
}
