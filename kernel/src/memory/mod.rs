//! What the engine and the memory manager ask of a kernel. [`kernel`] is the memory manager as the rest of the
//! kernel sees it. [`platform`] implements the traits; the other files are what
//! it uses: the locks of the memory manager ([`spin`], [`sleep`]), waiting for other
//! CPUs (`answers`) and for pages ([`page_wait`]), the device that holds
//! files and swap ([`device`]), the pattern in free frames ([`poison`]), and
//! the threads that reclaim in the background ([`reclaimer`]).

mod answers;
pub(crate) mod device;
pub(crate) mod kernel;
pub(crate) mod page_wait;
pub(crate) mod platform;
pub(crate) mod poison;
pub(crate) mod reclaimer;
pub(crate) mod sleep;
pub(crate) mod spin;
