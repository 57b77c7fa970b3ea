//! The classes of the memory manager's locks, in the order of their ranks.

use super::LockClass;

/// The address ranges of a space.
pub static SPACE: LockClass = LockClass { name: "space", rank: 1, sleeps: true, interrupts_off: false };
/// One area of a space.
pub static AREA: LockClass = LockClass { name: "area", rank: 2, sleeps: true, interrupts_off: false };
/// The mappers of a file.
pub static FILE_MAPPERS: LockClass =
    LockClass { name: "file mappers", rank: 3, sleeps: true, interrupts_off: false };
/// The mappers of anonymous memory.
pub static ANONYMOUS_MAPPERS: LockClass =
    LockClass { name: "anonymous mappers", rank: 4, sleeps: true, interrupts_off: false };
/// A page-table page.
pub static TABLE: LockClass = LockClass { name: "table", rank: 5, sleeps: false, interrupts_off: false };
/// The addresses and page tables of a kernel area, and what its lazy unmaps keep back.
pub static KERNEL_AREA: LockClass =
    LockClass { name: "kernel area", rank: 6, sleeps: false, interrupts_off: false };
/// The pages of a file or of the swap device.
pub static PAGES: LockClass = LockClass { name: "pages", rank: 7, sleeps: false, interrupts_off: true };
/// The slots of the swap device.
pub static SWAP_SLOTS: LockClass =
    LockClass { name: "swap slots", rank: 8, sleeps: false, interrupts_off: true };
/// A CPU's pages on their way to the lists.
pub static LRU_BATCH: LockClass =
    LockClass { name: "LRU batch", rank: 9, sleeps: false, interrupts_off: false };
/// A node's lists of pages.
pub static LRU: LockClass = LockClass { name: "LRU", rank: 10, sleeps: false, interrupts_off: true };
/// A CPU's free frames.
pub static PER_CPU_FRAMES: LockClass =
    LockClass { name: "per-CPU frames", rank: 11, sleeps: false, interrupts_off: true };
/// A node's buddy allocator.
pub static ZONE: LockClass = LockClass { name: "zone", rank: 12, sleeps: false, interrupts_off: true };
/// The identities of files and anonymous memory.
pub static OBJECTS: LockClass = LockClass { name: "objects", rank: 13, sleeps: false, interrupts_off: false };

/// All classes. The class of rank r is at r - 1.
pub static CLASSES: [&LockClass; 13] = [
    &SPACE,
    &AREA,
    &FILE_MAPPERS,
    &ANONYMOUS_MAPPERS,
    &TABLE,
    &KERNEL_AREA,
    &PAGES,
    &SWAP_SLOTS,
    &LRU_BATCH,
    &LRU,
    &PER_CPU_FRAMES,
    &ZONE,
    &OBJECTS,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_that_sleep_rank_below_those_that_spin_and_leave_interrupts_on() {
        for (rank, class) in (1..).zip(CLASSES) {
            assert_eq!((class.rank, class.sleeps), (rank, rank <= 4), "{}", class.name);
            assert!(!(class.sleeps && class.interrupts_off), "{}", class.name);
        }
    }
}
