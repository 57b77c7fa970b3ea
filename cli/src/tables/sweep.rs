//! The table of an experiment that was run with several numbers of threads: a row for each.

use std::fmt::Write;

use ceasefire_experiments::{Plan, Report};
use comfy_table::{presets, CellAlignment, Table};

use super::verdict::verdict;
use crate::number::grouped;
use crate::results::{cell, checkers, fitted_rows, of_other_size};

/// Adds the table of one experiment on one machine.
pub(super) fn block(text: &mut String, plan: &Plan, reports: &[Report]) {
    let first = &reports[0];
    let checkers = checkers(first);
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{} on {}: {} CPUs, scale {}, seed {}, {checkers}; operations per second",
        first.experiment, first.machine, first.cpus, first.scale, first.seed
    );
    let fitted = fitted_rows(&plan.machine);
    let mut mechanisms: Vec<&str> = Vec::new();
    for report in reports {
        if !mechanisms.contains(&report.mechanism) {
            mechanisms.push(report.mechanism);
        }
    }
    let has_published = reports.iter().any(|report| !report.published.is_empty());
    let side = |mechanism: &str| match mechanism {
        name if name == plan.experiment.baseline().name() => Some("before"),
        name if name == plan.experiment.proposal().name() => Some("after"),
        _ => None,
    };
    let mut table = Table::new();
    table.load_style(presets::ASCII_FULL_CONDENSED);
    let mut header: Vec<String> = vec!["threads".into(), "new pages listed".into()];
    for mechanism in &mechanisms {
        header.push((*mechanism).to_owned());
        if has_published && side(mechanism).is_some() {
            header.extend(["published", "ours / published", ""].map(String::from));
        }
    }
    table.set_header(header);
    let (mut at, mut marked) = (0, false);
    while at < reports.len() {
        let lead = &reports[at];
        let same = |report: &Report| (report.threads, report.lru_drain) == (lead.threads, lead.lru_drain);
        let count = reports[at..].iter().take_while(|report| same(report)).count();
        let mut row = vec![lead.threads.to_string(), lead.lru_drain.unwrap_or("-").to_owned()];
        for mechanism in &mechanisms {
            let report = reports[at..at + count].iter().find(|report| report.mechanism == *mechanism);
            row.push(report.map_or("-".into(), |report| grouped(report.operations_per_s)));
            let Some(side) = side(mechanism).filter(|_| has_published) else { continue };
            let paper =
                report.and_then(|report| report.published.values().next().map(|paper| (report, paper)));
            row.extend(paper.map_or_else(Default::default, |(report, paper)| {
                let theirs = if side == "before" { paper.before } else { paper.after };
                let mark = if fitted.contains(&cell(report, side)) { "fitted" } else { "" };
                marked |= !mark.is_empty();
                [grouped(theirs), format!("{:.3}", paper.measured / theirs), mark.to_owned()]
            }));
        }
        table.add_row(row);
        at += count;
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "{table}");
    if let Some(line) = of_other_size(reports) {
        let _ = writeln!(text, "{line}");
    }
    if marked {
        let _ = writeln!(
            text,
            "'fitted': parameters of this machine were fitted to that figure, so it is not a prediction. All others are."
        );
    }
    let _ = writeln!(text, "{}\n", verdict(reports));
}
