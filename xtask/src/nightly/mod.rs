//! `cargo xtask nightly`: the searches that take longer than a change may wait.
//!
//! `searches` are those on the stable toolchain, `toolchain` is the pinned nightly one, which `miri`, `sanitizers` and
//! `fuzz` need. `output` reads what a command prints, and `record` keeps the last result of each step.

mod fuzz;
mod miri;
mod output;
mod record;
mod sanitizers;
mod searches;
mod toolchain;

use crate::failure::Failure;
use crate::steps::{Steps, Time};
use crate::workspace::Workspace;
use record::{Entry, Record};

/// How much of a search is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All of it. The result is kept.
    Whole,
    /// As much as every change can wait for.
    Part,
}

impl Extent {
    /// One of two values.
    fn choose<T>(self, whole: T, part: T) -> T {
        match self {
            Self::Whole => whole,
            Self::Part => part,
        }
    }
}

/// What a search did.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Done {
    /// The command, as a person types it.
    command: String,
    /// How far the search went, in words.
    figure: String,
}

/// A search.
struct Step {
    name: &'static str,
    run: fn(&Workspace, Extent) -> Result<Done, Failure>,
}

const STEPS: [Step; 11] = [
    Step { name: "scenarios", run: searches::scenarios },
    Step { name: "random", run: searches::random },
    Step { name: "programs", run: searches::programs },
    Step { name: "kernel", run: searches::kernel },
    Step { name: "orderings", run: searches::orderings },
    Step { name: "swaps", run: searches::swaps },
    Step { name: "unchecked", run: searches::unchecked },
    Step { name: "miri", run: miri::run },
    Step { name: "thread", run: sanitizers::thread },
    Step { name: "address", run: sanitizers::address },
    Step { name: "fuzz", run: fuzz::run },
];

/// The steps to take.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    extent: Extent,
    /// Places in [`STEPS`], in their order.
    steps: Vec<usize>,
}

impl Options {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, Failure> {
        let mut options = Self { extent: Extent::Whole, steps: Vec::new() };
        for &argument in arguments {
            if argument == "--part" {
                options.extent = Extent::Part;
                continue;
            }
            let Some(at) = STEPS.iter().position(|step| step.name == argument) else {
                let known = STEPS.map(|step| step.name).join(", ");
                return Err(Failure::usage(format!("`nightly` has no step `{argument}`; known: {known}")));
            };
            options.steps.push(at);
        }
        options.steps.sort_unstable();
        options.steps.dedup();
        if options.steps.is_empty() {
            options.steps.extend(0..STEPS.len());
        }
        Ok(options)
    }
}

/// Takes the steps one after the other. One that fails stops no other. The result of each whole step is written to the
/// book at once, so that a run that is cut short keeps what it has.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    let (mut steps, mut failed) = (Steps::default(), Vec::new());
    for step in options.steps.iter().map(|at| &STEPS[*at]) {
        println!("==> nightly: {}", step.name);
        let (result, time) = Time::of(|| (step.run)(&workspace, options.extent));
        steps.add(step.name, time);
        match &result {
            Ok(done) => println!("==> {}: {}", step.name, done.figure),
            Err(failure) => {
                eprintln!("xtask: {}: {failure}", step.name);
                failed.push(step.name);
            }
        }
        if options.extent == Extent::Whole {
            Record::update(&workspace, step.name, Entry::of(&workspace, &result, time)?)?;
        }
    }
    print!("{}", steps.table());
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("failed: {}", failed.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_named_in_any_order_and_all_are_taken_by_default() {
        let parsed = |arguments: &[&str]| Options::parse(arguments).unwrap();
        assert_eq!(parsed(&["miri", "random", "miri"]), Options { extent: Extent::Whole, steps: vec![1, 7] });
        assert_eq!(parsed(&["--part", "fuzz"]), Options { extent: Extent::Part, steps: vec![10] });
        assert_eq!(parsed(&[]).steps.len(), STEPS.len());
        assert_eq!(Options::parse(&["mutant"]).unwrap_err().code(), 2);
    }

    #[test]
    fn the_help_names_every_step() {
        for step in STEPS {
            assert!(crate::HELP[0].contains(step.name), "{}", step.name);
        }
    }
}
