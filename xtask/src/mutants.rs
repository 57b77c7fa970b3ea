//! `cargo xtask mutants`: changes a crate in one place at a time and runs the tests. A change that no test notices
//! survives.
//!
//! Each survivor must be in the crate's `mutants.txt`, and each mutant in that list must survive. The list names them
//! without line and column, which other changes of the file move. A mutant is known by its name, as `cargo mutants` prints
//! it: `engine/src/flush.rs:77:33: replace / with %`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::failure::{self, ensure, At as _, Failure};
use crate::one_of;
use crate::workspace::Workspace;

/// Copies of the sources that are built and tested side by side.
const JOBS: &str = "2";

/// The configuration of `cargo mutants`.
const CONFIGURATION: &str = ".cargo/mutants.toml";

/// A crate that is changed, and the tests that count.
#[derive(Debug, Clone, Copy)]
struct Subject {
    /// The crate's folder.
    folder: &'static str,
    package: &'static str,
    /// Each pass tests the survivors of the one before. The first is quick: most changes end there. The others have long
    /// tests, which are optimised.
    passes: &'static [Pass],
}

/// The package whose tests run, the tests that are left out, which are those whose names contain one of these, and the
/// seconds after which a test hangs.
type Pass = (&'static str, &'static [&'static str], u32);

#[rustfmt::skip]
const SUBJECTS: &[Subject] = &[
    Subject {
        folder: "engine",
        package: "ceasefire",
        passes: &[("ceasefire", &["random_"], 60), ("ceasefire", &[], 600), ("ceasefire-adversary", &[], 1200)],
    },
    Subject {
        folder: "memory",
        package: "ceasefire-memory",
        passes: &[("ceasefire-memory", LONG_IN_MEMORY, 40), ("ceasefire-memory", &["threads::"], 300), ("ceasefire-memory", &[], 1800)],
    },
];

const LONG_IN_MEMORY: &[&str] = &[
    "threads::",
    "programs::",
    "the_directory_behaves_like_a_map",
    "hands_out_each_frame_once_and_merges_all_back",
    "random_programs_see_what_they_stored",
    "a_node_runs_ahead_only_while_frames_come_to_owe",
    "a_page_owes_for_itself_and_its_neighbours_until_that_is_settled",
];

/// The crate and the part of its mutants.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// The crate that is changed.
    #[arg(value_name = "CRATE", value_parser = one_of(SUBJECTS, |subject| subject.folder))]
    subject: Subject,
    /// Only every N-th change, from the K-th on, which is 0 for the first.
    #[arg(long, value_name = "K/N", value_parser = shard)]
    shard: Option<String>,
    /// Only checks that each explanation is of a change; runs no tests.
    #[arg(long)]
    check: bool,
}

/// Checks `K/N`, in which K counts from 0.
fn shard(text: &str) -> Result<String, &'static str> {
    let parsed = || {
        let (k, n) = text.split_once('/')?;
        (k.parse::<u32>().ok()? < n.parse::<u32>().ok()?).then(|| text.to_owned())
    };
    parsed().ok_or("K/N with K from 0 to N - 1")
}

/// Runs the passes and compares the survivors with the explanations.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    let version = Command::new("cargo").args(["mutants", "--version"]).output();
    let is_there = version.is_ok_and(|output| output.status.success());
    ensure!(is_there, inconclusive, "cargo-mutants is missing: `cargo install cargo-mutants --locked`");
    let subject = &options.subject;
    let mut list = workspace.cargo(&format!("mutants --list --package {}", subject.package));
    let all = names(&failure::stdout(&mut list)?);
    let file = workspace.root.join(subject.folder).join("mutants.txt");
    let explained = explained(&fs::read_to_string(&file).at(&file)?);
    exist(&explained, &all)?;
    check_patterns(&workspace)?;
    println!("{} mutants, {} explained", all.len(), explained.values().sum::<usize>());
    if options.check {
        return Ok(());
    }

    let mut report = Report::default();
    for (number, pass) in subject.passes.iter().enumerate() {
        let folder = workspace.target.join(format!("mutants-{}-{number}", subject.folder));
        let mut more = Vec::new();
        if number > 0 {
            more.extend(["--profile", "checked"].map(str::to_owned));
            more.extend(report.survivors.iter().flat_map(|name| ["--re".to_owned(), pattern(name)]));
        } else if let Some(shard) = &options.shard {
            more.extend(["--shard", shard, "--sharding", "round-robin"].map(str::to_owned));
        }
        match failure::run(&mut command(&workspace, subject, *pass, &folder, &more)) {
            // 2: mutants survive. 3: tests hang.
            Err(failure) if ![2, 3].contains(&failure.code()) => return Err(failure),
            _ => report.add(|list| {
                let list = folder.join(format!("mutants.out/{list}.txt"));
                fs::read_to_string(&list).at(&list).map(|text| names(&text))
            })?,
        }
        if report.survivors.is_empty() {
            break;
        }
    }
    println!("{} tested, {} survive", report.tested.len(), report.survivors.len());
    compare(&explained, &report)
}

