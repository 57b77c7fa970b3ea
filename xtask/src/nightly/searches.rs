//! The searches that need the stable toolchain alone.

use super::output::{grouped, passed, shown, sum};
use super::{Done, Extent};
use crate::failure::Failure;
use crate::programs;
use crate::workspace::{Build, Workspace};

impl Extent {
    /// A part runs in CI after the tests, which have built the programs.
    fn build(self) -> Build {
        self.choose(Build::Checked, Build::Tested)
    }
}

/// Every scenario of the adversary, with its guards and without.
pub(super) fn scenarios(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let schedules = extent.choose(10_000, 1000);
    let (command, text) = check(workspace, extent, &format!("--schedules {schedules}"))?;
    let last = text.lines().rfind(|line| line.contains(" schedules with all guards"));
    let last = last.ok_or_else(|| Failure::new("`ceasefire check` printed no sum"))?;
    Ok(Done { command, figure: format!("{last}; without a guard each broke its rule") })
}

/// Random operations on the adversary's machines.
pub(super) fn random(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let (command, text) =
        check(workspace, extent, &format!("--random {}", extent.choose(10_000_000, 100_000)))?;
    let rows = text.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().rev().map_while(|word| word.parse::<u64>().ok());
        numbers.next().zip(numbers.next())
    });
    let (machines, steps, schedules) = rows
        .fold((0, 0, 0), |(machines, all_steps, all), (steps, schedules)| {
            (machines + 1, all_steps + steps, all + schedules)
        });
    if machines == 0 {
        return Err(Failure::new("`ceasefire check --random` printed no machine"));
    }
    let (schedules, steps) = (grouped(schedules), grouped(steps));
    Ok(Done { command, figure: format!("{schedules} schedules on {machines} machines, {steps} steps") })
}

/// `ceasefire check` with options: the command, and what it printed.
fn check(workspace: &Workspace, extent: Extent, options: &str) -> Result<(String, String), Failure> {
    let program = format!("--quiet -- check {options}");
    let text = shown(&mut workspace.built(extent.build(), "run", &program))?;
    Ok((format!("ceasefire check {options}"), text))
}

/// Random programs against a plain model of memory.
pub(super) fn programs(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let count = extent.choose(1_000_000, 20_000);
    programs::run(workspace, &programs::Options::first(count), extent.build())?;
    let figure = format!("{} programs agree with the model", grouped(count));
    Ok(Done { command: format!("cargo xtask programs {count}"), figure })
}

/// The orderings of the engine, each weakened by itself.
pub(super) fn orderings(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let schedules = extent.choose("1000", "20");
    let command =
        format!("run --profile checked --package ceasefire-adversary --example orderings {schedules}");
    let text = shown(&mut workspace.cargo(&command))?;
    let (all, survive) =
        (sum(&text, " weakenings, ", " weakenings"), sum(&text, " weakenings, ", " survive"));
    Ok(Done {
        command: format!("cargo {command}"),
        figure: format!("{} of {all} weakenings are missed", all - survive),
    })
}

/// The tests of the memory manager and the machine as a released kernel runs them, without assertions. The engine's are
/// part of `cargo xtask test`.
pub(super) fn unchecked(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let packages = extent.choose(
        "--package ceasefire-memory --package ceasefire-machine",
        "--package ceasefire-memory --test manager laws::",
    );
    let command = format!("test {packages} --profile unchecked");
    let tests = passed(&shown(&mut workspace.cargo_sabotaged(&command))?);
    Ok(Done { command: format!("cargo {command}"), figure: format!("{} tests", grouped(tests)) })
}
