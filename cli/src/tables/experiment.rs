//! The table of one experiment on one machine: under each figure, a row for each mechanism, with the median and the
//! range over its runs, beside the published figures.

use ceasefire_experiments::{Caveat, Repeats, Side};

use super::grid::{Column, Grid};
use super::legend::Legend;
use super::metrics::{Metric, METRICS};
use super::{framed, Look};
use crate::number::{compact, difference, range, ratio, scale, threads};
use crate::results::{conditions, costs, listed, seeds, Case};

/// The columns where nothing was published.
const OWN_COLUMNS: &[Column] = &[
    Column::words("", 0),
    Column::numbers("median", 0),
    Column::numbers("range", 2),
    Column::numbers("ratio", 0),
    Column::numbers("its range", 1),
];
/// The columns beside published figures.
const COLUMNS: &[Column] = &[
    Column::words("", 0),
    Column::numbers("median", 0),
    Column::numbers("range", 3),
    Column::numbers("published", 4),
    Column::numbers("ours", 0),
    Column::numbers("its range", 2),
    Column::numbers("paper", 0),
    Column::numbers("differs", 1),
    Column::words("basis", 1),
];

/// The table of one experiment on one machine.
pub(super) fn block(cases: &[Case], look: Look) -> String {
    let (plan, runs) = (cases[0].plan, &cases[0].runs);
    let first = runs.first();
    let head = format!(
        "{} on {}: {} CPUs, {}, {}scale {}, {}; {}",
        first.experiment,
        first.machine,
        first.cpus,
        threads(first.threads),
        first.lru_drain.map_or(String::new(), |drain| format!("{}, ", listed(drain))),
        scale(first.scale),
        seeds(runs),
        conditions(runs)
    );
    let all: Vec<&Repeats> = cases.iter().map(|case| &case.runs).collect();
    let is_own = first.published.is_empty();
    let mut grid = Grid::new(if is_own { OWN_COLUMNS } else { COLUMNS });
    let mut legend = Legend::default();
    for metric in METRICS.iter().filter(|metric| metric.is_shown(plan.experiment, &all, look.all)) {
        rows(&mut grid, &mut legend, metric, &all);
    }
    let mut notes = legend.lines();
    if !is_own {
        notes.push("'ours' and 'paper' are ratios to the baseline.".into());
        // Without a paper, the summary tells them.
        notes.extend(costs(&all));
    }
    if !is_own && first.scale < 1.0 {
        notes.push(
            "Published figures are for scale 1. Times and counts shrink with the scale; only rates and ratios are \
             comparable."
                .into(),
        );
    }
    framed(&head, &grid, notes, cases, look)
}

/// Adds the rows of one figure.
fn rows(grid: &mut Grid, legend: &mut Legend, metric: &Metric, all: &[&Repeats]) {
    let baseline = all.iter().find(|runs| runs.first().is_baseline()).copied();
    let paper = metric.paper(all[0].first());
    let after = || all.iter().filter(|runs| !runs.first().is_baseline());
    let proposal = after().find(|runs| runs.first().is_proposal()).or(after().next());
    let caveats = paper.zip(proposal).map_or(Vec::new(), |((name, _), runs)| runs.caveats(name, baseline));
    let word = |caveat: &Caveat| match caveat {
        Caveat::Few(count) => format!("few: {count} events"),
        Caveat::Scale(_) => caveat.word().to_owned(),
    };
    let words: Vec<String> = caveats.iter().map(word).collect();
    for caveat in &caveats {
        legend.warns(*caveat);
    }
    grid.heading(if words.is_empty() {
        metric.name.to_owned()
    } else {
        format!("{} ({})", metric.name, words.join("; "))
    });
    for runs in all {
        let report = runs.first();
        let value = runs.interval(metric.value);
        let compared = baseline.filter(|_| !report.is_baseline());
        let own = compared.and_then(|before| runs.ratio(before, metric.value));
        let mut row = vec![
            format!("  {}", report.mechanism),
            value.map_or("-".into(), |value| compact(value.median)),
            value.map_or(String::new(), |value| range(value, compact)),
        ];
        let is_own = report.published.is_empty();
        if !is_own {
            let published = paper.and_then(|(_, paper)| paper.figure(report.side()?));
            row.push(published.map_or(String::new(), compact));
        }
        row.push(match own {
            Some(own) => ratio(Some(own.median)),
            None if is_own && report.is_baseline() && all.len() > 1 => "baseline".into(),
            None => String::new(),
        });
        row.push(own.map_or(String::new(), |own| range(own, |value| ratio(Some(value)))));
        if let Some((name, paper)) = paper {
            let side = report.side();
            if side == Some(Side::After) {
                let basis = runs.basis(name, baseline);
                legend.shows(basis);
                row.push(ratio(Some(paper.ratio)));
                row.push(difference(own.map(|own| own.median), paper.ratio));
                row.push(basis.word().into());
            }
        }
        grid.row(row);
    }
}
