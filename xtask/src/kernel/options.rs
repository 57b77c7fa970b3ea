//! The command line: every option has its bounds, and nothing is built before all of them hold.

use std::fmt;
use std::process::Command;

use ceasefire::{Bounds, Payment};
use ceasefire_kernel_abi::options::{Faults, Mechanism, Options as Kernel, Without};
use ceasefire_kernel_abi::sizes::{DEVICES, PAGE};
use ceasefire_kernel_abi::{CREW, MAX_AGE, PROGRAMS, SCENARIOS, TICK};
use clap::{value_parser, Args, Parser};

use super::arch::{self, Arch, X86_64};
use crate::failure::{ensure, Failure};
use crate::one_of;

/// The programs and mechanisms of `--compare`, and its default: those that the simulator has too.
const COMPARED_PROGRAMS: &[&str] = &["mmap-read", "migrate"];
const COMPARED_MECHANISMS: &[Mechanism] = &[Mechanism::PerPage, Mechanism::Batched];

/// Programs that measure for a given number of seconds.
const MEASURING: &[&str] = &["migrate", "stale", "conformance"];

pub(super) const MIB: u64 = 1 << 20;
/// The most memory: it must be one range, below the hole that PCI devices have in the first 4 GiB.
const MOST_MEMORY: u64 = 2 << 30;
pub(super) const MOST_CPUS: u64 = 64;
/// The most readers of a scenario of `stale`.
const READERS: u64 = 16;
const DAY: u64 = 86_400;
/// Seconds for each CPU in the bound of a run, where few processors emulate many CPUs.
const FOR_CPU: u64 = 15;
/// As many CPUs are counted at least.
const FEW_CPUS: u64 = 8;

/// The options on the command line.
#[derive(Debug, Parser)]
#[command(
    after_help = "Exit status: 1 after a failure, 2 for wrong options, 3 if nothing failed, but a run could not test \
                  enough in time."
)]
pub(crate) struct Options {
    /// The architecture: `x86_64` if none is named, and both for --check.
    #[arg(long, value_name = "NAME", value_parser = one_of(arch::ALL, |arch| arch.name))]
    arch: Option<Arch>,
    /// Another QEMU than that of the search path.
    #[arg(long, value_name = "PATH")]
    qemu: Option<String>,
    /// The runs of CI: every program and mechanism, mostly on 4 CPUs; some must fail. Takes --arch, and --qemu with --arch,
    /// alone.
    #[arg(long, conflicts_with = "Chosen")]
    pub(super) check: bool,
    #[command(flatten)]
    pub(super) chosen: Chosen,
}

/// The options of chosen runs.
#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Chosen {
    /// The programs, with commas; one run after the other [default: stale].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = one_of(PROGRAMS, |name| name))]
    program: Vec<&'static str>,
    /// The mechanisms, with commas; each program runs with each. `none` flushes nothing, to be caught [default: batched].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = one_of(Mechanism::ALL, |mechanism| mechanism.name()))]
    mechanism: Vec<Mechanism>,
    /// The age in milliseconds that debts of lazy and all may reach, 20 to 1000; 0: no debts.
    #[arg(long, value_name = "MS", default_value_t = MAX_AGE, value_parser = value_parser!(u64).range(0..=DAY))]
    max_age: u64,
    /// A guard that the mechanism is left without, to be caught.
    #[arg(long, value_name = "GUARD", value_parser = one_of(Without::ALL, |guard| guard.name()))]
    pub(super) without: Option<Without>,
    /// The scenarios of `stale` that run, with commas [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = one_of(SCENARIOS, |name| name))]
    scenarios: Vec<&'static str>,
    /// Flushes of kernel ranges wait while a CPU runs a program.
    #[arg(long)]
    undisturbed: bool,
    /// `stale` goes on after what a stale translation showed, for a run that others watch, as `cargo xtask sanitize` does.
    #[arg(long)]
    unchecked: bool,
    /// mmap-read and migrate, per-page and batched, beside the simulator.
    #[arg(long)]
    pub(super) compare: bool,
    /// CPUs, 1 to 64.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = value_parser!(u64).range(1..=MOST_CPUS))]
    cpus: u64,
    /// Nodes, 1 to 8, at most one for each CPU [default: 2, or 1 for one CPU].
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=8))]
    nodes: Option<u64>,
    /// Memory, such as 512M or 2G, which is the most.
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = size)]
    memory: u64,
    /// How long stale, migrate and conformance measure; stale goes on until each scenario has done its least work.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = value_parser!(u64).range(1..=DAY))]
    seconds: u64,
    /// The seed of random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Readers of each scenario of stale [default: 2; at most 16], readers of mmap-read [one for each CPU], threads of
    /// migrate [one for each CPU of the first node].
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=1024))]
    threads: Option<u64>,
    /// Pages of all files of mmap-read [default: ten times the frames], the range of migrate [an eighth of them].
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..=u64::from(u32::MAX)))]
    pages: Option<u64>,
    /// Pages of swap; with 0 stale has a quarter of its device, and others have none.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = value_parser!(u32).range(0..=1 << 22))]
    swap: u32,
    /// The bits of the ASIDs that broadcast and all use, 2 to 16 [default: all there are]. Up to 8 the processor has 8
    /// bits, and the kernel uses so many of them.
    #[arg(long, value_name = "N", value_parser = value_parser!(u32).range(2..=16))]
    asid_bits: Option<u32>,
    /// Faults of broadcasts that broadcast and all work around, beside those of the processor.
    #[arg(long, value_name = "NAME", default_value_t = Faults::None, value_parser = one_of(Faults::ALL, |faults| faults.name()))]
    errata: Faults,
    /// Threads that may stay on one CPU do.
    #[arg(long)]
    pinned: bool,
    /// When a run is given up as inconclusive [default: three times its seconds and 15 s for each CPU, at least for eight;
    /// for mmap-read and migrate ten minutes more than their seconds]. stale ends halfway between --seconds and this.
    #[arg(long, value_name = "S", value_parser = value_parser!(u64).range(1..=DAY))]
    timeout: Option<u64>,
}

