//! The orderings of the engine, each weakened by itself.
//!
//! An ordering that no scenario misses is not tested. So each access is weakened by itself, by one step, in all
//! scenarios that make it. A weaker ordering allows all that a stronger one allows, so one step suffices. The checker
//! does so at the access, and the engine is not built anew.

use std::collections::BTreeMap;
use std::fmt;

use ceasefire_atomics::Ordering;

use super::check::check;
use super::scenario::Scenario;
use crate::model::removed::Removed;
use crate::model::sites::{self, Access};

/// The accesses of the engine that a scenario makes in so many schedules, with their orderings.
pub fn accesses(scenario: &Scenario, schedules: u64) -> BTreeMap<Access, Ordering> {
    let mut seen = sites::collect(|| drop(check(scenario, &[], 0, schedules, false)));
    seen.retain(|access, _| access.site.inside().is_some());
    seen
}

/// An access with a weaker ordering than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weakening {
    /// The access.
    pub access: Access,
    /// Its ordering.
    pub from: Ordering,
    /// The weaker one.
    pub to: Ordering,
}

impl Weakening {
    /// What it takes away, for [`check`](crate::check()).
    pub fn removed(self) -> Removed {
        Removed::Ordering(self.access, self.to)
    }
}

impl fmt::Display for Weakening {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { access: Access { site, kind }, from, to } = self;
        let kind = format!("{kind:?}").to_lowercase();
        write!(f, "{site} {kind} {from:?} -> {to:?}")
    }
}
