//! `cargo xtask adopt ostd`: ostd, a framework for kernels that others wrote, on this project's engine.
//!
//! ostd is fetched from the registry in the version that `ports/ostd` is for. Our files are laid over its own, and a few
//! lines are edited. Then its own tests run in QEMU, without KVM, on x86-64 or riscv64, or in Bochs, which has PCIDs; or
//! `rounds` counts what unmaps cost, beside ostd as it is published.
//!
//! `edits` changes lines of another project, `port` makes a copy of ostd, `runner` judges its tests, `rounds` and
//! `conformance` compare two copies.

mod conformance;
mod edits;
mod port;
mod rounds;
mod runner;

use std::path::Path;

use clap::value_parser;

use crate::failure::{self, ensure, Failure};
use crate::one_of;
use port::{Arch, Layer, Ostd, Run, RISCV64, X86_64};

/// The kernel of others.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Options {
    /// ostd: its own tests and our probes on the engine, or one of the comparisons.
    Ostd(Choice),
}

/// What runs, and where.
#[derive(Debug, clap::Parser)]
pub(crate) struct Choice {
    #[command(flatten)]
    what: What,
    #[arg(long, default_value = "x86_64", value_parser = one_of(Arch::ALL, |arch| arch.name))]
    arch: Arch,
    /// On processors with PCIDs; needs Debian's `bochs` and more, which it names.
    #[arg(long)]
    bochs: bool,
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u32).range(1..=64))]
    cpus: u32,
}

#[derive(Debug, clap::Args)]
#[group(multiple = false)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option, and at most one is given")]
struct What {
    /// The tests on ostd as it is published.
    #[arg(long)]
    stock: bool,
    /// Counts interrupts of unmaps, without and with the engine.
    #[arg(long)]
    rounds: bool,
    /// Counts instructions of a flush, without and with the engine; `x86_64` alone.
    #[arg(long)]
    instructions: bool,
    /// Runs the scenarios of `ceasefire-conformance`, without and with the engine.
    #[arg(long)]
    conformance: bool,
    /// The same on the engine without a guard, which must be missed; `x86_64` alone.
    #[arg(long, value_name = "GUARD")]
    without: Option<String>,
}

impl Choice {
    fn check(&self) -> Result<(), Failure> {
        let Self { what, arch, bochs, .. } = self;
        let on_riscv = *arch == RISCV64;
        ensure!(
            !what.instructions || !on_riscv,
            usage,
            "`--instructions` is for x86_64: the clock of riscv64 does not count instructions"
        );
        ensure!(
            what.without.is_none() || !on_riscv,
            usage,
            "`--without` is for x86_64: QEMU 7.2 hides what riscv64 does without most guards"
        );
        ensure!(!bochs || !on_riscv, usage, "`--bochs` is for x86_64");
        let counts = what.rounds || what.instructions;
        ensure!(!bochs || !counts, usage, "`--bochs` is for tests, `--conformance` and `--without`");
        Ok(())
    }
}

pub(crate) fn run(Options::Ostd(choice): &Options) -> Result<(), Failure> {
    choice.check()?;
    let Choice { what, arch, bochs, cpus } = choice;
    let ostd = Ostd::fetch(*arch, *bochs)?;
    if let Some(guard) = &what.without {
        conformance::without(&ostd, *cpus, guard)
    } else if what.rounds {
        rounds::compare(&ostd, *cpus)
    } else if what.instructions {
        rounds::instructions(&ostd, *cpus)
    } else if what.conformance {
        conformance::compare(&ostd, *cpus)
    } else {
        tests(&ostd, if what.stock { &[port::PROBES] } else { &[port::ENGINE, port::PROBES] }, *cpus)
    }
}

/// The CPUs of a run that another task watches. ostd has a thousand ticks a second; more CPUs than processors, each much slower
/// than a machine's, would have time for nothing else.
const WATCHED: u32 = 2;

/// ostd for another task, which watches it on emulators of its own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Watched {
    /// The tests on ostd as it is published, and our probes.
    Published,
    /// The same on the engine.
    Engine,
    /// The scenarios of `ceasefire-conformance` on the engine without this guard.
    Without(&'static str),
}

/// Runs it on x86-64.
pub(crate) fn watched(what: Watched, emulators: &Path) -> Result<(), Failure> {
    let mut ostd = Ostd::fetch(X86_64, false)?;
    ostd.emulators = Some(emulators.to_owned());
    match what {
        Watched::Published => tests(&ostd, &[port::PROBES], WATCHED),
        Watched::Engine => tests(&ostd, &[port::ENGINE, port::PROBES], WATCHED),
        Watched::Without(guard) => conformance::without(&ostd, WATCHED, guard),
    }
}

/// Runs ostd's tests on a copy with these layers.
fn tests(ostd: &Ostd, layers: &[Layer], cpus: u32) -> Result<(), Failure> {
    let folder = ostd.lay_out(layers)?;
    runner::run(&mut ostd.osdk(&folder, &Run::new("test", layers, cpus))?, ostd.arch)
}

/// What a kernel of ours printed, line by line, each after its name. The last line must be `end`.
fn lines<'a>(output: &'a str, kernel: &str) -> Result<Vec<&'a str>, Failure> {
    let own = |line: &'a str| line.trim().strip_prefix(kernel)?.strip_prefix(": ");
    let lines: Vec<&str> = output.lines().filter_map(own).collect();
    let end = failure::last_lines(output, 12);
    ensure!(lines.last() == Some(&"end"), new, "the kernel did not end; its last lines:\n{end}");
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_choices_need_an_architecture() {
        let check = |line| crate::parse::<Choice>(line).and_then(|choice| choice.check());
        for right in ["", "--cpus 8 --stock", "--arch riscv64 --conformance", "--bochs --without others"] {
            check(right).expect(right);
        }
        for wrong in [
            "--instructions --arch riscv64",
            "--arch riscv64 --without others",
            "--arch riscv64 --bochs",
            "--bochs --rounds",
            "--stock --rounds",
        ] {
            assert_eq!(check(wrong).expect_err(wrong).code(), 2, "{wrong}");
        }
    }

    #[test]
    fn a_kernel_that_did_not_end_is_a_failure() {
        assert_eq!(lines("noise\r\nrounds: a\r\n rounds: end\r\nnoise", "rounds").unwrap(), ["a", "end"]);
        for output in ["rounds: a\npanicked\n", "conformance: end\npanicked"] {
            let failure = lines(output, "rounds").expect_err("no end");
            assert!(failure.to_string().trim_end().ends_with("panicked"), "{failure}");
        }
    }
}
