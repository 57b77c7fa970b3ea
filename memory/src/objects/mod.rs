//! What pages belong to, and the way from a page to all its translations.
//!
//! Read in this order: which pages of a file are in memory (`pages`), who maps which part of an object (`mapper`), files
//! and anonymous memory (`object`), the reverse map (`reverse`).

pub(crate) mod mapper;
pub(crate) mod object;
pub(crate) mod pages;
pub(crate) mod reverse;
