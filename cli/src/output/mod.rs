//! The outputs of a command: tables on standard output, and files.

mod csv;
pub(crate) mod distinct;
pub(crate) mod interrupt;
pub(crate) mod replacement;
pub(crate) mod text;

use std::env;
use std::path::{Path, PathBuf};

use ceasefire_experiments::{columns, Caveat, Interval, Plan, Report, TraceFile};
use ceasefire_machine::config::{Machine, Parameter};
use ceasefire_studies::{quoted, to_parquet};
use serde::Serialize;

use crate::args::Outputs;
use crate::failure::{Done, Failure};
use crate::results::Sure;
use crate::results::{cases, rows, Case, Row};
use crate::stdout::print;
use crate::tables::Look;
use crate::{html, tables, terminal};
use replacement::{Place, Stream};
use text::Text;

/// The outputs that a command line asks for.
pub(crate) struct Output {
    all: bool,
    json: Option<Text>,
    /// The table as CSV.
    csv: Option<Text>,
    /// The same as Parquet.
    parquet: Option<Place>,
    html: Option<Place>,
    trace: Option<Stream>,
}

impl Output {
    /// Checks that every file can be written and is none of the `inputs`, each of which has the name of its source.
    /// Called before the runs, so a wrong path fails at once.
    pub(crate) fn check(arguments: &Outputs, inputs: &[(&'static str, &Path)]) -> Result<Self, Failure> {
        let Outputs { all, json, table, html, trace } = arguments;
        let printed = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
        if printed(json) && printed(table) {
            return Err(Failure::input("--json and --table cannot both be written to standard output"));
        }
        for (option, path) in [("--html", html), ("--trace", trace)] {
            text::is_file(option, path.as_deref())?;
        }
        let files = [json, table, html, trace].map(|path| text::file(path.as_deref()));
        let names = ["--json", "--table", "--html", "--trace"];
        let outputs = names.into_iter().zip(files);
        let inputs = inputs.iter().map(|&(source, path)| (source, Some(path)));
        distinct::distinct(inputs.chain(outputs))?;
        let is_parquet = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "parquet");
        let (parquet, csv) = table.clone().map_or((None, None), |path| {
            if is_parquet(&path) {
                (Some(path), None)
            } else {
                (None, Some(path))
            }
        });
        let text = |path: &Option<PathBuf>| path.as_deref().map(Text::check).transpose();
        let place = |path: &Option<PathBuf>| path.as_deref().map(Place::check).transpose();
        Ok(Self {
            all: *all,
            json: text(json)?,
            csv: text(&csv)?,
            parquet: place(&parquet)?,
            html: place(html)?,
            trace: place(trace)?.map(Place::stream).transpose()?,
        })
    }

    /// The file to which the run writes its trace.
    pub(crate) fn trace(&self) -> Option<TraceFile> {
        let stream = self.trace.as_ref()?;
        Some(TraceFile { path: stream.path().to_owned(), command: command_line() })
    }

    /// Prints the table of one experiment on one machine, unless standard output is for a file's contents.
    pub(crate) fn table_of(&self, plans: &[Plan], reports: &[Report]) -> Done {
        if self.prints_file() {
            return Ok(());
        }
        print(&tables::block(&cases(plans, reports), self.look()))
    }

    /// Whether standard output holds JSON or CSV alone.
    fn prints_file(&self) -> bool {
        [&self.json, &self.csv].into_iter().any(|text| matches!(text, Some(Text::Printed)))
    }

    fn look(&self) -> Look {
        Look { width: terminal::width(), all: self.all }
    }

    /// Writes all outputs but the tables, even if one of them fails, since the runs may have taken hours.
    pub(crate) fn write(self, plans: &[Plan], reports: &[Report], sure: &Sure) -> Done {
        let cases = cases(plans, reports);
        let rows = rows(&cases);
        let command = command_line();
        let (printed, look) = (self.prints_file(), self.look());
        let mut done = self.trace.map_or(Ok(()), Stream::finish);
        if let Some(page) = self.html {
            let page = page.write(html::of(&command, &cases, &rows, sure).as_bytes());
            done = Failure::both(done, page);
        }
        if let Some(parquet) = self.parquet {
            let facts = [
                ("ceasefire", env!("CARGO_PKG_VERSION").to_owned()),
                ("command", command.clone()),
                ("machines", serde_json::to_string(&machines(&cases)).unwrap_or_default()),
            ];
            let bytes = to_parquet(&columns(reports), &facts).map_err(Failure::input);
            done = Failure::both(done, bytes.and_then(|bytes| parquet.write(&bytes)));
        }
        let texts = [
            (
                self.json,
                &(|| json(&command, &cases, &rows, reports, sure)) as &dyn Fn() -> Result<Vec<u8>, Failure>,
            ),
            (self.csv, &|| csv::text(&columns(reports))),
        ];
        for (destination, text) in texts {
            let written = match destination {
                None => continue,
                Some(Text::Printed) => text().and_then(|text| print(&String::from_utf8_lossy(&text))),
                Some(Text::File(place)) => text().and_then(|text| place.write(&text)),
            };
            done = Failure::both(done, written);
        }
        if printed {
            return done;
        }
        Failure::both(done, print(&tables::summary(&rows, sure, look)))
    }
}

/// The command line, quoted for a shell.
pub(crate) fn command_line() -> String {
    let words = env::args_os().skip(1).map(|word| quoted(&word.to_string_lossy()));
    std::iter::once("ceasefire".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The JSON that `--json` writes.
// The names are those of the JSON.
#[allow(clippy::struct_field_names)]
#[derive(Serialize)]
struct Results<'a> {
    /// The version of the command.
    ceasefire: &'static str,
    /// The command line.
    command: &'a str,
    /// The machines of the runs.
    machines: Vec<Described<'a>>,
    /// The figures of each run.
    results: &'a [Report],
    /// The headline of each case, over its runs.
    summary: Vec<Headline<'a>>,
    /// What runs on drawn machines say.
    #[serde(flatten)]
    sure: &'a Sure,
}

/// A machine with every parameter.
#[derive(Serialize)]
struct Described<'a> {
    name: &'a str,
    description: &'a str,
    hash: String,
    built_in: Option<&'static str>,
    parameters: &'a [Parameter],
}

/// The headline figure of a case: the paper's ratio, and ours.
#[derive(Serialize)]
struct Headline<'a> {
    experiment: &'static str,
    machine: &'a str,
    case: Option<&'a str>,
    metric: &'a str,
    published: Option<f64>,
    ours: Option<Interval>,
    label: String,
    caveats: &'a [Caveat],
}

