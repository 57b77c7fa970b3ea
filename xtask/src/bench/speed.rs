//! The simulator's speed by this machine's clock. It is measured and shown, and never fails a run, since machines and
//! their loads differ.

use std::process::Command;

use serde_json::{json, Value};

use super::{bound, columns, Figure};
use crate::failure::{self, Failure};
use crate::table;
use crate::workspace::Workspace;

/// Runs the measurements.
pub(super) fn measure(workspace: &Workspace) -> Result<Vec<Figure>, Failure> {
    let program = workspace.example("ceasefire-experiments", "speed")?;
    eprintln!("==> measuring speed");
    failure::stdout(&mut Command::new(program))?.lines().map(parse).collect()
}

/// The table of all measurements. Counts of events need no fractions; ratios and sizes do.
pub(super) fn format(speeds: &[Figure]) -> String {
    let row = |speed: &Figure| speed.row(if speed.value < 1000.0 { 3 } else { 0 }, "short");
    let rows: Vec<_> = speeds.iter().map(row).collect();
    table::format(["measured", "value", "unit", "asked", "verdict"], &rows)
}

pub(super) fn json(speed: &Figure) -> Value {
    let direction = if speed.at_least { "min" } else { "max" };
    json!({
        "name": speed.name, "value": speed.value, "unit": speed.unit,
        "bound": speed.bound, "direction": direction, "ok": speed.holds(),
    })
}

/// One measurement, as the example `speed` prints it: name, value, unit, bound, direction.
fn parse(line: &str) -> Result<Figure, Failure> {
    let parsed = || {
        let &[name, value, unit, limit, direction] = columns(line).as_slice() else { return None };
        let at_least = direction == "min";
        let figure = Figure {
            name: name.to_owned(),
            value: value.parse().ok()?,
            unit: unit.to_owned(),
            bound: bound(limit)?,
            at_least,
        };
        (at_least || direction == "max").then_some(figure)
    };
    parsed().ok_or_else(|| Failure::new(format!("no measurement of speed: `{line}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_hold_in_their_direction() {
        for (line, holds) in [
            ("faults\t2000000\t1/s\t1500000\tmin", true),
            ("faults\t1000000\t1/s\t1500000\tmin", false),
            ("oracle\t2.4\tx\t2.5\tmax", true),
            ("oracle\t2.6\tx\t2.5\tmax", false),
            ("memory\t3.1\tGiB\t-\tmax", true),
        ] {
            assert_eq!(parse(line).unwrap().holds(), holds, "{line}");
        }
    }

    #[test]
    fn a_line_without_a_measurement_is_named() {
        for wrong in
            ["faults", "faults\tmany\t1/s\t1\tmin", "faults\t1\t1/s\tmany\tmin", "faults\t1\t1/s\t1\tup"]
        {
            assert!(parse(wrong).unwrap_err().to_string().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_slow_measurement_is_marked_short_without_failing() {
        let table = format(&[parse("faults\t1000000\t1/s\t1500000\tmin").unwrap()]);
        assert!(table.contains("at least 1500000") && table.contains("short"), "{table}");
    }
}
