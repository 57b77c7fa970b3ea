//! For tests: remove one guard, and show that the rule it upholds is broken.
//!
//! A guard that no test misses is not tested. An engine built with `--cfg ceasefire_sabotage` can be told to skip one
//! of its guards. A test then sees the named rule broken. Only `RUSTFLAGS` sets the cfg. A Cargo feature would be
//! unified: one crate that enabled it would make the guards of all crates removable. In a build without the cfg every
//! guard stands. [`Engine::guarded`] is then the constant `true`, and nothing of this module is in the machine code;
//! `cargo xtask test` checks that.

use crate::platform::Platform;
#[cfg(ceasefire_sabotage)]
use crate::primitive::{AtomicU64, Ordering};
use crate::Engine;

/// Makes the enum `Guard` of a crate. A guard has its documentation, its name, the rules that it upholds, the effect of its
/// absence, and in braces the tests that see this effect: `cargo xtask test` checks that they exist. `scenario D1` is one
/// of the adversary's.
#[doc(hidden)]
#[macro_export]
macro_rules! guards {
    ($(
        $(#[doc = $what:literal])+
        $name:ident [$($rule:ident)*] $without:literal { $($tests:tt)+ }
    )+) => {
        /// A guard that a test can remove.
        // Without the cfg the module is private in some crates.
        #[cfg_attr(not(ceasefire_sabotage), allow(dead_code, unreachable_pub))]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Guard {$(
            $(#[doc = $what])+
            #[doc = concat!("\n\nWithout it: ", $without, " (", stringify!($($rule),*), ").")]
            $name,
        )+}

        impl Guard {
            /// All guards.
            #[cfg_attr(not(ceasefire_sabotage), allow(dead_code, unreachable_pub))]
            pub const ALL: [Self; [$(stringify!($name)),+].len()] = [$(Self::$name),+];
        }
    };
}

