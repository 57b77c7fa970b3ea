//! Every lock of the memory manager: what it guards, and the order in which locks are taken.
//!
//! A task may take a lock only while all it holds have a lower rank; no two of one rank at once. Debug builds check
//! it on every acquisition. A flush waits for other CPUs, so it is done with interrupts on: no lock that is held
//! with interrupts off may be held over one.
//!
//! | rank | lock | guards | held over a flush |
//! |---|---|---|---|
//! | 1 | space | the address ranges of a space; exclusive for changes, shared for faults | yes |
//! | 2 | mappers | who maps a file; shared, it keeps the tables of those ranges from being freed | yes |
//! | 3 | table | the entries of a page-table page (striped over all tables) | yes |
//! | 4 | pages | which frame holds which page of a file | no |
//! | 5 | LRU batch | a CPU's pages on their way to the lists | no |
//! | 6 | LRU | a node's lists of pages | no |
//! | 7 | per-CPU frames | a CPU's free frames | no |
//! | 8 | zone | a node's buddy allocator | no |
//! | 9 | objects | the free identities of files | no |

use ceasefire::LockClass;

/// The address ranges of a space.
pub static SPACE: LockClass = LockClass { name: "space", rank: 1, interrupts_off: false };
/// The mappers of a file.
pub static MAPPERS: LockClass = LockClass { name: "mappers", rank: 2, interrupts_off: false };
/// A page-table page.
pub static TABLE: LockClass = LockClass { name: "table", rank: 3, interrupts_off: false };
/// The pages of a file.
pub static PAGES: LockClass = LockClass { name: "pages", rank: 4, interrupts_off: true };
/// A CPU's pages on their way to the lists.
pub static LRU_BATCH: LockClass = LockClass { name: "LRU batch", rank: 5, interrupts_off: false };
/// A node's lists of pages.
pub static LRU: LockClass = LockClass { name: "LRU", rank: 6, interrupts_off: true };
/// A CPU's free frames.
pub static PER_CPU_FRAMES: LockClass = LockClass { name: "per-CPU frames", rank: 7, interrupts_off: true };
/// A node's buddy allocator.
pub static ZONE: LockClass = LockClass { name: "zone", rank: 8, interrupts_off: true };
/// The identities of files.
pub static OBJECTS: LockClass = LockClass { name: "objects", rank: 9, interrupts_off: false };
