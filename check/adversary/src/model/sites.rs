//! The atomic accesses of the engine, each by its place in the sources, and the next weaker orderings of each.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;

use ceasefire_atomics::Ordering;

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

/// The accesses that `body` makes, with their orderings.
pub(crate) fn collect(body: impl FnOnce()) -> BTreeMap<Access, Ordering> {
    SEEN.set(Some(BTreeMap::new()));
    body();
    SEEN.take().unwrap_or_default()
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
