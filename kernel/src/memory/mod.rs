//! The kernel's side of the engine and the memory manager.
//!
//! [`platform`] implements the traits that the engine and the memory manager ask for. It uses the other files: the
//! memory manager's locks ([`spin`], [`sleep`]), answering other CPUs and waiting for them ([`answers`]), waiting for
//! pages ([`page_wait`]), background reclaim ([`reclaimer`]), the device for files and swap ([`device`]), and
//! the pattern in free frames ([`poison`]). [`ranges`] maps pages at addresses of the kernel.
//!
//! The class of a lock says which kind it needs. [`spin`] is for short times, with interrupts off where the class says
//! so. [`sleep`] is for locks whose holder may sleep. `ceasefire_memory::locks` states their order; debug builds check
//! it.

pub(crate) mod answers;
pub(crate) mod device;
pub(crate) mod page_wait;
pub(crate) mod platform;
pub(crate) mod poison;
mod published;
pub(crate) mod ranges;
pub(crate) mod reclaimer;
pub(crate) mod sleep;
pub(crate) mod spin;
