//! How little memory is enough and how many threads are not too many, before anything is booted: the kernel's layout
//! (`kernel/src/layout.rs`), from above.

use super::options::{Parameters, MIB};

/// Kernel stacks at least, and for each CPU; `stale` has some more, and one for each thread in each of its scenarios; bytes of
/// each.
const STACKS: u64 = 16;
const STACKS_PER_CPU: u64 = 12;
const STACKS_OF_STALE: u64 = 40;
const SCENARIOS: u64 = 16;
const STACK: u64 = 48 << 10;
/// Bytes of heap and of page tables at least, of heap for each CPU, and of heap for each page of memory.
const HEAP: u64 = 9 * MIB;
const HEAP_PER_CPU: u64 = 128 << 10;
const HEAP_PER_PAGE: u64 = 80;
/// What stands in for devices besides the swap device. In `stale` it is half the memory, swap included.
const DEVICES: u64 = 4 * MIB;
/// What the memory manager has at least on each node, and where its part may begin and end.
const PER_NODE: u64 = 8 * MIB;
const ALIGNMENT: u64 = 4 * MIB;
/// What firmware, the kernel's image and its programs take before all that.
const LOADED: u64 = 8 * MIB;
const PAGE: u64 = 4096;
/// Page tables, stack and image of a process of `mmap-read`, each of which reads through a few pages at least.
const PER_READER: u64 = 256 << 10;

/// A program waits for no more threads or processes than these.
const CREW: u64 = 256;
/// A scenario of `stale` has room for so many readers.
const READERS: u64 = 16;

/// Bytes that stand in for devices, where the kernel does not know by itself: for a program that writes nothing of its own it
/// takes what is enough without swap.
pub(super) fn devices(parameters: &Parameters, program: &str) -> Option<u64> {
    let swap = parameters.swap * PAGE;
    (swap > 0 && program != "stale").then(|| DEVICES + swap.next_multiple_of(MIB))
}

/// The least memory, in bytes and whole MiB, on which the kernel starts `program`, and it has some to use.
pub(super) fn least_memory(parameters: &Parameters, program: &str) -> u64 {
    let Parameters { cpus, nodes, threads, swap, .. } = *parameters;
    let stacks = match program {
        "stale" => STACKS_OF_STALE + SCENARIOS * threads.min(SCENARIOS),
        _ => threads,
    } + STACKS
        + STACKS_PER_CPU * cpus;
    let mut fixed = stacks * STACK + HEAP + HEAP_PER_CPU * cpus + ALIGNMENT + PER_NODE * nodes;
    let mut left_of_page = PAGE - HEAP_PER_PAGE;
    match program {
        "stale" => left_of_page -= PAGE / 2,
        _ => fixed += devices(parameters, program).unwrap_or(DEVICES),
    }
    if program == "mmap-read" {
        fixed += PER_READER * if threads == 0 { cpus } else { threads };
    }
    let mut free = fixed.div_ceil(left_of_page) * PAGE;
    if program == "stale" {
        // Files need as much of the devices as swap.
        free = free.max(4 * swap * PAGE);
    }
    (LOADED + free).next_multiple_of(MIB)
}

/// The most that `--threads` can be.
pub(super) fn most_threads(program: &str) -> u64 {
    if program == "stale" {
        READERS
    } else {
        CREW
    }
}

#[cfg(test)]
mod tests {
    use super::super::options::Options;
    use super::*;

    fn parameters(line: &str) -> Parameters {
        Options::parse(&line.split_whitespace().collect::<Vec<_>>()).unwrap().parameters
    }

    #[test]
    fn devices_hold_the_swap_that_was_asked_for() {
        let with = parameters("--swap 257");
        assert_eq!(devices(&with, "hello"), Some(6 * MIB));
        assert_eq!((devices(&with, "stale"), devices(&parameters(""), "hello")), (None, None));
        assert_eq!(least_memory(&with, "hello") - least_memory(&parameters(""), "hello"), 2 * MIB);
        let much = parameters("--swap 100000 --memory 2G");
        assert_eq!(least_memory(&much, "stale") / MIB, 8 + 4 * 100_000 * 4096 / MIB + 1);
    }

    #[test]
    fn what_is_larger_needs_more() {
        let order =
            ["--cpus 1", "--cpus 4 --nodes 1", "--cpus 4", "--cpus 8 --nodes 8", "--cpus 64 --nodes 8"];
        for program in ["hello", "mmap-read", "stale"] {
            let least: Vec<_> = order.map(|line| least_memory(&parameters(line), program)).into();
            assert!(least.is_sorted() && least[0] < least[4], "{program}: {least:?}");
        }
        assert!(least_memory(&parameters(""), "stale") > least_memory(&parameters(""), "hello"));
    }

    #[test]
    fn threads_need_memory() {
        for (program, each) in [("migrate", STACK), ("mmap-read", STACK + PER_READER), ("hello", STACK)] {
            let [few, many] = ["16", "256 --memory 2G"]
                .map(|threads| parameters(&format!("--program migrate --threads {threads}")));
            let more = least_memory(&many, program) - least_memory(&few, program);
            // A little more, for the heap that goes with it.
            let least = 240 * each;
            assert!((least..least / 20 * 21 + MIB).contains(&more), "{program}: {more}");
        }
    }
}
