//! The least memory and the most threads of a run, known before anything is booted. They bound the kernel's layout
//! (`kernel/src/start/layout.rs`) from above.

use ceasefire_kernel_abi::options::Options;
use ceasefire_kernel_abi::sizes::{self, ALIGNMENT, DEVICES, HEAP_PER_PAGE, LEAST_OF_NODE, PAGE, STACK};
use ceasefire_kernel_abi::CREW;

use super::options::{Run, MIB};

/// Memory that firmware, the kernel's image and its programs take first.
const LOADED: u64 = 8 * MIB;
/// Page tables, stack and image of a process of `mmap-read`, each of which reads through at least a few pages.
const PER_READER: u64 = 256 << 10;

/// The most readers of a scenario of `stale`.
const READERS: u64 = 16;

/// Bytes that stand in for devices, if the kernel must be told. For a program that writes nothing of its own, the
/// kernel's default holds no swap.
pub(super) fn devices(swap: u32, program: &str) -> Option<u64> {
    let swap = u64::from(swap) * PAGE;
    (swap > 0 && program != "stale").then(|| DEVICES + swap.next_multiple_of(MIB))
}

/// The least memory, in bytes and whole MiB, on which the kernel starts the program and leaves it some to use.
pub(super) fn least_memory(Run { cpus, kernel, .. }: &Run) -> u64 {
    let Options { program, nodes, threads, swap, .. } = *kernel;
    let stacks = sizes::stacks(*cpus, threads, kernel.is_stale()) * STACK + sizes::STACK_TABLES;
    let mut fixed = stacks + sizes::heap(*cpus) + ALIGNMENT + LEAST_OF_NODE * nodes as u64;
    let mut left_of_page = PAGE - HEAP_PER_PAGE;
    if kernel.is_stale() {
        left_of_page -= PAGE / 2;
    } else {
        fixed += devices(swap, program).unwrap_or(DEVICES);
    }
    if program == "mmap-read" {
        fixed += PER_READER * if threads == 0 { *cpus } else { threads };
    }
    let mut free = fixed.div_ceil(left_of_page) * PAGE;
    if kernel.is_stale() {
        // Files need as much of the devices as swap.
        free = free.max(4 * u64::from(swap) * PAGE);
    }
    (LOADED + free).next_multiple_of(MIB)
}

/// The largest value of `--threads`.
pub(super) fn most_threads(program: &str) -> u64 {
    if program == "stale" {
        READERS
    } else {
        CREW as u64
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::tests::run;
    use super::*;

    fn least(program: &str, line: &str) -> u64 {
        least_memory(&run(&format!("--program {program} {line}")))
    }

    #[test]
    fn devices_hold_the_swap() {
        assert_eq!(devices(257, "hello"), Some(6 * MIB));
        assert_eq!((devices(257, "stale"), devices(0, "hello")), (None, None));
        assert_eq!(least("hello", "--swap 257") - least("hello", ""), 2 * MIB);
        assert_eq!(least("stale", "--swap 100000 --memory 2G") / MIB, 8 + 4 * 100_000 * 4096 / MIB + 1);
    }

    #[test]
    fn a_larger_machine_needs_more_memory() {
        let order =
            ["--cpus 1", "--cpus 4 --nodes 1", "--cpus 4", "--cpus 8 --nodes 8", "--cpus 64 --nodes 8"];
        for program in ["hello", "mmap-read", "stale"] {
            let least = order.map(|line| least(program, line));
            assert!(least.is_sorted() && least[0] < least[4], "{program}: {least:?}");
        }
        assert!(least("stale", "") > least("hello", ""));
    }

    #[test]
    fn threads_need_memory() {
        for (program, each) in [("migrate", STACK), ("mmap-read", STACK + PER_READER), ("hello", STACK)] {
            let more = least(program, "--threads 256 --memory 2G") - least(program, "--threads 16");
            // Whole MiB, and a little more for the heap that goes with it.
            let least = 240 * each;
            assert!((least - MIB..least / 20 * 21 + MIB).contains(&more), "{program}: {more}");
        }
    }
}
