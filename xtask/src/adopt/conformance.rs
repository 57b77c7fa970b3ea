//! The scenarios of `ceasefire-conformance` on ostd, as it is published and on the engine.

use super::port::{Emulator, Layer, Ostd, Run};
use crate::failure::{self, Failure};
use crate::table;

/// The beginning of each line of the kernel's.
const LINE: &str = "conformance: ";
/// The beginning of a verdict that names a stale entry.
const BROKEN: &str = "BROKEN: ";

/// The build on the engine.
const OURS: &str = "run --features ceasefire";
const OURS_LAYERS: &[Layer] = &[Layer::Engine, Layer::Doors];

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
    let published = match ostd.emulator() {
        Emulator::Qemu => verdicts(ostd, &Run::new("run", &[Layer::Doors], cpus))?,
        Emulator::Bochs => Vec::new(),
    };
    let ours = verdicts(ostd, &Run::new(&format!("{OURS} {}", ostd.rounds()), OURS_LAYERS, cpus))?;
    println!("ostd on {cpus} CPUs: as published, and on the engine\n{}", table(&published, &ours));
    for (side, verdicts) in [("as published", &published), ("on the engine", &ours)] {
        for Verdict { scenario, text } in verdicts.iter().filter(|verdict| verdict.is_broken()) {
            println!("{side}, {scenario}: {text}");
        }
    }
    let wrong: Vec<&str> = ours
        .iter()
        .filter(|verdict| verdict.short() != "passed")
        .map(|verdict| verdict.scenario.as_str())
        .collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("the engine does not pass: {}", wrong.join(", "))))
}

/// Runs it on the engine without one of its guards, prints the verdicts, and fails if no scenario misses the guard.
pub(super) fn without(ostd: &Ostd, cpus: u32, guard: &str) -> Result<(), Failure> {
    let line = format!("{OURS} {} --kcmd-args=without={guard}", ostd.rounds());
    let verdicts = verdicts(ostd, &Run { removable: true, ..Run::new(&line, OURS_LAYERS, cpus) })?;
    println!("ostd on {cpus} CPUs, on the engine without the guard {guard}");
    for Verdict { scenario, text } in &verdicts {
        println!("{scenario}: {text}");
    }
    if verdicts.iter().any(Verdict::is_broken) {
        return Ok(());
    }
    Err(Failure::new(format!("no scenario misses the guard {guard}")))
}

fn verdicts(ostd: &Ostd, run: &Run<'_>) -> Result<Vec<Verdict>, Failure> {
    let folder = ostd.kernel("conformance", run.layers)?;
    read(&failure::stdout(&mut ostd.osdk(&folder, run)?)?)
}

/// The verdicts in the kernel's output.
fn read(output: &str) -> Result<Vec<Verdict>, Failure> {
    let lines: Vec<&str> = output.lines().filter_map(|line| line.trim().strip_prefix(LINE)).collect();
    if lines.last() != Some(&"end") {
        let lines: Vec<&str> = output.lines().collect();
        let end = lines[lines.len().saturating_sub(12)..].join("\n");
        return Err(Failure::new(format!("the kernel did not end; its last lines:\n{end}")));
    }
    let verdict = |line: &&str| {
        let (scenario, text) = line.split_once(": ")?;
        Some(Verdict { scenario: scenario.to_owned(), text: text.to_owned() })
    };
    Ok(lines.iter().filter_map(verdict).collect())
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

    #[test]
    fn a_kernel_that_did_not_end_is_a_failure() {
        let failure = read("conformance: unmap: passed (9 accesses)\npanicked\n").expect_err("no end");
        assert!(failure.to_string().ends_with("panicked"), "{failure}");
    }
}
