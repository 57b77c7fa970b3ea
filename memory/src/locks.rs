//! Every lock of the memory manager: what it guards, and the order in which locks are taken.
//!
//! A task may take a lock only while all it holds have a lower rank; no two of one rank at once. Debug builds check
//! it on every acquisition. A flush waits for other CPUs, so it is done with interrupts on: no lock that is held
//! with interrupts off may be held over one.
//!
//! | rank | lock | guards | held over a flush |
//! |---|---|---|---|
//! | 1 | space | the address ranges of a space; exclusive for changes, shared for faults | yes |
//! | 2 | mappers of a file | who maps a file; shared, it keeps the tables of those ranges in place | yes |
//! | 3 | mappers of anonymous memory | the same for the private pages of an area and its forks | yes |
//! | 4 | table | the entries of a page-table page (striped over all tables) | yes |
//! | 5 | pages | which frame holds which page of a file, or which slot of the swap device | no |
//! | 6 | swap slots | which slots of the swap device are in use, and how often | no |
//! | 7 | LRU batch | a CPU's pages on their way to the lists | no |
//! | 8 | LRU | a node's lists of pages | no |
//! | 9 | per-CPU frames | a CPU's free frames | no |
//! | 10 | zone | a node's buddy allocator | no |
//! | 11 | objects | the free identities of files and anonymous memory | no |
//!
//! The lock of a page (`page_lock`) is none of these: it may be held while a device works. Whoever waits for one holds
//! nothing at all; whoever holds one may take all but the space's, and further pages' only if they are free.

use ceasefire::LockClass;

/// The address ranges of a space.
pub static SPACE: LockClass = LockClass { name: "space", rank: 1, interrupts_off: false };
/// The mappers of a file.
pub static FILE_MAPPERS: LockClass = LockClass { name: "file mappers", rank: 2, interrupts_off: false };
/// The mappers of anonymous memory.
pub static ANONYMOUS_MAPPERS: LockClass =
    LockClass { name: "anonymous mappers", rank: 3, interrupts_off: false };
/// A page-table page.
pub static TABLE: LockClass = LockClass { name: "table", rank: 4, interrupts_off: false };
/// The pages of a file or of the swap device.
pub static PAGES: LockClass = LockClass { name: "pages", rank: 5, interrupts_off: true };
/// The slots of the swap device.
pub static SWAP_SLOTS: LockClass = LockClass { name: "swap slots", rank: 6, interrupts_off: true };
/// A CPU's pages on their way to the lists.
pub static LRU_BATCH: LockClass = LockClass { name: "LRU batch", rank: 7, interrupts_off: false };
/// A node's lists of pages.
pub static LRU: LockClass = LockClass { name: "LRU", rank: 8, interrupts_off: true };
/// A CPU's free frames.
pub static PER_CPU_FRAMES: LockClass = LockClass { name: "per-CPU frames", rank: 9, interrupts_off: true };
/// A node's buddy allocator.
pub static ZONE: LockClass = LockClass { name: "zone", rank: 10, interrupts_off: true };
/// The identities of files and anonymous memory.
pub static OBJECTS: LockClass = LockClass { name: "objects", rank: 11, interrupts_off: false };
