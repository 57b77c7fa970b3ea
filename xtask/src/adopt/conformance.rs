//! The scenarios of `ceasefire-conformance` on ostd, as it is published and on the engine.

use super::port::{Layer, Ostd, Run, DOORS, ENGINE};
use crate::failure::{self, ensure, Failure};
use crate::table;

/// The name of the kernel.
const KERNEL: &str = "conformance";
/// The beginning of a verdict that names a stale entry.
const BROKEN: &str = "BROKEN: ";

/// The build on the engine.
const OURS: &str = "run --features ceasefire";
const OURS_LAYERS: &[Layer] = &[ENGINE, DOORS];

/// The verdict of a scenario.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verdict {
    scenario: String,
    text: String,
}

impl Verdict {
    fn is_broken(&self) -> bool {
        self.text.starts_with(BROKEN)
    }

    /// Without the number of accesses, which differs from run to run, or what was found.
    fn short(&self) -> &str {
        self.text.split([':', '(']).next().unwrap_or(&self.text).trim_end()
    }
}

/// Runs the kernel `ports/ostd/conformance` on both, prints a table, and fails if anything but a pass is found on the
/// engine. As published, ostd uses no PCIDs, so Bochs shows nothing new of it, and runs the engine alone.
pub(super) fn compare(ostd: &Ostd, cpus: u32) -> Result<(), Failure> {
    let published =
        if ostd.is_in_bochs() { Vec::new() } else { verdicts(ostd, &Run::new("run", &[DOORS], cpus))? };
    let ours = verdicts(ostd, &Run::new(&format!("{OURS} {}", ostd.rounds()), OURS_LAYERS, cpus))?;
    println!("ostd on {cpus} CPUs: as published, and on the engine\n{}", table(&published, &ours));
    for (side, verdicts) in [("as published", &published), ("on the engine", &ours)] {
        for Verdict { scenario, text } in verdicts.iter().filter(|verdict| verdict.is_broken()) {
            println!("{side}, {scenario}: {text}");
        }
    }
    let wrong = ours.iter().filter(|verdict| verdict.short() != "passed");
    let wrong: Vec<&str> = wrong.map(|verdict| verdict.scenario.as_str()).collect();
    ensure!(wrong.is_empty(), new, "the engine does not pass: {}", wrong.join(", "));
    Ok(())
}

/// Runs it on the engine without one of its guards, prints the verdicts, and fails if no scenario misses the guard.
pub(super) fn without(ostd: &Ostd, cpus: u32, guard: &str) -> Result<(), Failure> {
    let line = format!("{OURS} {} --kcmd-args=without={guard}", ostd.rounds());
    let verdicts = verdicts(ostd, &Run { removable: true, ..Run::new(&line, OURS_LAYERS, cpus) })?;
    println!("ostd on {cpus} CPUs, on the engine without the guard {guard}");
    for Verdict { scenario, text } in &verdicts {
        println!("{scenario}: {text}");
    }
    ensure!(verdicts.iter().any(Verdict::is_broken), new, "no scenario misses the guard {guard}");
    Ok(())
}

fn verdicts(ostd: &Ostd, run: &Run<'_>) -> Result<Vec<Verdict>, Failure> {
    let folder = ostd.kernel(KERNEL, run.layers)?;
    read(&failure::stdout(&mut ostd.osdk(&folder, run)?)?)
}

/// The verdicts in the kernel's output.
fn read(output: &str) -> Result<Vec<Verdict>, Failure> {
    let verdict = |line: &str| {
        let (scenario, text) = line.split_once(": ")?;
        Some(Verdict { scenario: scenario.to_owned(), text: text.to_owned() })
    };
    Ok(super::lines(output, KERNEL)?.into_iter().filter_map(verdict).collect())
}

fn table(published: &[Verdict], ours: &[Verdict]) -> String {
    let of = |verdicts: &[Verdict], scenario: &str| {
        let verdict = verdicts.iter().find(|verdict| verdict.scenario == scenario);
        verdict.map_or("-", Verdict::short).to_owned()
    };
    let row = |verdict: &Verdict| {
        let scenario = verdict.scenario.clone();
        [scenario.clone(), of(published, &scenario), of(ours, &scenario)]
    };
    table::format(["scenario", "published", "engine"], &ours.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "noise\r\nconformance: unmap: passed (9 accesses)\r\n\
                          conformance: kernel: BROKEN: CPU 1 loaded version 1\r\nconformance: end\r\n";

    #[test]
    fn the_verdicts_of_both_stand_side_by_side() {
        let verdicts = read(OUTPUT).expect("an output");
        assert_eq!(verdicts.iter().map(Verdict::is_broken).collect::<Vec<_>>(), [false, true]);
        let text = table(&verdicts[1..], &verdicts);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(text.lines().any(|line| words(line) == ["unmap", "-", "passed"]), "{text}");
        assert!(text.lines().any(|line| words(line) == ["kernel", "BROKEN", "BROKEN"]), "{text}");
    }
}
