//! `cargo xtask kernel`: builds the kernel and its programs, boots them on QEMU, and shows their reports.
//!
//! `options` is the command line. `build` makes the images. `qemu` makes the
//! emulator's command line, and `arch` holds the parts that depend on the architecture. `watch` supervises a run by its
//! output, which `protocol` reads, and by its processor time. `symbols` names the functions in the report of a failure.
//! `report` is the outcome of one run, `summary` the table of all. `simulate` makes the same run on the simulator.
//! `check` makes the runs of CI.

mod arch;
pub(crate) mod build;
mod check;
mod options;
mod protocol;
mod qemu;
mod report;
mod simulate;
mod summary;
mod symbols;
#[cfg(test)]
mod testing;
mod watch;

use std::cell::LazyCell;
use std::process::Command;

use crate::failure::{ensure, Failure};
use crate::workspace::Workspace;
use arch::Arch;
use build::{Builds, Images};
pub(crate) use options::Options;
use options::Run;
pub(crate) use protocol::Ending;
use protocol::Line;
use report::Report;
use symbols::Symbols;
use watch::Limits;

/// Seconds of processor time that QEMU may use for each CPU without a sign of life.
const SILENCE: u64 = 30;

/// Builds, boots and shows. Fails if any run did.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let architectures = options.architectures()?;
    let runs = options.runs()?;
    for &arch in &architectures {
        qemu::check(options.qemu(arch), arch)?;
    }
    let workspace = Workspace::load()?;
    if options.check {
        let built = architectures.into_iter().map(|arch| Ok((arch, build::build_both(&workspace, arch)?)));
        return check::run(options, &built.collect::<Result<Vec<_>, Failure>>()?);
    }
    let images = build::build(&workspace, architectures[0], options.chosen.without.is_some())?;
    let mut reports = boot(options, &images, runs)?;
    let simulated = if options.chosen.compare { simulate(&workspace, &mut reports) } else { Ok(()) };
    println!("\n{}", summary::format(&reports));
    // A broken rule matters more than a missing comparison.
    verdict(&reports).and(simulated)
}

/// Makes every run, even after one that failed.
fn boot(options: &Options, images: &Images, runs: Vec<Run>) -> Result<Vec<Report>, Failure> {
    let mut reports = Vec::new();
    for run in runs {
        eprintln!("==> {run} on {} {} CPUs", run.cpus, run.arch.name);
        let report =
            boot_once(options.emulator(run.arch), images, run, &|| false, &mut |line| println!("{line}"))?;
        println!("{}", report.line());
        reports.push(report);
    }
    Ok(reports)
}

/// Makes one run on an emulator until it ends or `is_over`, and passes the kernel's output to `say`.
fn boot_once(
    emulator: Command,
    images: &Images,
    run: Run,
    is_over: &dyn Fn() -> bool,
    say: &mut dyn FnMut(&str),
) -> Result<Report, Failure> {
    let limits = Limits { silence: SILENCE * run.cpus, whole: run.timeout };
    let mut command = qemu::command(emulator, images, &run);
    let symbols = LazyCell::new(|| Symbols::read(images));
    let mut has_failed = false;
    let mut say = |line: &str| {
        has_failed |= matches!(Line::read(line), Line::Failed(_));
        if has_failed {
            say(&symbols.explain(line));
        } else {
            say(line);
        }
    };
    let mut record = watch::watch(&mut command, limits, is_over, &mut say)?;
    record.failed = record.failed.map(|failed| symbols.explain(&failed));
    Ok(Report::new(run, record))
}

/// The kernel for runs that another task watches.
pub(crate) struct Watched {
    arch: Arch,
    builds: Builds,
}

impl Watched {
    /// Builds it for each architecture.
    pub(crate) fn build_all(workspace: &Workspace) -> Result<Vec<Self>, Failure> {
        let build = |&arch| Ok(Self { arch, builds: build::build_both(workspace, arch)? });
        arch::ALL.iter().map(build).collect()
    }

    /// The architecture's name.
    pub(crate) fn arch(&self) -> &'static str {
        self.arch.name
    }

    /// Makes the run of a line on an emulator, until it ends or `is_over`. Returns how it ended, and the same in words with
    /// the kernel's reasons.
    pub(crate) fn boot(
        &self,
        line: &str,
        emulator: Command,
        is_over: &dyn Fn() -> bool,
    ) -> Result<(Ending, String), Failure> {
        let options: Options = crate::parse(&format!("{line} --arch {}", self.arch.name))?;
        let images =
            if options.chosen.without.is_some() { &self.builds.sabotaged } else { &self.builds.guarded };
        let run = options.runs()?[0];
        let report = boot_once(emulator, images, run, is_over, &mut |_| ())?;
        Ok((report.ending.clone(), report.line()))
    }
}

/// Makes every run that ended well on the simulator too.
fn simulate(workspace: &Workspace, reports: &mut [Report]) -> Result<(), Failure> {
    for report in reports.iter_mut().filter(|report| report.is_done()) {
        let frames = report.number("frames").filter(|frames| *frames > 0.0);
        let frames = frames.ok_or_else(|| Failure::new("the kernel's RESULT lacks the number of frames"))?;
        report.simulated = Some(simulate::simulate(workspace, &report.run, frames as u64)?);
    }
    Ok(())
}

