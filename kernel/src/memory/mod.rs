//! What the engine and the memory manager ask of a kernel. [`platform`] implements their traits; the other files are what
//! it uses: the locks of the memory manager ([`spin`], [`sleep`]), waiting for pages ([`page_wait`]), the device that holds
//! files and swap ([`device`]), and the pattern in free frames ([`poison`]).

pub(crate) mod device;
pub(crate) mod page_wait;
pub(crate) mod platform;
pub(crate) mod poison;
pub(crate) mod sleep;
pub(crate) mod spin;
