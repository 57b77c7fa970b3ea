//! What a program asks for, one file a call.
//!
//! Read in this order: munmap and exit (`unmap`), mprotect (`protect`), mremap (`remap`), fork (`fork`), mlock
//! (`lock_pages`), madvise (`advise`), and the calls on files (`file`).

pub(crate) mod advise;
pub(crate) mod file;
pub(crate) mod fork;
pub(crate) mod lock_pages;
pub(crate) mod protect;
pub(crate) mod remap;
pub(crate) mod unmap;
