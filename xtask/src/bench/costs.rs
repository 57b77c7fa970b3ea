//! The engine's costs, counted in instructions. The count is the same on every run, so noise cannot hide a change.
//!
//! The engine's example `costs` lists its cases and runs the one that it is told. A case's measured code is a function
//! `case_<name>` of its own, and callgrind counts nothing outside it.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use serde_json::{json, Value};

use super::{bound, columns, Figure};
use crate::failure::{self, ensure, Failure};
use crate::table;
use crate::workspace::Workspace;

/// One line of the list: name, calls, operations of a call, unit, bound and, in some lines, a baseline.
#[derive(Debug)]
struct Case {
    /// Operations measured in all.
    operations: u64,
    /// The case whose count for each operation is subtracted: a loop, or a set-up.
    baseline: Option<String>,
    /// The instructions of one operation, and their bound.
    cost: Figure,
}

/// Measures every case.
pub(super) fn measure(workspace: &Workspace) -> Result<Vec<Figure>, Failure> {
    let has_valgrind = Command::new("valgrind").arg("--version").output().is_ok();
    ensure!(has_valgrind, new, "instructions are counted by valgrind: install the Debian package `valgrind`");
    let program = workspace.example("ceasefire", "costs")?;
    let list = failure::stdout(Command::new(&program).arg("list"))?;
    let cases = list.lines().map(Case::parse).collect::<Result<Vec<_>, _>>()?;
    let mut measured = HashMap::new();
    for Case { cost: Figure { name, .. }, operations, .. } in &cases {
        eprintln!("==> counting {name}");
        measured.insert(name.clone(), count(&program, name)? as f64 / *operations as f64);
    }
    let cost = |Case { cost, baseline, .. }: Case| {
        let of = |name: &str| measured.get(name).copied();
        let common = baseline.as_deref().map_or(Some(0.0), of);
        let missing = || Failure::new(format!("case {}: no case {baseline:?} to subtract", cost.name));
        let value = of(&cost.name).zip(common).ok_or_else(missing)?;
        Ok(Figure { value: value.0 - value.1, ..cost })
    };
    cases.into_iter().map(cost).collect()
}

/// The table of all cases.
pub(super) fn format(costs: &[Figure]) -> String {
    let rows: Vec<_> = costs.iter().map(|cost| cost.row(1, "exceeded")).collect();
    table::format(["case", "instructions", "per", "asked", "verdict"], &rows)
}

pub(super) fn json(cost: &Figure) -> Value {
    json!({
        "name": cost.name, "instructions": cost.value, "per": cost.unit,
        "bound": cost.bound, "ok": cost.holds(),
    })
}

/// The instructions of all calls of the case's function together.
fn count(program: &Path, name: &str) -> Result<u64, Failure> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    valgrind.arg(format!("--toggle-collect=case_{name}")).arg(program).arg(name);
    let output = failure::output(&mut valgrind)?;
    let count = collected(&String::from_utf8_lossy(&output.stderr));
    // Zero means that the function has been inlined or renamed, not that it is free.
    count
        .filter(|count| *count > 0)
        .ok_or_else(|| Failure::new(format!("case {name}: case_{name} never ran")))
}

/// The number in callgrind's closing line `==<process>== Collected : <number>`.
fn collected(report: &str) -> Option<u64> {
    let line = report.lines().find_map(|line| line.split_once("Collected :"));
    line?.1.trim().parse().ok()
}

impl Case {
    fn parse(line: &str) -> Result<Self, Failure> {
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
        let parsed = || {
            let (&[name, calls, per, unit, limit], baseline) = (match columns(line).as_slice() {
                [fields @ .., baseline] if fields.len() == 5 => (fields, Some((*baseline).to_owned())),
                fields => (fields, None),
            }) else {
                return None;
            };
            let cost = Figure {
                name: name.to_owned(),
                value: 0.0,
                unit: unit.to_owned(),
                bound: bound(limit)?,
                at_least: false,
            };
            Some(Self { operations: number(calls)? * number(per)?, baseline, cost })
        };
        parsed().ok_or_else(|| Failure::new(format!("no case of a cost: `{line}`")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_five_columns_or_six() {
        let case = Case::parse("record\t100\t32\tpage\t60\tloop").unwrap();
        assert_eq!(case.operations, 3200);
        assert_eq!((case.cost.bound, case.baseline.as_deref()), (Some(60.0), Some("loop")));
        let case = Case::parse("loop\t100\t32\tpage\t-").unwrap();
        assert_eq!((case.cost.bound, case.baseline), (None, None));
        for wrong in
            ["record", "record\t0\t1\tpage\t-", "record\t1\tx\tpage\t-", "record\t1\t1\tpage\tfew", "a\tb"]
        {
            assert!(Case::parse(wrong).unwrap_err().to_string().contains(wrong), "{wrong}");
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
    fn a_bound_is_the_most_that_holds() {
        let case = Case::parse("switch\t1\t1\tswitch\t25").unwrap();
        let holds = Figure { value: 25.0, ..case.cost };
        assert!(holds.holds());
        let exceeded = Figure { value: 25.1, ..holds };
        assert!(!exceeded.holds());
        assert!(format(&[exceeded]).contains("exceeded"));
    }
}
