//! `ceasefire sweep`: runs a study, and keeps its results in a folder.

pub(crate) mod progress;
mod ray;

use std::path::{Path, PathBuf};

use ceasefire_studies::{sweep, DataSet, Left, Study, SweepError};

use self::progress::Shown;
use crate::args::{Engine, SweepArguments};
use crate::failure::{Done, Failure};
use crate::stdout::print;

pub(crate) fn run(arguments: &SweepArguments) -> Done {
    let SweepArguments { study: path, output, engine, address, jobs, again, dry_run, quiet } = arguments;
    if let (Engine::Threads, Some(address)) = (engine, address) {
        let message = format!("address {address}: must be left out, since the engine is threads");
        return Err(Failure::Input(message));
    }
    let study = Study::open(path).map_err(Failure::input)?;
    let folder = output.clone().unwrap_or_else(|| of_study(path));
    if *dry_run {
        return print(&counted(&study, &folder, *again)?);
    }
    let shown = Shown::new(*quiet);
    let swept = match engine {
        Engine::Threads => DataSet::open(&folder)
            .map_err(SweepError::from)
            .and_then(|mut data| sweep(&study, &mut data, *jobs, *again, &shown))
            .map_err(Failure::input),
        Engine::Ray => ray::sweep(arguments, &folder, &shown),
    };
    shown.end();
    let progress = swept?;
    let there = if progress.before > 0 {
        format!(", {} of them from before", progress.before)
    } else {
        String::new()
    };
    let failed = if progress.failed > 0 { format!(", {} failed", progress.failed) } else { String::new() };
    print(&format!("{}: {} points{there}{failed}\n", folder.display(), progress.all))?;
    if progress.broken > 0 {
        let lines = vec![format!("{} points broke a rule or loaded a wrong value", progress.broken)];
        return Err(Failure::Broken { rules: 0, loads: 0, lines });
    }
    Ok(())
}

/// The default folder: the study's name without its ending.
fn of_study(study: &Path) -> PathBuf {
    study.file_stem().map_or_else(|| PathBuf::from("study"), PathBuf::from)
}

/// The number of points, and of those that the folder does not have.
fn counted(study: &Study, folder: &Path, again: bool) -> Result<String, Failure> {
    let all = study.len();
    let known = if folder.is_dir() {
        DataSet::open(folder).and_then(|data| data.points(!again)).map_err(Failure::input)?
    } else {
        std::collections::HashSet::new()
    };
    let left = Left::new(study, known);
    let count = (0..all).filter(|&number| left.point(number).is_some()).count();
    Ok(format!("{all} points, {count} left\n"))
}
