//! `cargo xtask nightly`: the searches that take longer than a change may wait.
//!
//! `searches` are those on the stable toolchain, `toolchain` is the pinned nightly one, which Miri, the sanitizers and
//! `fuzz` need. `record` keeps the last result of each step.

mod fuzz;
mod record;
mod searches;
mod toolchain;

use crate::failure::{ensure, Failure};
use crate::one_of;
use crate::steps::{Steps, Time};
use crate::workspace::Workspace;

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
type Step = (&'static str, fn(&Workspace, Extent) -> Result<Done, Failure>);

const STEPS: &[Step] = &[
    ("scenarios", searches::scenarios),
    ("random", searches::random),
    ("programs", searches::programs),
    ("kernel", searches::kernel),
    ("sanitizer", searches::sanitizer),
    ("orderings", searches::orderings),
    ("swaps", searches::swaps),
    ("litmus", searches::litmus),
    ("unchecked", searches::unchecked),
    ("miri", toolchain::miri),
    // Two accesses of which one is a store, and which nothing orders.
    ("thread", |workspace, _| toolchain::sanitized(workspace, "thread")),
    // Accesses outside of what is allocated, and memory that is used after it was freed.
    ("address", |workspace, _| toolchain::sanitized(workspace, "address")),
    ("fuzz", fuzz::run),
];

/// The steps to take.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// As much as every change can wait for; nothing is written.
    #[arg(long)]
    part: bool,
    /// The steps [default: all].
    #[arg(value_parser = one_of(STEPS, |(name, _)| name))]
    steps: Vec<Step>,
}

impl Options {
    /// The steps, each once, in the order of [`STEPS`].
    fn steps(&self) -> impl Iterator<Item = &'static Step> + '_ {
        let is_named = |name: &str| self.steps.iter().any(|step| step.0 == name);
        STEPS.iter().filter(move |(name, _)| self.steps.is_empty() || is_named(name))
    }
}

/// Takes the steps one after the other. One that fails stops no other. The result of each whole step is written to the
/// book at once, so that a run that is cut short keeps what it has.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    let extent = if options.part { Extent::Part } else { Extent::Whole };
    let (mut steps, mut failed) = (Steps::default(), Vec::new());
    for (name, step) in options.steps() {
        println!("==> nightly: {name}");
        let (result, time) = Time::of(|| step(&workspace, extent));
        steps.add(name, time);
        match &result {
            Ok(done) => println!("==> {name}: {}", done.figure),
            Err(failure) => {
                eprintln!("xtask: {name}: {failure}");
                failed.push(*name);
            }
        }
        if extent == Extent::Whole {
            record::update(&workspace, name, record::entry(&workspace, &result, time)?)?;
        }
    }
    print!("{}", steps.table());
    ensure!(failed.is_empty(), new, "failed: {}", failed.join(", "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_named_in_any_order_and_all_are_taken_by_default() {
        let steps = |line| {
            let options: Options = crate::parse(line).unwrap();
            options.steps().map(|(name, _)| *name).collect::<Vec<_>>()
        };
        assert_eq!(steps("miri random miri"), ["random", "miri"]);
        assert_eq!(steps("--part fuzz"), ["fuzz"]);
        assert_eq!(steps("").len(), STEPS.len());
    }
}