/// Fails if any run did. Is inconclusive if some run was, and none failed.
fn verdict(reports: &[Report]) -> Result<(), Failure> {
    let wrong: Vec<&Report> = reports.iter().filter(|report| !report.is_done()).collect();
    let lines = wrong.iter().map(|report| report.line()).collect::<Vec<_>>().join("; ");
    let words = format!("{} of {} runs did not end as they should: {lines}", wrong.len(), reports.len());
    let is_failed = wrong.iter().any(|report| !report.ending.is_inconclusive());
    ensure!(!is_failed, new, "{words}");
    ensure!(wrong.is_empty(), inconclusive, "{words}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::testing::Script;
    use super::*;

    /// Boots a script in QEMU's place.
    fn boot_script(script: &Script, line: &str) -> Vec<Report> {
        let options: Options = crate::parse(&format!("{line} --qemu {}", script.path())).unwrap();
        let images = Images { kernel: "kernel".into(), programs: "programs".into() };
        boot(&options, &images, options.runs().unwrap()).unwrap()
    }

    #[test]
    fn every_run_is_made_and_one_that_fails_is_named() {
        // The kernel's command line is its last argument.
        let script = Script::new(
            "for told; do :; done\n\
             echo USER\n\
             case $told in\n\
             *mechanism=none*) echo 'FAILED stale read: at 0x1000'; exit 35 ;;\n\
             *) echo 'RESULT {\"program\":\"stale\",\"cpus\":4,\"operations\":6,\"interrupts\":3}'; exit 33 ;;\n\
             esac",
        );
        let reports = boot_script(&script, "--cpus 4 --mechanism none,batched");
        assert_eq!(
            reports.iter().map(|report| &report.ending).collect::<Vec<_>>(),
            [&Ending::Broken, &Ending::Done]
        );
        let failure = verdict(&reports).unwrap_err();
        assert_eq!(failure.code(), 1);
        let message = failure.to_string();
        assert!(message.starts_with("1 of 2 runs did not end as they should: stale none: caught after "));
        assert!(message.ends_with(" s (stale read: at 0x1000)"), "{message}");
        assert_eq!(reports[1].number("interrupts"), Some(3.0));
        assert!(verdict(&reports[1..]).is_ok());
    }

    #[test]
    fn a_run_that_never_ends_is_given_up() {
        let script = Script::new("exec tail -f /dev/null");
        let reports = boot_script(&script, "--program hang --timeout 1");
        assert_eq!(reports[0].ending, Ending::NoBoot(1));
        let failure = verdict(&reports).unwrap_err();
        assert_eq!(failure.code(), 3);
        let expected = "hang batched: inconclusive: no program had begun after 1 s, and QEMU was ended";
        assert!(failure.to_string().ends_with(expected), "{failure}");
    }

    #[test]
    fn too_little_work_is_neither_success_nor_failure() {
        let script = Script::new(
            "for told; do :; done\n\
             echo USER\n\
             case $told in\n\
             *mechanism=lazy*) echo 'INCONCLUSIVE stale/reclaim made nothing'; exit 43 ;;\n\
             *mechanism=per-page*) echo 'FAILED rule: stale read'; exit 35 ;;\n\
             esac",
        );
        let reports = boot_script(&script, "--mechanism lazy");
        let failure = verdict(&reports).unwrap_err();
        assert_eq!(failure.code(), 3);
        let expected =
            "1 of 1 runs did not end as they should: stale lazy: inconclusive: not enough was tested in \
             time (stale/reclaim made nothing)";
        assert_eq!(failure.to_string(), expected);
        // A failure counts more.
        let reports = boot_script(&script, "--mechanism lazy,per-page");
        assert_eq!(verdict(&reports).unwrap_err().code(), 1);
    }

    #[test]
    fn a_report_of_a_failure_names_functions() {
        let own = std::env::current_exe().unwrap();
        let images = Images { kernel: own, programs: "programs".into() };
        let anywhere = Symbols::read(&images).first().expect("a function");
        let script = Script::new(&format!(
            "echo 'rip {anywhere:#x}'; echo 'FAILED kernel: panicked at {anywhere:#x}'; echo 'rip {anywhere:#x}'; exit 37"
        ));
        let options: Options = crate::parse(&format!("--qemu {}", script.path())).unwrap();
        let mut said = Vec::new();
        let runs = options.runs().unwrap();
        let emulator = options.emulator(runs[0].arch);
        let mut say = |line: &str| said.push(line.to_owned());
        let report = boot_once(emulator, &images, runs[0], &|| false, &mut say).unwrap();
        let is_explained = |line: &String| line.ends_with("+0x0>");
        assert_eq!(said.iter().map(is_explained).collect::<Vec<_>>(), [false, true, true], "{said:?}");
        assert!(report.record.failed.as_ref().is_some_and(is_explained), "{:?}", report.record.failed);
    }

    #[test]
    fn without_a_qemu_nothing_is_built() {
        let failure = super::run(&crate::parse("--qemu no-such-program-anywhere").unwrap()).unwrap_err();
        assert!(failure.to_string().contains("qemu-system-x86"), "{failure}");
    }
}