guards! {
// ANCHOR: guards
    /// The flush at the end of a batch, before the batch releases its pages.
    BatchFlush [R1] "a page comes out of its batch while another CPU can reach it"
        { laws/sabotage.rs: without_the_batch_flush_a_page_comes_out_while_it_can_be_reached }
    /// The settling of what batches owe before an operation returns to the program.
    Settle [R3] "an operation returns while a batch still owes in its range"
        { laws/sabotage.rs: without_settling_munmap_returns_while_a_batch_still_owes; memory/tests/protection.rs:
          munmap_pays_debts_before_it_returns, mprotect_pays_debts_before_it_returns,
          mremap_pays_debts_before_it_returns, madvise_pays_debts_before_it_returns,
          fork_pays_debts_before_it_returns; memory/tests/laws.rs:
          a_store_that_copies_waits_for_reclaims_debt_at_its_address; memory/tests/swap.rs:
          a_store_during_the_reclaim_of_a_page_given_up_is_kept,
          without_settling_a_fresh_page_is_mapped_while_the_page_given_up_is_read }
    /// The flush at the end of a strict unmap.
    GatherFlush [R1 R3] "a frame is released while another CPU can reach it"
        { laws/sabotage.rs: without_the_gather_flush_a_frame_is_released_while_it_can_be_reached;
          memory/tests/swap.rs: a_store_keeps_a_page_that_was_given_up,
          without_its_guards_a_store_to_a_page_that_was_given_up_is_lost }
    /// The flush of writable entries before write-out.
    WritableFlush [R5] "a page is written out while another CPU can store to it"
        { laws/sabotage.rs: without_the_flush_of_writable_entries_a_page_is_written_while_it_can_be_stored_to }
    /// Interrupting lazy CPUs when page tables are freed.
    LazyTables [R2] "the walker of a lazy CPU can walk a freed table"
        { laws/sabotage.rs: without_reaching_lazy_cpus_a_freed_table_can_be_walked }
    /// The wait for a batch's broadcasts, before the batch releases its pages.
    BroadcastWait [R1] "a page comes out while its broadcast is under way"
        { laws/sabotage.rs: without_the_wait_for_its_broadcasts_a_page_comes_out_while_it_can_be_reached }
    /// The stamp of a page that was released in debt, which says that its debt is not settled yet.
    Stamp [R1 R6 R7] "a debt counts as settled while a CPU can reach the page"
        { laws/sabotage.rs: without_its_stamp_a_page_comes_out_while_it_can_be_reached }
    /// The check for downgrades in flight before a page is released in debt.
    Downgrade [R5]
        "a page whose right to store was taken away is released in debt, or written out, while another CPU can store to it"
        { laws/holes.rs: hole_12_as_published_a_page_is_released_that_can_be_stored_to }
    /// The sweep's flush at ticks, before the CPU's debts count as done.
    Sweep [R1] "a debt counts as settled after a tick that did not flush, while a CPU can reach the page"
        { laws/sabotage.rs: without_the_sweep_at_ticks_a_debt_counts_as_settled_while_pages_can_be_reached }
    /// The flush before a page-table lock is released, in a gather that does not keep new translations out.
    UnlockFlush [R7] "one CPU stores to a new page while another reads the old one at the same address"
        { laws/sabotage.rs: without_the_flush_before_the_unlock_a_translation_can_be_replaced_while_the_old_one_is_used }
    /// The interrupts to CPUs that do not run under a space's global ASID yet, or no longer do.
    Transition [R1 R3] "a CPU that has not moved to the global ASID keeps an entry over a flush"
        { laws/sabotage.rs: without_the_interrupts_of_a_transition_a_cpu_that_has_not_moved_uses_old_entries }
    /// Flushes of kernel ranges.
    KernelFlush [R1 R2] "a frame of a kernel range is released while another CPU can reach it"
        { laws/kernel_ranges.rs: without_the_flush_of_kernel_ranges_what_is_released_can_be_used }
    /// The flush at an entry into the kernel to which flushes were deferred.
    KernelEntry [R1] "a CPU that ran undisturbed uses a kernel range before its deferred flush"
        { laws/kernel_ranges.rs: without_the_flush_at_the_entry_a_deferred_flush_is_lost }
    /// The flush of a window of the kernel's ranges, on the CPU that is about to use it.
    Window [R7] "a CPU reads the page that the window showed before"
        { laws/kernel_ranges.rs: without_its_flush_a_window_shows_the_page_before }
    /// The note that a second CPU runs a space under its global ASID.
    SecondCpu [R1 R3] "the entries of a second CPU survive a flush that is not broadcast"
        { laws/sabotage.rs: without_the_note_of_a_second_cpu_its_entries_survive_a_flush_that_is_not_broadcast }
    /// The difference between a narrowing and a clearing in the account of a batch.
    Narrowing [R5]
        "a page whose right to store was taken away is released in debt, or written out, while another CPU can store to it"
        { laws/sabotage.rs:
          without_the_account_of_narrowings_a_page_that_can_be_stored_to_is_released_or_written_out }
    /// A tick leaves only epochs that were closed before its flush.
    Leaving [R1]
        "a debt counts as settled after a tick that flushed, and left an epoch whose debt is newer than the flush"
        { laws/sabotage.rs: without_its_order_a_tick_leaves_an_epoch_whose_debt_is_newer_than_its_flush }
    /// The flush of everything by a gather that is not alone in its space.
    Nested [R3] "an unmap that finds its range empty returns before the other unmap has flushed"
        { laws/sabotage.rs: without_the_flush_of_a_nested_gather_an_unmap_returns_before_another_has_flushed }
    /// The flush of a translation whose debt a batch may not defer.
    AtOnce [R1] "a page comes out of its batch while another CPU can reach it"
        { laws/sabotage.rs: without_the_flush_at_once_a_page_comes_out_while_it_can_be_reached }
    /// The request to the other CPUs that may use entries of a space.
    Others [R1 R3] "a flush leaves the entries of every other CPU"
        { laws/sabotage.rs: without_the_request_to_other_cpus_a_flush_leaves_their_entries }
    /// The wait for the answers to a request.
    Answers [R1 R3] "a flush returns before the other CPUs have done it"
        { laws/sabotage.rs: without_the_wait_for_answers_a_flush_returns_before_other_cpus_have_done_it }
    /// The announcement that a CPU is switching, before it reads the generation.
    Switching [R1 R3] "a CPU that is loading a root is passed over by a flush, and keeps an entry"
        { scenario D1 }
    /// A CPU joins a space's set before it loads the space's root.
    JoinFirst [R1 R3] "a CPU that joins the set late is passed over by a flush, and keeps an entry"
        { scenario D3 }
    /// A CPU leaves a space's set only after it has loaded another root.
    LeaveLast [R2] "a CPU whose root is still loaded is passed over, and its walker reads a freed table"
        { scenario D4 }
    /// The flush at a return to a space that was flushed meanwhile.
    Behind [R1 R3] "a CPU that comes back to a space uses entries from before a flush"
        { scenario D9 }
    /// The flush of a slot that changes its owner.
    Recycled [R4] "a CPU uses entries of the former owner of its slot"
        { scenario E5 }
    /// The flush when a CPU leaves lazy mode.
    CatchUp [R1 R3] "a CPU that leaves lazy mode uses entries from before a flush"
        { scenario D7 }
    /// The flush of everything by a CPU that is behind by more than one flush.
    OneBehind [R1 R3] "a CPU that has missed two flushes does one of them and counts both as done"
        { scenario E7 }
    /// A request of no generation is for the newest.
    NoGeneration [R1 R3] "the request of a batch counts as done"
        { scenario B10 }
    /// The flush of all global ASIDs before any is given out again.
    Rollover [R4] "an ASID is given out again while a CPU holds entries of its former owner"
        { scenario E2 }
    /// The note in a flush that tables are freed.
    Tables [R2] "a walker reads a freed table through what it remembers of the way"
        { scenario C3 }
    /// The note in a flush that translations of several sizes lie in its range.
    Mixed [R1 R3] "the hardware looks for one size, and an entry of another survives"
        { scenario F1 }
    /// The invalidation of everything on a CPU that comes online.
    Online [R1 R3 R4] "a CPU that comes back holds entries from before broadcasts that did not reach it"
        { scenario D13 }
    /// The look at a target's inbox, which is closed while the target is offline.
    Closed [ends] "a sender waits for the answer of an offline CPU"
        { scenario D12 }
    /// A batch that broadcast pages reaches only its own generations.
    Reached [R3] "a batch counts another batch's broadcasts as done"
        { scenario B2 }
    /// The flush of devices that walk a space's tables.
    Devices [R1 R3] "a device uses an entry after the flush"
        { scenario I4 }
    /// A hidden translation counts as held until the flush for its hiding.
    Hidden [R1] "a hidden page is freed while its hiding is not flushed"
        { scenario B6 }
    /// The flush of devices that share the kernel's tables.
    KernelDevices [R1 R2] "a device uses an entry of the kernel's ranges after the flush"
        { scenario C7 }
    /// Where entries carry no ASIDs, every space has the shared one.
    Untagged [R4] "a CPU whose entries carry no ASIDs uses those of another space"
        { scenario E11 }
    /// A flush of a range that the platform did for a CPU pays for that range alone.
    Elsewhere [R3 R7] "an operation returns while a batch still owes a page outside the range"
        { laws/elsewhere.rs: a_range_that_the_platform_flushed_pays_for_no_other_page }
    /// The wait for the kernel's own walkers before page tables are freed.
    Walkers [R2] "the kernel's own walker reads a freed table"
        { laws/walkers.rs: without_the_wait_for_walkers_a_table_is_freed_under_one }
    /// The second broadcast on processors whose broadcasts must be repeated.
    Repeated [R1 R3] "an entry is used, or a store through it lands, after the wait for its broadcast"
        { laws/broadcast.rs: without_the_repetition_a_wait_ends_before_entries_are_gone }
    /// The interrupts on processors where each CPU must wait for broadcasts itself.
    Everyone [R1 R3] "a CPU that did not wait for a broadcast itself uses an entry"
        { laws/broadcast.rs: without_its_own_wait_a_cpu_uses_an_entry_after_a_broadcast }
    /// A flush raises the generation before it looks at the CPUs.
    RaiseFirst [R1 R3] "a CPU that switches while it is passed over keeps its old entries"
        { scenario D10 }
// ANCHOR_END: guards
}

