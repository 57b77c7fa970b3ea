//! Pages in memory that a device also has a place for: the page cache, and the swap device with its cache.
//!
//! Read in this order: the lock of a page (`page_lock`), finding and bringing in a page of a file (`page_cache`), the swap
//! device (`swap`), what the slots of both owe (`slot`).

pub(crate) mod page_cache;
pub(crate) mod page_lock;
pub(crate) mod slot;
pub(crate) mod swap;
