//! The adversary: every known TLB bug, tried against the engine.
//!
//! A machine does the worst that the architecture allows at every step, and searches over schedules at random. The
//! engine under it is the real one, from the same sources, built so that a checker decides every atomic access.
//!
//! Each folder uses only those before it:
//!
//! - `model`: what a load may read, which CPU goes on, and the names of rules, promises and accesses.
//! - `hardware`: the machine, down to its TLBs and walkers. The machine sees page tables only through `hardware::paging`.
//! - `subject`: the code that is checked, with the small kernel and the memory manager.
//! - `search`: a scenario, its run, and the search for a schedule that breaks a rule.
//! - `scenarios`: the known bugs.

#![warn(unreachable_pub)]

mod hardware;
mod model;
mod scenarios;
mod search;
mod subject;

pub use model::promise::{Promise, PROMISES};
pub use model::removed::Removed;
pub use model::rule::Rule;
pub use model::sites::{Access, Kind, Site};
pub use scenarios::{all, random};
pub use search::check::{check, history, Checked, Found, Verdict};
pub use search::equivalent::{sources, Mark, Named, Source};
pub use search::scenario::Scenario;
pub use search::swaps::{rewrite, Pair};
pub use search::weakenings::{accesses, Weakening};
