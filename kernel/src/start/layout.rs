//! The layout of physical memory: heap, kernel stacks, devices, and the rest for the memory manager.

use ceasefire_kernel_abi::options::Options;
use ceasefire_kernel_abi::sizes::{self, ALIGNMENT, DEVICES, LEAST_OF_NODE, STACK, STACK_TABLES};
use ceasefire_memory::{FrameNumber, PAGE_BYTES};

use crate::failure::refuse;
use crate::threads::stack;

/// Physical memory by use.
#[derive(Debug)]
pub(crate) struct Layout {
    /// The memory manager's first frame, and the number of its frames on each node.
    pub(crate) first: FrameNumber,
    pub(crate) frames_per_node: u32,
    /// The frames that stand in for devices: the first, and how many.
    pub(crate) disk: (u64, u32),
}

/// Shares out the physical memory from `start` to `end`, and gives the heap and the stacks their parts.
///
/// # Safety
/// Call it once, on one CPU, before the heap is used. Nothing may lie in that memory.
pub(crate) unsafe fn share_out((start, end): (u64, u64), cpus: usize, options: &Options) -> Layout {
    let (cpus, nodes) = (cpus as u64, options.nodes as u64);
    let total = end.saturating_sub(start);
    let stacks = sizes::stacks(cpus, options.threads, options.is_stale());
    let heap = sizes::heap(cpus) + total / PAGE_BYTES * sizes::HEAP_PER_PAGE;
    let disk = match options.disk {
        0 if options.is_stale() => total / 2,
        0 => DEVICES,
        mebibytes => mebibytes << 20,
    };
    let mut at = start.next_multiple_of(PAGE_BYTES);
    let mut take = |bytes: u64| {
        let begin = at;
        at += bytes.next_multiple_of(PAGE_BYTES);
        (begin, at)
    };
    let (heap, stack_memory, disk) = (take(heap), take(stacks * STACK + STACK_TABLES), take(disk));
    let first = disk.1.next_multiple_of(ALIGNMENT);
    let per_node = end.saturating_sub(first) / nodes / ALIGNMENT * ALIGNMENT;
    if per_node < LEAST_OF_NODE {
        let least = first - start + nodes * LEAST_OF_NODE + ALIGNMENT;
        refuse(format_args!(
            "{} MiB of free memory are too little for {cpus} CPUs, {nodes} nodes and {} MiB of devices: at least {} MiB are needed",
            total >> 20,
            (disk.1 - disk.0) >> 20,
            least.div_ceil(1 << 20)
        ));
    }
    // SAFETY: the pieces do not overlap, and nothing else uses them.
    unsafe {
        crate::start::heap::give(heap.0, heap.1);
        stack::give(stack_memory.0, stacks);
    }
    Layout {
        first: FrameNumber::new((first / PAGE_BYTES) as u32),
        frames_per_node: (per_node / PAGE_BYTES) as u32,
        disk: (disk.0 / PAGE_BYTES, ((disk.1 - disk.0) / PAGE_BYTES) as u32),
    }
}
