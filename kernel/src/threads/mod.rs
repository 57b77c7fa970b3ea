//! Threads, the processes that they run in, and the CPUs that they run on.

pub(crate) mod cpu;
pub(crate) mod current;
pub(crate) mod idle;
pub(crate) mod offline;
mod presence;
pub(crate) mod process;
pub(crate) mod schedule;
pub(crate) mod stack;
pub(crate) mod thread;
