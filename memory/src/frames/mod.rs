//! Physical memory: frames, their owners, and the allocator.
//!
//! Read in this order: a frame and the information about it (`frame`), lists of frames (`list`), the lists of recently
//! used pages (`lru`), the buddy allocator (`buddy`), a node with its watermarks (`node`) and its bounds on debts
//! (`lazy`), the kernel's own access to frames (`direct`). Then follow allocation (`allocate`), freeing (`free`) of many
//! pages (`released`), owing frames (`owing`), and free frames for other uses (`isolate`).

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
pub(crate) mod released;
