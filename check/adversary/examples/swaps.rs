//! Exchanges each pair of neighbouring atomic statements of the engine by itself. Each must be missed by a scenario, or
//! the comment between the two must say why their order does not matter.
//!
//! `cargo run --profile checked -p ceasefire-adversary --example swaps [SCHEDULES [NAME...]]`: so many schedules of each
//! scenario, 1000 if it is not said. A name with a colon, such as `request.rs:83`, chooses a pair by its place; another,
//! such as `O22`, a scenario. It copies the sources to `target/swaps`, rewrites the engine there so that a pair has both
//! orders, and builds and runs itself in the copy.
//!
//! It exits with 1 if a pair is not missed and has no comment, or has one and is missed.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use ceasefire_adversary::{all, check, random, rewrite, Pair, Removed, Scenario, Verdict};

/// The pairs of the copy, in its root: a number, a place, and the reason why the order does not matter if there is one,
/// with tabs between.
const LIST: &str = "pairs.txt";

/// The scenarios of orderings are tried so many times as often in the end.
const DEEP: u64 = 16;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let list = root.join(LIST);
    let mut arguments = std::env::args().skip(1);
    let schedules = arguments.next().unwrap_or_else(|| "1000".to_owned());
    let names: Vec<String> = arguments.collect();
    let Ok(count) = schedules.parse::<u64>() else {
        eprintln!("swaps: the number of schedules must be a whole number, and is {schedules}");
        return ExitCode::from(2);
    };
    let result =
        if list.exists() { examine(&list, count, &names) } else { run_in_copy(&root, &schedules, &names) };
    match result {
        Ok(holds) => ExitCode::from(u8::from(!holds)),
        Err(error) => {
            eprintln!("swaps: {error}");
            ExitCode::from(2)
        }
    }
}

/// Copies the sources, rewrites the engine in the copy, and runs this program there.
fn run_in_copy(root: &Path, schedules: &str, names: &[String]) -> Result<bool, Box<dyn Error>> {
    let copy = root.join("target/swaps/tree");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    let tracked = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()?;
    let mut files: Vec<PathBuf> =
        String::from_utf8(tracked.stdout)?.split_terminator('\0').map(PathBuf::from).collect();
    files.sort();
    let (mut list, mut next) = (String::new(), 1);
    for file in files.iter().filter(|file| root.join(file).is_file()) {
        let to = copy.join(file);
        fs::create_dir_all(to.parent().unwrap_or(&copy))?;
        let inner = file.strip_prefix("engine/src").ok();
        let aside = ["cores.rs", "counters.rs", "sabotage.rs", "primitive.rs"];
        match inner.filter(|inner| inner.extension().is_some_and(|extension| extension == "rs")) {
            Some(inner) if !aside.contains(&&*inner.to_string_lossy()) => {
                let (text, pairs) = rewrite(&fs::read_to_string(root.join(file))?, next);
                next += pairs.len() as u32;
                for Pair { number, line, either } in pairs {
                    let reason = either.unwrap_or_default();
                    let _ = writeln!(list, "{number}\t{}:{line}\t{reason}", inner.display());
                }
                fs::write(&to, text)?;
            }
            _ => drop(fs::copy(root.join(file), &to)?),
        }
    }
    let is_known = |name: &&String| {
        if name.contains(':') {
            let mut places = list.lines().filter_map(|line| line.split('\t').nth(1));
            places.any(|place| place.ends_with(name.as_str()))
        } else {
            all().chain(random()).any(|scenario| scenario.name.starts_with(name.as_str()))
        }
    };
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        return Err(format!("no pair and no scenario is called {name}").into());
    }
    let primitive = copy.join("engine/src/primitive.rs");
    let text = fs::read_to_string(&primitive)?;
    fs::write(
        &primitive,
        text.replace("ceasefire_atomics::{fence", "ceasefire_atomics::{between, is_exchanged, fence"),
    )?;
    fs::write(copy.join(LIST), list)?;
    let cargo =
        ["run", "--quiet", "--profile", "checked", "-p", "ceasefire-adversary", "--example", "swaps", "--"];
    let status = Command::new("cargo")
        .args(cargo)
        .arg(schedules)
        .args(names)
        .current_dir(&copy)
        .env("CARGO_TARGET_DIR", copy.join("../build"))
        .status()?;
    match status.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        _ => Err("the copy does not build or run".into()),
    }
}

/// Exchanges each pair of the list that is named, or all, in the copy.
fn examine(list: &Path, schedules: u64, names: &[String]) -> Result<bool, Box<dyn Error>> {
    let text = fs::read_to_string(list)?;
    let (places, scenarios): (Vec<&str>, Vec<&str>) =
        names.iter().map(String::as_str).partition(|name| name.contains(':'));
    let is_named = |scenario: &&Scenario| {
        scenarios.is_empty() || scenarios.iter().any(|name| scenario.name.starts_with(name))
    };
    let (mut wrong, mut missed, mut free) = (0, 0, 0);
    for line in text.lines() {
        let mut parts = line.split('\t');
        let (number, place) = (parts.next().unwrap_or_default().parse()?, parts.next().unwrap_or_default());
        let either = parts.next().unwrap_or_default();
        if !places.is_empty() && !places.iter().any(|named| place.ends_with(named)) {
            continue;
        }
        // It lives as long as the program: there is one for each pair.
        let removed = Box::leak(Box::new([Removed::Order(number)]));
        let rounds = [0, schedules / 16, schedules / 4, schedules, DEEP * schedules];
        let found = rounds.windows(2).find_map(|round| {
            // At last only the scenarios of orderings: their schedules are short.
            let deep = |scenario: &&Scenario| round[1] <= schedules || scenario.name.starts_with('O');
            all().chain(random()).filter(is_named).filter(deep).find_map(|scenario| {
                match check(scenario, removed, round[0], round[1] - round[0], false).verdict {
                    Verdict::Broken(found) => Some((scenario.name, found)),
                    _ => None,
                }
            })
        });
        match (found, either) {
            (Some((name, found)), "") => {
                missed += 1;
                println!("{place}: {name}, seed {}, {}", found.seed, found.rule);
            }
            (None, "") => {
                wrong += 1;
                println!("{place}: WRONG: no scenario misses it");
            }
            (None, either) => {
                free += 1;
                println!("{place}: either order: {either}");
            }
            (Some((name, found)), _) => {
                wrong += 1;
                println!("{place}: WRONG: free by its comment, and {name} misses it, seed {}", found.seed);
            }
        }
    }
    println!(
        "{} pairs, {schedules} schedules: {missed} are missed, {free} are free; {wrong} wrong",
        missed + free + wrong
    );
    Ok(wrong == 0)
}
