//! The part of the machine that the oracle looks at.

/// The machine as the oracle sees it.
pub(crate) trait View {
    /// The time on the clock of the CPU whose turn it is, in nanoseconds.
    fn now_ns(&self) -> u64;
    /// The thread that this CPU runs.
    fn thread(&self) -> Option<usize>;
    /// The number of CPUs.
    fn cpu_count(&self) -> usize;
    /// The root that a CPU has loaded; `None` for the kernel's own tables.
    fn root(&self, cpu: usize) -> Option<u32>;
    /// The ASID that a CPU has loaded.
    fn asid(&self, cpu: usize) -> u16;
    /// Whether a CPU is lazy.
    fn is_lazy(&self, cpu: usize) -> bool;
    /// Whether a CPU's walk cache leads to a table under the ASID that is loaded.
    fn may_walk(&self, cpu: usize, table: u32) -> bool;
    /// The frame to which the tables under `root` translate a page now, and whether they allow stores.
    fn translation(&self, root: u32, page: u64) -> Option<(u32, bool)>;
    /// The greatest age that a debt may reach: its bound and one tick, in nanoseconds.
    fn oldest_debt_ns(&self) -> u64;
}
