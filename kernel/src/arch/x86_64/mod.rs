//! x86-64, as the SDM describes it (Intel, volume 3).

pub(crate) mod boot;
pub(crate) mod clock;
pub(crate) mod console;
pub(crate) mod features;
mod frame;
pub(crate) mod interrupts;
pub(crate) mod local_apic;
mod madt;
pub(crate) mod memory;
mod segments;
pub(crate) mod stack;
pub(crate) mod this_cpu;
pub(crate) mod tlb;

pub(crate) use frame::Frame;

/// The architecture's name.
pub(crate) const NAME: &str = "x86_64";
