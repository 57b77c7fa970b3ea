//! The calls of programs, one file each.
//!
//! Read in this order: mmap (`map`), munmap and exit (`unmap`) and the walk that they share with others (`zap`),
//! mprotect (`protect`), mremap (`remap`), fork (`fork`), mlock (`lock_pages`), madvise (`advise`, `collapse`) and
//! its ranges (`ranges`), moving pages between nodes (`migrate`), and the calls on files (`file`).
//! `errors` holds the causes that errors share.

pub(crate) mod advise;
pub(crate) mod collapse;
mod errors;
pub(crate) mod file;
pub(crate) mod fork;
pub(crate) mod lock_pages;
pub(crate) mod map;
pub(crate) mod migrate;
pub(crate) mod protect;
pub(crate) mod ranges;
pub(crate) mod remap;
pub(crate) mod unmap;
pub(crate) mod zap;
