//! Work that a simulator charges time for.

/// Work that takes time, in the units in which a simulator charges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// A fault, from the exception to its return, without the work listed below.
    Fault,
    /// A page looked up in a file.
    CacheFind,
    /// A page put into a file.
    CacheInsert,
    /// A page taken out of a file.
    CacheRemove,
    /// A frame taken from the CPU's own list.
    FrameAllocate,
    /// A frame given back.
    FrameFree,
    /// A frame moved between a CPU's list and the buddy allocator.
    Buddy,
    /// A translation made.
    Map,
    /// A translation cleared.
    Unmap,
    /// A mapping of a page visited through the reverse map.
    ReverseMap,
    /// A page put on a list for the first time.
    LruAdd,
    /// A page without holders taken off a list.
    LruRemove,
    /// A page isolated from a list for inspection.
    LruIsolate,
    /// A page put back.
    LruPutback,
    /// Reclaim's other work for a page that it examines.
    ReclaimPage,
    /// A page-table page made or freed.
    TableChange,
    /// An address range added, changed or removed.
    AreaChange,
    /// The rights of a translation changed.
    Protect,
    /// Migration's other work for a page that it moves.
    MigratePage,
}
