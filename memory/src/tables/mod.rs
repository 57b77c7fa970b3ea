//! Page tables: every translation is installed, narrowed and cleared here.
//!
//! Read in this order: one entry (`entry`), a table (`table`) and its lock (`locks`), the translations of a locked
//! table (`leaf`), walks through the tables (`walk`), tables created and unlinked (`change`), huge pages split
//! (`huge`).

pub(crate) mod change;
pub(crate) mod entry;
pub(crate) mod huge;
pub(crate) mod leaf;
pub(crate) mod locks;
pub(crate) mod table;
pub(crate) mod walk;
