//! The outcome of one run.

use ceasefire_kernel_abi::options::Without;
use serde_json::{json, Map, Value};

use super::options::Run;
use super::protocol::Ending;
use super::watch::Record;

/// Programs that measure something. A run of one of them without a result is a failure.
const MEASURED: &[&str] = &["mmap-read", "migrate", "stale", "conformance"];

/// One run and its outcome.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) run: Run,
    pub(super) record: Record,
    /// The record's ending, unless the kernel did something else than it was asked.
    pub(super) ending: Ending,
    /// The fields of the kernel's result.
    fields: Map<String, Value>,
    /// The simulator's report of the same run.
    pub(super) simulated: Option<Value>,
}

impl Report {
    pub(super) fn new(run: Run, record: Record) -> Self {
        let fields =
            record.result.as_deref().map(|result| serde_json::from_str::<Map<String, Value>>(result).ok());
        let wrong = || match &fields {
            _ if record.failed.is_some() => Some("it was done, but FAILED before".to_owned()),
            None if MEASURED.contains(&run.kernel.program) => {
                Some("it was done, but gave no RESULT".to_owned())
            }
            None => None,
            Some(None) => Some("its RESULT is not a JSON object".to_owned()),
            Some(Some(fields)) => differs(&run, fields),
        };
        let ending = match record.ending.clone() {
            Ending::Done => wrong().map_or(Ending::Done, Ending::Wrong),
            other => other,
        };
        Self { run, record, ending, fields: fields.flatten().unwrap_or_default(), simulated: None }
    }

    /// Seconds from QEMU's start to the first instruction of a program.
    pub(super) fn boot_s(&self) -> Option<f64> {
        self.record.boot.map(|time| time.as_secs_f64())
    }

    /// Seconds from there to the notice of a broken rule.
    pub(super) fn caught_s(&self) -> Option<f64> {
        self.record.since_user().filter(|_| self.ending.is_caught()).map(|time| time.as_secs_f64())
    }

    /// Whether the run succeeded.
    pub(super) fn is_done(&self) -> bool {
        self.ending == Ending::Done
    }

    /// The outcome in words. Where a rule must be broken, whether that was noticed.
    pub(super) fn verdict(&self) -> String {
        match (self.run.must_be_caught(), self.caught_s(), &self.ending) {
            (true, Some(seconds), _) => format!("caught after {seconds:.1} s"),
            (true, None, Ending::Done) => "not caught".to_owned(),
            _ => self.ending.words(),
        }
    }

    /// The run, its verdict, the kernel's reason for a failure and what its program lacks, in a line.
    pub(super) fn line(&self) -> String {
        let reasons: Vec<&str> =
            self.record.failed.iter().chain(&self.record.lacks).map(String::as_str).collect();
        let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
        format!("{}: {}{reasons}", self.run, self.verdict())
    }

    /// A number of the kernel's result.
    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.fields.get(name)?.as_f64()
    }
}

