//! The table of an experiment that was run with several numbers of threads: operations per second, a row for each
//! number and mechanism.

use ceasefire_experiments::{Repeats, Report};

use super::grid::{Column, Grid};
use super::legend::Legend;
use super::{framed, Look};
use crate::number::{compact, difference, range, ratio, scale};
use crate::results::{conditions, costs, distinction, seeds, Case};

const COLUMNS: &[Column] = &[
    Column::numbers("threads", 0),
    Column::words("listed", 0),
    Column::words("mechanism", 0),
    Column::numbers("median", 0),
    Column::numbers("range", 2),
    Column::numbers("our ratio", 3),
    Column::numbers("paper", 0),
    Column::numbers("differs", 1),
    Column::words("basis", 1),
];

/// The name of the published operations per second.
const PUBLISHED: &str = "loops_per_second";

/// The table of one experiment on one machine.
pub(super) fn block(cases: &[Case], look: Look) -> String {
    let runs = &cases[0].runs;
    let first = runs.first();
    let head = format!(
        "{} on {}: {} CPUs, scale {}, {}; {}; operations per second",
        first.experiment,
        first.machine,
        first.cpus,
        scale(first.scale),
        seeds(runs),
        conditions(runs)
    );
    let (mut grid, mut legend) = (Grid::new(COLUMNS), Legend::of_sides());
    let mut before: Option<(usize, Option<&str>)> = None;
    let all: Vec<&Repeats> = cases.iter().map(|case| &case.runs).collect();
    let is_own = all.iter().all(|runs| runs.first().published.is_empty());
    for runs in &all {
        let report = runs.first();
        let case = report.case();
        let is_of_case = |other: &&&Repeats| other.first().case() == case;
        let baseline = all.iter().filter(is_of_case).find(|other| other.first().is_baseline()).copied();
        let is_new = before.replace(case) != Some(case);
        let rate = |report: &Report| report.operations_per_s;
        let rates = runs.interval(rate);
        let compared = baseline.filter(|_| !report.is_baseline());
        let mut row = vec![
            if is_new { report.threads.to_string() } else { String::new() },
            if is_new { report.lru_drain.unwrap_or_default().to_owned() } else { String::new() },
            report.mechanism.to_owned(),
            rates.map_or("-".into(), |rates| compact(rates.median)),
            rates.map_or(String::new(), |rates| range(rates, compact)),
            match compared.and_then(|before| runs.ratio(before, rate)) {
                Some(own) => ratio(Some(own.median)),
                None if is_own && report.is_baseline() => "baseline".into(),
                None => String::new(),
            },
        ];
        let published = report.side().and_then(|side| Some((side, runs.published(PUBLISHED)?.figure(side)?)));
        if let Some((side, paper)) = published {
            let basis = report.basis_of_side(PUBLISHED, side);
            legend.shows(basis);
            row.push(compact(paper));
            row.push(difference(rates.map(|rates| rates.median), paper));
            row.push(basis.word().into());
        }
        grid.row(row);
    }
    let mut notes = legend.lines();
    if !is_own {
        // Without a paper, the summary tells them.
        notes.extend(last_costs(&all));
    }
    framed(&head, &grid, notes, cases, look)
}

/// The costs in the last case, with its name.
fn last_costs(all: &[&Repeats]) -> Vec<String> {
    let reports: Vec<&Report> = all.iter().map(|runs| runs.first()).collect();
    let last = reports[reports.len() - 1];
    let of_it: Vec<&Repeats> =
        all.iter().copied().filter(|runs| runs.first().case() == last.case()).collect();
    let name = distinction(last, &reports).unwrap_or_default();
    costs(&of_it).iter().map(|cost| format!("{name}, {cost}")).collect()
}
