//! Writing the results: tables to standard output, JSON, an HTML page.

use std::env;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use ceasefire_experiments::{Plan, Report};
use serde::Serialize;

use crate::args::CompareArguments;
use crate::failure::{Done, Failure};
use crate::results::rows;
use crate::stdout::print;
use crate::{html, tables};

/// The outputs beside, or instead of, the tables on standard output.
pub(super) struct Output {
    json: Option<Json>,
    html: Option<Named>,
}

impl Output {
    /// Opens the files that the command line names. Called before the runs, so a wrong path fails at once.
    pub(super) fn open(arguments: &CompareArguments) -> Result<Self, Failure> {
        Ok(Self {
            json: arguments.json.as_deref().map(open_json).transpose()?,
            html: arguments.html.as_deref().map(open_html).transpose()?,
        })
    }

    /// Writes all outputs, even if one of them fails, since the runs may have taken hours.
    pub(super) fn write(self, plans: &[Plan], reports: &[Report]) -> Done {
        let rows = rows(reports);
        let page =
            self.html.map_or(Ok(()), |page| page.write(&html::of(&command_line(), plans, reports, &rows)));
        let tables = || print(&format!("{}{}", tables::of(plans, reports), tables::summary(&rows)));
        let json = || json_of(reports);
        let rest = match self.json {
            Some(Json::Printed) => json().and_then(|text| print(&text)),
            Some(Json::File(file)) => Failure::both(json().and_then(|text| file.write(&text)), tables()),
            None => tables(),
        };
        Failure::both(page, rest)
    }
}

/// The command line, quoted for a shell.
fn command_line() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./,=:+@%".contains(c);
    let quoted = |word: OsString| {
        let word = word.to_string_lossy().into_owned();
        let is_plain = !word.is_empty() && word.chars().all(plain);
        if is_plain {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let words = env::args_os().skip(1).map(quoted);
    std::iter::once("ceasefire".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The destination of the JSON.
enum Json {
    /// Standard output, which then holds nothing else.
    Printed,
    /// A file.
    File(Named),
}

/// An open file and its name.
struct Named(String, File);

impl Named {
    /// Opens a file for writing and keeps its contents until there are results.
    fn open(path: &Path) -> Result<Self, Failure> {
        let name = path.display().to_string();
        match OpenOptions::new().write(true).create(true).truncate(false).open(path) {
            Ok(file) => Ok(Self(name, file)),
            Err(error) => Err(Failure::writing(name, &error)),
        }
    }

    /// Replaces the file's contents.
    fn write(self, text: &str) -> Done {
        let Self(name, mut file) = self;
        let mut write = || {
            // A pipe or a terminal cannot be truncated.
            if file.metadata()?.is_file() {
                file.set_len(0)?;
            }
            file.write_all(text.as_bytes())
        };
        write().map_err(|error| Failure::writing(name, &error))
    }
}

fn open_json(path: &Path) -> Result<Json, Failure> {
    if path == Path::new("-") {
        return Ok(Json::Printed);
    }
    Named::open(path).map(Json::File)
}

fn open_html(path: &Path) -> Result<Named, Failure> {
    if path == Path::new("-") {
        return Err(Failure::input("--html writes to a file, not to standard output"));
    }
    Named::open(path)
}

fn json_of(reports: &[Report]) -> Result<String, Failure> {
    let results = Results { ceasefire: env!("CARGO_PKG_VERSION"), results: reports };
    serde_json::to_string_pretty(&results).map(|text| text + "\n").map_err(Failure::input)
}

/// The JSON that `--json` writes.
#[derive(Serialize)]
struct Results<'a> {
    /// The version of the command.
    ceasefire: &'static str,
    results: &'a [Report],
}
