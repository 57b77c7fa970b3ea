//! `cargo xtask bench`: the engine's costs and the simulator's speed, each beside its bound.
//!
//! Costs are counted in instructions. The count is the same on every run, so noise cannot hide a change. The engine's
//! example `costs` lists its cases and runs the one that it is told. A case's measured code is a function `case_<name>` of
//! its own, and callgrind counts nothing outside it. Speed is measured by this machine's clock. It never fails a run, since
//! machines and their loads differ.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use crate::failure::{self, ensure, Failure};
use crate::table;
use crate::workspace::Workspace;

/// The options on the command line.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// Only the instruction counts: exact, within a minute.
    #[arg(long)]
    quick: bool,
}

/// Something that was measured.
#[derive(Debug, Clone, PartialEq)]
struct Figure {
    name: String,
    value: f64,
    unit: String,
    bound: Option<f64>,
    /// Whether the bound is a lower one.
    at_least: bool,
}

impl Figure {
    fn holds(&self) -> bool {
        self.bound.is_none_or(|bound| if self.at_least { self.value >= bound } else { self.value <= bound })
    }

    /// A line of a table. A bound that does not hold is `broken`.
    fn row(&self, digits: usize, broken: &str) -> [String; 5] {
        let direction = if self.at_least { "at least" } else { "at most" };
        let bound = self.bound.map_or_else(|| "-".to_owned(), |bound| format!("{direction} {bound}"));
        let verdict = self.bound.map_or("-", |_| if self.holds() { "ok" } else { broken });
        let value = format!("{:.digits$}", self.value);
        [self.name.clone(), value, self.unit.clone(), bound, verdict.to_owned()]
    }
}

/// A line of the list of costs.
#[derive(Debug)]
struct Case {
    /// Operations measured in all.
    operations: u64,
    /// The case whose count for each operation is subtracted: a loop, or a set-up.
    baseline: Option<String>,
    /// The instructions of one operation, and their bound.
    cost: Figure,
}

/// Measures and prints. Fails if an operation of the engine takes more instructions than its bound.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    let costs = costs(&workspace)?;
    println!("{}", costs_table(&costs));
    if !options.quick {
        println!("{}", speeds_table(&speeds(&workspace)?));
    }
    let exceeded = costs.iter().filter(|cost| !cost.holds());
    let exceeded: Vec<&str> = exceeded.map(|cost| cost.name.as_str()).collect();
    ensure!(exceeded.is_empty(), new, "more instructions than allowed: {}", exceeded.join(", "));
    Ok(())
}

fn costs_table(costs: &[Figure]) -> String {
    let rows: Vec<_> = costs.iter().map(|cost| cost.row(1, "exceeded")).collect();
    table::format(["case", "instructions", "per", "asked", "verdict"], &rows)
}

/// Counts of events need no fractions; ratios and sizes do.
fn speeds_table(speeds: &[Figure]) -> String {
    let row = |speed: &Figure| speed.row(if speed.value < 1000.0 { 3 } else { 0 }, "short");
    let rows: Vec<_> = speeds.iter().map(row).collect();
    table::format(["measured", "value", "unit", "asked", "verdict"], &rows)
}

/// Measures the cost of every case.
fn costs(workspace: &Workspace) -> Result<Vec<Figure>, Failure> {
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    ensure!(has_valgrind, new, "instructions are counted by valgrind: install Debian's `valgrind`");
    let program = workspace.example("ceasefire", "costs")?;
    let list = failure::stdout(Command::new(&program).arg("list"))?;
    let cases = list.lines().map(case).collect::<Result<Vec<_>, _>>()?;
    let mut measured = HashMap::new();
    for Case { cost: Figure { name, .. }, operations, .. } in &cases {
        eprintln!("==> counting {name}");
        measured.insert(name.clone(), count(&program, name)? as f64 / *operations as f64);
    }
    let cost = |Case { cost, baseline, .. }: Case| {
        let common = baseline.as_ref().map_or(Some(&0.0), |name| measured.get(name));
        let missing = || Failure::new(format!("case {}: no case {baseline:?} to subtract", cost.name));
        Ok(Figure { value: measured[&cost.name] - common.ok_or_else(missing)?, ..cost })
    };
    cases.into_iter().map(cost).collect()
}

/// The instructions of all calls of the case's function together.
fn count(program: &Path, name: &str) -> Result<u64, Failure> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(format!("--toggle-collect=case_{name}")).arg(program).arg(name);
    let output = failure::output(&mut valgrind)?;
    let count = collected(&String::from_utf8_lossy(&output.stderr)).filter(|count| *count > 0);
    // Zero means that the function has been inlined or renamed, not that it is free.
    count.ok_or_else(|| Failure::new(format!("case {name}: case_{name} never ran")))
}

