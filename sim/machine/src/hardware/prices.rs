//! The costs of the memory manager's units of work, from the machine file.

use ceasefire_memory::Work;

use crate::config::{Costs, Picoseconds};

/// The cost of each unit of work, indexed by [`Work`].
#[derive(Debug)]
pub(crate) struct Prices([Picoseconds; 19]);

impl Prices {
    pub(crate) fn new(costs: &Costs) -> Self {
        let mut prices = [0; 19];
        for (work, cost) in [
            (Work::Fault, costs.fault),
            (Work::CacheFind, costs.cache_find),
            (Work::CacheInsert, costs.cache_insert),
            (Work::CacheRemove, costs.cache_remove),
            (Work::FrameAllocate, costs.frame_allocate),
            (Work::FrameFree, costs.frame_free),
            (Work::Buddy, costs.buddy),
            (Work::Map, costs.map),
            (Work::Unmap, costs.unmap),
            (Work::ReverseMap, costs.rmap),
            (Work::LruAdd, costs.lru_add),
            (Work::LruRemove, costs.lru_add),
            (Work::LruIsolate, costs.lru_isolate),
            (Work::LruPutback, costs.lru_putback),
            (Work::ReclaimPage, costs.reclaim_page),
            (Work::TableChange, costs.table_allocate),
            (Work::AreaChange, costs.area_change),
            (Work::Protect, costs.protect),
            (Work::MigratePage, costs.migrate_page),
        ] {
            prices[work as usize] = cost;
        }
        Self(prices)
    }

    /// Whether a CPU mostly waits for memory during this work: for the lines of pages that no cache holds.
    pub(crate) const fn waits_for_memory(work: Work) -> bool {
        matches!(
            work,
            Work::ReverseMap | Work::LruAdd | Work::LruRemove | Work::LruIsolate | Work::LruPutback
        )
    }

    pub(crate) fn of(&self, work: Work) -> Picoseconds {
        self.0[work as usize]
    }
}
