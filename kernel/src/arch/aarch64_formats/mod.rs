//! Two formats of 64-bit Arm as numbers: the operand of TLBI ([`tlbi`]) and the exception syndrome ([`syndrome`]). They
//! stand beside `aarch64` because their tests run on any host.

pub(crate) mod syndrome;
pub(crate) mod tlbi;
