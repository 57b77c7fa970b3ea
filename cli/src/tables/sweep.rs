//! The table of an experiment that was run with several numbers of threads: a row for each.

use std::fmt::Write;

use ceasefire_experiments::{Basis, Plan, Report, Side};
use comfy_table::{presets, CellAlignment, Table};

use super::legend::of_sides;
use super::verdict::verdict;
use crate::number::grouped;
use crate::results::{conditions, of_other_size};

/// Adds the table of one experiment on one machine.
pub(super) fn block(text: &mut String, plan: &Plan, reports: &[Report]) {
    let first = &reports[0];
    let conditions = conditions(first);
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{} on {}: {} CPUs, scale {}, seed {}, {conditions}; operations per second",
        first.experiment, first.machine, first.cpus, first.scale, first.seed
    );
    let mut mechanisms: Vec<&str> = Vec::new();
    for report in reports {
        if !mechanisms.contains(&report.mechanism) {
            mechanisms.push(report.mechanism);
        }
    }
    let has_published = reports.iter().any(|report| !report.published.is_empty());
    let side = |mechanism: &str| match mechanism {
        name if name == plan.experiment.baseline().name() => Some(Side::Before),
        name if name == plan.experiment.proposal().name() => Some(Side::After),
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
    let (mut at, mut shown) = (0, Vec::new());
    while at < reports.len() {
        let lead = &reports[at];
        let same = |report: &Report| (report.threads, report.lru_drain) == (lead.threads, lead.lru_drain);
        let count = reports[at..].iter().take_while(|report| same(report)).count();
        let mut row = vec![lead.threads.to_string(), lead.lru_drain.unwrap_or("-").to_owned()];
        for mechanism in &mechanisms {
            let report = reports[at..at + count].iter().find(|report| report.mechanism == *mechanism);
            row.push(report.map_or("-".into(), |report| grouped(report.operations_per_s)));
            let Some(side) = side(mechanism).filter(|_| has_published) else { continue };
            let paper = report.and_then(|report| Some((report, report.published.iter().next()?)));
            row.extend(paper.map_or_else(Default::default, |(report, (metric, paper))| {
                let theirs = if side == Side::Before { paper.before } else { paper.after };
                let basis = report.basis_of_side(metric, side);
                shown.push(basis);
                let mark = if basis == Basis::Predicted { "" } else { basis.name() };
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
    text.push_str(&of_sides(&shown));
    let _ = writeln!(text, "{}\n", verdict(reports));
}