/// An amount of memory, in bytes. Its bounds depend on the CPUs.
fn size(text: &str) -> Result<u64, &'static str> {
    let parsed = [('M', MIB), ('G', MIB << 10)]
        .into_iter()
        .find_map(|(unit, bytes)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(bytes));
    parsed.ok_or("not a size such as 512M or 1G")
}

/// One run: the machine, and the kernel's options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) arch: Arch,
    pub(super) cpus: u64,
    /// In bytes; whole MiB.
    pub(super) memory: u64,
    /// Whether the emulator counts instructions, derives time from them, and lets the CPUs run in turns.
    pub(super) counted: bool,
    /// Seconds after which it is given up.
    pub(super) timeout: u64,
    pub(super) kernel: Kernel,
}

impl Run {
    /// Whether a rule must be broken, so that the run must be caught.
    pub(super) fn must_be_caught(&self) -> bool {
        self.kernel.mechanism == Mechanism::None || self.kernel.without.is_some()
    }

    /// The mechanism and the missing guard, in words.
    pub(super) fn how(&self) -> String {
        let without = self.kernel.without.map_or_else(String::new, |guard| format!(" without {guard}"));
        format!("{}{without}", self.kernel.mechanism)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kernel.program, self.how())
    }
}

impl Options {
    /// The emulator of an architecture.
    pub(super) fn qemu(&self, arch: Arch) -> &str {
        self.qemu.as_deref().unwrap_or(arch.qemu)
    }

    /// The command of that emulator.
    pub(super) fn emulator(&self, arch: Arch) -> Command {
        Command::new(self.qemu(arch))
    }

    /// The architectures that the kernel is built for.
    pub(super) fn architectures(&self) -> Result<Vec<Arch>, Failure> {
        let both = self.check && self.arch.is_none();
        ensure!(!both || self.qemu.is_none(), usage, "--check: with --qemu, name its --arch too");
        Ok(if both { arch::ALL.to_vec() } else { vec![self.arch.unwrap_or(X86_64)] })
    }

    /// All runs, in order, if each of them is possible.
    pub(super) fn runs(&self) -> Result<Vec<Run>, Failure> {
        let Chosen { compare, ref program, ref mechanism, .. } = self.chosen;
        let programs = each_once(program, if compare { COMPARED_PROGRAMS } else { &["stale"] });
        let mechanisms =
            each_once(mechanism, if compare { COMPARED_MECHANISMS } else { &[Mechanism::Batched] });
        let with = |program| mechanisms.iter().map(move |&mechanism| self.run(program, mechanism));
        let runs: Vec<Run> = programs.iter().copied().flat_map(with).collect();
        runs.iter().try_for_each(|run| self.check(run))?;
        Ok(runs)
    }

