//! What unmaps cost on ostd, as it is published and on the engine.

use super::port::{Layer, Ostd};
use crate::failure::{self, Failure};
use crate::table;

/// The counts of one unmap.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unmap {
    case: String,
    interrupts: u64,
    remote_locks: u64,
    allocations: u64,
}

type Count = fn(&Unmap) -> u64;

/// Runs the kernel `adopt/ostd/rounds` on both, prints a table, and fails if any unmap needs more interrupts on the
/// engine.
pub(super) fn run(ostd: &Ostd, cpus: u32) -> Result<(), Failure> {
    let mut counts = Vec::new();
    for (line, layers) in
        [("run", &[Layer::Counters][..]), ("run --features ceasefire", &[Layer::Engine, Layer::Counters])]
    {
        let folder = ostd.kernel("rounds", layers)?;
        let output = failure::stdout(&mut ostd.osdk(line, &folder, layers, cpus)?)?;
        counts.push(read(&output)?);
    }
    let (table, worse) = table(&counts[0], &counts[1]);
    println!("ostd on {cpus} CPUs, five unmaps each: as published, and on the engine\n{table}");
    if worse.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("more interrupts on the engine: {}", worse.join(", "))))
}

/// The lines of the kernel's output.
fn read(output: &str) -> Result<Vec<Unmap>, Failure> {
    if !output.lines().any(|line| line.trim() == "rounds: end") {
        let end: Vec<&str> = output.lines().rev().take(5).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        return Err(Failure::new(format!("the kernel did not end; its last lines:\n{}", end.join("\n"))));
    }
    Ok(output.lines().filter_map(unmap).collect())
}

fn unmap(line: &str) -> Option<Unmap> {
    let rest = line.trim().strip_prefix("rounds: ")?;
    let field = |name: &str| rest.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    let number = |name| field(name)?.parse().ok();
    Some(Unmap {
        case: field("case")?.to_owned(),
        interrupts: number("interrupts")?,
        remote_locks: number("remote_locks")?,
        allocations: number("allocations")?,
    })
}

/// A table of the medians, and the cases that need more interrupts on the engine.
fn table(stock: &[Unmap], ours: &[Unmap]) -> (String, Vec<String>) {
    let mut cases: Vec<&str> = Vec::new();
    for unmap in stock {
        if !cases.contains(&unmap.case.as_str()) {
            cases.push(&unmap.case);
        }
    }
    let median = |unmaps: &[Unmap], case: &str, count: Count| {
        let mut counts: Vec<u64> = unmaps.iter().filter(|unmap| unmap.case == case).map(count).collect();
        counts.sort_unstable();
        counts.get(counts.len() / 2).copied()
    };
    let counts: [(&str, Count); 3] = [
        ("interrupts", |unmap| unmap.interrupts),
        ("locks of other CPUs", |unmap| unmap.remote_locks),
        ("allocations", |unmap| unmap.allocations),
    ];
    let mut rows = Vec::new();
    let mut worse = Vec::new();
    for case in cases {
        for (name, count) in counts {
            let [before, after] = [stock, ours].map(|unmaps| median(unmaps, case, count));
            let shown = |count: Option<u64>| count.map_or("-".to_owned(), |count| count.to_string());
            rows.push([case.to_owned(), name.to_owned(), shown(before), shown(after)]);
            if name == "interrupts" && after > before {
                worse.push(case.to_owned());
            }
        }
    }
    (table::format(["case", "", "published", "engine"], &rows), worse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(interrupts: [u64; 3]) -> String {
        let line =
            |count| format!("rounds: cpus=4 case=1-page interrupts={count} remote_locks=6 allocations=2\r\n");
        interrupts.map(line).concat() + "noise\nrounds: end\n"
    }

    #[test]
    fn the_medians_of_both_stand_side_by_side() {
        let read = |counts| read(&output(counts)).expect("an output");
        let (text, worse) = table(&read([3, 9, 6]), &read([3, 3, 4]));
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert!(text.lines().any(|line| words(line) == ["1-page", "interrupts", "6", "3"]), "{text}");
        assert_eq!(worse, [""; 0]);
        assert_eq!(table(&read([3, 3, 3]), &read([3, 4, 4])).1, ["1-page"]);
    }

    #[test]
    fn a_kernel_that_did_not_end_is_a_failure() {
        let failure = read("rounds: cpus=4 case=1-page\npanicked\n").expect_err("no end");
        assert!(failure.to_string().ends_with("panicked"), "{failure}");
    }
}