/// The number in callgrind's closing line `==<process>== Collected : <number>`.
fn collected(report: &str) -> Option<u64> {
    let line = report.lines().find_map(|line| line.split_once("Collected :"));
    line?.1.trim().parse().ok()
}

/// Measures the simulator's speed.
fn speeds(workspace: &Workspace) -> Result<Vec<Figure>, Failure> {
    let program = workspace.example("ceasefire-experiments", "speed")?;
    eprintln!("==> measuring speed");
    failure::stdout(&mut Command::new(program))?.lines().map(speed).collect()
}

/// A case, as the example `costs` lists it, separated by tabs: name, calls, operations of a call, unit, bound and, in some
/// lines, a baseline.
fn case(line: &str) -> Result<Case, Failure> {
    let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
    let parsed = || {
        let columns: Vec<&str> = line.split('\t').collect();
        let &[name, calls, per, unit, limit] = columns.get(..5)? else { return None };
        let cost = figure(name, "0", unit, limit, "max")?;
        let baseline = columns.get(5).map(|name| (*name).to_owned());
        Some(Case { operations: number(calls)? * number(per)?, baseline, cost })
    };
    parsed().ok_or_else(|| Failure::new(format!("no case of a cost: `{line}`")))
}

/// One measurement, as the example `speed` prints it: name, value, unit, bound, direction.
fn speed(line: &str) -> Result<Figure, Failure> {
    let parsed = || {
        let &[name, value, unit, limit, direction] = line.split('\t').collect::<Vec<_>>().as_slice() else {
            return None;
        };
        figure(name, value, unit, limit, direction)
    };
    parsed().ok_or_else(|| Failure::new(format!("no measurement of speed: `{line}`")))
}

fn figure(name: &str, value: &str, unit: &str, limit: &str, direction: &str) -> Option<Figure> {
    let bound = if limit == "-" { None } else { Some(limit.parse().ok()?) };
    let at_least = ["max", "min"].iter().position(|known| *known == direction)? == 1;
    Some(Figure { name: name.to_owned(), value: value.parse().ok()?, unit: unit.to_owned(), bound, at_least })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_five_columns_or_six() {
        let with = case("record\t100\t32\tpage\t60\tloop").unwrap();
        assert_eq!(with.operations, 3200);
        assert_eq!((with.cost.bound, with.baseline.as_deref()), (Some(60.0), Some("loop")));
        let without = case("loop\t100\t32\tpage\t-").unwrap();
        assert_eq!((without.cost.bound, without.baseline), (None, None));
    }

    #[test]
    fn a_line_without_a_case_or_a_measurement_is_named() {
        for wrong in ["a", "a\t0\t1\tpage\t-", "a\t1\tx\tpage\t-", "a\t1\t1\tpage\tfew", "a\tb"] {
            assert!(case(wrong).unwrap_err().to_string().contains(wrong), "{wrong}");
        }
        for wrong in ["a", "a\tmany\t1/s\t1\tmin", "a\t1\t1/s\tmany\tmin", "a\t1\t1/s\t1\tup"] {
            assert!(speed(wrong).unwrap_err().to_string().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn the_count_is_in_the_closing_line() {
        let report =
            "==17== Callgrind, a call-graph profiler\n==17== Events    : Ir\n==17== Collected : 5800\n";
        assert_eq!(collected(report), Some(5800));
        assert_eq!(collected("==17== nothing"), None);
    }

    #[test]
    fn bounds_hold_in_their_direction() {
        for (line, holds) in [
            ("faults\t2000000\t1/s\t1500000\tmin", true),
            ("faults\t1000000\t1/s\t1500000\tmin", false),
            ("oracle\t2.5\tx\t2.5\tmax", true),
            ("oracle\t2.6\tx\t2.5\tmax", false),
            ("memory\t3.1\tGiB\t-\tmax", true),
        ] {
            assert_eq!(speed(line).unwrap().holds(), holds, "{line}");
        }
    }

    #[test]
    fn a_bound_that_does_not_hold_is_marked() {
        let table = speeds_table(&[speed("faults\t1000000\t1/s\t1500000\tmin").unwrap()]);
        assert!(table.contains("at least 1500000") && table.contains("short"), "{table}");
        let case = case("switch\t1\t1\tswitch\t25").unwrap();
        assert!(costs_table(&[Figure { value: 25.1, ..case.cost }]).contains("exceeded"));
    }
}
