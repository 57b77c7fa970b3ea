//! Kernel ranges: translations of the kernel's own addresses, which are the same in every space.
//!
//! They are stacks, vmalloc and module text. Their entries are global, so every online CPU may hold them, also a lazy
//! CPU and one on the kernel's own tables. They have a generation of their own. Every flush raises it, and every CPU
//! records the generation that it has reached.
//!
//! - `flush` reaches the CPUs.
//! - `gather` keeps addresses, frames and page-table pages back until a flush.
//! - `entry` is for isolated CPUs, which flush at their next entry into the kernel and are not interrupted.
//! - `window` is for addresses that each CPU flushes by itself.

mod entry;
mod flush;
mod gather;
mod window;

use crate::cpu_set::{AtomicCpuSet, CpuId};
use crate::space::{AtomicGeneration, Generation};

pub use gather::KernelGather;

/// The CPUs that may hold entries of kernel ranges, and the newest flush.
#[derive(Debug)]
pub(crate) struct KernelRanges {
    online: AtomicCpuSet,
    generation: AtomicGeneration,
}

impl KernelRanges {
    pub(crate) const fn new() -> Self {
        Self { online: AtomicCpuSet::new(), generation: AtomicGeneration::new(Generation::FIRST) }
    }

    /// Adds a CPU that comes online. The CPU reads the generation afterwards. A flush that does not find the CPU here
    /// has raised the generation before.
    pub(crate) fn join(&self, cpu: CpuId) {
        self.online.insert(cpu);
    }

    /// The CPUs that are online.
    pub(crate) fn online(&self) -> &AtomicCpuSet {
        &self.online
    }

    /// Removes a CPU that goes offline. No flush waits for it from here on.
    pub(crate) fn leave(&self, cpu: CpuId) {
        self.online.remove(cpu);
    }
}
