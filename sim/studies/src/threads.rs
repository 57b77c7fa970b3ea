//! A study on threads of this computer.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ceasefire_experiments::{pool, Host};

use crate::data_set::{DataSet, DataSetError};
use crate::left::Left;
use crate::progress::Progress;
use crate::row::Row;
use crate::study::Study;

/// The longest time for which a result is not on the disk.
const KEPT: Duration = Duration::from_secs(1);
/// The most results that are not on the disk.
const MOST_KEPT: usize = 4096;

/// Sees the progress of a study, and may stop it.
pub trait Watch: Sync {
    /// Whether the study goes on. Runs under way end soon if not.
    fn goes_on(&self) -> bool;
    /// Called about once a second, and at the end.
    fn progress(&self, progress: &Progress);
    /// Called for each run that failed.
    fn failed(&self, row: &Row);
}

/// The reason for which a sweep ended before its study.
#[derive(Debug)]
pub enum SweepError {
    /// The data set cannot be read or written.
    DataSet(DataSetError),
    /// It was stopped. The data set has the points that had ended.
    Stopped(Progress),
}

impl fmt::Display for SweepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataSet(error) => error.fmt(f),
            Self::Stopped(progress) => write!(
                f,
                "stopped with {} of {} points done; the same command goes on",
                progress.before + progress.done,
                progress.all
            ),
        }
    }
}

impl std::error::Error for SweepError {}

impl From<DataSetError> for SweepError {
    fn from(error: DataSetError) -> Self {
        Self::DataSet(error)
    }
}

/// Runs the points of a study that the data set does not have, on `jobs` threads; by default, one for each processor.
/// Points that failed before are run again if `again` says so.
///
/// # Errors
/// [`SweepError`]. A run that fails is no error, but a row.
pub fn sweep(
    study: &Study,
    data: &mut DataSet,
    jobs: Option<u16>,
    again: bool,
    watch: &dyn Watch,
) -> Result<Progress, SweepError> {
    data.keep(study.text())?;
    let left = Left::new(study, data.points(!again)?);
    let (host, stop) = (Host::new(), AtomicBool::new(false));
    let goes_on = || !stop.load(Ordering::Relaxed) && watch.goes_on();
    let (sender, rows) = channel();
    let work = |number, sender: &Sender<Row>| {
        if !goes_on() {
            return ControlFlow::Break(());
        }
        let Some(point) = left.point(number) else { return ControlFlow::Continue(()) };
        match point.run(&host, goes_on) {
            // A receiver that has gone needs no rows.
            Some(row) => sender.send(row).map_or(ControlFlow::Break(()), ControlFlow::Continue),
            None => ControlFlow::Break(()),
        }
    };
    let progress = thread::scope(|scope| {
        // The sender goes when the work has ended.
        scope.spawn(move || pool::share(study.len(), jobs, |number| work(number, &sender)));
        let kept = keep(data, &rows, study.len(), &left, watch);
        stop.store(true, Ordering::Relaxed);
        kept
    })?;
    data.finish()?;
    watch.progress(&progress);
    if progress.left() > 0 {
        return Err(SweepError::Stopped(progress));
    }
    Ok(progress)
}

/// Puts rows into the data set as they come, until no thread is left that sends one.
fn keep(
    data: &mut DataSet,
    rows: &Receiver<Row>,
    all: u64,
    left: &Left<&Study>,
    watch: &dyn Watch,
) -> Result<Progress, SweepError> {
    let mut progress = Progress { all, ..Progress::default() };
    let (mut waiting, mut written) = (Vec::new(), Instant::now());
    loop {
        let row = rows.recv_timeout(KEPT.saturating_sub(written.elapsed()));
        let is_over = matches!(row, Err(RecvTimeoutError::Disconnected));
        if let Ok(row) = row {
            progress.count(&row);
            if row.error.is_some() {
                watch.failed(&row);
            }
            waiting.push(row);
        }
        if is_over || written.elapsed() >= KEPT || waiting.len() >= MOST_KEPT {
            if !waiting.is_empty() {
                data.append(&waiting)?;
                waiting.clear();
            }
            written = Instant::now();
            if is_over {
                // After a stop, points that were not asked for do not count.
                return Ok(Progress { before: left.passed(), ..progress });
            }
            progress.before = left.before();
            watch.progress(&progress);
        }
    }
}
