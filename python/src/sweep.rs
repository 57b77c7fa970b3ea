//! Studies on threads of this computer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use ceasefire_studies::{sweep as run, Progress as Points, Row, Watch};
use pyo3::prelude::*;

use crate::apart::apart;
use crate::data_set::DataSet;
use crate::error::input;
use crate::row::Progress;
use crate::study::Study;

/// The latest progress, for the interpreter's thread.
struct Seen<'a> {
    stop: &'a AtomicBool,
    latest: &'a Mutex<Option<Points>>,
}

impl Watch for Seen<'_> {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn progress(&self, progress: &Points) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = Some(*progress);
    }

    // The rows have their errors.
    fn failed(&self, _: &Row) {}
}

/// Runs the points that the data set does not have, on threads. Ctrl-C ends it.
#[pyfunction]
pub(crate) fn sweep_on_threads(
    py: Python<'_>,
    study: &Study,
    data: &mut DataSet,
    jobs: Option<u16>,
    again: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<()> {
    let (described, folder) = (&*study.described, data.open_mut()?);
    let (latest, begun) = (Mutex::new(None), Instant::now());
    let tell = || {
        let points = latest.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(points), Some(progress)) = (points, &progress) {
            progress.call1((Progress::of(points, begun.elapsed()),))?;
        }
        Ok(())
    };
    let work = |stop: &AtomicBool| run(described, folder, jobs, again, &Seen { stop, latest: &latest });
    // It is stopped by nothing but an error of `apart`.
    apart(py, work, tell)?.map(|_| ()).map_err(input)
}
