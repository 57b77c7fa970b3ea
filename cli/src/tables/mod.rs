//! The results as tables: for each experiment and machine what each mechanism measured, beside what was published.

mod sweep;

use std::collections::BTreeSet;
use std::fmt::Write;

use ceasefire_experiments::{Comparison, Experiment, Latency, Plan, Report};
use ceasefire_machine::config::{builtin, Machine};
use comfy_table::{presets, CellAlignment, Table};

/// What is shown of a report: how to get it, the published metrics that it stands for, and where it is shown.
struct Metric {
    name: &'static str,
    value: fn(&Report) -> f64,
    published: &'static [&'static str],
    shown: Shown,
}

/// Where a row is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// Where any mechanism has something of it, or the paper does.
    IfAny,
    /// The same, but only where the whole run is measured: it is of the programs' whole time.
    IfWhole,
    /// Wherever it is known, though it be 0.
    IfKnown,
    /// Everywhere.
    Always,
}

/// A row that is shown if any mechanism has something of it.
const fn metric(name: &'static str, value: fn(&Report) -> f64) -> Metric {
    Metric { name, value, published: &[], shown: Shown::IfAny }
}

impl Metric {
    const fn published(self, published: &'static [&'static str]) -> Self {
        Self { published, ..self }
    }

    const fn shown(self, shown: Shown) -> Self {
        Self { shown, ..self }
    }

    /// The paper's figures for it, and their name.
    fn paper<'a>(&self, report: &'a Report) -> Option<(&'static str, &'a Comparison)> {
        self.published.iter().find_map(|name| Some((*name, report.published.get(name)?)))
    }

    /// Whether it says anything of these runs.
    fn is_shown(&self, experiment: &Experiment, reports: &[Report]) -> bool {
        let any = |test: fn(f64) -> bool| reports.iter().any(|report| test((self.value)(report)));
        let is_something = || any(|value| value.abs() > 0.0) || self.paper(&reports[0]).is_some();
        match self.shown {
            Shown::IfAny => is_something(),
            Shown::IfWhole => !experiment.windowed && is_something(),
            Shown::IfKnown => any(|value| !value.is_nan()),
            Shown::Always => true,
        }
    }
}

/// A value, or that there is none.
fn known(is_known: bool, value: f64) -> f64 {
    if is_known {
        value
    } else {
        f64::NAN
    }
}

/// A part of the latency, in microseconds.
fn micros(report: &Report, part: fn(&Latency) -> f64) -> f64 {
    report.latency.map_or(f64::NAN, |latency| part(&latency) * 1e6)
}

/// So much of it for each MiB that was moved.
fn per_mib(report: &Report, value: u64) -> f64 {
    known(report.pages_migrated > 0, value as f64 / report.mib_migrated())
}

