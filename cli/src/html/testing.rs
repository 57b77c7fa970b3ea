//! Results for tests: those of one tiny run, under other names.

use std::sync::OnceLock;

use ceasefire_experiments::{Comparison, Experiment, Mechanism, Plan, Report};
use ceasefire_machine::config::builtin;

fn plan() -> Plan {
    let machine = builtin("2-socket-intel").expect("a listed name").expect("a valid file");
    let experiment = Experiment::find("migrate").expect("an experiment");
    Plan {
        mechanism: Mechanism::Batched,
        scale: 0.0001,
        oracle: false,
        shadow: false,
        ..Plan::new(experiment, machine.with_cpus(2).expect("allowed"))
    }
}

/// A result with the given mechanism's name.
pub(crate) fn report(mechanism: &'static str) -> Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    let report = REPORT.get_or_init(|| plan().run(|_| ()).expect("a run"));
    Report { mechanism, ..report.clone() }
}

/// A plan for each result.
pub(super) fn plans(reports: &[Report]) -> Vec<Plan> {
    reports.iter().map(|_| plan()).collect()
}

/// A published figure beside one of ours.
pub(super) fn comparison(before: f64, after: f64, ours: Option<f64>, measured: f64) -> Comparison {
    Comparison { unit: "1/s", before, after, ratio: after / before, ours, measured }
}

/// The start and the width of each rectangle of a drawing.
pub(super) fn rectangles(drawing: &str) -> Vec<(f64, f64)> {
    let rectangle = |rect: &str| {
        let number = |name: &str| -> f64 {
            let rest = rect.split(&format!(" {name}=\"")).nth(1).expect("the attribute");
            rest.split('"').next().and_then(|text| text.parse().ok()).expect("a number")
        };
        (number("x"), number("width"))
    };
    drawing.split("<rect ").skip(1).map(rectangle).collect()
}
