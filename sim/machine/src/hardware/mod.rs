//! The parts of the machine: TLBs, memory, the storage device. They are plain data, without a clock.
//!
//! Start with `numbers` and `tlb`. `outdated` and `may_hold` make broadcasts cheap to simulate. `ram` holds the bytes
//! of frames, `contents` those of a device's blocks and the patterns of frames that no program wrote. `device` computes the time that a request takes. `prices` holds
//! the cost of each unit of work.

pub(crate) mod contents;
pub(crate) mod device;
pub(crate) mod may_hold;
pub(crate) mod memories;
pub(crate) mod numbers;
pub(crate) mod outdated;
pub(crate) mod prices;
pub(crate) mod ram;
pub(crate) mod tlb;
