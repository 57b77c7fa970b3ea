//! The beginning and the end of processes: [`lifecycle`] starts and ends them and their threads, and [`image`] is the
//! programs that they run.

pub(crate) mod image;
pub(crate) mod lifecycle;
