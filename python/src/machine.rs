//! Machines, whose numbers are read and set by their keys.

use std::path::PathBuf;

use ceasefire_experiments::machine_file;
use ceasefire_machine::config::{Change, MachineFile, Parameter as Number, BUILTIN};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyList};

use crate::error::input;

/// A number of a machine.
#[pyclass(module = "ceasefire", frozen)]
#[derive(Debug)]
pub(crate) struct Parameter(Number);

#[pymethods]
impl Parameter {
    /// The dotted key, such as `costs.fault`.
    #[getter]
    fn key(&self) -> &str {
        &self.0.key
    }

    /// The number, in `unit`.
    #[getter]
    fn value(&self) -> f64 {
        self.0.value
    }

    /// The unit.
    #[getter]
    fn unit(&self) -> &str {
        &self.0.unit
    }

    /// The source of the number.
    #[getter]
    fn source(&self) -> &str {
        &self.0.source
    }

    /// The least and the greatest value that the number may really have, in `unit`.
    #[getter]
    fn range(&self) -> Option<(f64, f64)> {
        self.0.range.as_ref().map(|range| (range.from, range.to))
    }

    /// The reason for the range.
    #[getter]
    fn because(&self) -> Option<&str> {
        self.0.range.as_ref().map(|range| range.because.as_str())
    }

    fn __repr__(&self) -> String {
        format!("<Parameter {} = {}>", self.0.key, self.0.described())
    }
}

/// A machine by name, or from a file. Its numbers are read and set by their keys.
#[pyclass(module = "ceasefire", mapping, skip_from_py_object)]
#[derive(Debug, Clone)]
pub(crate) struct Machine(pub(crate) MachineFile);

#[pymethods]
impl Machine {
    #[new]
    pub(crate) fn new(name: PathBuf) -> PyResult<Self> {
        machine_file(&name.to_string_lossy(), &[]).map(Self).map_err(input)
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.0.machine().name
    }

    /// One line on it.
    #[getter]
    fn description(&self) -> &str {
        &self.0.machine().description
    }

    /// The hash of all that a run can depend on.
    #[getter]
    fn hash(&self) -> String {
        self.0.machine().hash()
    }

    /// The built-in machine with the same content. Only these have published figures.
    #[getter]
    fn built_in(&self) -> Option<&'static str> {
        self.0.machine().built_in()
    }

    /// The keys of its numbers.
    fn keys(&self) -> Vec<&str> {
        self.0.machine().sources.iter().map(|number| number.key.as_str()).collect()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.keys())?.try_iter()
    }

    fn __len__(&self) -> usize {
        self.0.machine().sources.len()
    }

    fn __contains__(&self, key: &str) -> bool {
        self.0.parameter(key).is_ok()
    }

    fn __getitem__(&self, key: &str) -> PyResult<Parameter> {
        self.0.parameter(key).cloned().map(Parameter).map_err(input)
    }

    /// Sets a number. After an error the machine is as it was.
    pub(crate) fn __setitem__(&mut self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        // A number and a text such as "900 ns" are written as on the command line.
        let change: Change = format!("{key}={value}").parse().map_err(input)?;
        self.0.set(&change).map_err(input)
    }

    fn __repr__(&self) -> String {
        format!("<Machine {} {}>", self.name(), self.hash())
    }
}

/// The built-in machines.
#[pyfunction]
pub(crate) fn machines() -> PyResult<Vec<Machine>> {
    BUILTIN.iter().map(|name| Machine::new(name.into())).collect()
}
