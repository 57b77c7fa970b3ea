//! The result of a point, and the table of many.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ceasefire_experiments::{Cells, Column};
use serde::{Deserialize, Serialize};

/// The result of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The point's name.
    pub point: String,
    /// The name that the points with other mechanisms share.
    pub case: String,
    /// The version of the program.
    pub version: String,
    /// The experiment.
    pub experiment: String,
    /// The machine's name.
    pub machine: String,
    /// The mechanism.
    pub mechanism: String,
    /// The command that repeats the run.
    pub command: String,
    /// The seed.
    pub seed: u64,
    /// Whether the oracle and the shadow record checked the run.
    pub checked: bool,
    /// What the study set, by key, numbers in the units of the machine file; and the release of Linux, the number of
    /// threads and the listing of new pages that the run took by itself.
    pub settings: Vec<(String, Setting)>,
    /// What came out, under the names of the command line's JSON; empty if the run failed.
    pub figures: Vec<(String, f64)>,
    /// The reason for which the run failed.
    pub error: Option<String>,
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
}

impl Setting {
    /// The value of a key as it is written, such as `900 ns`: its number, or the word that it is. A kernel is a word: 6.2
    /// is not 6.20.
    pub(crate) fn of(key: &str, text: &str) -> Self {
        let number = text.split_once(' ').map_or(text, |(number, _)| number).parse();
        let number = number.ok().filter(|_| key != "kernel");
        number.map_or_else(|| Self::Word(text.to_owned()), Self::Number)
    }
}

/// The columns that say where a row is kept, and not what it has: the partitions of the data set.
pub(crate) type Partition = [(&'static str, String); 3];

impl Row {
    /// Whether a rule was broken or a load was wrong.
    pub fn is_broken(&self) -> bool {
        self.figures
            .iter()
            .any(|(name, value)| ["violations", "loads_wrong"].contains(&name.as_str()) && *value > 0.0)
    }

    /// Where the row is kept.
    pub(crate) fn partition(&self) -> Partition {
        [
            ("experiment", self.experiment.clone()),
            ("machine", self.machine.clone()),
            ("mechanism", self.mechanism.clone()),
        ]
    }
}

/// The rows as a table, one column for each key and each figure of any of them. The partition is left out.
pub fn table(rows: &[Row]) -> Vec<Column> {
    let text = |of: fn(&Row) -> &str| Cells::Text(rows.iter().map(|row| of(row).to_owned()).collect());
    let mut columns: Vec<Column> = [
        ("point", text(|row| &row.point)),
        ("case", text(|row| &row.case)),
        ("version", text(|row| &row.version)),
        ("command", text(|row| &row.command)),
        ("seed", Cells::Whole(rows.iter().map(|row| row.seed).collect())),
        ("checked", Cells::Flag(rows.iter().map(|row| row.checked).collect())),
        ("error", Cells::TextOrNone(rows.iter().map(|row| row.error.clone()).collect())),
    ]
    .map(|(name, cells)| Column { name: Cow::Borrowed(name), cells })
    .into();
    let mut settings: BTreeMap<&str, Vec<Option<&Setting>>> = BTreeMap::new();
    let mut figures: BTreeMap<&str, Vec<Option<f64>>> = BTreeMap::new();
    for (number, row) in rows.iter().enumerate() {
        // What is also a figure, as the scale, is no second column.
        let is_figure = |key: &str| row.figures.iter().any(|(name, _)| name == key);
        for (key, value) in row.settings.iter().filter(|(key, _)| !is_figure(key)) {
            settings.entry(key).or_insert_with(|| vec![None; rows.len()])[number] = Some(value);
        }
        for (key, value) in &row.figures {
            figures.entry(key).or_insert_with(|| vec![None; rows.len()])[number] = Some(*value);
        }
    }
    for (key, cells) in settings {
        // A run that failed has what was set for its figure.
        if let Some(figures) = figures.get_mut(key) {
            for (figure, cell) in figures.iter_mut().zip(cells) {
                if let (None, Some(Setting::Number(number))) = (&figure, cell) {
                    *figure = Some(*number);
                }
            }
            continue;
        }
        let is_word = cells.iter().flatten().any(|one| matches!(one, Setting::Word(_)));
        let cells = if is_word {
            let word = |one: Option<&Setting>| {
                one.map(|one| match one {
                    Setting::Number(number) => number.to_string(),
                    Setting::Word(word) => word.clone(),
                })
            };
            Cells::TextOrNone(cells.into_iter().map(word).collect())
        } else {
            let number = |one: Option<&Setting>| match one {
                Some(Setting::Number(number)) => Some(*number),
                _ => None,
            };
            Cells::NumberOrNone(cells.into_iter().map(number).collect())
        };
        columns.push(Column { name: Cow::Owned(key.to_owned()), cells });
    }
    let figures = figures.into_iter();
    columns.extend(figures.map(|(name, cells)| Column {
        name: Cow::Owned(name.to_owned()),
        cells: Cells::NumberOrNone(cells),
    }));
    columns
}
