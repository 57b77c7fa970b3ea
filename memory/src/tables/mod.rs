//! Page tables: where every translation is made, narrowed and taken away.
//!
//! Read in this order: what one entry says (`entry`), the tables (`table`), huge pages and how they are split (`huge`).

pub(crate) mod entry;
pub(crate) mod huge;
pub(crate) mod table;
