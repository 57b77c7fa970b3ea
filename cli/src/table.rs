//! The results as tables: for each experiment and machine what each mechanism measured, beside what was published.

use std::collections::BTreeSet;
use std::fmt::Write;

use ceasefire_experiments::{Comparison, Mechanism, Plan, Report};
use ceasefire_machine::config::{builtin, Machine};
use comfy_table::{presets, CellAlignment, Table};

/// What is shown of a report: the published metric that it stands for, if any, and how to print it.
struct Metric {
    name: &'static str,
    published: Option<&'static str>,
    value: fn(&Report) -> f64,
}

const METRICS: &[Metric] = &[
    metric("elapsed, s", Some("elapsed"), |report| report.elapsed_s),
    metric("user time, s", Some("user"), |report| report.user_s),
    metric("system time, s", Some("system"), |report| report.system_s),
    metric("interrupts per second", Some("interrupts_per_second"), |report| report.interrupts_per_s),
    metric("range of finishes, s", Some("time_range"), |report| report.finish_range_s),
    metric("their deviation, s", Some("time_stddv"), |report| report.finish_stddev_s),
    metric("interrupts", None, |report| report.interrupts as f64),
    metric("shootdowns", None, |report| report.shootdowns as f64),
    metric("flushes, everything", None, |report| report.flushes_full as f64),
    metric("flushes, one page", None, |report| report.flushes_page as f64),
    metric("faults", None, |report| report.faults as f64),
    metric("pages reclaimed", None, |report| report.pages_reclaimed as f64),
    metric("TLB misses, loads", None, |report| report.tlb_misses_load as f64),
    metric("waits for answers, s", None, |report| report.answer_wait_s),
    metric("waits for locks, s", None, |report| report.lock_wait_s),
    metric("rules broken", None, |report| if report.oracle { report.violations as f64 } else { f64::NAN }),
];

const fn metric(name: &'static str, published: Option<&'static str>, value: fn(&Report) -> f64) -> Metric {
    Metric { name, published, value }
}

/// All results.
pub(crate) fn of(plans: &[Plan], reports: &[Report]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < reports.len() {
        let same = |report: &Report| {
            report.experiment == reports[at].experiment && report.machine == reports[at].machine
        };
        let count = reports[at..].iter().take_while(|report| same(report)).count();
        block(&mut text, &plans[at].machine, &reports[at..at + count]);
        at += count;
    }
    text
}

/// One experiment on one machine.
fn block(text: &mut String, machine: &Machine, reports: &[Report]) {
    let first = &reports[0];
    let oracle = if first.oracle { "oracle on" } else { "oracle off: broken rules go unseen" };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{} on {}: {} CPUs, {} threads, scale {}, seed {}, {oracle}",
        first.experiment, first.machine, first.cpus, first.threads, first.scale, first.seed
    );
    let fitted = fitted_rows(machine);
    let is_baseline = |report: &&Report| report.mechanism == Mechanism::PerPage.name();
    let baseline = reports.iter().find(is_baseline);
    let others: Vec<&Report> = reports.iter().filter(|report| !is_baseline(report)).collect();
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
    table.set_header(header);
    for metric in METRICS {
        let mut row = vec![metric.name.to_owned()];
        row.extend(baseline.iter().map(|report| number((metric.value)(report))));
        for other in &others {
            let value = (metric.value)(other);
            let ratio = baseline.map(|baseline| (metric.value)(baseline)).filter(|before| *before > 0.0);
            let ratio = ratio.map(|before| value / before);
            row.push(number(value));
            row.push(ratio.map_or("-".into(), |ratio| format!("{ratio:.3}")));
        }
        let paper = metric.published.and_then(|name| Some((name, first.published.get(name)?)));
        if let Some((name, paper)) = paper {
            let ours = others.first().and_then(|other| other.published.get(name)?.ours);
            row.extend(beside(name, paper, ours, &fitted));
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
            "Published figures are for scale 1: times and counts shrink with the scale, rates and ratios compare."
        );
    }
    let own = builtin(&first.machine).and_then(Result::ok).map(|machine| machine.topology.cpu_count());
    if let Some(own) = own.filter(|own| *own != first.cpus && has_published) {
        let _ = writeln!(text, "They are for {own} CPUs, not {}.", first.cpus);
    }
    if !fitted.is_empty() && has_published {
        let _ = writeln!(
            text,
            "'fitted': parameters of this machine were fitted to that figure. It is no prediction, nor is a ratio whose two \
             sides are\nfitted, nor what follows from these: elapsed time does from user and system time."
        );
    }
    let broken: u64 = reports.iter().map(|report| report.violations).sum();
    let wall: f64 = reports.iter().map(|report| report.wall_s).sum();
    let verdict = match (first.oracle, broken) {
        (false, _) => "no oracle watched".to_owned(),
        (true, 0) => "no rule was broken".to_owned(),
        (true, count) => format!("rules were broken {count} times"),
    };
    let _ = writeln!(text, "{verdict}; {wall:.1} s of processor time\n");
}

/// The published figures of a row, and how far ours is from them.
fn beside(name: &str, paper: &Comparison, ours: Option<f64>, fitted: &BTreeSet<String>) -> [String; 4] {
    let marks: Vec<&str> =
        ["before", "after"].into_iter().filter(|side| fitted.contains(&format!("{name}, {side}"))).collect();
    [
        format!("{} -> {}", number(paper.before), number(paper.after)),
        format!("{:.3}", paper.ratio),
        ours.map_or("-".into(), |ours| format!("{:+.3}", ours - paper.ratio)),
        if marks.is_empty() { String::new() } else { format!("fitted: {}", marks.join(", ")) },
    ]
}

/// The published figures that this machine's parameters were fitted to: `metric, before` or `metric, after`.
fn fitted_rows(machine: &Machine) -> BTreeSet<String> {
    machine
        .sources
        .iter()
        .filter(|parameter| parameter.is_fitted())
        .filter_map(|parameter| {
            let row = parameter.source.strip_prefix("fitted: ")?;
            Some(row.split_once(':').map_or(row, |(row, _)| row).trim().to_owned())
        })
        .collect()
}

/// A number as a person reads it: large ones in groups of three digits, small ones with three that matter.
fn number(value: f64) -> String {
    if value.is_nan() {
        "-".into()
    } else if value >= 1000.0 {
        let digits = format!("{value:.0}");
        let mut grouped = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                grouped.push('_');
            }
            grouped.push(digit);
        }
        grouped
    } else if value.fract() < f64::EPSILON {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.4}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(number(1_234_567.0), "1_234_567");
        assert_eq!(number(999.0), "999");
        assert_eq!(number(159.62), "159.62");
        assert_eq!(number(0.0123), "0.0123");
    }
}
