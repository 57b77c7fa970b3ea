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
//!
//! The kernel brings the locks: `lock.rs` has their interface, `classes.rs` the classes in the table's order.

mod classes;
mod lock;

pub use classes::{
    ANONYMOUS_MAPPERS, FILE_MAPPERS, LRU, LRU_BATCH, OBJECTS, PAGES, PER_CPU_FRAMES, SPACE, SWAP_SLOTS,
    TABLE, ZONE,
};
pub use lock::{HeldLocks, Lock, LockClass, RwLock};
