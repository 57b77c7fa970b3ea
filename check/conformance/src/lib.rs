//! Scenarios that ask a kernel: does your TLB flusher leave a stale entry?
//!
//! A kernel answers by a trait of a few calls: map, unmap, protect, access from a CPU, use frames again. Nothing else of
//! this project is needed. Each [`Scenario`] is one body that every CPU runs at once: some take pages away, others use
//! them. Each word that is loaded has a version, so a CPU that reaches a page through an old translation is found by
//! what it loads. A scenario waits for CPUs, never for time.
//!
//! - [`Kernel`] and [`Cpu`] are the traits to implement.
//! - [`scenarios`] lists the scenarios, [`check`] runs one, and its [`Verdict`] says what was found.
//! - A [`Stage`] is the memory in which the CPUs meet: one `static` of the kernel.
//!
//! The example `template` is a whole implementation, on threads of the host. Its flaws can be switched on one at a time,
//! and `tests/flaws.rs` shows that each scenario finds one.
#![no_std]
#![forbid(unsafe_code)]

mod actor;
mod kernel;
mod scenarios;
mod stage;
mod verdict;
mod word;

pub use kernel::{Ability, Away, Cpu, Failed, Kernel, PAGES, TABLE};
pub use scenarios::{scenarios, Scenario};
pub use stage::{Job, Stage, CPUS};
pub use verdict::{Broken, Finding, Verdict};
pub use word::POISON;

/// The chapter of the book, whose kernel is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/adopt/conformance.md")]
struct Chapter;

/// Runs a scenario on all CPUs of a kernel, `rounds` times over.
///
/// A round takes pages away once. Scenarios that race find more in more rounds; 200 are a good start.
///
/// # Panics
/// If the kernel has no CPU, or more than [`CPUS`].
pub fn check<K: Kernel>(
    kernel: &K,
    stage: &'static Stage,
    scenario: &Scenario<K::Cpu>,
    rounds: u32,
) -> Verdict {
    if let Some(&ability) = scenario.needs.iter().find(|ability| kernel.lacks(**ability)) {
        return Verdict::Lacks(ability);
    }
    stage.set(kernel.cpus(), rounds);
    kernel.run(Job::new(scenario.body, stage));
    stage.verdict()
}
