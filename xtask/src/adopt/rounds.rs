//! What unmaps cost on ostd, as it is published and on the engine.

use super::port::{Layer, Ostd, Run, COUNTERS, ENGINE};
use crate::failure::{self, ensure, Failure};
use crate::table;

/// The name of the kernel, whose lines are fields `name=value`.
const KERNEL: &str = "rounds";

/// The counts of an unmap, and their names in the kernel's lines.
const COUNTS: [(&str, &str); 3] =
    [("interrupts", "interrupts"), ("locks of other CPUs", "remote_locks"), ("allocations", "allocations")];

/// The parts of a flush of one page in instructions, and their names.
const PARTS: [(&str, &str); 3] = [
    ("sender, until the others are asked", "dispatch"),
    ("sender, once they have answered", "sync"),
    ("each receiver", "receiver"),
];

/// Runs the kernel `ports/ostd/rounds` on both, prints a table, and fails if any unmap needs more interrupts on the
/// engine.
pub(super) fn compare(ostd: &Ostd, cpus: u32) -> Result<(), Failure> {
    let outputs = outputs(ostd, cpus, "", "")?;
    let (table, worse) = table(&super::lines(&outputs[0], KERNEL)?, &super::lines(&outputs[1], KERNEL)?);
    println!("ostd on {cpus} CPUs, five unmaps each: as published, and on the engine\n{table}");
    ensure!(worse.is_empty(), new, "more interrupts on the engine: {}", worse.join(", "));
    Ok(())
}

/// Runs it on both with an emulator that counts instructions, and prints those of a flush of one page.
pub(super) fn instructions(ostd: &Ostd, cpus: u32) -> Result<(), Failure> {
    let outputs = outputs(ostd, cpus, " --release --kcmd-args=instructions", " -icount shift=0")?;
    let (published, ours) = (flush(&outputs[0])?, flush(&outputs[1])?);
    let row = |part: usize| [PARTS[part].0.to_owned(), published[part].to_string(), ours[part].to_string()];
    println!("ostd on {cpus} CPUs, the instructions of a flush of one page: as published, and on the engine");
    println!("{}", table::format(["", "published", "engine"], &[0, 1, 2].map(row)));
    Ok(())
}

/// The kernel's output, as published and on the engine.
fn outputs(ostd: &Ostd, cpus: u32, options: &str, machine: &str) -> Result<[String; 2], Failure> {
    let one = |line: &str, layers: &[Layer]| {
        let folder = ostd.kernel(KERNEL, layers)?;
        let line = format!("{line}{options}");
        failure::stdout(&mut ostd.osdk(&folder, &Run { machine, ..Run::new(&line, layers, cpus) })?)
    };
    Ok([one("run", &[COUNTERS])?, one("run --features ceasefire", &[ENGINE, COUNTERS])?])
}

/// A field of a line of the kernel's.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
}

/// The median of a count in the lines of a case.
fn median(lines: &[&str], case: &str, count: &str) -> Option<u64> {
    let of_case = lines.iter().filter(|line| field(line, "case") == Some(case));
    let mut counts: Vec<u64> = of_case.filter_map(|line| field(line, count)?.parse().ok()).collect();
    counts.sort_unstable();
    counts.get(counts.len() / 2).copied()
}

/// The instructions of the parts of a flush.
fn flush(output: &str) -> Result<[u64; 3], Failure> {
    let lines = super::lines(output, KERNEL)?;
    let found = PARTS.map(|(_, name)| median(&lines, "flush", name));
    let missing = PARTS.iter().zip(found).find(|(_, found)| found.is_none());
    let missing = missing.map_or("", |((_, name), _)| name);
    ensure!(missing.is_empty(), new, "the kernel has not measured `{missing}` of a flush");
    Ok(found.map(Option::unwrap_or_default))
}

/// A table of the medians, and the cases that need more interrupts on the engine.
fn table<'a>(stock: &[&'a str], ours: &[&str]) -> (String, Vec<&'a str>) {
    let mut cases: Vec<&str> = stock.iter().filter_map(|line| field(line, "case")).collect();
    cases.dedup();
    let (mut rows, mut worse) = (Vec::new(), Vec::new());
    for case in cases {
        for (title, count) in COUNTS {
            let [before, after] = [stock, ours].map(|lines| median(lines, case, count));
            let shown = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
            rows.push([case.to_owned(), title.to_owned(), shown(before), shown(after)]);
            if count == "interrupts" && after > before {
                worse.push(case);
            }
        }
    }
    (table::format(["case", "", "published", "engine"], &rows), worse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_medians_of_both_stand_side_by_side() {
        let lines = |counts: [u64; 3]| {
            counts.map(|count| format!("cpus=4 case=1-page interrupts={count} remote_locks=6 allocations=2"))
        };
        let compared = |before, after| {
            let (before, after) = (lines(before), lines(after));
            let (text, worse) =
                table(&before.each_ref().map(String::as_str), &after.each_ref().map(String::as_str));
            (text, worse.join(" "))
        };
        let (text, worse) = compared([3, 9, 6], [3, 3, 4]);
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(text.lines().any(|line| words(line) == ["1-page", "interrupts", "6", "3"]), "{text}");
        assert_eq!(worse, "");
        assert_eq!(compared([3, 3, 3], [3, 4, 4]).1, "1-page");
    }

    #[test]
    fn the_parts_of_a_flush_are_read() {
        let line = "rounds: cpus=4 case=flush dispatch=900 sync=60 receiver=300\r\nrounds: end\n";
        assert_eq!(flush(line).expect("all parts"), [900, 60, 300]);
        let failure =
            flush("rounds: cpus=4 case=flush dispatch=900\nrounds: end").expect_err("some are missing");
        assert!(failure.to_string().contains("`sync`"), "{failure}");
    }
}
