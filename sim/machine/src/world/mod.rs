//! The machine's state, and the operations that change it without choosing the next CPU.
//!
//! `state` comes first: the CPUs, their clocks, and everything that they share. Its parts are `cpus`, which knows whose
//! turn it is, `timeline` and `timer`, which order events, `task`, a thread as a coroutine, and `line`, a cache line that
//! CPUs write in turn. `walk` fills TLBs, for accesses and for the walkers that `speculate`, and `invalidate` empties them.
//! `places` charges the shared lines of switches and flushes, `shadow` informs the shadow record, `traced` reports events to
//! the trace, and `view` shows the machine to the oracle.

pub(crate) mod cpus;
pub(crate) mod invalidate;
pub(crate) mod line;
pub(crate) mod places;
pub(crate) mod shadow;
pub(crate) mod speculate;
pub(crate) mod state;
pub(crate) mod task;
pub(crate) mod timeline;
pub(crate) mod timer;
pub(crate) mod traced;
pub(crate) mod view;
pub(crate) mod walk;
