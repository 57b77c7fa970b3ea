//! The end of a run that failed, and what the report says about each CPU.

pub(crate) mod event;
mod stop;

pub(crate) use stop::{done, refuse, stop, stopped, Kind};
