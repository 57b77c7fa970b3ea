//! What unmaps cost on ostd, as it is published and on the engine.

use super::port::{Layer, Ostd, Run, COUNTERS, ENGINE};
use crate::failure::{self, ensure, Failure};
use crate::table;

/// The name of the kernel.
const KERNEL: &str = "rounds";

/// The counts of one unmap.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Unmap {
    case: String,
    interrupts: u64,
    remote_locks: u64,
    allocations: u64,
}

type Count = fn(&Unmap) -> u64;

/// Runs the kernel `ports/ostd/rounds` on both, prints a table, and fails if any unmap needs more interrupts on the
/// engine.
pub(super) fn compare(ostd: &Ostd, cpus: u32) -> Result<(), Failure> {
    let [published, ours] = outputs(ostd, cpus, "", "")?;
    let (table, worse) = table(&read(&published)?, &read(&ours)?);
    println!("ostd on {cpus} CPUs, five unmaps each: as published, and on the engine\n{table}");
    ensure!(worse.is_empty(), new, "more interrupts on the engine: {}", worse.join(", "));
    Ok(())
}

/// Runs it on both with an emulator that counts instructions, and prints those of a flush of one page.
pub(super) fn instructions(ostd: &Ostd, cpus: u32) -> Result<(), Failure> {
    let outputs = outputs(ostd, cpus, " --release --kcmd-args=instructions", " -icount shift=0")?;
    let [published, ours] = outputs.map(|output| flush(&output));
    let (published, ours) = (published?, ours?);
    let row = |part: usize| [PARTS[part].1.to_owned(), published[part].to_string(), ours[part].to_string()];
    let rows = [0, 1, 2].map(row);
    println!("ostd on {cpus} CPUs, the instructions of a flush of one page: as published, and on the engine");
    println!("{}", table::format(["", "published", "engine"], &rows));
    Ok(())
}

/// The parts of a flush, by their names in the kernel's line.
const PARTS: [(&str, &str); 3] = [
    ("dispatch", "sender, until the others are asked"),
    ("sync", "sender, once they have answered"),
    ("receiver", "each receiver"),
];

/// The kernel's output, as published and on the engine.
fn outputs(ostd: &Ostd, cpus: u32, options: &str, machine: &str) -> Result<[String; 2], Failure> {
    let one = |line: &str, layers: &[Layer]| {
        let folder = ostd.kernel(KERNEL, layers)?;
        let line = format!("{line}{options}");
        failure::stdout(&mut ostd.osdk(&folder, &Run { machine, ..Run::new(&line, layers, cpus) })?)
    };
    Ok([one("run", &[COUNTERS])?, one("run --features ceasefire", &[ENGINE, COUNTERS])?])
}

/// The counts in the kernel's output.
fn read(output: &str) -> Result<Vec<Unmap>, Failure> {
    Ok(super::lines(output, KERNEL)?.into_iter().filter_map(unmap).collect())
}

/// A field of a line of the kernel's.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split(' ').find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
}

fn unmap(line: &str) -> Option<Unmap> {
    let number = |name| field(line, name)?.parse().ok();
    Some(Unmap {
        case: field(line, "case")?.to_owned(),
        interrupts: number("interrupts")?,
        remote_locks: number("remote_locks")?,
        allocations: number("allocations")?,
    })
}

/// The instructions of the parts of a flush.
fn flush(output: &str) -> Result<[u64; 3], Failure> {
    let lines = super::lines(output, KERNEL)?;
    let line = lines.into_iter().find(|line| field(line, "case") == Some("flush")).unwrap_or_default();
    let mut parts = [0; 3];
    for (part, (name, _)) in parts.iter_mut().zip(PARTS) {
        let number = field(line, name).and_then(|number| number.parse().ok());
        *part =
            number.ok_or_else(|| Failure::new(format!("the kernel has not measured `{name}` of a flush")))?;
    }
    Ok(parts)
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
    fn the_parts_of_a_flush_are_read() {
        let line = "rounds: cpus=4 case=flush dispatch=900 sync=60 receiver=300\r\nrounds: end\n";
        assert_eq!(flush(line).expect("all parts"), [900, 60, 300]);
        let failure =
            flush("rounds: cpus=4 case=flush dispatch=900\nrounds: end\n").expect_err("parts are missing");
        assert!(failure.to_string().contains("`sync`"), "{failure}");
    }
}
