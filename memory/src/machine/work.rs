//! Work that a simulator charges time for.

/// Work that takes time, in the units in which a simulator charges it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// A fault, from the exception to its return, without what is listed below.
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
    /// A page that nobody holds taken off a list.
    LruRemove,
    /// A page taken off a list to be looked at.
    LruIsolate,
    /// A page put back.
    LruPutback,
    /// All else that reclaim does for a page that it looks at.
    ReclaimPage,
    /// A page-table page made or freed.
    TableChange,
    /// An address range added, changed or taken away.
    AreaChange,
    /// The rights of a translation changed.
    Protect,
    /// All else that migration does for a page that it moves.
    MigratePage,
}
