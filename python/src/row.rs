//! The results of points, and their number.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ceasefire_studies::{Progress as Points, Row as Result};
use pyo3::prelude::*;
use pyo3::types::PyType;
use serde::Serialize;

use crate::error::input;

/// The result of one point. It can be sent to another process, the same to the bit.
#[pyclass(module = "ceasefire", frozen, skip_from_py_object)]
#[derive(Debug, Clone)]
pub(crate) struct Row(pub(crate) Result);

#[pymethods]
impl Row {
    /// The row with this JSON.
    #[staticmethod]
    fn from_json(json: &str) -> PyResult<Self> {
        serde_json::from_str(json).map(Self).map_err(|error| input(format!("row: {error}")))
    }

    /// The row as JSON.
    #[getter]
    fn json(&self) -> PyResult<String> {
        json(&self.0)
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        Ok((PyType::new::<Self>(py).getattr("from_json")?, (self.json()?,)))
    }

    /// The point's name.
    #[getter]
    fn point(&self) -> &str {
        &self.0.point
    }

    /// The command that repeats the run.
    #[getter]
    fn command(&self) -> &str {
        &self.0.command
    }

    /// The figures under the names of the command line's JSON; none if the run failed.
    #[getter]
    fn figures(&self) -> BTreeMap<&str, f64> {
        self.0.figures.iter().map(|(name, value)| (name.as_str(), *value)).collect()
    }

    /// The reason for which the run failed.
    #[getter]
    fn error(&self) -> Option<&str> {
        self.0.error.as_deref()
    }

    fn __repr__(&self) -> String {
        format!("<Row {}>", self.0.point)
    }
}

/// The points of a study so far. Its text has the estimate of the end.
#[pyclass(module = "ceasefire", skip_from_py_object)]
#[derive(Debug, Clone)]
pub(crate) struct Progress {
    points: Points,
    begun: Instant,
    /// The time that had passed; none while it is being counted.
    passed: Option<Duration>,
}

impl Progress {
    pub(crate) fn of(points: Points, passed: Duration) -> Self {
        Self { points, begun: Instant::now(), passed: Some(passed) }
    }
}

#[pymethods]
impl Progress {
    /// Begins to count the points of a study with so many.
    #[new]
    fn new(all: u64) -> Self {
        Self { points: Points { all, ..Points::default() }, begun: Instant::now(), passed: None }
    }

    /// Counts a result.
    fn count(&mut self, row: &Row) {
        self.points.count(&row.0);
    }

    /// The progress at this moment.
    fn now(&self) -> Self {
        Self { passed: Some(self.begun.elapsed()), ..self.clone() }
    }

    /// The points of the study.
    #[getter]
    fn all(&self) -> u64 {
        self.points.all
    }

    /// Those that the data set had before.
    #[getter]
    fn before(&self) -> u64 {
        self.points.before
    }

    #[setter]
    fn set_before(&mut self, before: u64) {
        self.points.before = before;
    }

    /// Those that were run.
    #[getter]
    fn done(&self) -> u64 {
        self.points.done
    }

    /// Those of them that failed.
    #[getter]
    fn failed(&self) -> u64 {
        self.points.failed
    }

    /// Those of them that broke a rule or loaded a wrong value.
    #[getter]
    fn broken(&self) -> u64 {
        self.points.broken
    }

    /// The points that are left.
    #[getter]
    fn left(&self) -> u64 {
        self.points.left()
    }

    /// The numbers as JSON.
    #[getter]
    fn json(&self) -> PyResult<String> {
        json(&self.points)
    }

    fn __str__(&self) -> String {
        self.points.line(self.passed.unwrap_or_else(|| self.begun.elapsed()))
    }

    fn __repr__(&self) -> String {
        format!("<Progress {}>", self.__str__())
    }
}

fn json(value: &impl Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(input)
}
