//! Physical memory: the frames, who owns each, and the allocator.
//!
//! Read in this order: a frame and what is known about it (`frame`), lists of frames (`list`), which of them were used
//! lately (`lru`), the buddy allocator (`buddy`), a node with its watermarks (`node`) and the limits of what may owe in it
//! (`lazy`), the kernel's own access to frames (`direct`); then frames out (`allocate`), frames in (`free`), frames that
//! owe (`owing`), and free frames for other uses (`isolate`).

pub(crate) mod allocate;
pub(crate) mod buddy;
pub(crate) mod direct;
pub(crate) mod frame;
pub(crate) mod free;
pub(crate) mod isolate;
pub(crate) mod lazy;
pub(crate) mod list;
pub(crate) mod lru;
pub(crate) mod node;
pub(crate) mod owing;
