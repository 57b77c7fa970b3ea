//! The command line: every option has its bounds, and nothing is built before all of them hold.

use std::fmt;
use std::ops::RangeInclusive;

use ceasefire_kernel_abi::MAX_AGE;

use super::arch::Arch;
use super::values::{self, number, BROADCASTING, NONE, OWING};
use super::{bounds, simulate};
use crate::failure::Failure;

/// The task's part of `cargo xtask help`.
pub(crate) const HELP: &str = include_str!("help.txt");

/// The programs and mechanisms of `--compare`, and its default: those that the simulator has too.
const COMPARED_PROGRAMS: &[&str] = &["mmap-read", "migrate"];
const COMPARED_MECHANISMS: &[&str] = &["per-page", "batched"];

/// Programs that measure for a given number of seconds.
const MEASURING: &[&str] = &["migrate", "stale", "conformance"];

pub(super) const MIB: u64 = 1 << 20;
/// The most memory: it must be one range, below the hole that PCI devices have in the first 4 GiB.
const MOST_MEMORY: u64 = 2 << 30;
pub(super) const CPUS: RangeInclusive<u64> = 1..=64;
const NODES: RangeInclusive<u64> = 1..=8;
/// Up to a day.
const SECONDS: RangeInclusive<u64> = 1..=86_400;
const ASID_BITS: RangeInclusive<u64> = 2..=16;
const THREADS: RangeInclusive<u64> = 1..=1024;
/// Up to the largest file.
const PAGES: RangeInclusive<u64> = 1..=u32::MAX as u64;
/// Up to 16 GiB.
const SWAP: RangeInclusive<u64> = 0..=1 << 22;
/// Seconds for each CPU in the bound of a run, where few processors emulate many CPUs.
const FOR_CPU: u64 = 15;
/// As many CPUs are counted at least.
const FEW_CPUS: u64 = 8;
/// The options that `--check` allows.
const CHECKED: &[&str] = &["--check", "--arch", "--qemu", "--json"];

/// The machine, and the parameters of every run on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parameters {
    pub(super) arch: Arch,
    pub(super) cpus: u64,
    /// CPUs and memory are shared out among them evenly and in order.
    pub(super) nodes: u64,
    /// In bytes; whole MiB.
    pub(super) memory: u64,
    pub(super) seconds: u64,
    /// Seconds after which `stale` ends even if it has not done its least work.
    pub(super) limit: u64,
    pub(super) seed: u64,
    /// The age that debts may reach, in milliseconds.
    pub(super) max_age: u64,
    /// Bits of an ASID that are used where flushes are broadcast; 0 for all there are.
    pub(super) asid_bits: u64,
    /// 0 for the program's own choice.
    pub(super) threads: u64,
    /// 0 for the program's own choice.
    pub(super) pages: u64,
    pub(super) pinned: bool,
    pub(super) undisturbed: bool,
    /// A bit for each scenario of `stale` that runs; 0 for all.
    pub(super) scenarios: u64,
    /// In pages.
    pub(super) swap: u64,
    /// Whether the emulator counts instructions, derives time from them, and lets the CPUs run in turns.
    pub(super) counted: bool,
}

impl Parameters {
    /// The parameters that determine the least memory and the most threads.
    fn in_words(&self) -> String {
        let Self { cpus, nodes, swap, .. } = self;
        let count =
            |number: u64, name: &str| format!("{number} {name}{}", if number == 1 { "" } else { "s" });
        let swap =
            if *swap == 0 { String::new() } else { format!(" with {}", count(*swap, "page") + " of swap") };
        format!("{} and {}{swap}", count(*cpus, "CPU"), count(*nodes, "node"))
    }
}

/// One run: a program and a mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) program: &'static str,
    pub(super) mechanism: &'static str,
    /// The guard that is left out.
    pub(super) without: Option<&'static str>,
}

impl Run {
    /// Whether a rule must be broken, so that the run must be caught.
    pub(super) fn must_be_caught(self) -> bool {
        self.mechanism == NONE || self.without.is_some()
    }

    /// The mechanism and the missing guard, in words.
    pub(super) fn how(self) -> String {
        let without = self.without.map_or_else(String::new, |guard| format!(" without {guard}"));
        format!("{}{without}", self.mechanism)
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.program, self.how())
    }
}

