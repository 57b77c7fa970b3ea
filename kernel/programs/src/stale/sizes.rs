//! The number of scenarios and the largest region. The layout of the [`board`](super::board) depends on both.

/// The number of scenarios.
pub(super) const COUNT: usize = ceasefire_kernel_abi::SCENARIOS.len();
/// Pages that one page table translates.
pub(super) const TABLE: u64 = 512;
/// Pages of a large region: all that one table translates, and some more.
pub(super) const LARGE: u64 = TABLE + 8;
