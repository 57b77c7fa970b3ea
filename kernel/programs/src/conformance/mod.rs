//! `conformance`: the scenarios of `ceasefire-conformance`, with this kernel under test.
//!
//! Each scenario takes pages, rights or tables away on one CPU, while others use them. It says itself what every access
//! may find. Here its calls become system calls: `cpu` makes them, `crew` runs a scenario on all CPUs, and `companions`
//! are the address spaces to which CPUs switch meanwhile. The first finding ends the run.
//!
//! The scenarios share the seconds that the options ask for. A first check of a few rounds shows how many rounds fit.

mod companions;
mod cpu;
mod crew;

use ceasefire_conformance::{check, scenarios, Ability, Broken, Finding, Kernel, Scenario, Stage, Verdict};
use ceasefire_kernel_abi::Finding as Proof;

use crate::call;
use crate::line::log;
use crate::machine::Machine;

use companions::Companions;
use cpu::Thread;
use crew::Threads;

/// The rounds of a scenario's first check.
const FIRST: u32 = 5;
/// The most rounds of a check. In each round a scenario maps fewer than a hundred pages, and it may map 2^32.
const MOST: u32 = 10_000_000;
const SECOND: u64 = 1_000_000_000;

static STAGE: Stage = Stage::new();

/// The program.
pub(crate) fn run(machine: &Machine) {
    call::recover();
    call::measure_begin();
    let scenarios = scenarios();
    let share = machine.seconds * SECOND / scenarios.len() as u64;
    let accesses = scenarios.iter().map(|scenario| accesses(scenario, machine, share)).sum();
    call::measure_end(accesses);
}

/// Checks a scenario for a share of the run, in nanoseconds. Returns the accesses that were checked.
fn accesses(scenario: &Scenario<Thread>, machine: &Machine, share: u64) -> u64 {
    let kernel = Threads { cpus: machine.cpus };
    if let Some(&ability) = scenario.needs.iter().find(|&&ability| kernel.lacks(ability)) {
        log(format_args!("conformance: {}: {}", scenario.name, Verdict::Lacks(ability)));
        return 0;
    }
    // At other times they would only take time from the threads.
    let switches = scenario.needs.contains(&Ability::OtherSpace);
    let companions = switches.then(|| Companions::start(machine.cpus));
    let begin = call::now();
    let mut accesses = passed(scenario.name, check(&kernel, &STAGE, scenario, FIRST));
    let rounds = rounds(share, call::now() - begin);
    if rounds > 0 {
        accesses += passed(scenario.name, check(&kernel, &STAGE, scenario, rounds));
    }
    if let Some(companions) = companions {
        companions.end();
    }
    log(format_args!("conformance: {}: {}", scenario.name, Verdict::Passed { accesses }));
    accesses
}

/// The rounds that fit into what a first check has left of a share.
fn rounds(share: u64, first: u64) -> u32 {
    let left = share.saturating_sub(first);
    let rounds = u128::from(left) * u128::from(FIRST) / u128::from(first.max(1));
    rounds.min(u128::from(MOST)) as u32
}

/// The accesses of a check that has passed. Any other verdict ends the run. The kernel gives the first free addresses
/// of an area, so a range of its own is always used again.
fn passed(name: &str, verdict: Verdict) -> u64 {
    if let Verdict::Passed { accesses } = verdict {
        return accesses;
    }
    log(format_args!("conformance: {name}: {verdict}"));
    if let Verdict::Broken(finding) = verdict {
        if let Some(Evidence { proof, address, expected, found }) = Evidence::of(finding) {
            call::report(proof, address, expected, found);
        }
    }
    panic!("conformance: {name}: {verdict}")
}

/// A finding in the words of the kernel's report.
#[derive(Debug, PartialEq, Eq)]
struct Evidence {
    proof: Proof,
    address: u64,
    expected: u64,
    found: u64,
}

impl Evidence {
    /// None for an access that failed: it does not prove the use of something that was gone.
    fn of(Finding { place, broken, .. }: Finding) -> Option<Self> {
        let (proof, expected, found) = match broken {
            Broken::Stale { loaded, least } => (Proof::StaleRead, least, loaded),
            Broken::Foreign { loaded } => (Proof::StaleRead, 0, loaded),
            Broken::Stored => (Proof::Forbidden, 0, 0),
            Broken::Missing => return None,
        };
        Some(Self { proof, address: cpu::address_of(place), expected, found })
    }
}

#[cfg(test)]
mod tests {
    use ceasefire_conformance::{Failed, POISON};
    use ceasefire_kernel_abi::LINE;

    use super::*;

    fn finding(broken: Broken) -> Finding {
        Finding { cpu: 255, place: u64::MAX - 7, broken }
    }

    #[test]
    fn a_use_of_something_gone_is_proof_and_a_failed_access_is_none() {
        let proof = |broken| Evidence::of(finding(broken)).map(|Evidence { proof, .. }| proof);
        assert_eq!(proof(Broken::Stale { loaded: 1, least: 2 }), Some(Proof::StaleRead));
        assert_eq!(proof(Broken::Foreign { loaded: POISON }), Some(Proof::StaleRead));
        assert_eq!(proof(Broken::Stored), Some(Proof::Forbidden));
        assert_eq!(proof(Broken::Missing), None);
    }

    #[test]
    fn the_report_says_where_and_what_was_loaded() {
        let broken = Broken::Stale { loaded: 5, least: 6 };
        let evidence = Evidence::of(Finding { cpu: 1, place: 3, broken }).unwrap();
        let expected = Evidence {
            proof: Proof::StaleRead,
            address: cpu::address_of(0) + 3 * crate::memory::PAGE,
            expected: 6,
            found: 5,
        };
        assert_eq!(evidence, expected);
    }

    #[test]
    fn every_line_fits_the_log() {
        let most = u64::from(u32::MAX);
        for verdict in [
            Verdict::Passed { accesses: u64::MAX },
            Verdict::Broken(finding(Broken::Stale { loaded: most, least: most })),
            Verdict::Broken(finding(Broken::Foreign { loaded: u64::MAX })),
            Verdict::Broken(finding(Broken::Foreign { loaded: POISON })),
            Verdict::Broken(finding(Broken::Missing)),
            Verdict::Broken(finding(Broken::Stored)),
            Verdict::Failed(Failed::Error(u64::MAX)),
            Verdict::Lacks(Ability::KernelRanges),
            Verdict::Untried,
        ] {
            for scenario in scenarios::<Thread>() {
                let line = format!("conformance: {}: {verdict}", scenario.name);
                assert!(line.len() <= LINE, "{line}");
            }
        }
    }

    #[test]
    fn a_scenario_that_passed_gives_its_accesses() {
        assert_eq!(passed("any", Verdict::Passed { accesses: 7 }), 7);
    }

    #[test]
    fn a_first_check_shows_how_many_rounds_fit() {
        // A tenth of the share was for the first rounds.
        assert_eq!(rounds(10 * SECOND, SECOND), 9 * FIRST);
        assert_eq!((rounds(SECOND, SECOND), rounds(SECOND, 2 * SECOND)), (0, 0));
        assert_eq!((rounds(u64::MAX, 0), rounds(u64::MAX, 1)), (MOST, MOST));
    }

    #[test]
    #[should_panic(expected = "conformance: any: untried")]
    fn a_scenario_that_tested_nothing_ends_the_run() {
        passed("any", Verdict::Untried);
    }
}