/// The command of a pass, with these options and the arguments of the test programs.
fn command(
    workspace: &Workspace,
    Subject { package, .. }: &Subject,
    (tests, skipped, timeout): Pass,
    folder: &Path,
    options: &[String],
) -> Command {
    let mut command = workspace.cargo(&format!(
        "mutants --package {package} --test-package {tests} --jobs {JOBS} --timeout {timeout} --no-times \
         --cargo-arg=--lib --cargo-arg=--tests"
    ));
    command.arg("--output").arg(folder).args(options);
    command.args(["--", "--", "-Zunstable-options", "--fail-fast"]);
    command.args(skipped.iter().flat_map(|name| ["--skip", name]));
    // Tests end at the first failure only with an option that a stable toolchain refuses without this.
    command.env("RUSTC_BOOTSTRAP", "1");
    // A mutant changes one function, and most builds of it reuse the rest.
    command.env("CARGO_INCREMENTAL", "1");
    // A test that fails has done its work: the smallest failure is not wanted.
    command.env("PROPTEST_MAX_SHRINK_ITERS", "0");
    command
}

/// The names in a list of mutants, one a line.
fn names(list: &str) -> Vec<String> {
    list.lines().map(str::to_owned).collect()
}

/// A name without line and column.
fn lasting(name: &str) -> String {
    let (place, change) = name.split_once(": ").unwrap_or((name, ""));
    format!("{}: {change}", place.split(':').next().unwrap_or(place))
}

