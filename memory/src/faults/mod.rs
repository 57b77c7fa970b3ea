//! Faults: filling in the translation that a program missed.
//!
//! Read in this order: what a fault finds and does (`fault`), fresh pages and copies (`copy`), pages of files with their
//! neighbours (`around`), huge pages (`huge`).

pub(crate) mod around;
pub(crate) mod copy;
pub(crate) mod fault;
pub(crate) mod huge;