    fn run(&self, program: &'static str, mechanism: Mechanism) -> Run {
        let Chosen { cpus, memory, seconds, swap, compare, .. } = self.chosen;
        let chosen = &self.chosen;
        // For a program that writes nothing of its own, the kernel's default holds no swap.
        let needs_disk = swap > 0 && program != "stale";
        let disk = if needs_disk { (DEVICES + u64::from(swap) * PAGE).div_ceil(MIB) } else { 0 };
        let is_chosen = |name| chosen.scenarios.contains(name);
        let bits = SCENARIOS.iter().enumerate().filter(|(_, name)| is_chosen(name));
        let kernel = Kernel {
            program,
            mechanism,
            without: chosen.without,
            max_age: chosen.max_age,
            asid_bits: chosen.asid_bits.unwrap_or(0),
            errata: chosen.errata,
            nodes: chosen.nodes.unwrap_or(cpus.min(2)) as usize,
            seconds,
            // It leaves as much time again for the boot and the end.
            limit: seconds + self.timeout("stale").saturating_sub(seconds) / 2,
            seed: chosen.seed,
            // The simulator's threads stay where they are.
            pinned: chosen.pinned || compare,
            undisturbed: chosen.undisturbed,
            unchecked: chosen.unchecked,
            pages: chosen.pages.unwrap_or(0),
            threads: chosen.threads.unwrap_or(0),
            scenarios: bits.fold(0, |bits, (number, _)| bits | 1 << number),
            swap,
            disk,
            // The value of the experiment of that name, for Linux 4.2.
            lru_batch: if program == "mmap-read" { 14 } else { Kernel::DEFAULT.lru_batch },
        };
        let arch = self.arch.unwrap_or(X86_64);
        Run { arch, cpus, memory, counted: compare, timeout: self.timeout(program), kernel }
    }

    /// Seconds after which a run of `program` is given up. The two experiments do a fixed amount of work before they
    /// end, or before they begin to measure, and its duration depends on the emulator.
    fn timeout(&self, program: &str) -> u64 {
        let Chosen { seconds, cpus, timeout, .. } = self.chosen;
        let expected = match program {
            _ if COMPARED_PROGRAMS.contains(&program) => seconds + 600,
            _ => seconds * 3 + FOR_CPU * cpus.max(FEW_CPUS),
        };
        timeout.unwrap_or(expected)
    }

    /// Checks the bounds that concern more than one option.
    fn check(&self, run: &Run) -> Result<(), Failure> {
        let Run { arch, cpus, memory, timeout, kernel, .. } = *run;
        let Kernel { program, mechanism, nodes, seconds, threads, max_age, asid_bits, errata, .. } = kernel;
        let most = if kernel.is_stale() { READERS } else { CREW as u64 };
        let guard = kernel.without.map_or("", |guard| guard.name());
        let age = Bounds::new(max_age * 1_000_000, TICK * 1_000_000, Payment::Free);
        let lacks = arch.lacks_broadcasts.unwrap_or_default();
        #[rustfmt::skip]
        all_hold(&[
            (nodes as u64 <= cpus, format!("--nodes {nodes}: at most one for each of {cpus} CPUs")),
            (memory <= MOST_MEMORY, format!("--memory {}M: at most {}M", memory / MIB, MOST_MEMORY / MIB)),
            (threads <= most, format!("--threads {threads}: {program} can have at most {most}")),
            (timeout > seconds || !MEASURING.contains(&program), format!("--timeout {timeout}: {program} measures for {seconds} s and needs more")),
            (nodes >= 2 || program != "migrate", "--program migrate moves pages between nodes: it needs at least 2".into()),
            (kernel.undisturbed || guard != "kernel-entry", "--without kernel-entry: only CPUs with --undisturbed have that guard".into()),
            (kernel.without.is_none_or(|guard| guard.is_of(mechanism)), format!("--without {guard}: {mechanism} has no such guard")),
            (age.is_ok(), format!("--max-age {max_age}: {}", age.err().map_or_else(String::new, |error| error.to_string()))),
            (mechanism.owes() || max_age == MAX_AGE, format!("--max-age is for lazy and all, not {mechanism}")),
            (mechanism.broadcasts() || asid_bits == 0, format!("--asid-bits is for broadcast and all, not {mechanism}")),
            (mechanism.broadcasts() || errata == Faults::None, format!("--errata is for broadcast and all, not {mechanism}")),
            (!mechanism.broadcasts() || lacks.is_empty(), format!("--mechanism {mechanism}: {lacks}")),
        ])?;
        if self.chosen.compare {
            check_compared(run)
        } else {
            Ok(())
        }
    }
}