/// The regular expression that matches this name alone.
fn pattern(name: &str) -> String {
    let mut pattern = String::from("^");
    for letter in name.chars() {
        // Only these: the regular expressions of Rust read `\<` and `\>` as the ends of a word.
        if r"\.+*?()|[]{}^$".contains(letter) {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern + "$"
}

/// How often each mutant is in a list.
fn tally(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut tally = BTreeMap::new();
    for name in names {
        *tally.entry(name).or_default() += 1;
    }
    tally
}

/// The mutants of a list that survive for a known reason, without line and column, and how often each is there.
fn explained(list: &str) -> BTreeMap<String, usize> {
    let names = list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    tally(names.map(str::to_owned))
}

/// Fails if an explanation is of no mutant.
fn exist(explained: &BTreeMap<String, usize>, mutants: &[String]) -> Result<(), Failure> {
    let there = tally(mutants.iter().map(|name| lasting(name)));
    let gone = explained.iter().filter_map(|(name, count)| {
        let found = there.get(name).copied().unwrap_or_default();
        let words = || format!("the list has {count} of `{name}`, and the sources have {found}");
        (found < *count).then(words)
    });
    all_right(gone.collect())
}

/// Fails if a survivor has no explanation, or if an explained mutant was tested and is no survivor.
fn compare(
    explained: &BTreeMap<String, usize>,
    Report { tested, survivors }: &Report,
) -> Result<(), Failure> {
    let [tested, survived] = [tested, survivors].map(|names| tally(names.iter().map(|name| lasting(name))));
    let unexplained = survived.iter().filter_map(|(name, count)| {
        let listed = explained.get(name).copied().unwrap_or_default();
        let words = || format!("{name}: survives {count} times, and the list has it {listed} times");
        (listed < *count).then(words)
    });
    // Several mutants of one function may be alike, and a shard may hold some of them.
    let is_noticed = |name: &&String| tested.contains_key(*name) && !survived.contains_key(*name);
    let noticed = explained.keys().filter(is_noticed).map(|name| format!("a test notices `{name}`"));
    all_right(unexplained.chain(noticed).collect())
}

fn all_right(wrong: Vec<String>) -> Result<(), Failure> {
    ensure!(wrong.is_empty(), new, "mutants:\n{}", wrong.join("\n"));
    Ok(())
}

/// Checks that each pattern of the configuration leaves out a mutant.
fn check_patterns(workspace: &Workspace) -> Result<(), Failure> {
    let text = fs::read_to_string(workspace.root.join(CONFIGURATION)).at(CONFIGURATION)?;
    for pattern in patterns(&text)? {
        let mut list = workspace.cargo("mutants --list --no-config");
        list.args(SUBJECTS.iter().flat_map(|subject| ["--package", subject.package]));
        let matching = failure::stdout(list.args(["--re", &pattern]))?;
        ensure!(!matching.is_empty(), new, "{CONFIGURATION}: no mutant matches `{pattern}`");
    }
    Ok(())
}

/// The patterns of the mutants that are left out.
fn patterns(configuration: &str) -> Result<Vec<String>, Failure> {
    let table: toml::Table = configuration.parse().at(CONFIGURATION)?;
    let patterns = table.get("exclude_re").and_then(toml::Value::as_array);
    let patterns = patterns.ok_or("`exclude_re` is no list of patterns").at(CONFIGURATION)?;
    Ok(patterns.iter().filter_map(|pattern| pattern.as_str().map(str::to_owned)).collect())
}

/// The results of all passes so far. Mutants under which tests hang count as noticed.
#[derive(Debug, Default)]
struct Report {
    tested: Vec<String>,
    survivors: Vec<String>,
}

impl Report {
    /// Adds a pass, from the lists that `cargo mutants` wrote.
    fn add(&mut self, read: impl Fn(&str) -> Result<Vec<String>, Failure>) -> Result<(), Failure> {
        let missed = read("missed")?;
        let viable = [missed.clone(), read("timeout")?, read("caught")?].concat();
        if self.tested.is_empty() {
            (self.tested, self.survivors) = (viable, missed);
            return Ok(());
        }
        let tested = [viable, read("unviable")?].concat();
        if let Some(left_out) = self.survivors.iter().find(|name| !tested.contains(name)) {
            return Err(Failure::new(format!("the next pass did not test `{}`", lasting(left_out))));
        }
        // `--re` leaves out no deleted fields, so a pass may test mutants that were noticed before.
        self.survivors.retain(|name| missed.contains(name));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_place_and_a_change() {
        let name = "a/b.rs:12:7: replace a::b -> u8 with 1";
        assert_eq!(lasting(name), "a/b.rs: replace a::b -> u8 with 1");
        assert_eq!(pattern(name), r"^a/b\.rs:12:7: replace a::b -> u8 with 1$");
    }

    #[test]
    fn an_explanation_of_no_mutant_is_refused() {
        let here = names("a.rs:4:7: replace < with <= in f\na.rs:9:1: x\n");
        exist(&explained("a.rs: x\n"), &here).unwrap();
        exist(&explained("a.rs: x\na.rs: x\n"), &here).unwrap_err();
        exist(&explained("a.rs: y\n"), &here).unwrap_err();
    }

    #[test]
    fn survivors_and_explanations_must_be_the_same() {
        let all = names("a.rs:8:1: x\na.rs:9:1: x\n");
        let survive = |list: &str, survivors: &str| {
            let report = Report { tested: all.clone(), survivors: names(survivors) };
            compare(&explained(list), &report).map_err(|failure| failure.to_string())
        };
        survive("# list\na.rs: x\n", "a.rs:9:1: x\n").unwrap();
        let unexplained = survive("a.rs: x\n", "a.rs:8:1: x\na.rs:9:1: x\n").unwrap_err();
        assert!(
            unexplained.contains("a.rs: x: survives 2 times, and the list has it 1 times"),
            "{unexplained}"
        );
        assert!(survive("a.rs: x\n", "").unwrap_err().contains("a test notices `a.rs: x`"));
        // What a shard leaves out needs no survivor.
        compare(&explained("a.rs: x\n"), &Report::default()).unwrap();
    }

    #[test]
    fn the_configuration_has_patterns() {
        assert_eq!(patterns("profile = 'x'\nexclude_re = ['a', 'b']\n").unwrap(), ["a", "b"]);
        assert_eq!(patterns("profile = 'x'\n").unwrap_err().code(), 1);
    }

    #[test]
    fn a_second_pass_decides_over_the_survivors_of_the_first() {
        let mut report = Report::default();
        // The lists of a pass: caught, missed, timeout and unviable.
        let mut add = |lists: [&[&str]; 4]| {
            let place = |list: &str| {
                ["caught", "missed", "timeout", "unviable"].iter().position(|known| *known == list)
            };
            let read = |list: &str| Ok(names(&lists[place(list).unwrap()].join("\n")));
            report.add(read).map(|()| (report.tested.len(), report.survivors.clone()))
        };
        let survivors = ["a.rs:3:1: x", "a.rs:4:1: x", "a.rs:5:1: x"];
        let first = add([&["a.rs:1:1: x", "a.rs:2:1: x"], &survivors, &["a.rs:6:1: x"], &["a.rs:7:1: x"]]);
        assert_eq!(first.unwrap(), (6, survivors.map(str::to_owned).to_vec()));
        let second = add([&survivors[..1], &survivors[1..2], &survivors[2..], &[]]);
        assert_eq!(second.unwrap(), (6, vec!["a.rs:4:1: x".to_owned()]));
        // A survivor that a pass leaves out is not taken for noticed.
        let failure = add([&[], &[], &[], &[]]).unwrap_err();
        assert_eq!(failure.to_string(), "the next pass did not test `a.rs: x`");
    }
}
