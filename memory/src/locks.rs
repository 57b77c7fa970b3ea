//! Every lock of the memory manager: what it guards, and the order in which locks are taken.
//!
//! A task may take a lock only while all it holds have a lower rank; no two of one rank at once. Debug builds check
//! it on every acquisition. A flush waits for other CPUs, so it is done with interrupts on: no lock that is held
//! with interrupts off may be held over one.
//!
//! Memory is reclaimed and devices are waited for under the lock of a space, and long walks let others run under those
//! of mappers: so these three sleep. All others are held for a short time and spin.
//!
//! | rank | lock | guards | its holder may sleep | held over a flush |
//! |---|---|---|---|---|
//! | 1 | space | the address ranges of a space; exclusive for changes, shared for faults | yes | yes |
//! | 2 | mappers of a file | who maps a file; shared, it keeps the tables of those ranges in place | yes | yes |
//! | 3 | mappers of anonymous memory | the same for the private pages of an area and its forks | yes | yes |
//! | 4 | table | the entries of a page-table page (striped over all tables) | no | yes |
//! | 5 | pages | which frame holds which page of a file, or which slot of the swap device | no | no |
//! | 6 | swap slots | which slots of the swap device are in use, and how often | no | no |
//! | 7 | LRU batch | a CPU's pages on their way to the lists | no | no |
//! | 8 | LRU | a node's lists of pages | no | no |
//! | 9 | per-CPU frames | a CPU's free frames | no | no |
//! | 10 | zone | a node's buddy allocator | no | no |
//! | 11 | objects | the free identities of files and anonymous memory | no | no |
//!
//! The lock of a page (`page_lock`) is none of these: it may be held while a device works. Whoever waits for one holds
//! nothing at all; whoever holds one may take all but the space's, and further pages' only if they are free.

use ceasefire::LockClass;

/// The address ranges of a space.
pub static SPACE: LockClass = LockClass { name: "space", rank: 1, sleeps: true, interrupts_off: false };
/// The mappers of a file.
pub static FILE_MAPPERS: LockClass =
    LockClass { name: "file mappers", rank: 2, sleeps: true, interrupts_off: false };
/// The mappers of anonymous memory.
pub static ANONYMOUS_MAPPERS: LockClass =
    LockClass { name: "anonymous mappers", rank: 3, sleeps: true, interrupts_off: false };
/// A page-table page.
pub static TABLE: LockClass = LockClass { name: "table", rank: 4, sleeps: false, interrupts_off: false };
/// The pages of a file or of the swap device.
pub static PAGES: LockClass = LockClass { name: "pages", rank: 5, sleeps: false, interrupts_off: true };
/// The slots of the swap device.
pub static SWAP_SLOTS: LockClass =
    LockClass { name: "swap slots", rank: 6, sleeps: false, interrupts_off: true };
/// A CPU's pages on their way to the lists.
pub static LRU_BATCH: LockClass =
    LockClass { name: "LRU batch", rank: 7, sleeps: false, interrupts_off: false };
/// A node's lists of pages.
pub static LRU: LockClass = LockClass { name: "LRU", rank: 8, sleeps: false, interrupts_off: true };
/// A CPU's free frames.
pub static PER_CPU_FRAMES: LockClass =
    LockClass { name: "per-CPU frames", rank: 9, sleeps: false, interrupts_off: true };
/// A node's buddy allocator.
pub static ZONE: LockClass = LockClass { name: "zone", rank: 10, sleeps: false, interrupts_off: true };
/// The identities of files and anonymous memory.
pub static OBJECTS: LockClass = LockClass { name: "objects", rank: 11, sleeps: false, interrupts_off: false };

#[cfg(test)]
mod tests {
    use super::*;

    static ALL: [&LockClass; 11] = [
        &SPACE,
        &FILE_MAPPERS,
        &ANONYMOUS_MAPPERS,
        &TABLE,
        &PAGES,
        &SWAP_SLOTS,
        &LRU_BATCH,
        &LRU,
        &PER_CPU_FRAMES,
        &ZONE,
        &OBJECTS,
    ];

    #[test]
    fn locks_that_sleep_rank_below_those_that_spin_and_leave_interrupts_on() {
        for (rank, class) in (1..).zip(ALL) {
            assert_eq!((class.rank, class.sleeps), (rank, rank <= 3), "{}", class.name);
            assert!(!(class.sleeps && class.interrupts_off), "{}", class.name);
        }
    }
}
