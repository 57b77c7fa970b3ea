//! The atomic accesses of the engine, each by its place in the sources, and what is left of them when they are weakened.
//!
//! An ordering that no scenario misses is not tested. So each access is weakened by itself, in all scenarios: first to
//! acquire and release, then to nothing. The checker does so at the access, and the engine is not built anew.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use ceasefire_atomics::Ordering;

use crate::check::check;
use crate::scenario::{Removed, Scenario};

/// A place in the engine's sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site {
    /// The path as the compiler knows it.
    pub file: &'static str,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1.
    pub column: u32,
}

impl Site {
    pub(crate) const NOWHERE: Self = Self { file: "", line: 0, column: 0 };
}

impl fmt::Display for Site {
    /// The path inside the engine, and the line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.rsplit_once("engine/src/").map_or(self.file, |(_, inner)| inner);
        write!(f, "{file}:{}:{}", self.line, self.column)
    }
}

/// An access with its ordering, and what is left of it without consistency.
type Seen = BTreeMap<Site, Vec<(Ordering, Ordering)>>;

thread_local! {
    /// The accesses that were made, if they are collected.
    static SEEN: RefCell<Option<Seen>> = const { RefCell::new(None) };
}

/// Notes an access, if accesses are collected.
pub(crate) fn note(site: Site, order: Ordering, weaker: Ordering) {
    SEEN.with_borrow_mut(|seen| {
        let Some(seen) = seen else { return };
        let orders = seen.entry(site).or_default();
        if !orders.contains(&(order, weaker)) {
            orders.push((order, weaker));
        }
    });
}

/// An access whose ordering can be weakened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weakening {
    /// The access.
    pub site: Site,
    /// Its ordering.
    pub from: Ordering,
    /// The weaker one. `AcqRel` stands for all that is left of `SeqCst` without consistency.
    pub to: Ordering,
}

/// The weakenings of all accesses that a scenario makes in a few schedules.
pub fn weakenings(scenario: &Scenario) -> Vec<Weakening> {
    SEEN.set(Some(Seen::new()));
    let _ = check(scenario, &[], 0, 20, false);
    let seen = SEEN.take().unwrap_or_default();
    let mut found = Vec::new();
    for (site, orders) in seen {
        // The ordering of a failure goes with that of the success.
        let strongest = orders.iter().map(|(from, _)| *from).max_by_key(|from| strength(*from));
        let Some(from) = strongest else { continue };
        let steps: &[Ordering] = match from {
            Ordering::SeqCst => &[Ordering::AcqRel, Ordering::Relaxed],
            Ordering::AcqRel => &[Ordering::Acquire, Ordering::Release, Ordering::Relaxed],
            Ordering::Acquire | Ordering::Release => &[Ordering::Relaxed],
            _ => &[],
        };
        found.extend(steps.iter().map(|&to| Weakening { site, from, to }));
    }
    found
}

fn strength(order: Ordering) -> u32 {
    match order {
        Ordering::Relaxed => 0,
        Ordering::Acquire | Ordering::Release => 1,
        Ordering::AcqRel => 2,
        _ => 3,
    }
}

impl Weakening {
    /// What it takes away, for [`check`](crate::check()).
    pub fn removed(self) -> Removed {
        Removed::Ordering(self.site, self.to)
    }
}
