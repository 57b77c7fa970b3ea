//! The engine's costs, counted in instructions. The count is the same on every run, so noise cannot hide a change.
//!
//! The engine's example `costs` lists its cases and runs the one that it is told. A case's measured code is a function
//! `case_<name>` of its own, and callgrind counts nothing outside it.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use serde_json::{json, Value};

use crate::failure::{self, Failure};
use crate::table;
use crate::workspace::Workspace;

/// One line of the list: `name`, `calls`, `per`, `unit`, `bound` and, in some lines, `baseline`; separated by tabs.
#[derive(Debug, PartialEq)]
struct Case {
    name: String,
    /// Operations measured in all: the number of calls, times the operations of a call.
    operations: u64,
    /// The name of one operation.
    unit: String,
    /// The most instructions that one operation may take.
    bound: Option<f64>,
    /// The case whose count for each operation is subtracted: a loop, or a set-up.
    baseline: Option<String>,
}

/// A case and the instructions of one of its operations.
pub(crate) struct Cost {
    case: Case,
    instructions: f64,
}

impl Cost {
    pub(crate) fn holds(&self) -> bool {
        self.case.bound.is_none_or(|bound| self.instructions <= bound)
    }

    pub(crate) fn name(&self) -> &str {
        &self.case.name
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "name": self.case.name, "instructions": self.instructions, "per": self.case.unit,
            "bound": self.case.bound, "ok": self.holds(),
        })
    }
}

/// Measures every case.
pub(crate) fn measure(workspace: &Workspace) -> Result<Vec<Cost>, Failure> {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return Err(Failure::new(
            "instructions are counted by valgrind: install the Debian package `valgrind`",
        ));
    }
    let program = workspace.example("ceasefire", "costs")?;
    let list = failure::stdout(Command::new(&program).arg("list"))?;
    let cases = list.lines().map(Case::parse).collect::<Result<Vec<_>, _>>()?;
    let mut measured = HashMap::new();
    for case in &cases {
        eprintln!("==> counting {}", case.name);
        measured.insert(case.name.clone(), count(&program, &case.name)? as f64 / case.operations as f64);
    }
    let cost = |case: Case| {
        let common = match &case.baseline {
            None => 0.0,
            Some(baseline) => *measured
                .get(baseline)
                .ok_or_else(|| Failure::new(format!("case {}: no case {baseline} to subtract", case.name)))?,
        };
        Ok(Cost { instructions: measured[&case.name] - common, case })
    };
    cases.into_iter().map(cost).collect()
}

/// The table of all cases.
pub(crate) fn format(costs: &[Cost]) -> String {
    let row = |cost: &Cost| {
        let bound = cost.case.bound.map_or_else(|| "-".to_owned(), |bound| bound.to_string());
        let verdict = match (cost.case.bound, cost.holds()) {
            (None, _) => "-",
            (_, true) => "ok",
            (_, false) => "exceeded",
        };
        let instructions = format!("{:.1}", cost.instructions);
        [cost.case.name.clone(), instructions, cost.case.unit.clone(), bound, verdict.to_owned()]
    };
    table::format(
        ["case", "instructions", "per", "at most", "verdict"],
        &costs.iter().map(row).collect::<Vec<_>>(),
    )
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
        let wrong = |what: &str| Failure::new(format!("the list of costs: {what} in `{line}`"));
        let fields: Vec<&str> = line.split('\t').collect();
        let (&[name, calls, per, unit, bound], baseline) = (match fields.as_slice() {
            [fields @ .., baseline] if fields.len() == 5 => (fields, Some((*baseline).to_owned())),
            fields => (fields, None),
        }) else {
            return Err(wrong("neither five columns nor six"));
        };
        let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number > 0);
        let operations = number(calls).zip(number(per)).map(|(calls, per)| calls * per);
        let bound = match bound {
            "-" => None,
            bound => Some(bound.parse().map_err(|_| wrong("a bound that is not a number"))?),
        };
        Ok(Self {
            name: name.to_owned(),
            operations: operations.ok_or_else(|| wrong("no valid count of operations"))?,
            unit: unit.to_owned(),
            bound,
            baseline,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_five_columns_or_six() {
        let case = Case::parse("record\t100\t32\tpage\t60\tloop").unwrap();
        assert_eq!(case.operations, 3200);
        assert_eq!((case.bound, case.baseline.as_deref()), (Some(60.0), Some("loop")));
        let case = Case::parse("loop\t100\t32\tpage\t-").unwrap();
        assert_eq!((case.bound, case.baseline), (None, None));
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
        let cost =
            |instructions| Cost { case: Case::parse("switch\t1\t1\tswitch\t25").unwrap(), instructions };
        assert!(cost(25.0).holds());
        assert!(!cost(25.1).holds());
        assert!(format(&[cost(25.1)]).contains("exceeded"));
    }
}
