//! The simulator's speed by this machine's clock. It is measured and shown, and never fails a run, since machines and
//! their loads differ.

use std::process::Command;

use serde_json::{json, Value};

use crate::failure::{self, Failure};
use crate::table;
use crate::workspace::Workspace;

/// One measurement, as the example `speed` prints it: `name`, `value`, `unit`, `bound`, `direction`; separated by tabs.
#[derive(Debug, PartialEq)]
pub(crate) struct Speed {
    name: String,
    value: f64,
    unit: String,
    bound: Option<f64>,
    /// Whether the bound is a lower one.
    at_least: bool,
}

/// Runs the measurements.
pub(crate) fn measure(workspace: &Workspace) -> Result<Vec<Speed>, Failure> {
    let program = workspace.example("ceasefire-experiments", "speed")?;
    eprintln!("==> measuring speed");
    failure::stdout(&mut Command::new(program))?.lines().map(Speed::parse).collect()
}

/// The table of all measurements.
pub(crate) fn format(speeds: &[Speed]) -> String {
    let row = |speed: &Speed| {
        let direction = if speed.at_least { "at least" } else { "at most" };
        let bound = speed.bound.map_or_else(|| "-".to_owned(), |bound| format!("{direction} {bound}"));
        let verdict = match (speed.bound, speed.holds()) {
            (None, _) => "-",
            (_, true) => "ok",
            (_, false) => "short",
        };
        // Counts of events need no fractions; ratios and sizes do.
        let digits = if speed.value < 1000.0 { 3 } else { 0 };
        [
            speed.name.clone(),
            format!("{:.digits$}", speed.value),
            speed.unit.clone(),
            bound,
            verdict.to_owned(),
        ]
    };
    table::format(
        ["measured", "value", "unit", "asked", "verdict"],
        &speeds.iter().map(row).collect::<Vec<_>>(),
    )
}

impl Speed {
    fn holds(&self) -> bool {
        self.bound.is_none_or(|bound| if self.at_least { self.value >= bound } else { self.value <= bound })
    }

    pub(crate) fn json(&self) -> Value {
        let direction = if self.at_least { "min" } else { "max" };
        json!({
            "name": self.name, "value": self.value, "unit": self.unit,
            "bound": self.bound, "direction": direction, "ok": self.holds(),
        })
    }

    fn parse(line: &str) -> Result<Self, Failure> {
        let wrong = |what: &str| Failure::new(format!("the measurements of speed: {what} in `{line}`"));
        let &[name, value, unit, bound, direction] = line.split('\t').collect::<Vec<_>>().as_slice() else {
            return Err(wrong("not five columns"));
        };
        let bound = match bound {
            "-" => None,
            bound => Some(bound.parse().map_err(|_| wrong("a bound that is not a number"))?),
        };
        let at_least = match direction {
            "min" => true,
            "max" => false,
            _ => return Err(wrong("neither min nor max")),
        };
        let value = value.parse().map_err(|_| wrong("a value that is not a number"))?;
        Ok(Self { name: name.to_owned(), value, unit: unit.to_owned(), bound, at_least })
    }
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
            assert_eq!(Speed::parse(line).unwrap().holds(), holds, "{line}");
        }
    }

    #[test]
    fn a_line_without_a_measurement_is_named() {
        for wrong in
            ["faults", "faults\tmany\t1/s\t1\tmin", "faults\t1\t1/s\tmany\tmin", "faults\t1\t1/s\t1\tup"]
        {
            assert!(Speed::parse(wrong).unwrap_err().to_string().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_slow_measurement_is_marked_short_without_failing() {
        let table = format(&[Speed::parse("faults\t1000000\t1/s\t1500000\tmin").unwrap()]);
        assert!(table.contains("at least 1500000") && table.contains("short"), "{table}");
    }
}
