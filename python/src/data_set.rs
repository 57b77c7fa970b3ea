//! The results of studies in a folder.

use std::collections::HashSet;
use std::path::PathBuf;

use ceasefire_studies::DataSet as Folder;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::error::input;
use crate::row::Row;
use crate::study::Study;

/// The results of studies in a folder. One process at a time has it open.
#[pyclass(module = "ceasefire")]
#[derive(Debug)]
pub(crate) struct DataSet(Option<Folder>);

#[pymethods]
impl DataSet {
    /// Opens the data set in a folder, which is made if there is none.
    #[new]
    fn new(folder: PathBuf) -> PyResult<Self> {
        Folder::open(&folder).map(|folder| Self(Some(folder))).map_err(input)
    }

    /// The folder.
    #[getter]
    fn folder(&self) -> PyResult<PathBuf> {
        Ok(self.open()?.folder().to_owned())
    }

    /// Keeps the text of a study in the folder, for its readers.
    fn keep(&self, study: &Study) -> PyResult<()> {
        self.open()?.keep(study.described.text()).map_err(input)
    }

    /// The names of the points that it has; without those that failed, if they are to be run again.
    #[pyo3(signature = (with_failed = true))]
    fn points(&self, with_failed: bool) -> PyResult<HashSet<String>> {
        self.open()?.points(with_failed).map_err(input)
    }

    /// Adds rows, which are on the disk afterwards.
    fn append(&mut self, py: Python<'_>, rows: Vec<PyRef<'_, Row>>) -> PyResult<()> {
        let rows: Vec<_> = rows.iter().map(|row| row.0.clone()).collect();
        let folder = self.open_mut()?;
        py.detach(|| folder.append(&rows)).map_err(input)
    }

    /// Puts the small files together.
    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        let folder = self.open_mut()?;
        py.detach(|| folder.finish()).map_err(input)
    }

    /// Leaves the folder to other processes.
    fn close(&mut self) {
        self.0 = None;
    }

    fn __enter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&mut self, _error: &Bound<'_, PyAny>) {
        self.close();
    }
}

impl DataSet {
    /// The points that are not to be run; those that failed are to be run `again`.
    pub(crate) fn known(&self, again: bool) -> PyResult<HashSet<String>> {
        self.points(!again)
    }

    fn open(&self) -> PyResult<&Folder> {
        self.0.as_ref().ok_or_else(closed)
    }

    pub(crate) fn open_mut(&mut self) -> PyResult<&mut Folder> {
        self.0.as_mut().ok_or_else(closed)
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the data set is closed")
}
