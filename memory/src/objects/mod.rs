//! Files and anonymous memory, and the way from a page to all its translations.
//!
//! Read in this order: the pages of a file that are in memory (`pages`), the mappers of an object (`mapper`), files and
//! anonymous memory (`object`), the reverse map (`reverse`).

pub(crate) mod mapper;
pub(crate) mod object;
pub(crate) mod pages;
pub(crate) mod reverse;
