//! The parts of the machine: TLBs, memory, the storage device. They are plain data, without a clock.
//!
//! Start with `numbers` and `tlb`. `outdated` and `may_hold` make broadcasts cheap to simulate. `ram` holds frames,
//! `contents` the blocks of devices. `device` says how long a request takes, `prices` what a unit of work costs.

pub(crate) mod contents;
pub(crate) mod device;
pub(crate) mod may_hold;
pub(crate) mod numbers;
pub(crate) mod outdated;
pub(crate) mod prices;
pub(crate) mod ram;
pub(crate) mod tlb;
