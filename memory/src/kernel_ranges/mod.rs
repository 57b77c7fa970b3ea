//! Kernel ranges: frames that the kernel maps at addresses of its own, such as stacks and buffers.
//!
//! All spaces share the tables of these addresses, and their entries are global. A [`KernelArea`](area::KernelArea)
//! hands out address ranges of a part of them, maps frames there and unmaps them: strictly, or lazily with one flush
//! for many unmaps (Linux: vmalloc). The engine's [`KernelGather`](ceasefire::KernelGather) keeps back frames,
//! page-table pages and addresses until no CPU can use an old translation.
//!
//! `area` has the calls. `mapping` is what a caller owns. `room` hands out addresses, `tables` changes the kernel's
//! page tables, `stock` holds frames that a call has allocated and not used yet, and `kept` is what waits for a flush.

pub(crate) mod area;
mod kept;
pub(crate) mod mapping;
mod room;
mod stock;
mod tables;
