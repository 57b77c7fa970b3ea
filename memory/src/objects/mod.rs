//! What pages belong to, and the way from a page to all its translations.
//!
//! Read in this order: which pages of a file are in memory (`pages`), files and anonymous memory with their mappers
//! (`object`), the reverse map (`reverse`).

pub(crate) mod object;
pub(crate) mod pages;
pub(crate) mod reverse;
