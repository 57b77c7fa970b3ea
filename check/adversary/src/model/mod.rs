//! The ground: the memory model, the schedules, and the names of accesses, rules and promises. Nothing here knows the
//! machine.
//!
//! `ordering` decides what a load may read, and `schedule` decides which CPU goes on. A `site` is the place of an access
//! in the engine's sources. `removed` names each thing that a scenario can take away.

pub(crate) mod ordering;
pub(crate) mod promise;
pub(crate) mod removed;
pub(crate) mod rule;
pub(crate) mod schedule;
pub(crate) mod sites;
pub(crate) mod timeline;
