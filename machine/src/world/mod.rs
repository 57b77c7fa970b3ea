//! The machine's state, and the operations that change it without choosing the next CPU.
//!
//! `state` comes first: the CPUs, their clocks, and everything that they share. Its parts are `timeline` and `timer`, which
//! order events, and `task`, a thread as a coroutine. `invalidate` changes TLBs, `shadow` informs the shadow record, and
//! `view` shows the machine to the oracle.

pub(crate) mod invalidate;
pub(crate) mod shadow;
pub(crate) mod state;
pub(crate) mod task;
pub(crate) mod timeline;
pub(crate) mod timer;
pub(crate) mod view;