const METRICS: &[Metric] = &[
    metric("elapsed, s", |report| report.elapsed_s).published(&["elapsed", "runtime"]),
    metric("user time, s", |report| report.user_s).published(&["user"]).shown(Shown::IfWhole),
    metric("system time, s", |report| report.system_s).published(&["system"]).shown(Shown::IfWhole),
    metric("operations per second", |report| report.operations_per_s).published(&["loops_per_second"]),
    metric("latency, median, us", |report| micros(report, |latency| latency.p50_s)),
    metric("latency, 99 %, us", |report| micros(report, |latency| latency.p99_s)),
    metric("latency, 99.9 %, us", |report| micros(report, |latency| latency.p999_s)),
    metric("latency, longest, us", |report| micros(report, |latency| latency.max_s)),
    metric("atomic allocation, 99.9 %, us", |report| {
        report.atomic.map_or(f64::NAN, |atomic| atomic.latency.p999_s * 1e6)
    }),
    metric("atomic allocation, longest, us", |report| {
        report.atomic.map_or(f64::NAN, |atomic| atomic.latency.max_s * 1e6)
    }),
    metric("atomic allocations failed", |report| {
        report.atomic.map_or(f64::NAN, |atomic| atomic.failed as f64)
    }),
    metric("processes", |report| report.per_process.map_or(f64::NAN, |all| all.processes as f64)),
    metric("operations of a process, fewest", |report| {
        report.per_process.map_or(f64::NAN, |all| all.least as f64)
    })
    .shown(Shown::IfKnown),
    metric("operations of a process, most", |report| {
        report.per_process.map_or(f64::NAN, |all| all.most as f64)
    }),
    metric("pages migrated", |report| report.pages_migrated as f64),
    metric("pages migrated per second", |report| {
        known(report.elapsed_s > 0.0, report.pages_migrated as f64 / report.elapsed_s)
    })
    .published(&["pages_migrated_per_second"]),
    metric("TLB interrupts per second", |report| report.interrupts_per_s)
        .published(&["interrupts_per_second", "tlb_interrupts"]),
    metric("range of finishes, s", |report| report.finish_range_s)
        .published(&["time_range"])
        .shown(Shown::IfWhole),
    metric("their deviation, s", |report| report.finish_stddev_s)
        .published(&["time_stddv"])
        .shown(Shown::IfWhole),
    metric("TLB interrupts", |report| report.interrupts as f64).published(&["tlb_shootdowns"]),
    metric("shootdowns", |report| report.shootdowns as f64),
    metric("shootdowns per MiB moved", |report| per_mib(report, report.shootdowns)),
    metric("broadcasts", |report| report.broadcasts as f64),
    metric("broadcasts per MiB moved", |report| per_mib(report, report.broadcasts)),
    metric("flushes, everything", |report| report.flushes_full as f64).published(&["tlb_flush_events"]),
    metric("flushes, one page", |report| report.flushes_page as f64),
    metric("oldest debt, ms", |report| report.debt_age_max_s * 1e3),
    metric("faults", |report| report.faults as f64),
    metric("pages reclaimed", |report| report.pages_reclaimed as f64),
    metric("TLB misses, loads", |report| report.tlb_misses_load as f64).published(&["dtlb_load_misses"]),
    metric("TLB misses, stores", |report| report.tlb_misses_store as f64).published(&["dtlb_store_misses"]),
    metric("TLB misses, fetches", |report| report.tlb_misses_fetch as f64).published(&["itlb_load_misses"]),
    metric("waits for answers, s", |report| report.answer_wait_s),
    metric("flush waits per MiB moved, ns", |report| report.flush_wait_ns_per_mib.unwrap_or(f64::NAN)),
    metric("waits for locks, s", |report| report.lock_wait_s),
    metric("loads compared", |report| report.loads_compared as f64),
    metric("loads wrong", |report| known(report.loads_compared > 0, report.loads_wrong as f64))
        .shown(Shown::IfKnown),
    metric("rules broken", |report| known(report.oracle, report.violations as f64)).shown(Shown::Always),
];

/// All results.
pub(crate) fn of(plans: &[Plan], reports: &[Report]) -> String {
    let mut text = String::new();
    let mut at = 0;
    while at < reports.len() {
        let same = |report: &Report| {
            report.experiment == reports[at].experiment && report.machine == reports[at].machine
        };
        let count = reports[at..].iter().take_while(|report| same(report)).count();
        let (of_it, together) = (&plans[at..at + count], &reports[at..at + count]);
        let case = |report: &Report| (report.threads, report.lru_drain);
        if together.iter().any(|report| case(report) != case(&together[0])) {
            sweep::block(&mut text, &of_it[0], together);
        } else {
            block(&mut text, &of_it[0], together);
        }
        at += count;
    }
    text
}

/// One experiment on one machine.
fn block(text: &mut String, plan: &Plan, reports: &[Report]) {
    let first = &reports[0];
    let oracle = if first.oracle { "oracle on" } else { "oracle off: broken rules go unseen" };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{} on {}: {} CPUs, {} threads, {}scale {}, seed {}, {oracle}",
        first.experiment,
        first.machine,
        first.cpus,
        first.threads,
        first.lru_drain.map_or(String::new(), |drain| format!("new pages listed {drain}, ")),
        first.scale,
        first.seed
    );
    let fitted = fitted_of(&plan.machine, first);
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
    table.set_header(header);
    for metric in METRICS.iter().filter(|metric| metric.is_shown(plan.experiment, reports)) {
        let mut row = vec![metric.name.to_owned()];
        row.extend(baseline.iter().map(|report| number((metric.value)(report))));
        for other in &others {
            let value = (metric.value)(other);
            let ratio = baseline.map(|baseline| (metric.value)(baseline)).filter(|before| *before > 0.0);
            let ratio = ratio.map(|before| value / before);
            row.push(number(value));
            row.push(ratio.map_or("-".into(), |ratio| format!("{ratio:.3}")));
        }
        if let Some((name, paper)) = metric.paper(first) {
            let other = others.iter().find(|other| other.is_proposal()).or(others.first());
            let ours = other.and_then(|other| other.published.get(name)?.ours);
            let mut cells = beside(name, paper, ours, &fitted);
            if let Some(other) = other.filter(|other| !other.is_proposal()) {
                // The paper says nothing of that one.
                cells[3] = format!("ours is {}", other.mechanism);
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
            "Published figures are for scale 1: times and counts shrink with the scale, rates and ratios compare."
        );
    }
    if first.published.values().any(Comparison::is_relative) {
        let _ =
            writeln!(text, "'relative': the paper gives no more than the ratio, with its own baseline as 1.");
    }
    if let Some(line) = of_other_size(reports) {
        let _ = writeln!(text, "{line}");
    }
    if !fitted.is_empty() && has_published {
        let _ = writeln!(
            text,
            "'fitted': parameters of this machine were fitted to that figure. It is no prediction, nor is a ratio whose two \
             sides are\nfitted, nor what follows from these: elapsed time does from user and system time."
        );
    }
    let _ = writeln!(text, "{}\n", verdict(reports));
}