/// The options on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(super) parameters: Parameters,
    pub(super) programs: Vec<&'static str>,
    pub(super) mechanisms: Vec<&'static str>,
    without: Option<&'static str>,
    /// The file for the results as JSON; `-` is standard output, which then carries nothing else.
    pub(super) json: Option<String>,
    /// Whether the simulator makes the same runs.
    pub(super) compare: bool,
    /// Whether to make the runs of CI, with their expected outcomes.
    pub(super) check: bool,
    /// Whether to make them on every architecture.
    check_all: bool,
    /// The path of QEMU, if not the architecture's default.
    qemu: Option<String>,
    /// Seconds after which a run is given up.
    timeout: Option<u64>,
}

impl Options {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, Failure> {
        let (mut memory, mut nodes, mut programs, mut mechanisms) = (512 * MIB, None, None, None);
        let mut options = Self {
            parameters: Parameters {
                arch: Arch::X86_64,
                cpus: 8,
                nodes: 0,
                memory,
                seconds: 10,
                limit: 0,
                seed: 1,
                max_age: MAX_AGE,
                asid_bits: 0,
                threads: 0,
                pages: 0,
                pinned: false,
                undisturbed: false,
                scenarios: 0,
                swap: 0,
                counted: false,
            },
            programs: Vec::new(),
            mechanisms: Vec::new(),
            without: None,
            json: None,
            compare: false,
            check: false,
            check_all: false,
            qemu: None,
            timeout: None,
        };
        let parameters = &mut options.parameters;
        let mut arguments = arguments.iter();
        let mut given = Vec::new();
        while let Some(&name) = arguments.next() {
            if given.contains(&name) {
                return Err(Failure::usage(format!("{name} is given twice")));
            }
            given.push(name);
            match name {
                "--pinned" => parameters.pinned = true,
                "--undisturbed" => parameters.undisturbed = true,
                "--compare" => options.compare = true,
                "--check" => options.check = true,
                "--cpus" | "--memory" | "--nodes" | "--mechanism" | "--program" | "--seconds" | "--seed"
                | "--threads" | "--pages" | "--swap" | "--json" | "--qemu" | "--timeout" | "--max-age"
                | "--without" | "--arch" | "--asid-bits" | "--scenarios" => {
                    let value =
                        *arguments.next().ok_or_else(|| Failure::usage(format!("{name} needs a value")))?;
                    match name {
                        "--arch" => parameters.arch = Arch::find(value)?,
                        "--cpus" => parameters.cpus = number(name, value, CPUS)?,
                        "--memory" => memory = values::size(value)?,
                        "--nodes" => nodes = Some(number(name, value, NODES)?),
                        "--mechanism" => mechanisms = Some(values::mechanisms(value)?),
                        "--program" => programs = Some(values::programs(value)?),
                        "--seconds" => parameters.seconds = number(name, value, SECONDS)?,
                        "--seed" => parameters.seed = number(name, value, 0..=u64::MAX)?,
                        "--max-age" => parameters.max_age = values::max_age(value)?,
                        "--asid-bits" => parameters.asid_bits = number(name, value, ASID_BITS)?,
                        "--without" => options.without = Some(values::guard(value)?),
                        "--scenarios" => parameters.scenarios = values::scenarios(value)?,
                        "--threads" => parameters.threads = number(name, value, THREADS)?,
                        "--pages" => parameters.pages = number(name, value, PAGES)?,
                        "--swap" => parameters.swap = number(name, value, SWAP)?,
                        "--json" => options.json = Some(value.to_owned()),
                        "--timeout" => options.timeout = Some(number(name, value, SECONDS)?),
                        _ => options.qemu = Some(value.to_owned()),
                    }
                }
                unknown => {
                    return Err(Failure::usage(format!(
                        "`kernel` has no option `{unknown}`: `cargo xtask kernel --help` lists its options"
                    )));
                }
            }
        }
        parameters.memory = memory;
        parameters.nodes = nodes.unwrap_or(parameters.cpus.min(2));
        let default = |names: &[&'static str], compared: &[&'static str]| {
            if options.compare { compared } else { names }.to_vec()
        };
        options.programs = programs.unwrap_or_else(|| default(&["stale"], COMPARED_PROGRAMS));
        options.mechanisms = mechanisms.unwrap_or_else(|| default(&["batched"], COMPARED_MECHANISMS));
        if let Some(other) = given.iter().find(|name| options.check && !CHECKED.contains(name)) {
            return Err(Failure::usage(format!("--check determines the runs, so {other} has no effect")));
        }
        options.check_all = options.check && !given.contains(&"--arch");
        if options.check_all && options.qemu.is_some() {
            return Err(Failure::usage("--check: with --qemu, name its --arch too"));
        }
        options.check_bounds()?;
        // The simulator's threads stay where they are.
        options.parameters.pinned |= options.compare;
        options.parameters.counted = options.compare;
        options.parameters.limit = options.limit();
        Ok(options)
    }

