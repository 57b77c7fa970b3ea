//! The figures of one run.

use std::borrow::Cow;

use ceasefire_experiments::{columns, Cells, Column, Report, Series};
use pyo3::prelude::*;

use crate::error::RunError;
use crate::table::table;

/// The figures of one run.
#[pyclass(module = "ceasefire", frozen)]
#[derive(Debug)]
pub(crate) struct Result(pub(crate) Report);

#[pymethods]
impl Result {
    /// A row for each figure, as the command line's `--table` writes them.
    #[getter]
    fn table<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        table(py, columns(std::slice::from_ref(&self.0)))
    }

    /// Interrupts and broadcasts in equal steps of simulated time. `start_s` is the start of a step.
    #[getter]
    fn series<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let Series { step_s, interrupts, broadcasts, .. } = &self.0.series;
        let starts = (0..interrupts.len()).map(|step| step as f64 * step_s).collect();
        let column = |name, cells| Column { name: Cow::Borrowed(name), cells };
        let columns = vec![
            column("start_s", Cells::Number(starts)),
            column("interrupts", Cells::Whole(interrupts.clone())),
            column("broadcasts", Cells::Whole(broadcasts.clone())),
        ];
        table(py, columns)
    }

    /// The run in the command line's `--json`.
    #[getter]
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let text = serde_json::to_string(&self.0).map_err(|error| RunError::new_err(error.to_string()))?;
        py.import("json")?.call_method1("loads", (text,))
    }

    fn __repr__(&self) -> String {
        let Report { experiment, machine, mechanism, seed, scale, .. } = &self.0;
        format!("<Result {experiment} {machine} {mechanism} seed {seed} scale {scale}>")
    }
}
