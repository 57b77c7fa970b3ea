//! The sizes of the parts of memory, in bytes.

/// A page.
pub const PAGE: u64 = 4096;
/// A kernel stack. The deepest use is a batch of pages on its way to another node, some 14 KiB, with interrupts on top.
pub const STACK: u64 = 48 << 10;
/// The least memory of the memory manager on each node.
pub const LEAST_OF_NODE: u64 = 8 << 20;
/// The memory manager's frames begin at a multiple of this, its largest blocks, and each node has a multiple of it.
pub const ALIGNMENT: u64 = 4 << 20;
/// Devices for programs that write nothing: their own image is written out when memory is short.
pub const DEVICES: u64 = 4 << 20;
/// Page tables for the stacks: 2 MiB of addresses to a table, and the levels above.
pub const STACK_TABLES: u64 = 64 * PAGE;
/// Heap for each page of memory. The memory manager's records take 32 bytes a frame, the device's directory about as
/// many.
pub const HEAP_PER_PAGE: u64 = 80;

/// How many kernel stacks there are: a fixed number, some for each CPU, and one for each thread that the options ask
/// for. `stale` has that many threads in each of its scenarios, and needs some stacks on a small machine too.
pub const fn stacks(cpus: u64, threads: u64, stale: bool) -> u64 {
    const SCENARIOS: u64 = crate::SCENARIOS.len() as u64;
    const MOST_READERS: u64 = 16;
    const MOST_THREADS: u64 = 1024;
    let threads = if !stale {
        if threads < MOST_THREADS {
            threads
        } else {
            MOST_THREADS
        }
    } else if threads < MOST_READERS {
        52 + SCENARIOS * threads
    } else {
        52 + SCENARIOS * MOST_READERS
    };
    16 + 12 * cpus + threads
}

/// The heap, without its part for each page of memory.
pub const fn heap(cpus: u64) -> u64 {
    (8 << 20) + cpus * (128 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_tables_map_all_stacks_that_there_can_be() {
        // Below each stack is an unmapped page.
        let addresses = stacks(64, u64::MAX, false).max(stacks(64, u64::MAX, true)) * (STACK + PAGE);
        let tables = addresses.div_ceil(2 << 20) + 1 + 2;
        assert!(tables * PAGE <= STACK_TABLES, "{tables} tables");
    }
}
