//! Every scenario passes on a kernel without flaws, and finds one that the kernel has.

#[path = "../examples/template.rs"]
#[allow(dead_code)]
mod template;

use ceasefire_conformance::{check, scenarios, Ability, Cpu, Job, Kernel, Scenario, Stage, Verdict};
use template::{Flaw, Thread, Threads};

const ROUNDS: u32 = 50;

fn stage() -> &'static Stage {
    Box::leak(Box::default())
}

fn verdict(name: &str, cpus: usize, flaw: Option<Flaw>) -> Verdict {
    let scenario: Scenario<Thread> =
        scenarios().into_iter().find(|scenario| scenario.name == name).expect("a scenario of that name");
    check(&Threads::new(cpus, flaw), stage(), &scenario, ROUNDS)
}

#[test]
fn a_kernel_without_flaws_passes_on_any_number_of_cpus() {
    for cpus in [1, 2, 3, 5] {
        let (kernel, stage) = (Threads::new(cpus, None), stage());
        for scenario in scenarios() {
            let verdict = check(&kernel, stage, &scenario, ROUNDS);
            let Verdict::Passed { accesses } = verdict else { panic!("{}: {verdict}", scenario.name) };
            assert!(accesses > 0 || cpus == 1, "{}", scenario.name);
        }
    }
}

/// The flaw that each scenario finds.
const FOUND_BY: [(&str, Flaw); 14] = [
    ("unmap-then-read", Flaw::ForgetsOthers),
    ("protect-then-store", Flaw::ForgetsRights),
    ("remap-elsewhere", Flaw::ForgetsMoves),
    ("many-ranges", Flaw::ForgetsRanges),
    ("kernel-ranges", Flaw::ForgetsKernel),
    ("idle-cpu", Flaw::ForgetsIdle),
    ("replace-under-read", Flaw::ForgetsOthers),
    ("interrupts-off", Flaw::ForgetsToWait),
    ("protect-under-store", Flaw::ForgetsRights),
    ("frame-reuse", Flaw::FreesEarly),
    ("evicted", Flaw::ForgetsDebts),
    ("freed-tables", Flaw::KeepsTables),
    ("switch-under-way", Flaw::ForgetsAway),
    ("many-flushes", Flaw::ForgetsSecond),
];

#[test]
fn each_scenario_finds_its_flaw() {
    assert_eq!(scenarios::<Thread>().map(|scenario| scenario.name), FOUND_BY.map(|(name, _)| name));
    for (name, flaw) in FOUND_BY {
        let verdict = verdict(name, 4, Some(flaw));
        assert!(matches!(verdict, Verdict::Broken(_)), "{name} with {flaw:?}: {verdict}");
    }
}

#[test]
fn a_kernel_can_lack_something() {
    struct Lacking(Threads);

    impl Kernel for Lacking {
        type Cpu = Thread;

        fn cpus(&self) -> usize {
            self.0.cpus()
        }

        fn run(&self, job: Job<Thread>) {
            self.0.run(job);
        }

        fn lacks(&self, ability: Ability) -> bool {
            ability == Ability::KernelRanges
        }
    }

    let (kernel, stage) = (Lacking(Threads::new(2, None)), stage());
    for scenario in scenarios() {
        let verdict = check(&kernel, stage, &scenario, 2);
        let lacks = scenario.needs.contains(&Ability::KernelRanges);
        assert_eq!(verdict == Verdict::Lacks(Ability::KernelRanges), lacks, "{}: {verdict}", scenario.name);
    }
}

#[test]
#[should_panic(expected = "0 CPUs; 1 to 256 can run scenarios")]
fn a_kernel_needs_a_cpu() {
    let _ = verdict("unmap-then-read", 0, None);
}

/// The traits can be implemented with nothing but the calls that they ask for.
#[test]
#[should_panic(expected = "does not say that it lacks Remap")]
fn a_call_that_is_missing_is_named() {
    struct Bare;

    impl Cpu for Bare {
        fn number(&self) -> usize {
            0
        }
        fn pause(&self) {}
        fn map(&self, _: usize, _: u64) -> Result<(), ceasefire_conformance::Failed> {
            Ok(())
        }
        fn unmap(&self, _: &[std::ops::Range<usize>]) -> Result<(), ceasefire_conformance::Failed> {
            Ok(())
        }
        fn protect(&self, _: usize) -> Result<(), ceasefire_conformance::Failed> {
            Ok(())
        }
        fn load(&self, _: usize) -> Option<u64> {
            None
        }
        fn store(&self, _: usize, _: u64) -> bool {
            false
        }
        fn reuse(&self, _: u64) -> Result<(), ceasefire_conformance::Failed> {
            Ok(())
        }
        fn away(&self, _: ceasefire_conformance::Away, until: &dyn Fn() -> bool) {
            while !until() {}
        }
    }

    let _ = Bare.remap(0, 1);
}
