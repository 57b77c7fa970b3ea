//! `cargo xtask bench`: the engine's costs and the simulator's speed, each beside its bound.

mod costs;
mod speed;

use serde_json::{json, Value};

use crate::failure::{ensure, Failure};
use crate::json_file;
use crate::workspace::Workspace;

/// The options on the command line.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// Only the instruction counts: exact, within a minute.
    #[arg(long)]
    quick: bool,
    /// The results as JSON; - for standard output, which then carries nothing else.
    #[arg(long, value_name = "FILE")]
    json: Option<String>,
}

/// Something that was measured.
#[derive(Debug, PartialEq)]
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
        let verdict = if self.holds() { "ok" } else { broken };
        let verdict = self.bound.map_or("-", |_| verdict);
        let value = format!("{:.digits$}", self.value);
        [self.name.clone(), value, self.unit.clone(), bound, verdict.to_owned()]
    }
}

/// The columns of a line of a program that measures or lists, separated by tabs.
fn columns(line: &str) -> Vec<&str> {
    line.split('\t').collect()
}

/// A bound in such a line; `-` is none.
fn bound(text: &str) -> Option<Option<f64>> {
    if text == "-" {
        return Some(None);
    }
    text.parse().ok().map(Some)
}

/// Measures and prints. Fails if an operation of the engine takes more instructions than its bound.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let tables = !json_file::is_printed(options.json.as_deref());
    let workspace = Workspace::load()?;
    let costs = costs::measure(&workspace)?;
    if tables {
        println!("{}", costs::format(&costs));
    }
    let speeds = if options.quick { Vec::new() } else { speed::measure(&workspace)? };
    if tables && !options.quick {
        println!("{}", speed::format(&speeds));
    }
    if let Some(file) = &options.json {
        let costs: Vec<Value> = costs.iter().map(costs::json).collect();
        let speeds: Vec<Value> = speeds.iter().map(speed::json).collect();
        json_file::write(file, &json!({ "costs": costs, "speed": speeds }))?;
    }
    let exceeded: Vec<&str> =
        costs.iter().filter(|cost| !cost.holds()).map(|cost| cost.name.as_str()).collect();
    ensure!(exceeded.is_empty(), new, "more instructions than allowed: {}", exceeded.join(", "));
    Ok(())
}
