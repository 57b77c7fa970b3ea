//! Address spaces: a program's ranges of addresses, and their sources.
//!
//! Read in this order: an area and all areas of a space (`area`), the space (`space`).

pub(crate) mod area;
pub(crate) mod space;