    /// Checks the bounds that concern more than one option.
    fn check_bounds(&self) -> Result<(), Failure> {
        let Parameters { cpus, nodes, memory, seconds, threads, .. } = self.parameters;
        if nodes > cpus {
            return Err(Failure::usage(format!("--nodes {nodes}: at most one for each of {cpus} CPUs")));
        }
        if memory > MOST_MEMORY {
            return Err(Failure::usage(format!(
                "--memory {}M: at most {}M",
                memory / MIB,
                MOST_MEMORY / MIB
            )));
        }
        for &program in &self.programs {
            let least = bounds::least_memory(&self.parameters, program);
            let where_ = self.parameters.in_words();
            if memory < least {
                return Err(Failure::usage(format!(
                    "--memory {}M: {program} on {where_} needs at least {}M",
                    memory / MIB,
                    least / MIB,
                )));
            }
            let most = bounds::most_threads(program);
            if threads > most {
                return Err(Failure::usage(format!(
                    "--threads {threads}: {program} can have at most {most}"
                )));
            }
            if let Some(timeout) = self.timeout.filter(|&timeout| timeout <= seconds) {
                if MEASURING.contains(&program) {
                    return Err(Failure::usage(format!(
                        "--timeout {timeout}: {program} measures for {seconds} s and needs more"
                    )));
                }
            }
        }
        if self.programs.contains(&"migrate") && nodes < 2 {
            return Err(Failure::usage("--program migrate moves pages between nodes: it needs at least 2"));
        }
        if self.without == Some(values::KERNEL_ENTRY) && !self.parameters.undisturbed {
            return Err(Failure::usage(
                "--without kernel-entry: only CPUs with --undisturbed have that guard",
            ));
        }
        for (name, is_given, allowed) in [
            ("--without", self.without.is_some(), self.without.map_or(&[][..], values::guarded_by)),
            ("--max-age", self.parameters.max_age != MAX_AGE, OWING),
            ("--asid-bits", self.parameters.asid_bits != 0, BROADCASTING),
        ] {
            if let Some(other) = self.mechanisms.iter().find(|name| is_given && !allowed.contains(name)) {
                let allowed = allowed.join(" and ");
                return Err(Failure::usage(format!(
                    "{name} is for --mechanism {allowed} alone, not {other}"
                )));
            }
        }
        if let Some(lacks) = self.parameters.arch.lacks_broadcasts() {
            if let Some(name) = self.mechanisms.iter().find(|name| BROADCASTING.contains(name)) {
                return Err(Failure::usage(format!("--mechanism {name}: {lacks}")));
            }
        }
        if self.compare {
            self.check_compared()?;
        }
        Ok(())
    }

    /// Refuses options that the simulator does not have.
    fn check_compared(&self) -> Result<(), Failure> {
        if !self.parameters.arch.is_simulated() {
            let name = self.parameters.arch.name();
            return Err(Failure::usage(format!("--compare: the simulator has no costs of {name}'s work")));
        }
        for (what, names, known) in [
            ("program", &self.programs, COMPARED_PROGRAMS),
            ("mechanism", &self.mechanisms, COMPARED_MECHANISMS),
        ] {
            if let Some(name) = names.iter().find(|name| !known.contains(name)) {
                return Err(Failure::usage(format!(
                    "--compare: {what} `{name}` is not compared; only {} are",
                    known.join(", ")
                )));
            }
        }
        let Parameters { cpus, nodes, memory, threads, pages, swap, .. } = self.parameters;
        if threads != 0 || swap != 0 {
            return Err(Failure::usage("--compare: the simulator has neither --threads nor --swap"));
        }
        let least = |&program: &&str| bounds::least_memory(&self.parameters, program);
        let least = self.programs.iter().map(least).max().unwrap_or(0)
            + simulate::least_bytes(cpus).next_multiple_of(MIB);
        if memory < least {
            return Err(Failure::usage(format!(
                "--compare: {cpus} CPUs need at least {}M of memory on the simulator, not {}M",
                least / MIB,
                memory / MIB
            )));
        }
        if pages != 0 && self.programs.contains(&"mmap-read") {
            return Err(Failure::usage(
                "--compare: in the simulator mmap-read always reads ten times the memory, so --pages is for \
                 --program migrate alone",
            ));
        }
        if self.programs.contains(&"migrate") {
            simulate::check_range(pages, memory, nodes).map_err(Failure::usage)?;
        }
        Ok(())
    }

