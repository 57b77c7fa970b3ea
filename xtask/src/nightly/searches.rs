//! The searches that need the stable toolchain alone.

use super::{Done, Extent};
use crate::failure::{ensure, shown, Failure};
use crate::kernel;
use crate::litmus;
use crate::programs;
use crate::sanitize;
use crate::workspace::{Variant, Workspace};

/// Every scenario of the adversary, with its guards and without.
pub(super) fn scenarios(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let schedules = extent.choose(10_000, 1000);
    let (command, text) = check(workspace, &format!("--schedules {schedules}"))?;
    let last = last(&text, " schedules with all guards")?;
    Ok(Done { command, figure: format!("{last}; without a guard each broke its rule") })
}

/// Random operations on the adversary's machines.
pub(super) fn random(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let (command, text) = check(workspace, &format!("--random {}", extent.choose(10_000_000, 600_000)))?;
    let rows = text.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().rev().map_while(|word| word.parse::<u64>().ok());
        numbers.next().zip(numbers.next())
    });
    let (steps, schedules): (Vec<u64>, Vec<u64>) = rows.unzip();
    let machines = steps.len();
    ensure!(machines > 0, new, "`ceasefire check --random` printed no machine");
    let [schedules, steps] = [schedules, steps].map(|counts| grouped(counts.iter().sum()));
    Ok(Done { command, figure: format!("{schedules} schedules on {machines} machines, {steps} steps") })
}

/// `ceasefire check` with options: the command, and what it printed.
fn check(workspace: &Workspace, options: &str) -> Result<(String, String), Failure> {
    let text = shown(workspace.program().arg("check").args(options.split(' ')))?;
    Ok((format!("ceasefire check {options}"), text))
}

/// The kernel in QEMU: `stale` looks for stale entries, with every mechanism of each architecture.
pub(super) fn kernel(_: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let seconds = extent.choose(60, 4);
    let (mut commands, mut runs) = (Vec::new(), 0);
    for (arch, mechanisms) in
        [("x86_64", "per-page,batched,lazy"), ("aarch64", "per-page,batched,lazy,broadcast,all")]
    {
        let line = format!(
            "--arch {arch} --program stale --cpus 4 --memory 256M --mechanism {mechanisms} --seconds {seconds}"
        );
        kernel::run(&crate::parse(&line)?)?;
        commands.push(format!("cargo xtask kernel {line}"));
        runs += mechanisms.split(',').count();
    }
    let figure = format!("{runs} runs of {seconds} s: no stale entry was used");
    Ok(Done { command: commands.join("; "), figure })
}

/// What `ceasefire sanitize` finds.
pub(super) fn sanitizer(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let line = extent.choose("--all", "");
    let figure = sanitize::figure(workspace, &crate::parse(line)?)?;
    Ok(Done { command: format!("cargo xtask sanitize {line}").trim_end().to_owned(), figure })
}

/// Random programs against a plain model of memory.
pub(super) fn programs(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let count = extent.choose(1_000_000, 5_000);
    // A part runs in CI after the tests.
    let build = extent.choose(programs::Build::Checked, programs::Build::Tests);
    programs::run(workspace, &programs::Options { count, from: 0 }, build)?;
    let figure = format!("{} programs agree with the model", grouped(count));
    Ok(Done { command: format!("cargo xtask programs {count}"), figure })
}

/// The flush paths, judged by Arm's own model of virtual memory.
pub(super) fn litmus(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let line = extent.choose("", "--part");
    let figure = litmus::judge(workspace, &crate::parse(line)?)?.figure();
    Ok(Done { command: format!("cargo xtask litmus {line}").trim_end().to_owned(), figure })
}

/// The orderings of the engine, each weakened by itself.
pub(super) fn orderings(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    example(workspace, "orderings", extent.choose(2000, 20), " weakenings must be missed")
}

/// Neighbouring statements of the engine with atomic accesses, each pair exchanged by itself.
pub(super) fn swaps(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    example(workspace, "swaps", extent.choose(1000, 20), " are missed, ")
}

/// An example of the adversary, with so many schedules of each scenario. Its last line has `part`.
fn example(workspace: &Workspace, name: &str, schedules: u32, part: &str) -> Result<Done, Failure> {
    let command = format!("run --profile checked --package ceasefire-adversary --example {name} {schedules}");
    let text = shown(&mut workspace.cargo(&command))?;
    Ok(Done { command: format!("cargo {command}"), figure: last(&text, part)?.to_owned() })
}

/// The last line with `part`.
fn last<'a>(text: &'a str, part: &str) -> Result<&'a str, Failure> {
    let last = text.lines().rfind(|line| line.contains(part));
    last.ok_or_else(|| Failure::new(format!("no line with `{part}` was printed")))
}

/// The tests of the memory manager and the machine as a released kernel runs them, without assertions. The engine's are
/// part of `cargo xtask test`.
pub(super) fn unchecked(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    let packages = extent.choose(
        "--package ceasefire-memory --package ceasefire-machine",
        "--package ceasefire-memory --test manager laws::",
    );
    let command = format!("test {packages} --profile unchecked");
    let tests = passed(&shown(&mut workspace.variant(Variant::Sabotage, &command))?);
    Ok(Done { command: format!("cargo {command}"), figure: format!("{} tests", grouped(tests)) })
}

/// The number of tests that passed, from what the test runners print.
pub(super) fn passed(text: &str) -> u64 {
    let lines = text.lines().filter(|line| line.contains("test result: ok."));
    let number = |line: &str| line.split(" passed").next()?.split_whitespace().last()?.parse::<u64>().ok();
    lines.filter_map(number).sum()
}

/// A number with commas between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passed_tests_of_several_runners_are_added() {
        let text = "test result: ok. 12 passed; 0 failed; 0 ignored\ntest a ... ok\n\
                    test result: ok. 30 passed; 0 failed; 1 ignored\n";
        assert_eq!(passed(text), 42);
        assert_eq!(passed("test result: FAILED. 3 passed; 1 failed\n"), 0);
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 999, 1000, 10_000_000].map(grouped), ["0", "999", "1,000", "10,000,000"]);
    }
}
