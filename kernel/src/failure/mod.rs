//! The end of a run. `stop` stops every CPU and prints the report of a failure; [`event`] and [`cpu_state`] keep what it
//! says about each CPU. It takes no lock, since a CPU that waits for a lock in vain ends the run too.

pub(crate) mod cpu_state;
pub(crate) mod event;
mod stop;

pub(crate) use stop::{done, refuse, stop, stopped, Kind};
