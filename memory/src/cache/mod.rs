//! Pages in memory that also have a place on a device: the page cache, and the swap device with its cache.
//!
//! Read in this order: the lock of a page (`page_lock`), finding and bringing in a page of a file (`page_cache`), the
//! swap device (`swap`), the debts of the slots of both (`slot`).

pub(crate) mod page_cache;
pub(crate) mod page_lock;
pub(crate) mod slot;
pub(crate) mod swap;