/// That the paper's figures are those of a machine with another number of CPUs, where they are.
pub(crate) fn of_other_size<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Option<String> {
    let report = reports.into_iter().find(|report| !report.published.is_empty())?;
    let own = builtin(&report.machine).and_then(Result::ok)?.topology.cpu_count();
    (own != report.cpus).then(|| format!("The published figures are for {own} CPUs, not {}.", report.cpus))
}

/// Whether anything was wrong, and how long it took.
pub(crate) fn verdict(reports: &[Report]) -> String {
    let broken: u64 = reports.iter().map(|report| report.violations).sum();
    let wall: f64 = reports.iter().map(|report| report.wall_s).sum();
    let verdict = match (reports[0].oracle, broken) {
        (false, _) => "no oracle watched".to_owned(),
        (true, 0) => "no rule was broken".to_owned(),
        (true, count) => format!("rules were broken {count} times"),
    };
    let loads = |count: fn(&Report) -> u64| reports.iter().map(count).sum::<u64>();
    let verdict = match (loads(|report| report.loads_compared), loads(|report| report.loads_wrong)) {
        (0, _) => verdict,
        (_, 0) => format!("{verdict}, no load was wrong"),
        (_, wrong) => format!("{verdict}, {wrong} loads were wrong"),
    };
    format!("{verdict}; {wall:.1} s of processor time")
}

/// The published figures of a row, and how far ours is from them.
fn beside(name: &str, paper: &Comparison, ours: Option<f64>, fitted: &BTreeSet<String>) -> [String; 4] {
    let marks: Vec<&str> =
        ["before", "after"].into_iter().filter(|side| fitted.contains(&format!("{name}, {side}"))).collect();
    let figures = if paper.is_relative() {
        // As published: digits more would be a precision that the paper does not claim.
        format!("relative: {} -> {}", paper.before, paper.after)
    } else {
        format!("{} -> {}", number(paper.before), number(paper.after))
    };
    [
        figures,
        format!("{:.3}", paper.ratio),
        ours.map_or("-".into(), |ours| format!("{:+.3}", ours - paper.ratio)),
        if marks.is_empty() { String::new() } else { format!("fitted: {}", marks.join(", ")) },
    ]
}

/// The published figures of a result's that its machine's parameters were fitted to: `metric, before` or `metric, after`.
pub(crate) fn fitted_of(machine: &Machine, report: &Report) -> BTreeSet<String> {
    let mut fitted = fitted_rows(machine);
    for side in ["before", "after"] {
        // Where threads are varied, it is said of one number of them.
        if fitted.contains(&sweep::cell(report, side)) {
            fitted.extend(report.published.keys().map(|metric| format!("{metric}, {side}")));
        }
    }
    fitted
}

/// The published figures that this machine's parameters were fitted to, as their sources name them.
pub(crate) fn fitted_rows(machine: &Machine) -> BTreeSet<String> {
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
pub(crate) fn number(value: f64) -> String {
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
        // Four decimals, and more where fewer than three of them would matter.
        let leading_zeros = (-value.log10()).floor().max(0.0) as usize;
        format!("{value:.*}", 4.max(leading_zeros + 3))
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
        assert_eq!(number(3.917), "3.9170");
        assert_eq!(number(0.5), "0.5000");
        assert_eq!(number(0.0123), "0.0123");
        assert_eq!(number(0.000_002_243), "0.00000224");
        assert_eq!(number(0.0), "0");
    }
}