/// Refuses a run that the simulator cannot make.
fn check_compared(Run { arch, kernel, .. }: &Run) -> Result<(), Failure> {
    let Kernel { program, mechanism, threads, pages, swap, .. } = *kernel;
    let name = arch.name;
    let has_it = COMPARED_PROGRAMS.contains(&program) && COMPARED_MECHANISMS.contains(&mechanism);
    #[rustfmt::skip]
    let rules = [
        (arch.is_simulated, format!("--compare: the simulator has no costs of {name}'s work")),
        (has_it, format!("--compare: {program} {mechanism} is not compared; only mmap-read and migrate, per-page and batched, are")),
        (threads == 0 && swap == 0, "--compare: the simulator has neither --threads nor --swap".into()),
        (pages == 0 || program == "migrate", "--compare: in the simulator mmap-read always reads ten times the memory, so --pages is for --program migrate alone".into()),
    ];
    all_hold(&rules)
}

/// Fails with the words of the first rule that does not hold.
fn all_hold(rules: &[(bool, String)]) -> Result<(), Failure> {
    rules.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, words)| Err(Failure::usage(words)))
}

/// The given values, each once, or the default.
fn each_once<T: Copy + PartialEq>(given: &[T], default: &[T]) -> Vec<T> {
    let values = if given.is_empty() { default } else { given };
    let is_first = |&(at, value): &(usize, &T)| !values[..at].contains(value);
    values.iter().enumerate().filter(is_first).map(|(_, value)| *value).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::arch::AARCH64;
    use super::*;

    fn parse(line: &str) -> Result<Options, Failure> {
        crate::parse(line)
    }

    fn runs(line: &str) -> Result<Vec<Run>, Failure> {
        let options = parse(line)?;
        options.architectures()?;
        options.runs()
    }

    /// The first run of a line.
    pub(in super::super) fn run(line: &str) -> Run {
        runs(line).unwrap()[0]
    }

    #[test]
    fn everything_has_a_default() {
        let kernel = Kernel::parse("program=stale nodes=2 limit=80").unwrap();
        let run = Run { arch: X86_64, cpus: 8, memory: 512 << 20, counted: false, timeout: 150, kernel };
        assert_eq!(runs("").unwrap(), [run]);
        assert_eq!(parse("").unwrap().qemu(X86_64), "qemu-system-x86_64");
        assert_eq!(self::run("--cpus 1").kernel.nodes, 1);
    }

    #[test]
    fn options_come_in_any_order() {
        let line = "--pages 9 --threads 3 --pinned --undisturbed --swap 7 --scenarios kernel-unmap,rewrite --seed 5 \
            --seconds 4 --nodes 3 --memory 1G --cpus 6 --qemu there --arch aarch64 --timeout 8 --mechanism lazy \
            --max-age 40 --without slot";
        let kernel = "program=stale mechanism=lazy max_age=40 nodes=3 seconds=4 limit=6 seed=5 pinned=true \
            undisturbed=true pages=9 threads=3 scenarios=524289 swap=7 without=slot";
        let run = run(line);
        let kernel = Kernel::parse(kernel).unwrap();
        assert_eq!(run, Run { arch: AARCH64, cpus: 6, memory: 1 << 30, counted: false, timeout: 8, kernel });
        let options = parse(line).unwrap();
        assert_eq!(options.qemu(AARCH64), "there");
        assert_eq!((run.to_string().as_str(), run.must_be_caught()), ("stale lazy without slot", true));
        assert!(runs("--mechanism none").unwrap().iter().all(Run::must_be_caught));
        assert!(!runs("--mechanism lazy").unwrap().iter().any(Run::must_be_caught));
    }

    #[test]
    fn each_architecture_has_its_own_mechanisms_and_a_check_is_of_both() {
        let run = run("--arch aarch64 --mechanism broadcast,all --asid-bits 8");
        assert_eq!((run.kernel.asid_bits, run.arch.qemu), (8, "qemu-system-aarch64"));
        let architectures = |line| parse(line).unwrap().architectures().unwrap();
        assert_eq!(architectures("--arch aarch64"), [run.arch]);
        assert_eq!(architectures("--check"), arch::ALL);
        assert_eq!(architectures("--check --arch x86_64"), [X86_64]);
    }

    #[test]
    fn lists_make_one_run_after_the_other() {
        let runs = runs("--program hello,stale,hello --mechanism none,batched").unwrap();
        let names: Vec<_> = runs.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["hello none", "hello batched", "stale none", "stale batched"]);
    }

    #[test]
    fn the_bound_is_named() {
        #[rustfmt::skip]
        let refusals = [
            ("--cpus 65", "65 is not in 1..=64"),
            ("--cpus 3 --nodes 4", "--nodes 4: at most one for each of 3 CPUs"),
            ("--memory 512", "not a size such as 512M or 1G"),
            ("--memory 12Q", "not a size such as 512M or 1G"),
            ("--memory 3G", "--memory 3072M: at most 2048M"),
            ("--threads 17", "--threads 17: stale can have at most 16"),
            ("--program migrate --threads 257", "--threads 257: migrate can have at most 256"),
            ("--timeout 10", "--timeout 10: stale measures for 10 s and needs more"),
            ("--check --cpus 4", "'--check' cannot be used with"),
            ("--compare --check", "'--check' cannot be used with"),
            ("--mechanism lazy --max-age 10", "ticks cannot keep debts below 10000000 ns: at least 20000000 ns, two ticks, or 0 for none"),
            ("--mechanism lazy --max-age 1001", "a debt may not stand for 1001000000 ns: at most 1000000000 ns"),
            ("--max-age 40", "--max-age is for lazy and all, not batched"),
            ("--arch aarch64 --mechanism broadcast,all --max-age 40", "--max-age is for lazy and all, not broadcast"),
            ("--asid-bits 8", "--asid-bits is for broadcast and all, not batched"),
            ("--arch aarch64 --mechanism all --asid-bits 1", "1 is not in 2..=16"),
            ("--check --qemu q", "--check: with --qemu, name its --arch too"),
            ("--mechanism lazy,none --without slot", "--without slot: none has no such guard"),
            ("--mechanism batched,none --without kernel-flush", "--without kernel-flush: none has no such guard"),
            ("--without kernel-entry", "--without kernel-entry: only CPUs with --undisturbed have that guard"),
            ("--mechanism broadcast", "--mechanism broadcast: QEMU emulates no INVLPGB"),
            ("--mechanism lazy,all", "--mechanism all: QEMU emulates no INVLPGB"),
            ("--program migrate --nodes 1", "--program migrate moves pages between nodes: it needs at least 2"),
            ("--compare --arch aarch64", "--compare: the simulator has no costs of aarch64's work"),
            ("--compare --program stale", "stale per-page is not compared"),
            ("--compare --mechanism none", "mmap-read none is not compared"),
            ("--compare --mechanism lazy", "mmap-read lazy is not compared"),
            ("--compare --swap 1", "neither --threads nor --swap"),
            ("--compare --threads 1", "neither --threads nor --swap"),
            ("--compare --pages 4096", "--program migrate alone"),
        ];
        for (line, expected) in refusals {
            let failure = runs(line).expect_err(line);
            assert_eq!(failure.code(), 2, "{line}");
            assert!(failure.to_string().contains(expected), "{line}: {failure}");
        }
        #[rustfmt::skip]
        let allowed = [
            "--memory 2G", "--swap 0", "--threads 16", "--check --arch aarch64 --qemu q",
            "--mechanism lazy --max-age 0", "--compare --program migrate --pages 4096",
        ];
        for line in allowed {
            assert!(runs(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn the_compared_runs_are_counted_and_pinned() {
        let runs = runs("--compare").unwrap();
        assert_eq!(runs.len(), 4);
        assert!(runs.iter().all(|run| run.kernel.pinned && run.counted));
    }

    #[test]
    fn a_run_is_given_up_long_after_its_expected_end() {
        let runs = runs("--seconds 20 --program migrate,mmap-read,stale").unwrap();
        assert_eq!(runs.iter().map(|run| run.timeout).collect::<Vec<_>>(), [620, 620, 180]);
        assert_eq!(runs[2].kernel.limit, 100);
        let many = run("--cpus 64 --memory 1G");
        assert_eq!((many.timeout, many.kernel.limit), (990, 500));
    }
}
