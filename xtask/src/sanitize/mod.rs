//! `cargo xtask sanitize`: whether `ceasefire sanitize` finds the flushes that a kernel forgot, and nothing else.
//!
//! `emulator` is QEMU with the plugin, `report` what the plugin writes, `guest` tries the rules of invalidation, and
//! `kernel` and `ostd` are the runs of kernels.

pub(crate) mod emulator;
mod guest;
mod kernel;
mod ostd;
pub(crate) mod report;

use std::path::PathBuf;

use ceasefire_sanitizer::reader::Reading;

use crate::failure::{ensure, Failure};
use crate::guests;
use crate::kernel::Ending;
use crate::table;
use crate::workspace::Workspace;
use emulator::Emulator;

/// The runs to make.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// Those that take long too.
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let figure = figure(&Workspace::load()?, options)?;
    println!("==> {figure}");
    Ok(())
}

/// Makes every run, even after one that was not as expected, and says how many there were.
pub(crate) fn figure(workspace: &Workspace, options: &Options) -> Result<String, Failure> {
    let emulator = Emulator::find(workspace)?;
    let folder = workspace.target.join("sanitize");
    guests::make(&folder)?;
    let (rules, absent) = guest::run(workspace, &emulator, &folder)?;
    let mut rows = kernel::run(workspace, &emulator, &folder, options.all)?;
    if options.all {
        rows.extend(ostd::run(&emulator, &folder)?);
    }
    let cells: Vec<_> = rows.iter().map(Row::cells).collect();
    println!("\n{}", table::format(["target", "removed", "finds", "kinds"], &cells));
    judge(&rows)?;
    let whole = rows.iter().filter(|row| row.removed.is_empty()).count();
    Ok(format!(
        "{rules} rules of invalidation as they should be, {absent} absent in QEMU; {whole} runs with every flush: no find; \
         {} runs without one: all found",
        rows.len() - whole
    ))
}

/// A run and what was found.
#[derive(Debug)]
struct Row {
    target: String,
    /// Its options.
    run: String,
    /// What was removed from the kernel, so that something must be found.
    removed: &'static str,
    found: Reading,
    /// How it ended, and the same in words.
    ended: (Ending, String),
    report: PathBuf,
}

impl Row {
    fn cells(&self) -> Vec<String> {
        let removed = if self.removed.is_empty() { "nothing" } else { self.removed };
        let finds = &self.found.finds;
        vec![self.target.clone(), removed.to_owned(), finds.len().to_string(), report::kinds(finds)]
    }

    /// What is not as expected.
    fn wrong(&self) -> Option<&'static str> {
        let has_found = !self.found.finds.is_empty();
        match (&self.ended.0, self.removed.is_empty()) {
            (_, true) if has_found => Some("found, although nothing was removed"),
            (_, false) if has_found => None,
            (Ending::Done, true) if self.found.end.as_ref().is_some_and(|end| end.looks > 0) => None,
            (Ending::Done, true) => Some("nothing was looked at"),
            (_, false) => Some("not found"),
            (_, true) => Some("it did not end well"),
        }
    }

    /// Whether nothing was wrong, but too little was done.
    fn is_open(&self) -> bool {
        self.found.finds.is_empty() && self.ended.0.is_inconclusive()
    }

    fn line(&self) -> String {
        let Self { target, run, found, ended, report, .. } = self;
        let word = match self.wrong() {
            None => "ok",
            Some(_) if self.is_open() => "OPEN",
            Some(_) => "WRONG",
        };
        let why = self.wrong().map_or_else(String::new, |why| format!(": {why}; see {}", report.display()));
        let (finds, kinds) = (found.finds.len(), report::kinds(&found.finds));
        format!("{word} {target} ({run}): {finds} finds ({kinds}), {}{why}", ended.1)
    }
}

/// Fails if a run was not as expected. Is inconclusive if some run was, and none failed.
fn judge(rows: &[Row]) -> Result<(), Failure> {
    let wrong = || rows.iter().filter(|row| row.wrong().is_some());
    let lines =
        |open| wrong().filter(|row| row.is_open() == open).map(Row::line).collect::<Vec<_>>().join("; ");
    let (failed, open) = (lines(false), lines(true));
    ensure!(failed.is_empty(), new, "{failed}");
    ensure!(open.is_empty(), inconclusive, "{open}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use ceasefire_sanitizer::find::{Kind, Summary};

    use super::*;

    fn row(removed: &'static str, kinds: &[Kind], ending: Ending) -> Row {
        let finds = kinds.iter().copied().map(report::tests::find).collect();
        let end = (ending == Ending::Done).then(|| Summary { looks: 9, ..Summary::default() });
        let found = Reading { is_begun: true, finds, end };
        let ended = (ending, "stale batched: so it ended".to_owned());
        Row { target: "k".to_owned(), run: "--cpus 4".to_owned(), removed, found, ended, report: "r".into() }
    }

    #[test]
    fn a_find_must_be_made_where_something_was_removed_and_nowhere_else() {
        let code = |removed, kinds: &[Kind], ending| {
            judge(&[row("", &[], Ending::Done), row(removed, kinds, ending)])
                .map_err(|failure| failure.code())
        };
        assert_eq!(code("", &[], Ending::Done), Ok(()));
        assert_eq!(code("slot", &[Kind::Reuse], Ending::Stopped), Ok(()));
        // The emulator may have ended before it was told to.
        assert_eq!(code("slot", &[Kind::Reuse], Ending::Fault), Ok(()));
        assert_eq!(code("", &[Kind::Reuse], Ending::Stopped), Err(1));
        assert_eq!(code("", &[], Ending::Broken), Err(1));
        assert_eq!(code("slot", &[], Ending::Done), Err(1));
        assert_eq!(code("slot", &[], Ending::Fault), Err(1));
        for removed in ["", "slot"] {
            assert_eq!(code(removed, &[], Ending::Timeout(9)), Err(3));
        }
    }

    #[test]
    fn a_run_that_looked_at_nothing_proves_nothing() {
        let mut idle = row("", &[], Ending::Done);
        idle.found.end = Some(Summary::default());
        assert!(judge(&[idle]).unwrap_err().to_string().contains("nothing was looked at; see r"));
    }

    #[test]
    fn a_row_says_what_was_removed_and_found() {
        let cells = row("slot", &[Kind::Reuse, Kind::StaleUse], Ending::Stopped).cells();
        assert_eq!(cells, ["k", "slot", "2", "1 reuse, 1 stale use"]);
        assert_eq!(row("", &[], Ending::Done).cells()[1..3], ["nothing", "0"]);
    }
}
