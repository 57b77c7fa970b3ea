//! Studies, and their points.

use std::path::{absolute, Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::Arc;

use ceasefire_experiments::Host;
use ceasefire_studies::{Left as Shared, Study as Described};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

use crate::apart::apart;
use crate::data_set::DataSet;
use crate::error::input;
use crate::row::Row;

/// The name of a study that is in no file, in errors.
const NAMELESS: &str = "study";

/// Very many runs, described once: in a file, or as a mapping with the same keys.
#[pyclass(module = "ceasefire", frozen)]
#[derive(Debug)]
pub(crate) struct Study {
    pub(crate) described: Arc<Described>,
    name: String,
    folder: PathBuf,
}

#[pymethods]
impl Study {
    #[new]
    fn new(study: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(path) = study.extract::<PathBuf>() {
            let folder = path.parent().unwrap_or(Path::new("")).to_owned();
            let described = Arc::new(Described::open(&path).map_err(input)?);
            return Ok(Self { described, name: path.to_string_lossy().into_owned(), folder });
        }
        Self::from_text(&to_toml(study)?, PathBuf::new(), NAMELESS)
    }

    /// The study with the text of a study file, whose paths begin at `folder`. Errors call it `name`.
    #[staticmethod]
    #[pyo3(
        signature = (text, folder = PathBuf::new(), name = NAMELESS),
        text_signature = "(text, folder='', name='study')"
    )]
    fn from_text(text: &str, folder: PathBuf, name: &str) -> PyResult<Self> {
        let described = Arc::new(Described::from_text(name, text, &folder).map_err(input)?);
        Ok(Self { described, name: name.to_owned(), folder })
    }

    /// Another process finds the study's files at the same absolute paths.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String, PathBuf, String))> {
        // An empty path is this folder.
        let folder = absolute(Path::new(".").join(&self.folder))?;
        let make = PyType::new::<Self>(py).getattr("from_text")?;
        Ok((make, (self.described.text().to_owned(), folder, self.name.clone())))
    }

    /// The text of the study file.
    #[getter]
    fn text(&self) -> &str {
        self.described.text()
    }

    fn __len__(&self) -> usize {
        self.described.len() as usize
    }

    /// The point with this number.
    fn point(&self, number: u64) -> PyResult<Point> {
        let all = self.described.len();
        if number >= all {
            return Err(PyIndexError::new_err(format!("point {number}: must be below {all}")));
        }
        Ok(Point { study: Arc::clone(&self.described), number })
    }

    /// The points that a data set does not have, in their order; those that failed too, if `again`.
    #[pyo3(signature = (data, again = false))]
    fn left(&self, data: &DataSet, again: bool) -> PyResult<Left> {
        let study = Arc::clone(&self.described);
        Ok(Left { points: Shared::new(Arc::clone(&study), data.known(again)?), study, next: 0 })
    }

    fn __repr__(&self) -> String {
        format!("<Study {}: {} points>", self.name, self.described.len())
    }
}

/// The text of a study file with the contents of a mapping. Arrays and numbers of numpy are allowed.
fn to_toml(mapping: &Bound<'_, PyAny>) -> PyResult<String> {
    let py = mapping.py();
    let options = PyDict::new(py);
    options.set_item("default", py.import("operator")?.call_method1("methodcaller", ("tolist",))?)?;
    let json: String = py.import("json")?.call_method("dumps", (mapping,), Some(&options))?.extract()?;
    let table: toml::Table =
        serde_json::from_str(&json).map_err(|error| input(format!("{NAMELESS}: {error}")))?;
    toml::to_string(&table).map_err(|error| input(format!("{NAMELESS}: {error}")))
}

/// One run of a study, with one set of numbers.
#[pyclass(module = "ceasefire", frozen)]
#[derive(Debug)]
pub(crate) struct Point {
    study: Arc<Described>,
    number: u64,
}

#[pymethods]
impl Point {
    /// Its number in the study.
    #[getter]
    fn number(&self) -> u64 {
        self.number
    }

    /// Its name: the hash of all that determines its figures.
    #[getter]
    fn id(&self) -> String {
        self.study.point(self.number).id()
    }

    /// The command that repeats the run.
    #[getter]
    fn command(&self) -> String {
        self.study.point(self.number).command()
    }

    /// An upper bound of the host's memory that the run takes, in bytes; 0 for a run that cannot begin.
    #[getter]
    fn host_bytes(&self) -> u64 {
        self.study.point(self.number).host_bytes()
    }

    /// Runs it, without the interpreter's lock. Ctrl-C ends it. A run that fails is a row with its error.
    fn run(&self, py: Python<'_>) -> PyResult<Row> {
        let point = self.study.point(self.number);
        loop {
            let work = |stop: &std::sync::atomic::AtomicBool| {
                point.run(&Host::new(), || !stop.load(Ordering::Relaxed))
            };
            // Without a row it was stopped, and the signal is the error.
            if let Some(row) = apart(py, work, || Ok(()))? {
                return Ok(Row(row));
            }
        }
    }

    /// The row of a run that failed with this error.
    fn failed(&self, error: String) -> Row {
        Row(self.study.point(self.number).failed(error))
    }

    fn __repr__(&self) -> String {
        format!("<Point {}: {}>", self.number, self.command())
    }
}

/// The points that a data set does not have.
#[pyclass(module = "ceasefire")]
#[derive(Debug)]
pub(crate) struct Left {
    study: Arc<Described>,
    points: Shared<Arc<Described>>,
    next: u64,
}

#[pymethods]
impl Left {
    /// The number of the study's points that the data set has. Until all points are passed, all of the data set's count.
    #[getter]
    fn before(&self) -> u64 {
        self.points.before()
    }

    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Point>> {
        while self.next < self.study.len() {
            let number = self.next;
            self.next += 1;
            if self.points.point(number).is_some() {
                return Ok(Some(Point { study: Arc::clone(&self.study), number }));
            }
            if number.is_multiple_of(1024) {
                py.check_signals()?;
            }
        }
        Ok(None)
    }
}
