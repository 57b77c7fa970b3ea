//! Faults: filling in missing translations.
//!
//! Read in this order: how a fault is resolved (`fault`), fresh pages and copies (`copy`), pages of files with their
//! neighbours (`around`), huge pages (`huge`).

pub(crate) mod around;
pub(crate) mod copy;
pub(crate) mod fault;
pub(crate) mod huge;
