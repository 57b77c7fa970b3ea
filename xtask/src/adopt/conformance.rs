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

/// A scenario and its verdict.
type Verdict = (String, String);

/// A verdict without the number of accesses, which differs from run to run, or what was found.
fn short(verdict: &str) -> &str {
    verdict.split([':', '(']).next().unwrap_or(verdict).trim_end()
}

/// Runs the kernel `ports/ostd/conformance` on both, prints a table, and fails if anything but a pass is found on the
/// engine. As published, ostd uses no PCIDs, so Bochs shows nothing new of it, and runs the engine alone.
pub(super) fn compare(ostd: &Ostd, cpus: u32) -> Result<(), Failure> {
    let published = if ostd.bochs { Vec::new() } else { verdicts(ostd, &Run::new("run", &[DOORS], cpus))? };
    let ours = verdicts(ostd, &Run::new(&format!("{OURS} {}", rounds(ostd)), OURS_LAYERS, cpus))?;
    println!("ostd on {cpus} CPUs: as published, and on the engine\n{}", table(&published, &ours));
    for (side, verdicts) in [("as published", &published), ("on the engine", &ours)] {
        for (scenario, verdict) in verdicts.iter().filter(|(_, verdict)| verdict.starts_with(BROKEN)) {
            println!("{side}, {scenario}: {verdict}");
        }
    }
    let wrong = ours.iter().filter(|(_, verdict)| short(verdict) != "passed");
    let wrong: Vec<&str> = wrong.map(|(scenario, _)| scenario.as_str()).collect();
    ensure!(wrong.is_empty(), new, "the engine does not pass: {}", wrong.join(", "));
    Ok(())
}

/// Runs it on the engine without one of its guards, prints the verdicts, and fails if no scenario misses the guard.
pub(super) fn without(ostd: &Ostd, cpus: u32, guard: &str) -> Result<(), Failure> {
    let line = format!("{OURS} {} --kcmd-args=without={guard}", rounds(ostd));
    let verdicts = verdicts(ostd, &Run { removable: true, ..Run::new(&line, OURS_LAYERS, cpus) })?;
    println!("ostd on {cpus} CPUs, on the engine without the guard {guard}");
    for (scenario, verdict) in &verdicts {
        println!("{scenario}: {verdict}");
    }
    let is_missed = verdicts.iter().any(|(_, verdict)| verdict.starts_with(BROKEN));
    ensure!(is_missed, new, "no scenario misses the guard {guard}");
    Ok(())
}

/// The argument that makes scenarios short where the emulator is slow.
fn rounds(ostd: &Ostd) -> &'static str {
    if ostd.bochs {
        "--kcmd-args=rounds=10"
    } else {
        ""
    }
}

fn verdicts(ostd: &Ostd, run: &Run<'_>) -> Result<Vec<Verdict>, Failure> {
    let folder = ostd.kernel(KERNEL, run.layers)?;
    read(&failure::stdout(&mut ostd.osdk(&folder, run)?)?)
}

/// The verdicts in the kernel's output.
fn read(output: &str) -> Result<Vec<Verdict>, Failure> {
    let lines = super::lines(output, KERNEL)?.into_iter().filter_map(|line| line.split_once(": "));
    Ok(lines.map(|(scenario, verdict)| (scenario.to_owned(), verdict.to_owned())).collect())
}

fn table(published: &[Verdict], ours: &[Verdict]) -> String {
    let row = |(scenario, verdict): &Verdict| {
        let before = published.iter().find(|(other, _)| other == scenario);
        let before = before.map_or("-", |(_, verdict)| short(verdict));
        [scenario, before, short(verdict)].map(str::to_owned)
    };
    table::format(["scenario", "published", "engine"], &ours.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdicts_of_both_stand_side_by_side() {
        let output = "noise\r\nconformance: unmap: passed (9 accesses)\r\n\
                      conformance: kernel: BROKEN: CPU 1 loaded version 1\r\nconformance: end\r\n";
        let verdicts = read(output).expect("an output");
        let text = table(&verdicts[1..], &verdicts);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1..], [["unmap", "-", "passed"], ["kernel", "BROKEN", "BROKEN"]]);
    }
}
