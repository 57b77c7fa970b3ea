//! Address spaces: a program's ranges of addresses, and their sources.
//!
//! Read in this order: an area and all areas of a space (`area`), those that have locks of their own (`open`), the space
//! (`space`).

pub(crate) mod area;
pub(crate) mod open;
pub(crate) mod space;
