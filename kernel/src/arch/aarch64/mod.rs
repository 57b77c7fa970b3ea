//! 64-bit Arm, by the Arm Architecture Reference Manual (DDI 0487), with a generic interrupt controller of version 3
//! (IHI 0069) and firmware with PSCI (DEN 0022).

pub(crate) mod boot;
pub(crate) mod clock;
pub(crate) mod console;
pub(crate) mod features;
mod frame;
pub(crate) mod gic;
pub(crate) mod interrupts;
pub(crate) mod memory;
pub(crate) mod psci;
pub(crate) mod stack;
pub(crate) mod this_cpu;
pub(crate) mod tlb;

pub(crate) use frame::Frame;

/// The architecture's name.
pub(crate) const NAME: &str = "aarch64";
