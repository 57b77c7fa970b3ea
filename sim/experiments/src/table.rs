//! The results as one table with a row for each run and figure, for data frames and databases.
//!
//! The figures are the numbers of a run's JSON, under the same names; a name within another is joined with a dot, as in
//! `time.user_s`. Time series are left out.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::compare::published_names;
use crate::run::Report;

/// A column: its name and its cells, one for each row.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// The name.
    pub name: Cow<'static, str>,
    /// The cells.
    pub cells: Cells,
}

/// The cells of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Cells {
    /// Texts.
    Text(Vec<String>),
    /// Texts, of which some may be missing.
    TextOrNone(Vec<Option<String>>),
    /// Whole numbers.
    Whole(Vec<u64>),
    /// Numbers.
    Number(Vec<f64>),
    /// Numbers, of which some may be missing.
    NumberOrNone(Vec<Option<f64>>),
    /// Flags.
    Flag(Vec<bool>),
}

/// The fields of a run that say which run it is, and not what came out.
const SETTINGS: [&str; 5] = ["scale", "seed", "cpus", "threads", "speculate"];

impl Cells {
    /// The number of cells.
    pub fn len(&self) -> usize {
        match self {
            Self::Text(cells) => cells.len(),
            Self::TextOrNone(cells) => cells.len(),
            Self::Whole(cells) => cells.len(),
            Self::Number(cells) => cells.len(),
            Self::NumberOrNone(cells) => cells.len(),
            Self::Flag(cells) => cells.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A figure of a run.
struct Figure<'a> {
    report: &'a Report,
    metric: String,
    value: f64,
    /// The paper's figure, and the basis of ours.
    published: Option<(f64, &'static str)>,
}

/// The table, column by column.
pub fn columns(reports: &[Report]) -> Vec<Column> {
    let figures: Vec<Figure> = reports.iter().flat_map(figures).collect();
    let text = |of: &dyn Fn(&Figure) -> String| Cells::Text(figures.iter().map(of).collect());
    let maybe = |of: &dyn Fn(&Figure) -> Option<String>| Cells::TextOrNone(figures.iter().map(of).collect());
    let whole = |of: &dyn Fn(&Figure) -> u64| Cells::Whole(figures.iter().map(of).collect());
    let number = |of: &dyn Fn(&Figure) -> f64| Cells::Number(figures.iter().map(of).collect());
    let flag = |of: &dyn Fn(&Figure) -> bool| Cells::Flag(figures.iter().map(of).collect());
    let word = |word: Option<&str>| word.map(str::to_owned);
    let column = |name, cells| Column { name: Cow::Borrowed(name), cells };
    vec![
        column("experiment", text(&|one| one.report.experiment.to_owned())),
        column("machine", text(&|one| one.report.machine.clone())),
        column("machine_hash", text(&|one| one.report.machine_hash.clone())),
        column("built_in", maybe(&|one| word(one.report.built_in))),
        column("scale", number(&|one| one.report.scale)),
        column("seed", whole(&|one| one.report.seed)),
        column("cpus", whole(&|one| one.report.cpus.into())),
        column("threads", whole(&|one| one.report.threads as u64)),
        column("mechanism", text(&|one| one.report.mechanism.to_owned())),
        column("settle", maybe(&|one| word(one.report.settle))),
        column("kernel", text(&|one| one.report.kernel.to_owned())),
        column("lru_drain", maybe(&|one| word(one.report.lru_drain))),
        column("without", text(&|one| one.report.without.join(","))),
        column("speculate", number(&|one| one.report.speculate)),
        column("oracle", flag(&|one| one.report.oracle)),
        column("shadow", flag(&|one| one.report.shadow)),
        column("metric", text(&|one| one.metric.clone())),
        column("value", number(&|one| one.value)),
        column("unit", text(&|one| unit(&one.metric).to_owned())),
        column(
            "published",
            Cells::NumberOrNone(figures.iter().map(|one| one.published.map(|(figure, _)| figure)).collect()),
        ),
        column("label", maybe(&|one| word(one.published.map(|(_, label)| label)))),
    ]
}

/// The numbers that came out of a run, by name.
pub fn metrics(report: &Report) -> Vec<(String, f64)> {
    let Ok(Value::Object(fields)) = serde_json::to_value(report) else { return Vec::new() };
    let mut numbers = Vec::new();
    flatten(&mut numbers, "", &fields);
    numbers.retain(|(name, _)| !SETTINGS.contains(&name.as_str()) && !name.starts_with("published."));
    numbers
}

/// The figures of one run.
fn figures(report: &Report) -> Vec<Figure<'_>> {
    let figure = |(metric, value): (String, f64)| {
        let published = published(report, &metric);
        Figure { report, metric, value, published }
    };
    metrics(report).into_iter().map(figure).collect()
}

/// Collects all numbers with their names.
fn flatten(numbers: &mut Vec<(String, f64)>, before: &str, fields: &Map<String, Value>) {
    for (field, value) in fields {
        let name = format!("{before}{field}");
        match value {
            Value::Number(number) => numbers.extend(number.as_f64().map(|number| (name, number))),
            Value::Object(fields) if field != "series" => flatten(numbers, &format!("{name}."), fields),
            _ => {}
        }
    }
}

/// The paper's figure for this side of the comparison, unless the paper gives only the ratio.
fn published(report: &Report, metric: &str) -> Option<(f64, &'static str)> {
    let names = published_names(metric);
    let (name, paper) = names.iter().find_map(|name| Some((name, report.published.get(name)?)))?;
    let side = report.side()?;
    Some((paper.figure(side)?, report.basis_of_side(name, side).name()))
}

/// The unit of a figure, which its name ends with.
fn unit(metric: &str) -> &'static str {
    match metric {
        _ if metric.ends_with("_per_s") => "1/s",
        _ if metric.ends_with("_ns_per_mib") => "ns/MiB",
        _ if metric.ends_with("_s") => "s",
        _ => "count",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ceasefire_machine::config::builtin;

    use crate::{Experiment, Mechanism, Plan};

    fn report(mechanism: Mechanism) -> Report {
        let machine = builtin("2-socket-intel").expect("a listed name").expect("a valid file");
        let experiment = Experiment::find("migrate").expect("an experiment");
        let machine = machine.with_cpus(2).expect("allowed");
        let plan = Plan { mechanism, scale: 0.0001, ..Plan::new(experiment, machine) };
        plan.run(|_| ()).expect("a run")
    }

    #[test]
    fn every_number_of_a_run_is_a_row() {
        let reports = [report(Mechanism::PerPage), report(Mechanism::Batched)];
        let columns = columns(&reports);
        let cells = |name: &str| &columns.iter().find(|column| column.name == name).expect("a column").cells;
        let (Cells::Text(metrics), Cells::Number(values), Cells::Text(units)) =
            (cells("metric"), cells("value"), cells("unit"))
        else {
            panic!("texts and numbers");
        };
        let at = |metric: &str| metrics.iter().position(|name| name == metric).expect("a row");
        assert_eq!(values[at("elapsed_s")].to_bits(), reports[0].elapsed_s.to_bits());
        assert_eq!(values[at("time.user_s")].to_bits(), reports[0].time.user_s.to_bits());
        assert_eq!(units[at("operations_per_s")], "1/s");
        assert_eq!((units[at("cpu_s")].as_str(), units[at("interrupts")].as_str()), ("s", "count"));
        let kernel = "6.3".to_owned();
        assert_eq!(*cells("kernel"), Cells::Text(vec![kernel; metrics.len()]));
        assert_eq!(metrics.len() % 2, 0, "as many rows for each of the two runs");
        assert!(metrics
            .iter()
            .all(|name| name != "seed" && !name.starts_with("published") && !name.starts_with("series")));
    }
}
