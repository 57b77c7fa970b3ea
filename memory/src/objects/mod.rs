//! Files and anonymous memory, and the way from a page to all its translations.
//!
//! Read in this order: a tree that is read while it changes (`tree`), the pages of a file that are in memory (`pages`),
//! the mappers of an object (`mapper`), files and anonymous memory (`object`), the reverse map (`reverse`).

pub(crate) mod mapper;
pub(crate) mod object;
pub(crate) mod pages;
pub(crate) mod reverse;
pub(crate) mod tree;
