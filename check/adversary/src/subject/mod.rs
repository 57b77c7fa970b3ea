//! The code that is checked: the engine under a small kernel, the memory manager on the engine, and parts of the engine
//! by themselves.

pub(crate) mod cores;
pub(crate) mod kernel;
pub(crate) mod lock;
pub(crate) mod manager;
