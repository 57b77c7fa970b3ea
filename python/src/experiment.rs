//! Experiments and workload files.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use ceasefire_experiments::{
    published, published_field, Cells, Column, Experiment as Definition, Mechanism, Row, EXPERIMENTS,
};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList, PyString};

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

/// A workload file, checked when it is opened: a mapping of its parameters, each of which has a list of values.
#[pyclass(module = "ceasefire")]
#[derive(Debug)]
pub(crate) struct Workload {
    path: PathBuf,
    /// The values that were assigned.
    given: Vec<(String, Vec<String>)>,
    pub(crate) experiments: Vec<&'static Definition>,
}

#[pymethods]
impl Workload {
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let experiments = Definition::from_file(&path, &[]).map_err(input)?;
        Ok(Self { path, given: Vec::new(), experiments })
    }

    /// The parameters' names, in the order of the file.
    fn keys(&self) -> Vec<String> {
        let first = self.experiments.first().into_iter().flat_map(|experiment| experiment.parameters);
        first.map(|(name, _)| name.clone()).collect()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.keys())?.try_iter()
    }

    fn __len__(&self) -> usize {
        self.keys().len()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.keys().iter().any(|known| known == name)
    }

    /// The values of a parameter, as the file writes them.
    fn __getitem__(&self, name: &str) -> PyResult<Vec<String>> {
        if !self.__contains__(name) {
            return Err(PyKeyError::new_err(name.to_owned()));
        }
        let parameters = self.experiments.iter().flat_map(|experiment| experiment.parameters);
        let mut values: Vec<String> = Vec::new();
        for (_, value) in parameters.filter(|(known, _)| known == name) {
            if !values.contains(&value.text) {
                values.push(value.text.clone());
            }
        }
        Ok(values)
    }

    /// Gives a parameter a value, or a list of them. After an error the workload is as it was.
    fn __setitem__(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let is_list = !value.is_instance_of::<PyString>() && value.try_iter().is_ok();
        let values: Vec<String> = if is_list {
            value.try_iter()?.map(|value| Ok(value?.to_string())).collect::<PyResult<_>>()?
        } else {
            vec![value.to_string()]
        };
        let mut given = self.given.clone();
        given.retain(|(known, _)| known != name);
        given.push((name.to_owned(), values));
        self.experiments = Definition::from_file(&self.path, &given).map_err(input)?;
        self.given = given;
        Ok(())
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
