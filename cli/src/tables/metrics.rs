//! The rows of an experiment's table.

use ceasefire_experiments::{Basis, Comparison, Experiment, Latency, Repeats, Report};

use crate::number::compact;

/// A row: its value in a report, the published metrics that it corresponds to, and the condition for showing it.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) value: fn(&Report) -> f64,
    published: &'static [&'static str],
    shown: Shown,
    /// Whether it is shown without `--all`, even if nothing was published.
    headline: bool,
}

/// The condition for showing a row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    /// A mechanism has a value other than 0, or the paper has a figure.
    IfAny,
    /// As `IfAny`, and the whole run is measured: the value covers the programs' whole time.
    IfWhole,
    /// All figures are asked for, or the paper has one, or runs differ in the value as shown: their time is not fixed.
    IfNotFixed,
    /// The value is known, even if it is 0.
    IfKnown,
    /// The row is always shown.
    Always,
}

/// A row that is shown if any mechanism has a value for it.
const fn metric(name: &'static str, value: fn(&Report) -> f64) -> Metric {
    Metric { name, value, published: &[], shown: Shown::IfAny, headline: false }
}

impl Metric {
    const fn published(self, published: &'static [&'static str]) -> Self {
        Self { published, ..self }
    }

    const fn shown(self, shown: Shown) -> Self {
        Self { shown, ..self }
    }

    const fn headline(self) -> Self {
        Self { headline: true, ..self }
    }

    /// The paper's figures for the row, and their name.
    pub(super) fn paper<'a>(&self, report: &'a Report) -> Option<(&'static str, &'a Comparison)> {
        self.published.iter().find_map(|name| Some((*name, report.published.get(name)?)))
    }

    /// Whether the row is shown for these runs: for `all`, or a headline, or a published figure that the model predicts.
    pub(super) fn is_shown(&self, experiment: &Experiment, runs: &[&Repeats], all: bool) -> bool {
        let reports = || runs.iter().flat_map(|runs| runs.all());
        let any = |test: &dyn Fn(f64) -> bool| reports().any(|report| test((self.value)(report)));
        let paper = self.paper(runs[0].first());
        let is_headline = || {
            let modelled = |(name, _)| runs[0].basis(name, None) != Basis::Unmodelled;
            self.headline || paper.is_some_and(modelled)
        };
        let is_something = || any(&|value| value.abs() > 0.0) || paper.is_some();
        let first = compact((self.value)(runs[0].first()));
        let is_varied = || !experiment.windowed || any(&|value| compact(value) != first);
        let is_known = match self.shown {
            Shown::IfAny => is_something(),
            Shown::IfWhole => !experiment.windowed && is_something(),
            Shown::IfNotFixed => all || paper.is_some() || is_varied(),
            Shown::IfKnown => any(&|value| !value.is_nan()),
            Shown::Always => true,
        };
        is_known && (all || is_headline())
    }
}

/// A value, or NaN if it is not known.
fn known(is_known: bool, value: f64) -> f64 {
    if is_known {
        value
    } else {
        f64::NAN
    }
}

/// A count, or NaN if it is not known.
fn count(count: Option<u64>) -> f64 {
    count.map_or(f64::NAN, |count| count as f64)
}

/// A part of the latency, in microseconds.
fn micros(report: &Report, part: fn(&Latency) -> f64) -> f64 {
    report.latency.map_or(f64::NAN, |latency| part(&latency) * 1e6)
}

/// A count per MiB moved.
fn per_mib(report: &Report, value: u64) -> f64 {
    known(report.pages_migrated > 0, value as f64 / report.mib_migrated())
}

pub(super) const METRICS: &[Metric] = &[
    metric("elapsed time, s", |report| report.elapsed_s)
        .headline()
        .published(&["elapsed", "runtime"])
        .shown(Shown::IfNotFixed),
    metric("user time, s", |report| report.user_s).published(&["user"]).shown(Shown::IfWhole),
    metric("system time, s", |report| report.system_s).published(&["system"]).shown(Shown::IfWhole),
    metric("operations per second", |report| report.operations_per_s)
        .headline()
        .published(&["loops_per_second"]),
    metric("latency, median, us", |report| micros(report, |latency| latency.p50_s)).headline(),
    metric("latency, 99 %, us", |report| micros(report, |latency| latency.p99_s)).headline(),
    metric("latency, 99.9 %, us", |report| micros(report, |latency| latency.p999_s)),
    metric("latency, longest, us", |report| micros(report, |latency| latency.max_s)),
    metric("atomic allocation, 99.9 %, us", |report| {
        report.atomic.map_or(f64::NAN, |atomic| atomic.latency.p999_s * 1e6)
    }),
    metric("atomic allocation, longest, us", |report| {
        report.atomic.map_or(f64::NAN, |atomic| atomic.latency.max_s * 1e6)
    }),
    metric("atomic allocations failed", |report| count(report.atomic.map(|atomic| atomic.failed))),
    metric("processes", |report| report.per_process.map_or(f64::NAN, |all| all.processes as f64)),
    metric("operations of a process, fewest", |report| count(report.per_process.map(|all| all.least)))
        .shown(Shown::IfKnown),
    metric("operations of a process, most", |report| count(report.per_process.map(|all| all.most))),
    metric("pages migrated", |report| report.pages_migrated as f64),
    metric("pages migrated per second", |report| {
        known(report.elapsed_s > 0.0, report.pages_migrated as f64 / report.elapsed_s)
    })
    .published(&["pages_migrated_per_second"]),
    metric("TLB interrupts per second", |report| report.interrupts_per_s)
        .headline()
        .published(&["interrupts_per_second", "tlb_interrupts"]),
    metric("range of finishes, s", |report| report.finish_range_s)
        .published(&["time_range"])
        .shown(Shown::IfWhole),
    metric("deviation of finishes, s", |report| report.finish_stddev_s)
        .published(&["time_stddv"])
        .shown(Shown::IfWhole),
    metric("TLB requests", |report| report.requests as f64),
    metric("TLB interrupts", |report| report.interrupts as f64).published(&["tlb_shootdowns"]),
    metric("shootdowns", |report| report.shootdowns as f64),
    metric("shootdowns per MiB moved", |report| per_mib(report, report.shootdowns)),
    metric("broadcasts", |report| report.broadcasts as f64).headline(),
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
    metric("loads compared", |report| count(report.loads_compared)),
    metric("loads wrong", |report| count(report.loads_wrong)).shown(Shown::IfKnown),
    metric("rules broken", |report| known(report.oracle, report.violations as f64)).shown(Shown::Always),
];
