//! The atomic accesses of the engine, each by its place in the sources, and the next weaker orderings of each.
//!
//! An ordering that no scenario misses is not tested. So each access is weakened by itself, by one step, in all
//! scenarios that make it. A weaker ordering allows all that a stronger one allows, so one step suffices. The checker
//! does so at the access, and the engine is not built anew.

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

    /// The path inside the engine's sources; `None` for an access of the checker's own kernel.
    pub fn inside(&self) -> Option<&'static str> {
        self.file.rsplit_once("engine/src/").map(|(_, inner)| inner)
    }
}

impl fmt::Display for Site {
    /// The path inside the engine, and the line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.inside().unwrap_or(self.file), self.line, self.column)
    }
}

/// What an ordering belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A load.
    Load,
    /// A store.
    Store,
    /// A read-modify-write that stores.
    Exchange,
    /// The load of one that stores nothing.
    Failure,
    /// A fence.
    Fence,
}

impl Kind {
    /// The orderings that are one step weaker than `order`, for this kind.
    pub fn weaker(self, order: Ordering) -> &'static [Ordering] {
        match (self, order) {
            (Self::Load | Self::Failure, Ordering::SeqCst) => &[Ordering::Acquire],
            (Self::Store, Ordering::SeqCst) => &[Ordering::Release],
            (Self::Exchange | Self::Fence, Ordering::SeqCst) => &[Ordering::AcqRel],
            (_, Ordering::AcqRel) => &[Ordering::Acquire, Ordering::Release],
            (_, Ordering::Acquire | Ordering::Release) => &[Ordering::Relaxed],
            _ => &[],
        }
    }
}

/// The ordering that promises only what both promise.
pub(crate) fn common(one: Ordering, other: Ordering) -> Ordering {
    let both = |promises: fn(Ordering) -> bool| promises(one) && promises(other);
    match (both(acquires), both(releases)) {
        (true, true) if one == other => one,
        (true, true) => Ordering::AcqRel,
        (true, false) => Ordering::Acquire,
        (false, true) => Ordering::Release,
        (false, false) => Ordering::Relaxed,
    }
}

pub(crate) fn acquires(order: Ordering) -> bool {
    matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst)
}

pub(crate) fn releases(order: Ordering) -> bool {
    matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst)
}

/// An atomic access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Access {
    /// Where it stands.
    pub site: Site,
    /// What it is.
    pub kind: Kind,
}

thread_local! {
    /// The accesses that were made, if they are collected, with their orderings.
    static SEEN: RefCell<Option<BTreeMap<Access, Ordering>>> = const { RefCell::new(None) };
}

/// Notes an access, if accesses are collected.
pub(crate) fn note(access: Access, order: Ordering) {
    SEEN.with_borrow_mut(|seen| {
        if let Some(seen) = seen {
            seen.insert(access, order);
        }
    });
}

/// The accesses of the engine that a scenario makes in so many schedules, with their orderings.
pub fn accesses(scenario: &Scenario, schedules: u64) -> BTreeMap<Access, Ordering> {
    SEEN.set(Some(BTreeMap::new()));
    let _ = check(scenario, &[], 0, schedules, false);
    let mut seen = SEEN.take().unwrap_or_default();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_weaker_promises_less_and_ends_at_nothing() {
        for kind in [Kind::Load, Kind::Store, Kind::Exchange, Kind::Failure, Kind::Fence] {
            let mut left = vec![Ordering::SeqCst];
            while let Some(order) = left.pop() {
                for &weaker in kind.weaker(order) {
                    assert_eq!(common(order, weaker), weaker, "{kind:?}: {order:?} and {weaker:?}");
                    assert_ne!(order, weaker);
                    left.push(weaker);
                }
            }
        }
        assert_eq!(common(Ordering::Acquire, Ordering::Release), Ordering::Relaxed);
    }
}
