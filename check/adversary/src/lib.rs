//! The adversary: every known TLB bug, tried against the engine.
//!
//! A machine does the worst that the architecture allows at every step, and searches over schedules at random. The
//! engine under it is the real one, from the same sources, built so that a checker decides every atomic access.

#![warn(unreachable_pub)]

mod cores;
mod equivalent;
mod hardware;
mod kernel;
mod lock;
mod manager;
mod ordering;
mod paging;
mod platform;
mod promise;
mod rule;
mod schedule;
mod sites;
mod swaps;
mod tables;
mod timeline;
mod tlb;

pub use equivalent::{sources, Mark, Named, Source};
pub use promise::{Promise, PROMISES};
pub use rule::Rule;

mod check;
mod scenario;
mod scenarios;

pub use check::{check, history, Checked, Found, Verdict};
pub use scenario::{Removed, Scenario};
pub use scenarios::{all, random};
pub use sites::{accesses, Access, Kind, Site, Weakening};
pub use swaps::{rewrite, Pair};
