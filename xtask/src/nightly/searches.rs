//! The searches that need the stable toolchain alone.

use super::output::{grouped, passed, shown, sum};
use super::{Done, Extent};
use crate::failure::Failure;
use crate::programs;
use crate::workspace::Workspace;

/// Every scenario of the adversary, with its guards and without.
pub(super) fn scenarios(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let schedules = extent.choose(10_000, 1000);
    let (command, text) = check(workspace, &format!("--schedules {schedules}"))?;
    let last = text.lines().rfind(|line| line.contains(" schedules with all guards"));
    let last = last.ok_or_else(|| Failure::new("`ceasefire check` printed no sum"))?;
    Ok(Done { command, figure: format!("{last}; without a guard each broke its rule") })
}

/// Random operations on the adversary's machines.
pub(super) fn random(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let (command, text) = check(workspace, &format!("--random {}", extent.choose(10_000_000, 100_000)))?;
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
fn check(workspace: &Workspace, options: &str) -> Result<(String, String), Failure> {
    let text = shown(&mut workspace.cargo(&format!("run --profile checked --quiet -- check {options}")))?;
    Ok((format!("ceasefire check {options}"), text))
}

/// Random programs against a plain model of memory.
pub(super) fn programs(_: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let count = extent.choose(1_000_000, 20_000);
    programs::run(&programs::Options::first(count))?;
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
        "--package ceasefire-memory --test laws",
    );
    let command = format!("test {packages} --profile unchecked");
    let tests = passed(&shown(&mut workspace.cargo_sabotaged(&command))?);
    Ok(Done { command: format!("cargo {command}"), figure: format!("{} tests", grouped(tests)) })
}
