//! What the results say, for tables and the page alike.

pub(crate) mod summary;
