//! Waits for the kernel's locks: which locks, in which calls, for how long, and beside which flushes.
//!
//! A thread that flushes often holds a lock until the other CPUs have flushed, and others wait for that lock meanwhile.
//! `tracker` puts the beginnings and the ends of waits together, and measures how much of each passed while interrupts
//! for flushes of the same process were under way: no more than that can go with the flushes. `tally` adds waits up, and
//! `place` says what a lock is.

mod place;
mod tally;
mod tracker;

pub use place::Place;
pub use tally::{Locks, Share, WaitSum, Waited, MOST_LOCKS};
pub use tracker::Wait;
pub(crate) use tracker::Waits;
