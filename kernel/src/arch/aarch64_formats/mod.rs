//! Two formats of 64-bit Arm as numbers: the operand of TLBI ([`tlbi`]) and the exception syndrome ([`syndrome`]).
//! Their tests run on any host, so they stand beside `aarch64`.

pub(crate) mod syndrome;
pub(crate) mod tlbi;
