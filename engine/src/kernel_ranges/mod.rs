//! Kernel ranges: translations that every CPU may hold, whatever space it has loaded.
//!
//! Stacks, vmalloc, module text, and the page-table pages that translate them. Entries of these ranges are global, so no
//! address space stands for them: every online CPU is a holder, also a lazy CPU and one on the kernel's own tables. They
//! have a generation of their own. Every flush raises it, and every CPU records the generation that it has reached.
//!
//! `flush` reaches the CPUs. `gather` keeps addresses, frames and page-table pages back until a flush. `entry` is for
//! isolated CPUs, which flush at their next entry into the kernel instead of being interrupted.

mod entry;
mod flush;
mod gather;

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

    /// A CPU comes online. It reads the generation afterwards: a flusher that does not find it here has raised the
    /// generation before.
    pub(crate) fn join(&self, cpu: CpuId) {
        self.online.insert(cpu);
    }

    /// A CPU goes offline, and is not waited for any more.
    pub(crate) fn leave(&self, cpu: CpuId) {
        self.online.remove(cpu);
    }
}
