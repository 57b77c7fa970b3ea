//! Experiments and workload files.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ceasefire_experiments::{
    published, published_field, Cells, Column, Experiment as Definition, Mechanism, Row, EXPERIMENTS,
};
use pyo3::prelude::*;

use crate::error::input;
use crate::table::table;

/// A workload with its machines and its mechanisms.
#[pyclass(module = "ceasefire", frozen, from_py_object)]
#[derive(Debug, Clone)]
pub(crate) struct Experiment(pub(crate) &'static Definition);

#[pymethods]
impl Experiment {
    /// Its name on the command line.
    #[getter]
    fn name(&self) -> &'static str {
        self.0.name
    }

    /// One line on it.
    #[getter]
    fn description(&self) -> &'static str {
        self.0.description
    }

    /// The paper.
    #[getter]
    fn paper(&self) -> &'static str {
        self.0.paper
    }

    /// The machines of the paper.
    #[getter]
    fn machines(&self) -> Vec<&'static str> {
        self.0.machines.to_vec()
    }

    /// The mechanisms that the paper compares: its baseline first, its proposal second.
    #[getter]
    fn mechanisms(&self) -> Vec<&'static str> {
        self.0.mechanisms.iter().copied().map(Mechanism::name).collect()
    }

    /// The default scale.
    #[getter]
    fn scale(&self) -> f64 {
        self.0.scale
    }

    /// The paper's figures, a row for each: `before` of its baseline and `after` of its proposal.
    #[getter]
    fn published<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let rows: Vec<&Row> =
            self.0.machines.iter().flat_map(|machine| published(self.0.name, machine)).collect();
        let text = |of: fn(&Row) -> &str| Cells::Text(rows.iter().map(|row| of(row).to_owned()).collect());
        let number = |of: fn(&Row) -> f64| Cells::Number(rows.iter().map(|row| of(row)).collect());
        let threads = rows.iter().map(|row| row.case.map(|case| case.threads.into())).collect();
        let drains = rows.iter().map(|row| row.case.map(|case| case.lru_drain.to_owned())).collect();
        let column = |name, cells| Column { name: Cow::Borrowed(name), cells };
        let columns = vec![
            column("machine", text(|row| row.machine)),
            column("threads", Cells::NumberOrNone(threads)),
            column("lru_drain", Cells::TextOrNone(drains)),
            column("figure", text(|row| published_field(row.metric).unwrap_or_default())),
            column("unit", text(|row| row.unit)),
            column("before", number(|row| row.before)),
            column("after", number(|row| row.after)),
        ];
        table(py, columns)
    }

    fn __repr__(&self) -> String {
        format!("<Experiment {}>", self.0.name)
    }
}

/// A workload file, checked when it is opened.
#[pyclass(module = "ceasefire", frozen)]
#[derive(Debug)]
pub(crate) struct Workload {
    path: PathBuf,
    pub(crate) experiments: Vec<&'static Definition>,
}

#[pymethods]
impl Workload {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let experiments = Definition::from_file(&path, &[]).map_err(input)?;
        Ok(Self { path, experiments })
    }

    /// The file.
    #[getter]
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// An experiment for each combination of the file's parameters.
    #[getter]
    fn experiments(&self) -> Vec<Experiment> {
        self.experiments.iter().copied().map(Experiment).collect()
    }

    fn __repr__(&self) -> String {
        format!("<Workload {}>", self.path.display())
    }
}

/// The built-in experiments.
#[pyfunction]
pub(crate) fn experiments() -> Vec<Experiment> {
    EXPERIMENTS.iter().map(Experiment).collect()
}
