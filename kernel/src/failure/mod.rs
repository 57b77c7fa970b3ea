//! The end of a run. `stop` stops every CPU and prints the report of a failure. [`event`] and [`cpu_state`] keep what
//! the report says about each CPU. A report takes no lock, since a CPU that waits for a lock in vain makes one too.

pub(crate) mod cpu_state;
pub(crate) mod event;
mod stop;

pub(crate) use stop::{done, refuse, stop, stopped, Kind};
