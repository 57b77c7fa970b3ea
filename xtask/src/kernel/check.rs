//! `cargo xtask kernel --check`: the runs of CI, with every program and mechanism, and the expected outcome of each.
//! Some runs must fail.

use super::arch::{self, Arch, AARCH64, X86_64};
use super::build::Builds;
use super::options::Options;
use super::protocol::Ending;
use super::report::Report;
use super::{boot_once, summary};
use crate::failure::{ensure, Failure};

/// The expected outcome of a run.
#[derive(Debug)]
enum Must {
    /// It ends well, and its result has some of this count.
    Do(&'static str),
    /// It ends well, with some of this count. Each mechanism takes at most this part of the interrupts for each
    /// operation that the one before takes.
    Save(&'static str, f64),
    /// It ends well, with some of this count, and with broadcasts in place of interrupts.
    Broadcast(&'static str),
    /// No CPU flushes, or a guard is missing. A program notices or fails, and should within this many seconds of its first
    /// instruction.
    BeCaught(f64),
    /// It ends like this, its FAILED line begins with this, and every CPU prints its registers and last events.
    Fail(Ending, &'static str),
}

/// Where runs are made, their command line, and the expected outcome of each.
type Case = (&'static [Arch], &'static str, Must);

const BOTH: &[Arch] = arch::ALL;
const X86: &[Arch] = &[X86_64];
const ARM: &[Arch] = &[AARCH64];

/// All runs, cheapest first. The memory of `mmap-read` is small, so that it reads ten times the memory in seconds.
#[rustfmt::skip]
const CASES: &[Case] = &[
    (BOTH, "--program hello --cpus 8 --memory 256M", Must::Do("operations")),
    (BOTH, "--program panic --cpus 4 --memory 256M", Must::Fail(Ending::Fault, "kernel: ")),
    (BOTH, "--program fault --cpus 4 --memory 256M", Must::Fail(Ending::Fault, "program: ")),
    (BOTH, "--program stale,conformance --cpus 4 --memory 256M --mechanism none", Must::BeCaught(CAUGHT)),
    (BOTH, "--program stale,conformance --cpus 4 --memory 256M --without kernel-flush", Must::BeCaught(CAUGHT)),
    // On a busy host readers often run again only after their tick. Debts that grow old are still there then.
    (BOTH, "--program stale --cpus 8 --mechanism lazy --max-age 300 --without slot --seconds 20", Must::BeCaught(20.0)),
    (BOTH, "--program migrate --cpus 4 --memory 256M --mechanism per-page,batched --pages 4096 --seconds 3", Must::Save("pages_migrated", 0.015)),
    (ARM, "--program migrate --cpus 4 --memory 256M --mechanism broadcast,all --pages 4096 --seconds 2", Must::Broadcast("pages_migrated")),
    (BOTH, "--program conformance --cpus 4 --memory 256M --mechanism per-page,batched,lazy --seconds 4", Must::Do("operations")),
    (ARM, "--program conformance --cpus 4 --memory 256M --mechanism broadcast,all --seconds 4", Must::Broadcast("operations")),
    (BOTH, "--program hang --cpus 4 --memory 256M", Must::Fail(Ending::Hang, "hang: no progress")),
    (BOTH, "--program lockup --cpus 4 --memory 256M", Must::Fail(Ending::Hang, "hang: CPU 3 took no tick")),
    (X86, "--program mmap-read --cpus 4 --memory 96M --mechanism per-page,batched,lazy", Must::Save("pages_reclaimed", 0.5)),
    (ARM, "--program mmap-read --cpus 4 --memory 64M --mechanism per-page,batched,lazy", Must::Save("pages_reclaimed", 0.5)),
    (ARM, "--program mmap-read --cpus 4 --memory 64M --mechanism broadcast,all", Must::Broadcast("pages_reclaimed")),
    (BOTH, "--program stale --cpus 4 --memory 256M --mechanism per-page,batched,lazy --seconds 8", Must::Do("operations")),
    (BOTH, "--program stale --cpus 4 --memory 256M --undisturbed --seconds 8", Must::Do("operations")),
    (X86, "--program stale --cpus 64 --memory 1G --threads 1 --seconds 8", Must::Do("operations")),
    (ARM, "--program stale --cpus 4 --memory 256M --mechanism broadcast,all --seconds 8", Must::Broadcast("operations")),
    // With ASIDs of four bits there are three or four more than `stale` has processes, so the ASIDs that its forks give
    // back are all there are after some hundred operations. With two bits most of the spaces share an ASID.
    (ARM, "--program stale --cpus 4 --memory 256M --mechanism broadcast --asid-bits 4 --seconds 24", Must::Broadcast("broadcasts_everything")),
    (ARM, "--program stale --cpus 4 --memory 256M --mechanism all --asid-bits 2 --errata repeated --seconds 4", Must::Broadcast("operations")),
    (ARM, "--program stale --cpus 4 --memory 256M --mechanism all --errata both --seconds 4", Must::Do("operations")),
];

/// Seconds from a program's first instruction within which a machine without flushes should be caught. This also depends
/// on the load of the host, so a longer time is only reported.
const CAUGHT: f64 = 5.0;
/// Seconds within which few CPUs should boot. A longer boot is only reported too.
const BOOT: f64 = 3.0;
const FEW_CPUS: u64 = 8;

/// Makes all runs. Fails if any outcome is not the expected one. Is inconclusive if some run was, and none failed.
pub(super) fn run(options: &Options, builds: &[(Arch, Builds)]) -> Result<(), Failure> {
    let mut reports = Vec::new();
    let (mut wrong, mut inconclusive) = (Vec::new(), Vec::new());
    let cases = |arch| CASES.iter().filter(move |(on, ..)| on.contains(&arch));
    let all =
        builds.iter().flat_map(|(arch, builds)| cases(*arch).map(move |case| (arch.name, builds, case)));
    for (arch, builds, (_, line, must)) in all {
        let own: Options = crate::parse(&format!("{line} --arch {arch}"))?;
        let images = if own.chosen.without.is_some() { &builds.sabotaged } else { &builds.guarded };
        let first = reports.len();
        for run in own.runs()? {
            let mut said = Vec::new();
            let report = boot_once(options.emulator(run.arch), images, run, &|| false, &mut |line| {
                said.push(line.to_owned());
            })?;
            let unmet = must.unmet(&report, &said);
            println!("{}", line_of(&report, must, unmet.as_deref()));
            if let Some(unmet) = unmet {
                for line in &said {
                    println!("{line}");
                }
                if report.ending.is_inconclusive() {
                    inconclusive.push(format!("{arch} {}", report.line()));
                } else {
                    wrong.push(format!("{arch} {run} {unmet}"));
                }
            }
            reports.push(report);
        }
        if let Must::Save(_, most) = must {
            // An outcome that is not the expected one is known already.
            for pair in reports[first..].windows(2).filter(|pair| pair.iter().all(Report::is_done)) {
                let (words, is_met) = saved(&pair[0], &pair[1], *most);
                println!("{words}");
                wrong.extend((!is_met).then_some(words));
            }
        }
    }
    println!("\n{}", summary::format(&reports));
    let all = [wrong.as_slice(), &inconclusive].concat().join("; ");
    ensure!(wrong.is_empty(), new, "not as expected: {all}");
    ensure!(inconclusive.is_empty(), inconclusive, "{all}");
    Ok(())
}

/// A run in a line: whether it is as expected, how long it took, its verdict, and warnings.
fn line_of(report: &Report, must: &Must, unmet: Option<&str>) -> String {
    let (arch, cpus) = (report.run.arch.name, report.run.cpus);
    let boot = report.boot_s().filter(|seconds| cpus <= FEW_CPUS && *seconds >= BOOT);
    let mut warnings = boot.map_or_else(String::new, |seconds| warning("boot", seconds, BOOT));
    if let (Must::BeCaught(within), Some(seconds)) = (must, report.caught_s()) {
        if seconds >= *within {
            warnings += &warning("notice", seconds, *within);
        }
    }
    let unsure = report.ending.is_inconclusive();
    let word = unmet.map_or("ok", |_| if unsure { "OPEN" } else { "WRONG" });
    let unmet = unmet.map_or_else(String::new, |unmet| format!(": {unmet}"));
    let (wall, line) = (report.record.wall.as_secs_f64(), report.line());
    format!("{word:5} {wall:5.1} s  on {cpus:2} {arch} CPUs, {line}{unmet}{warnings}")
}

fn warning(what: &str, seconds: f64, most: f64) -> String {
    format!(" (warning: the {what} took {seconds:.1} s, it should be less than {most} s)")
}

impl Must {
    /// The expectation that a run did not meet; `said` is the kernel's output.
    fn unmet(&self, report: &Report, said: &[String]) -> Option<String> {
        let some = |name: &str| report.number(name).is_some_and(|number| number > 0.0);
        let (is_met, words) = match self {
            Self::Do(_) | Self::Save(..) | Self::Broadcast(_) if !report.is_done() => {
                (false, "must end well".to_owned())
            }
            Self::Broadcast(count) => (
                some("broadcasts") && some(count) && report.number("interrupts") == Some(0.0),
                format!("must have some {count} and broadcasts, and no interrupts"),
            ),
            Self::Do(count) | Self::Save(count, _) => (some(count), format!("must have some {count}")),
            Self::BeCaught(_) => (
                matches!(report.ending, Ending::Broken | Ending::Fault),
                "must be caught, and not by a watchdog".to_owned(),
            ),
            Self::Fail(ending, kind) => {
                let failed = report.record.failed.as_deref().is_some_and(|failed| failed.starts_with(kind));
                if failed && report.ending == *ending {
                    return silent_cpu(report, said);
                }
                (false, format!("must fail with `FAILED {kind}...` ({})", ending.words()))
            }
        };
        (!is_met).then_some(words)
    }
}

/// The first CPU without registers in the output, or the lack of events.
fn silent_cpu(report: &Report, said: &[String]) -> Option<String> {
    let is_of = |line: &str, cpu| {
        line.strip_prefix(&format!("CPU {cpu}")).is_some_and(|rest| rest.starts_with([',', ' ']))
    };
    let registers = report.run.arch.registers;
    let has_registers =
        |cpu| said.windows(2).any(|lines| is_of(&lines[0], cpu) && lines[1].starts_with(registers));
    if let Some(cpu) = (0..report.run.cpus).find(|&cpu| !has_registers(cpu)) {
        return Some(format!("must print the registers of CPU {cpu}"));
    }
    // Such as `       0.047579116 loaded 0x1c0d000 0x0`.
    let is_event = |line: &String| {
        let time = line.strip_prefix("  ").and_then(|event| event.split_whitespace().next());
        time.is_some_and(|time| time.parse::<f64>().is_ok())
    };
    (!said.iter().any(is_event)).then(|| "must print the last events of the CPUs".to_owned())
}

/// The part of the interrupts of the run `before` that this run takes, in words, and whether it is small enough.
fn saved(before: &Report, report: &Report, most: f64) -> (String, bool) {
    let interrupts = |report: &Report| summary::per_operation(|name| report.number(name), "interrupts");
    let ratio = interrupts(report).zip(interrupts(before)).map(|(now, before)| now / before);
    let found = ratio.map_or_else(|| "an unknown part".to_owned(), |ratio| format!("{ratio:.4}"));
    let words = format!(
        "{} takes {found} of the interrupts of {}, at most {most}",
        report.run, before.run.kernel.mechanism
    );
    (words, ratio.is_some_and(|ratio| ratio <= most))
}

#[cfg(test)]
mod tests {
    use super::super::build::Images;
    use std::time::Duration;

    use super::super::testing::Script;
    use super::super::watch::Record;
    use super::*;

    /// A machine on which every outcome is as expected. The kernel's command line is its last argument.
    const GOOD: &str = r#"
        for told; do :; done
        cpus() {
            for cpu in 0 1 2 3; do
                echo "CPU $cpu, idle"
                echo "$registers 0x10 cs 0x8"
                echo "       0.047579116 loaded 0x1c0d000 0x0"
            done
        }
        echo USER
        case "$*" in
        *virt*) registers=pc ;;
        *) registers=rip ;;
        esac
        case $told in
        *program=panic*) echo 'FAILED kernel: panicked'; cpus; exit 37 ;;
        *program=fault*) echo 'FAILED program: a load'; cpus; exit 37 ;;
        *program=hang*) echo 'FAILED hang: no progress'; cpus; exit 39 ;;
        *program=lockup*) echo 'FAILED hang: CPU 3 took no tick'; cpus; exit 39 ;;
        *mechanism=none*) echo 'FAILED rule: stale read'; exit 35 ;;
        *without=slot*) echo 'FAILED rule: old read'; exit 35 ;;
        *without=kernel-flush*) echo 'FAILED rule: lost write'; exit 35 ;;
        *mechanism=per-page*) interrupts=1000 ;;
        *mechanism=lazy*) interrupts=2 ;;
        *mechanism=broadcast* | *mechanism=all*) interrupts=0 ;;
        *) interrupts=10 ;;
        esac
        counts='"pages_reclaimed":5,"pages_migrated":5,"broadcasts":3,"broadcasts_everything":1'
        echo "RESULT {\"operations\":10,\"interrupts\":$interrupts,$counts}"
        exit 33"#;

    /// The check of that machine with `from` replaced by `to`.
    fn checked(from: &str, to: &str) -> Result<(), Failure> {
        assert!(GOOD.contains(from), "{from}");
        let script = Script::new(&GOOD.replace(from, to));
        let mut results = arch::ALL.iter().map(|arch| {
            let line = format!("--check --arch {} --qemu {}", arch.name, script.path());
            let images = |kernel: &str| Images { kernel: kernel.into(), programs: "programs".into() };
            let builds = Builds { guarded: images("kernel"), sabotaged: images("sabotaged") };
            run(&crate::parse(&line).unwrap(), &[(*arch, builds)])
        });
        results.try_for_each(|result| result)
    }

    #[test]
    fn a_good_machine_passes() {
        checked("USER", "USER").unwrap();
    }

    #[test]
    fn a_run_that_does_not_end_as_it_must_is_named() {
        let result = "echo 'RESULT {\"operations\":1}'; exit 33";
        #[rustfmt::skip]
        let wrong = [
            ("echo 'FAILED rule: stale read'; exit 35", result, "stale none must be caught, and not by a watchdog"),
            ("stale read'; exit 35", "stale read'; exit 39", "stale none must be caught"),
            ("echo 'FAILED rule: old read'; exit 35", result, "stale lazy without slot must be caught"),
            ("echo 'FAILED rule: lost write'; exit 35", result, "stale batched without kernel-flush must be caught"),
            ("echo 'FAILED program: a load'; cpus; exit 37", result, "fault batched must fail with `FAILED program: ...` (panic or fault)"),
            ("kernel: panicked", "program: a load", "panic batched must fail with `FAILED kernel: ...`"),
            ("no progress'; cpus; exit 39", "no progress'; exit 39", "hang batched must print the registers of CPU 0"),
            ("0 1 2 3", "0 1 2", "must print the registers of CPU 3"),
            ("echo \"       0.0", "echo \"at 0.0", "must print the last events of the CPUs"),
            ("exit 33", "exit 35", "hello batched must end well"),
            ("pages_reclaimed\":5", "pages_reclaimed\":0", "mmap-read batched must have some pages_reclaimed"),
            ("pages_migrated", "pages", "migrate per-page must have some pages_migrated"),
            ("interrupts=10 ", "interrupts=16 ", "migrate batched takes 0.0160 of the interrupts of per-page"),
            ("interrupts=2 ", "interrupts=6 ", "mmap-read lazy takes 0.6000 of the interrupts of batched"),
            ("interrupts=0 ", "interrupts=1 ", "aarch64 migrate broadcast must have some pages_migrated and broadcasts"),
            ("broadcasts\":3", "broadcasts\":0", "aarch64 migrate broadcast must have some pages_migrated and broadcasts"),
            ("broadcasts_everything\":1", "broadcasts_everything\":0", "aarch64 stale broadcast must have some broadcasts_everything"),
            ("\\\"interrupts\\\":$interrupts,", "", "mmap-read batched takes an unknown part of the interrupts"),
        ];
        for (from, to, expected) in wrong {
            let failure = checked(from, to).expect_err(expected);
            assert_eq!(failure.code(), 1);
            assert!(failure.to_string().contains(expected), "{failure}");
        }
    }

    #[test]
    fn a_slow_boot_and_a_late_notice_are_only_warnings() {
        let warned = |line, ending, boot, wall, must: Must| {
            let [boot, wall] = [boot, wall].map(Duration::from_secs);
            let result = Some("{\"operations\":1}".to_owned());
            let record = Record { ending, result, boot: Some(boot), wall, ..Record::new() };
            let report = Report::new(super::super::options::tests::run(line), record);
            assert_eq!(must.unmet(&report, &[]), None);
            line_of(&report, &must, None)
        };
        assert_eq!(
            warned("--program hello", Ending::Done, 3, 4, Must::Do("operations")),
            "ok      4.0 s  on  8 x86_64 CPUs, hello batched: done (warning: the boot took 3.0 s, it should be less than 3 s)"
        );
        assert_eq!(
            warned("--mechanism none", Ending::Broken, 1, 7, Must::BeCaught(5.0)),
            "ok      7.0 s  on  8 x86_64 CPUs, stale none: caught after 6.0 s (warning: the notice took 6.0 s, it should be less than 5 s)"
        );
    }

    #[test]
    fn an_inconclusive_run_is_no_failure_unless_another_is() {
        let inconclusive = "echo 'INCONCLUSIVE stale/sync made nothing'; exit 43";
        let failure = checked("echo 'FAILED rule: stale read'; exit 35", inconclusive).unwrap_err();
        assert_eq!(failure.code(), 3);
        assert!(failure.to_string().contains("x86_64 stale none: inconclusive"), "{failure}");
        assert!(failure.to_string().ends_with("(stale/sync made nothing)"), "{failure}");
        let and_a_failure = format!("{inconclusive} ;;\n*without=slot*) exit 0");
        let failure = checked("echo 'FAILED rule: stale read'; exit 35", &and_a_failure).unwrap_err();
        assert_eq!(failure.code(), 1);
    }
}
