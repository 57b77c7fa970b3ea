//! Address spaces: the ranges of addresses that a program has and what they map.
//!
//! Read in this order: an area and all areas of a space (`area`), the space (`space`).

pub(crate) mod area;
pub(crate) mod space;