fn json(
    command: &str,
    cases: &[Case],
    rows: &[Row],
    reports: &[Report],
    sure: &Sure,
) -> Result<Vec<u8>, Failure> {
    let results = Results {
        ceasefire: env!("CARGO_PKG_VERSION"),
        command,
        machines: machines(cases),
        results: reports,
        summary: rows.iter().map(Headline::of).collect(),
        sure,
    };
    let mut text = serde_json::to_vec_pretty(&results).map_err(Failure::input)?;
    text.push(b'\n');
    Ok(text)
}

impl<'a> Headline<'a> {
    fn of(row: &'a Row) -> Self {
        Self {
            experiment: row.experiment,
            machine: &row.machine,
            case: row.case.as_deref(),
            metric: &row.metric.0,
            published: row.published.map(|paper| paper.ratio),
            ours: row.ratio,
            label: row.label().into(),
            caveats: &row.caveats,
        }
    }
}

/// The machines of the runs, each once.
fn machines<'a>(cases: &[Case<'a>]) -> Vec<Described<'a>> {
    let mut machines: Vec<&Machine> = Vec::new();
    for case in cases {
        if !machines.contains(&&case.plan.machine) {
            machines.push(&case.plan.machine);
        }
    }
    let described = |machine: &'a Machine| Described {
        name: &machine.name,
        description: &machine.description,
        hash: machine.hash(),
        built_in: machine.built_in(),
        parameters: &machine.sources,
    };
    machines.into_iter().map(described).collect()
}
