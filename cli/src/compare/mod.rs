//! `ceasefire compare`: selects the runs, executes them, and writes the results.

mod drawn;
mod progress;
mod runs;
mod selection;
mod sensitivity;
mod uncertainty;

use ceasefire_experiments::{compare, Plan, Report};

use crate::args::{CompareArguments, Settings};
use crate::failure::{complain, Done, Failure};
use crate::output::Output;
use crate::results::Sure;
use runs::{run_all, Runs};
pub(crate) use selection::Word;
use selection::{inputs, select, Selection};
use sensitivity::sensitivity;
use uncertainty::intervals;

/// Runs what the arguments select. A word among them may be what `word` says.
pub(crate) fn run(arguments: &CompareArguments, word: Word) -> Done {
    let settings = Settings::of(&arguments.choice.set)?;
    let Selection { mut plans, skipped, listed } = select(arguments, &settings, word)?;
    if !arguments.manner.draw.is_empty() && arguments.choice.machine.as_deref() == Some("host") {
        return Err(Failure::input(
            "--draw: 'host' has no file: write one with `ceasefire calibrate -o FILE`, and name it with --machine",
        ));
    }
    let output = Output::check(&arguments.outputs, &inputs(arguments, &plans))?;
    for plan in &mut plans {
        plan.trace = output.trace();
    }
    let mut warnings: Vec<&String> = plans.iter().flat_map(|plan| &plan.machine.warnings).collect();
    warnings.dedup();
    for line in warnings {
        complain(line);
    }
    for line in skipped {
        complain(&format!("skipped: {line}"));
    }
    for line in listed.iter().filter(|_| !arguments.manner.quiet) {
        complain(line);
    }
    let mut printed = Ok(());
    let show = |plans: &[Plan], mut reports: Vec<Report>| {
        compare(&mut reports);
        let table = output.table_of(plans, &reports);
        printed = Failure::both(std::mem::replace(&mut printed, Ok(())), table);
    };
    let Runs { plans, mut reports, failed } =
        run_all(plans, arguments.manner.jobs, arguments.manner.quiet, show);
    if reports.is_empty() {
        return failed;
    }
    compare(&mut reports);
    let mut sure = Sure::default();
    if let Some(count) = arguments.uncertainty() {
        sure.uncertainty = Some(intervals(arguments, &settings, count, &plans, &reports)?);
    }
    if let Some(pairs) = arguments.sensitivity() {
        sure.sensitivity = Some(sensitivity(arguments, &settings, pairs, &plans, &reports)?);
    }
    let written = output.write(&plans, &reports, &sure);
    // A broken rule matters most, then a failed run, then incomplete output.
    Failure::both(sound(&reports), Failure::both(failed, Failure::both(printed, written)))
}

/// Fails if a rule was broken or a load was wrong.
fn sound(reports: &[Report]) -> Done {
    let rules = reports.iter().map(|report| report.violations).sum();
    let loads = reports.iter().filter_map(|report| report.loads_wrong).sum();
    if (rules, loads) == (0, 0) {
        return Ok(());
    }
    let run = |report: &Report| format!("{} {} {}", report.experiment, report.machine, report.mechanism);
    let broken = reports.iter().flat_map(|report| {
        let run = run(report);
        report.broken.iter().map(move |line| format!("{run}: {line}"))
    });
    let wrong = reports.iter().filter_map(|report| {
        let (wrong, compared) = (report.loads_wrong.filter(|&wrong| wrong > 0)?, report.loads_compared?);
        Some(format!("{}: {wrong} of {compared} compared loads were wrong", run(report)))
    });
    Err(Failure::Broken { rules, loads, lines: broken.take(8).chain(wrong).collect() })
}

#[cfg(test)]
mod tests {
    use ceasefire_experiments::{Experiment, Mechanism, Plan};
    use ceasefire_machine::config::builtin;

    use super::*;

    fn report() -> Report {
        let machine = builtin("2-socket-intel").expect("a listed name").expect("a valid file");
        let experiment = Experiment::find("migrate").expect("an experiment");
        let plan = Plan {
            mechanism: Mechanism::Batched,
            scale: 0.0001,
            ..Plan::new(experiment, machine.with_cpus(2).expect("allowed"))
        };
        plan.run(|_| ()).expect("a run")
    }

    #[test]
    fn a_wrong_load_and_a_broken_rule_are_failures() {
        let good = report();
        assert!(good.loads_compared > Some(0));
        assert!(sound(&[good.clone(), good.clone()]).is_ok());
        let wrong = Report { loads_wrong: Some(3), loads_compared: Some(100), ..good.clone() };
        let Err(Failure::Broken { rules, loads, lines }) = sound(&[good.clone(), wrong]) else {
            panic!("three loads were wrong");
        };
        assert_eq!((rules, loads), (0, 3));
        assert_eq!(lines, ["migrate 2-socket-intel batched: 3 of 100 compared loads were wrong"]);
        let broken = Report { violations: 2, broken: vec!["R1".into(), "R7".into()], ..good };
        let Err(Failure::Broken { rules, loads, lines }) = sound(&[broken]) else {
            panic!("two rules were broken");
        };
        assert_eq!((rules, loads), (2, 0));
        assert_eq!(lines, ["migrate 2-socket-intel batched: R1", "migrate 2-socket-intel batched: R7"]);
    }
}
