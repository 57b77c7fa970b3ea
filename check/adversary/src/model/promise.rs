//! The promises of the hardware and of the kernel's platform on which the engine builds.
//!
//! `Platform` states them where it asks for them. Each can be taken away here, and then a scenario breaks a rule: so no
//! promise is asked for in vain.

/// A promise that the machine can break.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Promise {
    /// An interrupt carries what its sender has stored.
    InterruptCarries,
    /// An invalidation ends the walks that are under way.
    WalksEnd,
    /// A flush that frees tables invalidates what walkers remember of the way.
    WaysGo,
    /// Loading a root is a full barrier.
    RootBarrier,
    /// Loading a root with `flush` invalidates what its tag holds.
    RootFlushes,
    /// A root and its tag change in one step.
    RootWithTag,
    /// A wait for broadcasts ends only when the caller's own are done on every CPU.
    WaitIsForOwn,
    /// A wait for broadcasts ends only when accesses that were translated before have landed.
    AccessesLand,
    /// A broadcast reaches every tag of its ASID.
    EveryTag,
    /// An invalidation of the kernel's ranges reaches global entries.
    GlobalToo,
    /// The walks by the kernel's code that began before `await_walkers` have ended when it returns.
    WalkersEnd,
    /// The TLBs of devices are done when `invalidate_devices` returns.
    DevicesDone,
    /// `invalidate_devices` covers every page of the flush.
    DevicesWhole,
    /// A CPU for which `flush_for` flushed uses no entry from before the call.
    ElsewhereDone,
    /// The kernel's root is loaded when `load_kernel_root` returns.
    RootLeaves,
    /// A walker that finds a table reads in it nothing older than what was stored before the way to it.
    WalksFollow,
    /// A walker sets an entry's mark of a store only if the entry still is as it was read, in one step.
    MarksAtomic,
    /// Sequentially consistent accesses and fences are ordered among each other, on all CPUs.
    Consistent,
    /// A store that one other CPU sees, all see. So what a CPU stored before a sequentially consistent access is seen
    /// after every later fence. x86, Arm and RISC-V promise it, the language does not.
    MultiCopyAtomic,
}

/// All promises.
pub const PROMISES: [Promise; 19] = [
    Promise::InterruptCarries,
    Promise::WalksEnd,
    Promise::WaysGo,
    Promise::RootBarrier,
    Promise::RootFlushes,
    Promise::RootWithTag,
    Promise::WaitIsForOwn,
    Promise::AccessesLand,
    Promise::EveryTag,
    Promise::GlobalToo,
    Promise::WalkersEnd,
    Promise::DevicesDone,
    Promise::DevicesWhole,
    Promise::ElsewhereDone,
    Promise::RootLeaves,
    Promise::WalksFollow,
    Promise::MarksAtomic,
    Promise::Consistent,
    Promise::MultiCopyAtomic,
];