/// The guards that were removed, a bit for the number of each. Without the cfg it takes no memory.
///
/// It is public for crates above the engine that have guards of their own.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Removed(#[cfg(ceasefire_sabotage)] AtomicU64);

impl Removed {
    /// No guard is removed.
    #[inline]
    pub const fn new() -> Self {
        Self(
            #[cfg(ceasefire_sabotage)]
            AtomicU64::new(0),
        )
    }

    /// Whether the guard with this number stands.
    #[cfg(not(ceasefire_sabotage))]
    #[allow(clippy::unused_self)]
    #[inline]
    pub const fn stands(&self, _: u64) -> bool {
        true
    }

    /// Whether the guard with this number stands.
    #[cfg(ceasefire_sabotage)]
    #[inline]
    pub fn stands(&self, guard: u64) -> bool {
        (self.0.load(Ordering::Relaxed) >> guard) & 1 == 0
    }

    /// Whether every guard stands.
    #[cfg(ceasefire_checked)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Removes the guard with this number.
    #[cfg(ceasefire_sabotage)]
    pub fn remove(&self, guard: u64) {
        self.0.fetch_or(1 << guard, Ordering::Relaxed);
    }
}

impl<P: Platform> Engine<P> {
    /// Removes `guard` for the rest of this engine's life.
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
