//! Which CPU goes on next, which thread it runs, and how threads wait.
//!
//! `clockwork` orders the CPUs and delivers interrupts, `ticks` delivers the timer's. `scheduler` gives threads CPUs.
//! `lock` and `wait` are the two ways to wait: for a lock, and for a page or a device.

pub(crate) mod clockwork;
pub(crate) mod lock;
pub(crate) mod scheduler;
pub(crate) mod ticks;
pub(crate) mod wait;
