//! The values of options: numbers within bounds, sizes, and known names.

use std::ops::RangeInclusive;

use ceasefire::{Bounds, Payment};
use ceasefire_kernel_abi::{PROGRAMS, SCENARIOS, TICK};

use super::options::MIB;
use crate::failure::Failure;

/// Mechanisms of the kernel. `none` flushes nothing and exists to be caught.
const MECHANISMS: &[&str] = &["per-page", "batched", LAZY, "broadcast", "all", NONE];
/// The mechanism with lazy debts and interrupts.
pub(super) const LAZY: &str = "lazy";
/// Mechanisms with lazy debts.
pub(super) const OWING: &[&str] = &[LAZY, "all"];
/// Mechanisms that broadcast.
pub(super) const BROADCASTING: &[&str] = &["broadcast", "all"];
/// The mechanism that flushes nothing.
pub(super) const NONE: &str = "none";
/// Guards that a run can leave out: the check of the debt on a page's slot, the stamps of lazy debts, the settling of a
/// space's debts, the flush of kernel ranges, and the one that waits for the entry into the kernel.
const GUARDS: &[&str] = &["slot", "stamp", "settle", KERNEL_FLUSH, KERNEL_ENTRY];
const KERNEL_FLUSH: &str = "kernel-flush";
/// The guard of CPUs that run programs undisturbed.
pub(super) const KERNEL_ENTRY: &str = "kernel-entry";

/// A whole number within its bounds.
pub(super) fn number(name: &str, text: &str, bounds: RangeInclusive<u64>) -> Result<u64, Failure> {
    text.parse().ok().filter(|number| bounds.contains(number)).ok_or_else(|| {
        Failure::usage(format!("{name} {text}: a whole number from {} to {}", bounds.start(), bounds.end()))
    })
}

/// The age that debts may reach, in milliseconds, given the kernel's ticks.
pub(super) fn max_age(text: &str) -> Result<u64, Failure> {
    const NANOSECONDS: u64 = 1_000_000;
    let milliseconds = number("--max-age", text, 0..=u64::MAX / NANOSECONDS)?;
    Bounds::new(milliseconds * NANOSECONDS, TICK * NANOSECONDS, Payment::Free)
        .map(|_| milliseconds)
        .map_err(|error| Failure::usage(format!("--max-age {text}: {error}")))
}

/// An amount of memory, in bytes. Its bounds depend on the CPUs.
pub(super) fn size(text: &str) -> Result<u64, Failure> {
    let parsed = [('M', MIB), ('G', MIB << 10)]
        .into_iter()
        .find_map(|(unit, bytes)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(bytes));
    parsed.ok_or_else(|| Failure::usage(format!("--memory {text}: a size such as 512M or 1G")))
}

/// The programs in a list with commas, each once.
pub(super) fn programs(text: &str) -> Result<Vec<&'static str>, Failure> {
    list("program", text, PROGRAMS)
}

/// The scenarios in a list with commas, as a bit for each.
pub(super) fn scenarios(text: &str) -> Result<u64, Failure> {
    let named = list("scenario", text, SCENARIOS)?;
    let numbers = (0..SCENARIOS.len()).filter(|&number| named.contains(&SCENARIOS[number]));
    Ok(numbers.fold(0, |bits, number| bits | 1 << number))
}

/// The mechanisms in a list with commas, each once.
pub(super) fn mechanisms(text: &str) -> Result<Vec<&'static str>, Failure> {
    list("mechanism", text, MECHANISMS)
}

/// The mechanisms that have a guard.
pub(super) fn guarded_by(guard: &str) -> &'static [&'static str] {
    match guard {
        KERNEL_FLUSH => &["per-page", "batched", LAZY, "broadcast", "all"],
        // Broadcasts reach the CPUs that run programs too.
        KERNEL_ENTRY => &["per-page", "batched", LAZY],
        _ => &[LAZY],
    }
}

/// A guard.
pub(super) fn guard(name: &str) -> Result<&'static str, Failure> {
    find("guard", name, GUARDS)
}

fn list(what: &str, text: &str, known: &'static [&'static str]) -> Result<Vec<&'static str>, Failure> {
    let mut names = Vec::new();
    for name in text.split(',') {
        let name = find(what, name, known)?;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

fn find(what: &str, name: &str, known: &'static [&'static str]) -> Result<&'static str, Failure> {
    known
        .iter()
        .find(|known| **known == name)
        .copied()
        .ok_or_else(|| Failure::usage(format!("unknown {what} `{name}`; known: {}", known.join(", "))))
}