/// The first difference between the run in the kernel's result and the run that was requested, if any.
fn differs(run: &Run, fields: &Map<String, Value>) -> Option<String> {
    let Run { arch, cpus, kernel, .. } = run;
    let asked = json!({
        "arch": arch.name, "program": kernel.program, "mechanism": kernel.mechanism.name(), "cpus": cpus,
        "nodes": kernel.nodes, "seed": kernel.seed, "max_age_ms": kernel.max_age, "without": kernel.without.map(Without::name),
    });
    asked.as_object()?.iter().find_map(|(name, asked)| {
        let ran = fields.get(name).filter(|ran| *ran != asked)?;
        Some(format!("it ran with {name} {ran}, not {asked}"))
    })
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::super::options::tests::run;
    use super::*;

    /// The kernel's result of a run of the default options.
    const RESULT: &str = r#"{"arch":"x86_64","program":"stale","mechanism":"batched","cpus":8,"nodes":2,"frames":120000,"seconds":10,
        "seed":1,"boot_ns":5,"elapsed_ns":2000000000,"features":"pcid x2apic","operations":100,"interrupts":50,
        "shootdowns":9,"ticks":7,"debts_by_tick":3,"debt_age_max_ns":20000000,"max_age_ms":30}"#;

    /// A run of the default options, changed by `line`.
    pub(in super::super) fn report(line: &str, result: Option<&str>, ending: Ending) -> Report {
        let failed = (ending != Ending::Done).then(|| "stale read: at 0x1000".to_owned());
        let (boot, wall) = (Some(Duration::from_millis(1500)), Duration::from_secs(4));
        let result = result.map(str::to_owned);
        Report::new(run(line), Record { ending, result, failed, boot, wall, ..Record::new() })
    }

    #[test]
    fn the_kernels_numbers_are_read() {
        let report = report("", Some(RESULT), Ending::Done);
        assert_eq!(
            ["shootdowns", "features", "none"].map(|name| report.number(name)),
            [Some(9.0), None, None]
        );
    }

    #[test]
    fn a_broken_rule_is_a_violation_even_without_a_result() {
        let report = report("", None, Ending::Broken);
        assert!(!report.is_done());
        assert_eq!(report.line(), "stale batched: a rule was broken (stale read: at 0x1000)");
        assert_eq!((report.boot_s(), report.caught_s()), (Some(1.5), Some(2.5)));
    }

    #[test]
    fn without_flushes_a_run_is_caught_or_not() {
        let verdict = |ending| report("--mechanism none", None, ending).verdict();
        for ending in [Ending::Broken, Ending::Fault, Ending::Hang] {
            assert_eq!(verdict(ending), "caught after 2.5 s");
        }
        assert_eq!(verdict(Ending::Refused), Ending::Refused.words());
        let guardless = report("--mechanism lazy --without slot", None, Ending::Broken);
        assert_eq!(guardless.line(), "stale lazy without slot: caught after 2.5 s (stale read: at 0x1000)");
        let result = r#"{"mechanism":"none"}"#;
        assert_eq!(report("--mechanism none", Some(result), Ending::Done).verdict(), "not caught");
    }

    #[test]
    fn a_run_is_done_only_if_it_was_the_requested_one() {
        const LAZY: &str = r#"{"mechanism":"lazy","without":null,"max_age_ms":30}"#;
        let ending = |line, result| report(line, result, Ending::Done).ending;
        assert_eq!(ending("", Some(RESULT)), Ending::Done);
        assert_eq!(ending("--program hello", None), Ending::Done);
        for (line, result, expected) in [
            ("", None, "it was done, but gave no RESULT"),
            ("", Some("{\"cpus\":"), "its RESULT is not a JSON object"),
            ("", Some("[]"), "its RESULT is not a JSON object"),
            ("--cpus 16", Some(RESULT), "it ran with cpus 8, not 16"),
            ("--arch aarch64", Some(RESULT), "it ran with arch \"x86_64\", not \"aarch64\""),
            ("--mechanism lazy --max-age 40", Some(LAZY), "it ran with max_age_ms 30, not 40"),
            ("--mechanism lazy --without slot", Some(LAZY), "it ran with without null, not \"slot\""),
            ("--mechanism per-page", Some(RESULT), "it ran with mechanism \"batched\", not \"per-page\""),
        ] {
            assert_eq!(ending(line, result), Ending::Wrong(expected.to_owned()), "{line}");
        }
        let (result, failed) = (Some(RESULT.to_owned()), Some("lost write".to_owned()));
        let contradicts = Report::new(run(""), Record { result, failed, ..Record::new() });
        assert_eq!(contradicts.line(), "stale batched: it was done, but FAILED before (lost write)");
        // An earlier failure counts more than a missing result.
        assert_eq!(report("", None, Ending::Hang).ending, Ending::Hang);
    }
}
