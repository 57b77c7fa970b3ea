//! Page tables: where every translation is made, narrowed and taken away.
//!
//! Read in this order: what one entry says (`entry`), a table (`table`) and its lock (`locks`), the translations of a locked
//! table (`leaf`), ways through the tables (`walk`), tables made and unlinked (`change`), huge pages split (`huge`).

pub(crate) mod change;
pub(crate) mod entry;
pub(crate) mod huge;
pub(crate) mod leaf;
pub(crate) mod locks;
pub(crate) mod table;
pub(crate) mod walk;
