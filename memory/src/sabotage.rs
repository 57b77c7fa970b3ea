//! For tests: remove one guard, and show that the rule it upholds is broken.
//!
//! These are the memory manager's own guards. The engine has others, and its
//! [documentation](https://docs.rs/ceasefire) says why only `RUSTFLAGS="--cfg ceasefire_sabotage"` makes guards
//! removable. In a build without the cfg every guard stands: `Memory::guarded` is then the constant `true`, and nothing
//! of this module is in the machine code; `cargo xtask test` checks that.

use crate::machine::Machine;
use crate::Memory;

ceasefire::guards! {
// ANCHOR: guards
    /// The check of the debt in a page's slot, before the page is found, brought in or changed.
    Slot [R6] "a page is written, mapped or swapped in while a CPU can read an older copy"
        { memory/tests/shadow.rs: a_page_of_a_file_that_is_found_before_its_slots_debt_is_settled_is_seen,
          a_page_that_is_swapped_in_before_its_slots_debt_is_settled_is_seen,
          a_neighbour_that_fault_around_maps_before_its_slots_debt_is_settled_is_seen }
    /// A task that has found a page without a lock, and holds it, looks whether it is still in its place.
    Recheck [stores] "a program reads the page that got the frame of the page it wanted"
        { scenario M25 }
    /// The flush of a mapping of a file before the file forgets the mapping.
    Unhook [R6]
        "a file is truncated and written while a CPU reads the old page through a mapping that the file has forgotten"
        { memory/tests/orders.rs: a_mapping_of_a_file_is_flushed_before_the_file_forgets_it }
    /// The flush of a table with pages of files that were stored to, before the table is unlocked.
    DirtyTable [R5]
        "`sync` finds no entry of the page and writes it out; then a CPU stores through its old entry (Linux commit 1cf35d47712d)"
        { memory/tests/orders.rs: a_table_with_stored_pages_of_a_file_is_flushed_before_it_is_unlocked }
    /// A page with other holders is not written out by reclaim, because one of them may have cleared a translation
    /// that is not flushed yet.
    Holders [R5] "reclaim finds no entry of the page and writes it out; then a CPU stores through its old entry"
        { memory/tests/orders.rs: reclaim_writes_out_no_page_that_an_unmap_still_holds,
          reclaim_writes_out_no_page_that_was_mapped_again }
    /// Reclaim keeps a page that was stored to after its program gave it up.
    Restore [stores] "reclaim drops a page that was stored to after its program gave it up"
        { memory/tests/swap.rs: a_store_keeps_a_page_that_was_given_up,
          without_its_guards_a_store_to_a_page_that_was_given_up_is_lost }
    /// A store fault waits for a page that is locked.
    Stable [R5] "a store lands in a page while it is written out"
        { memory/tests/files.rs: a_store_waits_for_the_write_out_and_is_written_by_the_next,
          without_its_wait_a_store_lands_in_a_page_that_is_being_written }
    /// A fault that finds the mark of a page that is being given back looks whether that is flushed.
    Mark [R7] "a fault maps a new page while a CPU can read the one that another thread is giving back"
        { memory/tests/orders.rs: a_page_is_flushed_before_another_takes_its_place }
    /// A task that has locked a table looks whether it is still in its place.
    InPlace [R2 R7] "a fault uses a table that another thread has emptied and freed"
        { memory/tests/tables.rs: a_table_that_is_freed_before_a_fault_has_its_lock_is_not_used }
    /// A task that has locked an area looks whether the area is still open.
    StillOpen [R7] "a fault maps a page in an area that was unmapped before it had the area's lock"
        { memory/tests/area_locks.rs: an_area_that_is_closed_before_a_fault_has_its_lock_is_not_used }
    /// An operation that has closed an area waits for the tasks that hold its lock.
    Close [R7] "munmap clears an area while a fault maps a page there"
        { memory/tests/area_locks.rs: an_unmap_waits_for_a_fault_that_holds_the_area }
// ANCHOR_END: guards
}

impl<P: Machine> Memory<P> {
    /// Removes `guard` for the rest of this memory manager's life.
    #[cfg(ceasefire_sabotage)]
    pub fn remove_guard(&self, guard: Guard) {
        self.removed.remove(guard as u64);
    }

    /// Whether a guard stands. Never inlined with the cfg: its symbol is in every program that asks for a guard and was
    /// built with the cfg.
    #[cfg_attr(ceasefire_sabotage, inline(never))]
    #[cfg_attr(not(ceasefire_sabotage), inline)]
    pub(crate) fn guarded(&self, guard: Guard) -> bool {
        self.removed.stands(guard as u64)
    }
}
