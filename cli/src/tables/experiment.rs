//! The table of one experiment on one machine: a column for each mechanism, beside the published figures.

use std::fmt::Write;

use ceasefire_experiments::{Basis, Comparison, Plan, Report, Side};
use comfy_table::{presets, CellAlignment, Table};

use super::legend::of_sides;
use super::metrics::METRICS;
use super::verdict::verdict;
use crate::number::{grouped, threads};
use crate::results::{conditions, of_other_size};

/// Adds the table of one experiment on one machine.
pub(super) fn block(text: &mut String, plan: &Plan, reports: &[Report]) {
    let first = &reports[0];
    let conditions = conditions(first);
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{} on {}: {} CPUs, {}, {}scale {}, seed {}, {conditions}",
        first.experiment,
        first.machine,
        first.cpus,
        threads(first.threads),
        first.lru_drain.map_or(String::new(), |drain| format!("new pages listed {drain}, ")),
        first.scale,
        first.seed
    );
    let baseline = reports.iter().find(|report| report.is_baseline());
    let others: Vec<&Report> = reports.iter().filter(|report| !report.is_baseline()).collect();
    let mut table = Table::new();
    table.load_style(presets::ASCII_FULL_CONDENSED);
    let mut header = vec![String::new()];
    header.extend(baseline.iter().map(|report| report.mechanism.to_owned()));
    for other in &others {
        header.push(other.mechanism.to_owned());
        header.push("ratio".into());
    }
    let has_published = !first.published.is_empty();
    if has_published {
        header.extend(["published", "ratio", "ours - published", ""].map(String::from));
    }
    let columns = header.len();
    let mut shown = Vec::new();
    table.set_header(header);
    for metric in METRICS.iter().filter(|metric| metric.is_shown(plan.experiment, reports)) {
        let mut row = vec![metric.name.to_owned()];
        row.extend(baseline.iter().map(|report| grouped((metric.value)(report))));
        for other in &others {
            let value = (metric.value)(other);
            let ratio = baseline.map(|baseline| (metric.value)(baseline)).filter(|before| *before > 0.0);
            let ratio = ratio.map(|before| value / before);
            row.push(grouped(value));
            row.push(ratio.map_or("-".into(), |ratio| format!("{ratio:.3}")));
        }
        if let Some((name, paper)) = metric.paper(first) {
            let other = others.iter().find(|other| other.is_proposal()).or(others.first());
            let ours = other.and_then(|other| other.published.get(name)?.ours);
            let runs = [(baseline, Side::Before), (other.copied(), Side::After)];
            let bases = runs.map(|(run, side)| (run.unwrap_or(first).basis_of_side(name, side), side));
            let mut cells = beside(paper, ours, bases);
            if let Some(other) = other.filter(|other| !other.is_proposal()) {
                // The paper has no figures for that mechanism.
                cells[3] = format!("ours is {}", other.mechanism);
            } else {
                shown.extend(bases.map(|(basis, _)| basis));
            }
            row.extend(cells);
        }
        row.resize(columns, String::new());
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let _ = writeln!(text, "{table}");
    if has_published && first.scale < 1.0 {
        let _ = writeln!(
            text,
            "Published figures are for scale 1. Times and counts shrink with the scale; only rates and ratios are comparable."
        );
    }
    if first.published.values().any(Comparison::is_relative) {
        let _ = writeln!(text, "'relative': the paper gives only the ratio, with its own baseline as 1.");
    }
    if let Some(line) = of_other_size(reports) {
        let _ = writeln!(text, "{line}");
    }
    text.push_str(&of_sides(&shown));
    if shown.contains(&Basis::Fitted) {
        text.push_str(
            "A ratio whose two sides are fitted is no prediction, nor is a figure that follows from these, as elapsed time\n\
             follows from user and system time.\n",
        );
    }
    let _ = writeln!(text, "{}\n", verdict(reports));
}

/// The cells for a row's published figures, and for our difference from them.
fn beside(paper: &Comparison, ours: Option<f64>, bases: [(Basis, Side); 2]) -> [String; 4] {
    let marks = [Basis::Fitted, Basis::Tuned].map(|basis| {
        let sides = bases.into_iter().filter(|(of, _)| *of == basis).map(|(_, side)| side.name());
        (basis, sides.collect::<Vec<_>>().join(", "))
    });
    let marks = marks.into_iter().filter(|(_, sides)| !sides.is_empty());
    let marks: Vec<String> = marks.map(|(basis, sides)| format!("{}: {sides}", basis.name())).collect();
    let figures = if paper.is_relative() {
        // Exactly as published: more digits would claim more precision than the paper does.
        format!("relative: {} -> {}", paper.before, paper.after)
    } else {
        format!("{} -> {}", grouped(paper.before), grouped(paper.after))
    };
    [
        figures,
        format!("{:.3}", paper.ratio),
        ours.map_or("-".into(), |ours| format!("{:+.3}", ours - paper.ratio)),
        marks.join("; "),
    ]
}
