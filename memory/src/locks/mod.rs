//! The locks of the memory manager, the data that each guards, and their order.
//!
//! A task may take a lock only while all locks that it holds have a lower rank. It never holds two of one rank. Debug
//! builds check this on every acquisition. A flush waits for other CPUs, so it runs with interrupts on: no lock that is
//! held with interrupts off may be held over a flush.
//!
//! Four locks sleep. Reclaim and device waits run under the lock of a space or an area, and long walks let other tasks
//! run under the mappers' locks. All others are held for a short time and spin.
//!
//! | rank | lock | guards | its holder may sleep | held over a flush |
//! |---|---|---|---|---|
//! | 1 | space | the address ranges of a space; exclusive for changes, shared for operations across areas | yes | yes |
//! | 2 | area | one address range of a space; shared for faults and for advice about a part of it | yes | yes |
//! | 3 | mappers of a file | the list of mappings of a file; shared, it keeps the tables of those ranges in place, but for empty ones that DONTNEED frees | yes | yes |
//! | 4 | mappers of anonymous memory | the same for the private pages of an area and its forks | yes | yes |
//! | 5 | table | the entries of a page-table page (striped over all tables) | no | yes |
//! | 6 | kernel area | the addresses and page tables of a kernel area, and what its lazy unmaps keep back | no | yes |
//! | 7 | pages | changes of the frames of a file's pages, or of the swap device's slots; they are found without it | no | no |
//! | 8 | swap slots | the use count of each slot of the swap device | no | no |
//! | 9 | LRU batch | a CPU's pages on their way to the lists | no | no |
//! | 10 | LRU | a node's lists of pages | no | no |
//! | 11 | per-CPU frames | a CPU's free frames | no | no |
//! | 12 | zone | a node's buddy allocator | no | no |
//! | 13 | objects | the free identities of files and anonymous memory | no | no |
//!
//! The lock of a page (`page_lock`) is none of these: it may be held while a device works. A task that waits for a page
//! lock holds no lock at all. A task that holds one may take all locks except a space's and an area's, and further page
//! locks only without waiting.
//!
//! The kernel provides the locks: `lock.rs` has their interface, `classes.rs` their classes in the order of the table.

mod classes;
mod lock;

pub use classes::{
    ANONYMOUS_MAPPERS, AREA, CLASSES, FILE_MAPPERS, KERNEL_AREA, LRU, LRU_BATCH, OBJECTS, PAGES,
    PER_CPU_FRAMES, SPACE, SWAP_SLOTS, TABLE, ZONE,
};
pub use lock::{HeldLocks, Lock, LockClass, Rcu, RwLock};