    /// The emulator of an architecture.
    pub(super) fn qemu(&self, arch: Arch) -> &str {
        self.qemu.as_deref().unwrap_or(arch.qemu())
    }

    /// Whether a guard is removed in the runs.
    pub(super) fn goes_without(&self) -> bool {
        self.without.is_some()
    }

    /// The architectures that the kernel is built for.
    pub(super) fn architectures(&self) -> Vec<Arch> {
        if self.check_all {
            Arch::ALL.to_vec()
        } else {
            vec![self.parameters.arch]
        }
    }

    /// All runs, in order.
    pub(super) fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        let without = self.without;
        let with =
            move |program| self.mechanisms.iter().map(move |&mechanism| Run { program, mechanism, without });
        self.programs.iter().copied().flat_map(with)
    }

    /// Seconds after which a run of `program` is given up. The two experiments do a fixed amount of work before they
    /// end, or before they begin to measure, and its duration depends on the emulator.
    pub(super) fn timeout(&self, program: &str) -> u64 {
        let seconds = self.parameters.seconds;
        self.timeout.unwrap_or_else(|| {
            if COMPARED_PROGRAMS.contains(&program) {
                seconds + 600
            } else {
                seconds * 3 + FOR_CPU * self.parameters.cpus.max(FEW_CPUS)
            }
        })
    }

    /// Seconds of measuring after which `stale` ends even if it has not done its least work. It leaves as much time again
    /// for the boot and the end.
    fn limit(&self) -> u64 {
        let seconds = self.parameters.seconds;
        seconds + self.timeout("stale").saturating_sub(seconds) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, Failure> {
        Options::parse(&line.split_whitespace().collect::<Vec<_>>())
    }

    /// The one line with which `line` is refused.
    fn refused(line: &str) -> String {
        let failure = parse(line).expect_err(line);
        assert_eq!(failure.code(), 2, "{line}");
        assert_eq!(failure.to_string().lines().count(), 1, "{line}: {failure}");
        failure.to_string()
    }

    #[test]
    fn everything_has_a_default() {
        let options = parse("").unwrap();
        let expected = Parameters {
            arch: Arch::X86_64,
            cpus: 8,
            nodes: 2,
            memory: 512 << 20,
            seconds: 10,
            limit: 80,
            seed: 1,
            max_age: 30,
            asid_bits: 0,
            threads: 0,
            pages: 0,
            pinned: false,
            undisturbed: false,
            scenarios: 0,
            swap: 0,
            counted: false,
        };
        assert_eq!(options.parameters, expected);
        let run = Run { program: "stale", mechanism: "batched", without: None };
        assert_eq!(options.runs().collect::<Vec<_>>(), [run]);
        assert_eq!((&options.json, options.qemu(Arch::X86_64)), (&None, "qemu-system-x86_64"));
        assert_eq!(parse("--cpus 1").unwrap().parameters.nodes, 1);
    }

    #[test]
    fn options_come_in_any_order() {
        let line =
            "--pages 9 --threads 3 --pinned --undisturbed --swap 7 --scenarios kernel-unmap,rewrite --seed 5 --seconds 4 --nodes 3 --memory 1G --cpus 6 \
                    --json - --qemu there --arch aarch64 --timeout 8 --mechanism lazy --max-age 40 --without slot";
        let options = parse(line).unwrap();
        let expected = Parameters {
            arch: Arch::Aarch64,
            cpus: 6,
            nodes: 3,
            memory: 1 << 30,
            seconds: 4,
            limit: 6,
            seed: 5,
            max_age: 40,
            asid_bits: 0,
            threads: 3,
            pages: 9,
            pinned: true,
            undisturbed: true,
            scenarios: 1 | 1 << 19,
            swap: 7,
            counted: false,
        };
        assert_eq!(options.parameters, expected);
        assert_eq!((options.json.as_deref(), options.qemu(Arch::Aarch64)), (Some("-"), "there"));
        assert_eq!(options.timeout("stale"), 8);
        let run = options.runs().next().unwrap();
        assert_eq!((run.to_string().as_str(), run.must_be_caught()), ("stale lazy without slot", true));
        assert!(parse("--mechanism none").unwrap().runs().all(Run::must_be_caught));
        assert!(!parse("--mechanism lazy").unwrap().runs().any(Run::must_be_caught));
    }

    #[test]
    fn each_architecture_has_its_own_emulator_and_mechanisms() {
        let options = parse("--arch aarch64 --mechanism broadcast,all --max-age 40 --asid-bits 8");
        assert_eq!(
            options.unwrap_err().to_string(),
            "--max-age is for --mechanism lazy and all alone, not broadcast"
        );
        let options = parse("--arch aarch64 --mechanism broadcast,all --asid-bits 8").unwrap();
        assert_eq!((options.parameters.asid_bits, options.qemu(Arch::Aarch64)), (8, "qemu-system-aarch64"));
        assert_eq!(options.architectures(), [Arch::Aarch64]);
        assert_eq!(parse("--check").unwrap().architectures(), Arch::ALL);
        assert_eq!(parse("--check --arch x86_64").unwrap().architectures(), [Arch::X86_64]);
    }

    #[test]
    fn lists_make_one_run_after_the_other() {
        let options = parse("--program hello,stale,hello --mechanism none,batched").unwrap();
        let runs: Vec<_> = options.runs().map(|run| (run.program, run.mechanism)).collect();
        assert_eq!(runs, [("hello", "none"), ("hello", "batched"), ("stale", "none"), ("stale", "batched")]);
    }

    #[test]
    fn the_bound_is_named() {
        for (line, expected) in [
            ("--cpus 0", "--cpus 0: a whole number from 1 to 64"),
            ("--cpus 65", "--cpus 65: a whole number from 1 to 64"),
            ("--cpus many", "--cpus many: a whole number from 1 to 64"),
            ("--nodes 9 --cpus 9", "--nodes 9: a whole number from 1 to 8"),
            ("--cpus 3 --nodes 4", "--nodes 4: at most one for each of 3 CPUs"),
            ("--memory 512", "--memory 512: a size such as 512M or 1G"),
            ("--memory 99999999999999G", "--memory 99999999999999G: a size such as 512M or 1G"),
            ("--memory 12Q", "--memory 12Q: a size such as 512M or 1G"),
            ("--memory 1M", "--memory 1M: stale on 8 CPUs and 2 nodes needs at least 85M"),
            ("--memory 83M", "--memory 83M: stale on 8 CPUs and 2 nodes needs at least 85M"),
            (
                "--memory 34M --program hello --cpus 1",
                "--memory 34M: hello on 1 CPU and 1 node needs at least 35M",
            ),
            (
                "--program hello --swap 4194304",
                "--memory 512M: hello on 8 CPUs and 2 nodes with 4194304 pages of swap needs at least 16758M",
            ),
            ("--memory 3G", "--memory 3072M: at most 2048M"),
            ("--seconds 0", "--seconds 0: a whole number from 1 to 86400"),
            ("--seed -1", "--seed -1: a whole number from 0 to 18446744073709551615"),
            ("--threads 0", "--threads 0: a whole number from 1 to 1024"),
            ("--pages 0", "--pages 0: a whole number from 1 to 4294967295"),
            ("--swap 4194305", "--swap 4194305: a whole number from 0 to 4194304"),
            ("--timeout 0", "--timeout 0: a whole number from 1 to 86400"),
            ("--threads 17", "--threads 17: stale can have at most 16"),
            ("--program migrate --threads 257", "--threads 257: migrate can have at most 256"),
            ("--timeout 10", "--timeout 10: stale measures for 10 s and needs more"),
            ("--cpus 4 --nodes 1 --cpus 4", "--cpus is given twice"),
            ("--check --cpus 4", "--check determines the runs, so --cpus has no effect"),
            ("--compare --check", "--check determines the runs, so --compare has no effect"),
            ("--cpus", "--cpus needs a value"),
            ("--fast", "`kernel` has no option `--fast`: `cargo xtask kernel --help` lists its options"),
            (
                "--program stail",
                "unknown program `stail`; known: mmap-read, migrate, stale, conformance, hello, panic, fault, hang, lockup",
            ),
            (
                "--mechanism batched,fast",
                "unknown mechanism `fast`; known: per-page, batched, lazy, broadcast, all, none",
            ),
            (
                "--mechanism lazy --max-age 10",
                "--max-age 10: ticks cannot keep debts below 10000000 ns: at least 20000000 ns, two ticks, or 0 for none",
            ),
            (
                "--mechanism lazy --max-age 1001",
                "--max-age 1001: a debt may not stand for 1001000000 ns: at most 1000000000 ns",
            ),
            ("--max-age -1", "--max-age -1: a whole number from 0 to 18446744073709"),
            ("--max-age 40", "--max-age is for --mechanism lazy and all alone, not batched"),
            ("--asid-bits 8", "--asid-bits is for --mechanism broadcast and all alone, not batched"),
            ("--arch aarch64 --mechanism all --asid-bits 1", "--asid-bits 1: a whole number from 2 to 16"),
            ("--arch arm", "unknown architecture `arm`; known: x86_64, aarch64"),
            ("--check --qemu q", "--check: with --qemu, name its --arch too"),
            ("--compare --arch aarch64", "--compare: the simulator has no costs of aarch64's work"),
            ("--mechanism lazy,none --without slot", "--without is for --mechanism lazy alone, not none"),
            (
                "--mechanism batched,none --without kernel-flush",
                "--without is for --mechanism per-page and batched and lazy and broadcast and all alone, not none",
            ),
            ("--without care", "unknown guard `care`; known: slot, stamp, settle, kernel-flush, kernel-entry"),
            (
                "--scenarios rewrite,map",
                "unknown scenario `map`; known: rewrite, alias, replace, protect, unmap, reuse, remap, discard, truncate, \
                 migrate, fork, sync, page-out, free, write, unmap-huge, remap-tables, reclaim, drain, kernel-unmap, \
                 kernel-purge, offline",
            ),
            ("--without kernel-entry", "--without kernel-entry: only CPUs with --undisturbed have that guard"),
            ("--mechanism broadcast", "--mechanism broadcast: QEMU emulates no INVLPGB"),
            ("--mechanism lazy,all", "--mechanism all: QEMU emulates no INVLPGB"),
            (
                "--program migrate --nodes 1",
                "--program migrate moves pages between nodes: it needs at least 2",
            ),
        ] {
            assert_eq!(refused(line), expected);
        }
        for line in [
            "--memory 85M",
            "--memory 2G",
            "--swap 0",
            "--threads 16",
            "--check --arch aarch64 --qemu q --json -",
            "--mechanism lazy --max-age 0",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn only_programs_of_the_simulator_are_compared() {
        let options = parse("--compare").unwrap();
        assert_eq!((options.programs.len(), options.mechanisms.len()), (2, 2));
        assert!(options.parameters.pinned && options.parameters.counted);
        for (line, expected) in [
            ("--program stale", "program `stale` is not compared; only mmap-read, migrate are"),
            ("--mechanism none", "mechanism `none` is not compared; only per-page, batched are"),
            ("--mechanism lazy", "mechanism `lazy` is not compared; only per-page, batched are"),
            ("--swap 1", "neither --threads nor --swap"),
            ("--threads 1", "neither --threads nor --swap"),
            ("--pages 4096", "--program migrate alone"),
            ("--memory 67M", "8 CPUs need at least 68M of memory on the simulator, not 67M"),
            ("--program migrate --pages 1023", "from 1024 to"),
        ] {
            let refused = refused(&format!("--compare {line}"));
            assert!(refused.contains(expected), "{line}: {refused}");
        }
        assert!(parse("--compare --memory 68M").is_ok());
        assert!(parse("--compare --program migrate --pages 4096").is_ok());
    }

    #[test]
    fn a_run_is_given_up_long_after_its_expected_end() {
        let options = parse("--seconds 20").unwrap();
        assert_eq!(
            ["migrate", "mmap-read", "stale"].map(|program| options.timeout(program)),
            [620, 620, 180]
        );
        assert_eq!(options.parameters.limit, 100);
        let options = parse("--cpus 64 --memory 1G").unwrap();
        assert_eq!((options.timeout("stale"), options.parameters.limit), (990, 500));
    }
}
